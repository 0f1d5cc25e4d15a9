/* Rounds of items that all ranks contribute to, such as buckets of gradients: in each round every
 * rank contributes its part of an item, and the exchange of a complete item is queued for all. One
 * rank at a time queues, without the lock, so that the others go on meanwhile; it also queues what
 * they complete until it is done. This counts and waits only; the owner queues the work.
 *
 * Thread rule: all functions except init and fini may be called by any thread. */
#pragma once

#include "base/err.h"
#include "thread/thread.h"
#include <stdbool.h>
#include <stdint.h>

struct sw_round {
    int arrived;   /* ranks that have contributed to the current round */
    uint64_t done; /* rounds that are queued */
};

struct sw_rounds {
    const char *what;      /* static, for messages: "bucket" */
    struct sw_round *item; /* owned [count]; under the lock */
    int count, ranks;
    struct sw_mutex lock; /* guards the fields that say so */
    struct sw_cond changed;
    bool closed;        /* under the lock, as all below */
    int *complete;      /* owned [count]: ring of the items to queue, in the order of completion */
    int first, waiting; /* of the ring: the next item, and their number */
    bool queueing;      /* a rank queues them */
};

/* Free with sw_rounds_fini, after an error too. Errors: SW_ERR_NOMEM. */
int sw_rounds_init(struct sw_rounds *r, const char *what, int count, int ranks,
                   struct sw_err *err) SW_MUST_CHECK;
void sw_rounds_fini(struct sw_rounds *r);
/* A rank contributes its part of an item to that round (1, 2, ...). queue is called for each
 * complete item, by one rank at a time. Errors: SW_ERR_CANCELLED when closed, SW_ERR_INVALID for a
 * round that is not the next, and those of queue, which may be of another item. */
int sw_rounds_arrive(struct sw_rounds *r, int item, uint64_t round,
                     int (*queue)(void *owner, int item, struct sw_err *err), void *owner,
                     struct sw_err *err) SW_MUST_CHECK;
/* Ends the item's round, after its exchange is queued. Called from queue. */
void sw_rounds_next(struct sw_rounds *r, int item);
/* Waits until that round of the item is queued. SW_OK, SW_ERR_BUSY after timeout_ms,
 * SW_ERR_CANCELLED. */
int sw_rounds_wait(struct sw_rounds *r, int item, uint64_t round, int timeout_ms) SW_MUST_CHECK;
/* Waits for the close; false after timeout_ms. */
bool sw_rounds_wait_closed(struct sw_rounds *r, int timeout_ms) SW_MUST_CHECK;
bool sw_rounds_is_closed(struct sw_rounds *r);
/* Ends every wait. */
void sw_rounds_close(struct sw_rounds *r);
