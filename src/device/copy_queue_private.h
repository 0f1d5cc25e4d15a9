/* Shared by the files of the copy queue: copy_queue.c issues copies at once, copy_sender.c those
 * that a limit of the device holds back; copy_entries.c is below both. */
#pragma once

#include "device/copy_queue.h"
#include "thread/thread.h"

enum sw_copy_state {
    SW_COPY_FREE,
    SW_COPY_PENDING, /* pushed */
    SW_COPY_HELD,    /* drained, and its sender has the rest of it */
    SW_COPY_ISSUED,
};

struct sw_copy_entry {
    struct sw_copy_queue *queue;
    struct sw_copy_event event;
    uint64_t number; /* sequence number of the push */
    enum sw_copy_state state;
    size_t sent; /* bytes of a held copy that were sent; rows of a strided one */
};

struct sw_copy_queue {
    struct sw_device *dev;      /* borrowed */
    struct sw_stream *in, *out; /* owned; used by the worker, or `out` by the sender */
    int capacity;
    /* Start times of the running copies, written on a thread of the device; copies of a direction
     * run one after the other. They are not in the entries, since an entry may be reused when a
     * copy could not be issued. */
    int64_t started_ns[SW_COPY_DIRECTIONS];
    int in_flight[SW_COPY_DIRECTIONS]; /* atomic */

    struct sw_mutex lock; /* guards all below; no callback runs under it */
    struct sw_copy_entry
        *entries; /* owned; [capacity]. An issued entry belongs to the device until it is done */
    uint64_t pushed;
    int64_t busy_ns[SW_COPY_DIRECTIONS];
    bool closed;

    /* The sender, if the device has a limit. */
    struct sw_thread sender;
    struct sw_cond changed; /* a copy was drained, or sent; or the sender is to end */
    bool ends;              /* atomic, written with the lock */
    bool sending;
    struct sw_err why; /* of the first copy that it could not send; code 0: none */
};

/* Does a limit of the device hold the copy back? Then its sender has `out`. */
static inline bool sw_copy_is_limited(const struct sw_copy_queue *q, const struct sw_copy_event *e)
{
    return q->dev->send_limit && e->direction == SW_COPY_TO_HOST;
}

/* The most urgent entry in that state, or NULL. With the lock. */
struct sw_copy_entry *sw_copy_most_urgent(struct sw_copy_queue *q, enum sw_copy_state state);
/* Returns the entry to the pool before the callback, which may push. */
void sw_copy_complete(struct sw_copy_entry *entry, int rc);

/* copy_sender.c. Errors: SW_ERR_NOMEM. */
int sw_copy_sender_start(struct sw_copy_queue *q, struct sw_err *err) SW_MUST_CHECK;
/* Ends it in the middle of a copy. A device on which a copy hangs is cancelled. */
void sw_copy_sender_stop(struct sw_copy_queue *q);
/* Hands over a copy, and waits for all. Errors: those of the copies. */
void sw_copy_sender_hold(struct sw_copy_queue *q, struct sw_copy_entry *entry);
int sw_copy_sender_check(struct sw_copy_queue *q, struct sw_err *err) SW_MUST_CHECK;
int sw_copy_sender_wait(struct sw_copy_queue *q, struct sw_err *err) SW_MUST_CHECK;
