/* Things that go round among ranks, such as buckets of gradients: in each round every rank gives
 * its part of a thing, and who gives the last one queues the exchange for all, under the lock that
 * guards the streams. Counts and waits only: what is queued is the owner's affair.
 *
 * Thread rule: all functions but init and fini may be called by any thread. */
#pragma once

#include "base/err.h"
#include "thread/thread.h"
#include <stdbool.h>
#include <stdint.h>

struct sw_round {
    int given;     /* ranks, of the round under way */
    uint64_t over; /* rounds that are queued */
};

struct sw_rounds {
    const char *what;      /* static, for messages: "bucket" */
    struct sw_round *item; /* owned [count]; under the lock */
    int count, ranks;
    struct sw_mutex lock; /* guards what says so */
    struct sw_cond changed;
    bool closed; /* under the lock */
};

/* Free with sw_rounds_fini, after an error too. Errors: SW_ERR_NOMEM. */
int sw_rounds_init(struct sw_rounds *r, const char *what, int count, int ranks,
                   struct sw_err *err) SW_MUST_CHECK;
void sw_rounds_fini(struct sw_rounds *r);
/* A rank has given its part of a thing for that round (1, 2, ...). queue is called under the lock,
 * whether or not the thing is complete. Errors: SW_ERR_CANCELLED when closed, SW_ERR_INVALID for
 * another round than the next, and those of queue. */
int sw_rounds_give(struct sw_rounds *r, int item, uint64_t round,
                   int (*queue)(void *owner, int item, struct sw_err *err), void *owner,
                   struct sw_err *err) SW_MUST_CHECK;
/* Have all given? In queue. */
static inline bool sw_rounds_complete(const struct sw_rounds *r, int item)
{
    return r->item[item].given == r->ranks;
}
/* The thing's round is queued, and the next may begin. In queue. */
void sw_rounds_next(struct sw_rounds *r, int item);
/* Until that round of the thing is queued. SW_OK, SW_ERR_BUSY after timeout_ms, SW_ERR_CANCELLED.
 */
int sw_rounds_wait(struct sw_rounds *r, int item, uint64_t round, int timeout_ms) SW_MUST_CHECK;
/* Ends every wait. */
void sw_rounds_close(struct sw_rounds *r);
