/* What happens when an update is not finite: job.on_nan. */
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
