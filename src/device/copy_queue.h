/* The copy queue of a device worker. Any thread that has to move data between the device and the
 * host pushes a copy event; the worker drains the queue before each layer, and the most urgent
 * copies are issued first. Each direction has its own stream, so that neither waits for the other.
 * Events, not the queue, order copies with computation: a copy waits for the event `after` (the
 * kernel that writes its source), and records the event `then` when it is done (the forward pass of
 * a layer waits for it). Both are read when the queue is drained.
 *
 * If the device has a limit (device/send_limit.h), copies to the host that were drained wait on the
 * thread of a sender, which sends them in chunks: there a more urgent one overtakes others that
 * have begun.
 *
 * Thread rule: push, close, in_flight and busy_ns by any thread; the rest by the worker. `done`
 * runs on a thread of the device (on `cpu` on the worker's thread) and must be quick; it may push.
 * It is called exactly once for every event that push accepted: with SW_OK when the data has
 * arrived, else with the error, or with SW_ERR_CANCELLED by sw_copy_queue_free at the latest. */
#pragma once

#include "device/device.h"

struct sw_copy_queue;

enum sw_copy_direction { SW_COPY_TO_DEVICE, SW_COPY_TO_HOST, SW_COPY_DIRECTIONS };

struct sw_copy_event {
    enum sw_copy_direction direction;
    void *dst;
    const void *src; /* both valid until `done` is called */
    size_t bytes;
    /* Above 1: a strided copy of so many rows of `bytes`; the pitch is the distance between the
     * starts of rows. */
    int64_t rows;
    size_t dst_pitch, src_pitch;
    int priority; /* lower is more urgent: the layer's index. Equal ones in push order */
    struct sw_event *after, *then;    /* or NULL; borrowed until done */
    void (*done)(void *user, int rc); /* or NULL */
    void *user;
};

/* capacity: the maximum number of copies that are pushed and not yet done. Errors: SW_ERR_INVALID,
 * SW_ERR_NOMEM and those of sw_stream_new. */
int sw_copy_queue_new(struct sw_device *dev, int capacity, struct sw_copy_queue **out,
                      struct sw_err *err) SW_MUST_CHECK;
/* Closes the queue, waits for issued copies as sw_stream_free does, and completes those that never
 * ran with SW_ERR_CANCELLED. */
void sw_copy_queue_free(struct sw_copy_queue *q); /* NULL is accepted */

/* Never waits. Errors: SW_ERR_CANCELLED (closed), SW_ERR_BUSY (`capacity` copies are in flight). */
int sw_copy_queue_push(struct sw_copy_queue *q, const struct sw_copy_event *e,
                       struct sw_err *err) SW_MUST_CHECK;
/* Issues all pushed copies, the most urgent first; does not wait for them. Returns the error of the
 * device, with which the failed copy is completed, too. */
int sw_copy_queue_drain(struct sw_copy_queue *q, struct sw_err *err) SW_MUST_CHECK;
/* Drains and waits until all copies are completed. */
int sw_copy_queue_wait(struct sw_copy_queue *q, struct sw_err *err) SW_MUST_CHECK;

/* Returns the error of a copy, if one failed; called by the worker from time to time while it waits
 * for `done`. Does not wait. */
int sw_copy_queue_check(struct sw_copy_queue *q, struct sw_err *err) SW_MUST_CHECK;

/* Closes the queue for pushes; copies that were pushed but not drained are completed by free. */
void sw_copy_queue_close(struct sw_copy_queue *q);

/* The number of copies that were pushed and are not completed yet. Does not wait. */
int sw_copy_queue_in_flight(const struct sw_copy_queue *q, enum sw_copy_direction d);
/* The total duration of all copies so far; copies of one direction run one after the other. */
int64_t sw_copy_queue_busy_ns(struct sw_copy_queue *q, enum sw_copy_direction d);
