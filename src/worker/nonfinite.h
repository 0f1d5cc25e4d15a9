/* Handling of updates that are not finite: job.on_nan.
 *
 * The loss is checked before backward (on a device with its own memory when the step is finished,
 * flight.h); the updater checks every gradient and every new value. With on_nan = stop any of these
 * ends the run with SW_ERR_DIVERGED, naming step and parameter. Values in memory are then
 * inconsistent, and on a device may be of the step after: only the last checkpoint is valid. */
#pragma once

#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>

struct sw_worker;

/* State of non-finite updates. */
struct sw_nonfinite {
    int rollbacks; /* the leader's: rollbacks to the checkpoint of step rolled_to */
    int64_t rolled_to;
    /* Atomic, of asynchronous groups: the last step after which a worker requested a rollback, and
     * the last one after which a rollback was done. */
    int64_t requested_at, rolled_at;
};

int sw_nonfinite_before_step(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* Handles update w->step, after it was pushed, if it is not finite (job.on_nan). All workers call
 * it. Errors: SW_ERR_DIVERGED when nothing helps. */
int sw_nonfinite_after_step(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* Has an asynchronous group requested a rollback since the last one? */
bool sw_nonfinite_requests_rollback(const struct sw_nonfinite *m);
/* Does that rollback, if one is pending. By all workers after a barrier at the same step. */
int sw_nonfinite_roll_back(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
