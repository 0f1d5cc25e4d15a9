/* The steps of a worker that are queued and not finished: their batches, and when the device is
 * done with each. On most devices a step is finished before the next one is queued. Where a device
 * needs nothing from the host in between (sw_exchange_depth), the next step is queued first, so
 * that the device goes on while the host reads the loss, records the step and decides what follows.
 *
 * The worker's step number counts finished steps. All that is promised about a step therefore holds
 * as if steps were finished one by one:
 *
 * - A step is only queued ahead if nothing is to be done behind the one before it. Whatever reads
 *   parameters or metrics between two steps (an evaluation, a checkpoint, stop_at, a pause, the end
 *   of the run) finds no later step on the device.
 * - on_nan = stop ends the run when step t is finished, and names step t. By then the device may
 *   have made update t + 1, which nobody reads. A checkpoint is written only when its step, and so
 *   every earlier one, was found to be finite.
 * - Displays and the history have the values of a step under its number, at most a step later.
 *
 * One owner: the worker. */
#pragma once

#include "data/prefetch.h"

enum { SW_FLIGHT_DEPTH = 2 };

struct sw_event;
struct sw_worker;

struct sw_flight {
    int depth; /* the most steps; 0: not set up */
    int count; /* steps w->step + 1 to w->step + count are in flight */
    struct {
        struct sw_batch batch; /* held until the step is finished */
        struct sw_event *done; /* owned; NULL with depth 1 */
    } step[SW_FLIGHT_DEPTH];   /* step t is at t % SW_FLIGHT_DEPTH */
};

/* Sets the depth from the worker's exchange. */
int sw_flight_init(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* Waits for steps that will not be finished, since they still use memory. */
void sw_flight_fini(struct sw_worker *w);

/* The number of the next step to queue. */
int64_t sw_flight_next(const struct sw_worker *w);
/* Step sw_flight_next(w) is queued, with all that is read of it. */
int sw_flight_add(struct sw_worker *w, const struct sw_batch *batch,
                  struct sw_err *err) SW_MUST_CHECK;
/* Waits until the device is done with the newest step (behind: 0), also with one that is not queued
 * completely, or with the one before it (1). */
int sw_flight_wait(struct sw_worker *w, int behind, struct sw_err *err) SW_MUST_CHECK;
/* The oldest step is finished: releases its batch and counts it in w->step. */
void sw_flight_remove(struct sw_worker *w);
