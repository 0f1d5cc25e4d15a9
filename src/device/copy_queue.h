/* The copy queue of a device worker. Any thread that has to move data between the device and the
 * host pushes a copy event; the worker drains the queue before it visits each layer, and the most
 * urgent copies are issued first. Each direction has a stream of its own, so that neither waits for
 * the other. Events order copies with computation, not the queue: a copy runs after `after` has
 * happened (the kernel that writes its source), and `then` happens when it is done (the forward
 * pass of a layer waits for that). Both are read when the queue is drained.
 *
 * Thread rule: push, close, under_way and busy_ns by any thread; the rest by the worker. `done`
 * runs on a thread of the device (on `cpu` on that of the worker) and must be quick; it may push.
 * It is called exactly once for every event that push accepted: with SW_OK when the data has
 * arrived, else with the error, or with SW_ERR_CANCELLED by sw_copy_queue_free at the latest. */
#pragma once

#include "device/device.h"

struct sw_copy_queue;

enum sw_copy_direction { SW_COPY_TO_DEVICE, SW_COPY_TO_HOST, SW_COPY_DIRECTIONS };

struct sw_copy_event {
    enum sw_copy_direction direction;
    void *dst;
    const void *src; /* both valid until done */
    size_t bytes;
    /* With rows above 1: the number of pieces of `bytes`, which begin a pitch from one another on
     * either side. */
    int64_t rows;
    size_t dst_pitch, src_pitch;
    int priority; /* lower is more urgent: the layer's index. Equal ones in push order */
    struct sw_event *after, *then;    /* or NULL; borrowed until done */
    void (*done)(void *user, int rc); /* or NULL */
    void *user;
};

/* capacity: events that may be pushed and not yet done. Errors: SW_ERR_INVALID, SW_ERR_NOMEM and
 * those of sw_stream_new. */
int sw_copy_queue_new(struct sw_device *dev, int capacity, struct sw_copy_queue **out,
                      struct sw_err *err) SW_MUST_CHECK;
/* Closes the queue, waits for issued copies as sw_stream_free does, and answers those that never
 * ran. */
void sw_copy_queue_free(struct sw_copy_queue *q); /* NULL is accepted */

/* Never waits. Errors: SW_ERR_CANCELLED (closed), SW_ERR_BUSY (capacity events are under way). */
int sw_copy_queue_push(struct sw_copy_queue *q, const struct sw_copy_event *e,
                       struct sw_err *err) SW_MUST_CHECK;
/* Issues everything that was pushed, the most urgent first; waits for no copy. Returns the error of
 * the device; the copy that met it is answered with it. */
int sw_copy_queue_drain(struct sw_copy_queue *q, struct sw_err *err) SW_MUST_CHECK;
/* Drains and waits until all copies are done and answered. */
int sw_copy_queue_wait(struct sw_copy_queue *q, struct sw_err *err) SW_MUST_CHECK;

/* The error of a copy, if there was one: a thread that waits for `done` checks here from time to
 * time. Does not wait. Called by the worker. */
int sw_copy_queue_check(struct sw_copy_queue *q, struct sw_err *err) SW_MUST_CHECK;

/* Closes the queue for pushes; copies that were pushed and not drained are answered by free. */
void sw_copy_queue_close(struct sw_copy_queue *q);

/* Copies that were pushed and are not answered yet. Never waits. */
int sw_copy_queue_under_way(const struct sw_copy_queue *q, enum sw_copy_direction d);
/* How long copies have taken so far, one after the other. */
int64_t sw_copy_queue_busy_ns(struct sw_copy_queue *q, enum sw_copy_direction d);
