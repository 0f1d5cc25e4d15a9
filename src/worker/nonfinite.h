/* What happens when an update is not finite: job.on_nan.
 *
 * The loss is looked at before backward (on a device with memory of its own at the end of the
 * step); the updater looks at every gradient and every new value. With on_nan = stop any of these
 * ends the run with SW_ERR_DIVERGED, naming step and parameter. Values in memory are torn then:
 * only the last checkpoint counts. */
#pragma once

#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>

struct sw_worker;

/* Updates that were not finite. */
struct sw_nonfinite {
    int rollbacks; /* the leader's: to the checkpoint of step rolled_to */
    int64_t rolled_to;
    /* Of asynchronous groups, atomic: the last step after which one asked for a rollback, and
     * the last one after which there was one. */
    int64_t asked_at, rolled_at;
};

int sw_nonfinite_before_step(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* After update w->step was handed over: what to do if it is not finite (job.on_nan). All workers
 * call it. Errors: SW_ERR_DIVERGED when nothing helps. */
int sw_nonfinite_after_step(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* Has an asynchronous group asked for a rollback since the last one? */
bool sw_nonfinite_wants_rollback(const struct sw_nonfinite *m);
/* Then this is the next one. By all workers when they have met behind the same step. */
int sw_nonfinite_roll_back(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
