/* A bounded first-in first-out queue of fixed-size items with many producers and many consumers.
 * Closing it wakes all waiting threads; pop drains the remaining items and then returns
 * SW_ERR_CANCELLED. */
#pragma once

#include "thread/thread.h"
#include <stddef.h>

struct sw_queue {
    struct sw_mutex lock; /* guards all below */
    struct sw_cond not_empty, not_full;
    unsigned char *items; /* owned ring of capacity * item_bytes */
    size_t item_bytes, capacity, head, count;
    bool closed;
};

/* Allocates memory for `capacity` items. Errors: SW_ERR_NOMEM. */
int sw_queue_init(struct sw_queue *q, size_t item_bytes, size_t capacity,
                  struct sw_err *err) SW_MUST_CHECK;
void sw_queue_fini(struct sw_queue *q);
/* Waits while full. Returns SW_OK or SW_ERR_CANCELLED (closed). item is copied. */
int sw_queue_push(struct sw_queue *q, const void *item) SW_MUST_CHECK;
/* Pushes without waiting. Returns SW_ERR_BUSY when the queue is full. */
int sw_queue_try_push(struct sw_queue *q, const void *item) SW_MUST_CHECK;
/* Waits while empty. Returns SW_OK or SW_ERR_CANCELLED (closed and drained). */
int sw_queue_pop(struct sw_queue *q, void *item) SW_MUST_CHECK;
/* Pops without waiting. Returns SW_ERR_BUSY when the queue is empty. */
int sw_queue_try_pop(struct sw_queue *q, void *item) SW_MUST_CHECK;
/* Pops and waits at most timeout_ms. Returns SW_ERR_BUSY on timeout. */
int sw_queue_pop_ms(struct sw_queue *q, void *item, int timeout_ms) SW_MUST_CHECK;
/* Whether there are items. Takes no lock, so the result may be outdated when it is used. */
bool sw_queue_pending(const struct sw_queue *q);
void sw_queue_close(struct sw_queue *q);
/* sw_queue_close with the signature that sw_fault_attach needs. */
void sw_queue_close_v(void *queue);
