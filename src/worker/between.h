/* What the workers of a job do together between two steps. */
#pragma once

#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>

struct sw_worker;

/* Called by every worker after it has made, or skipped during warm-up, step w->step: carries out
 * the common decision about the step, and sets w->end if it was the last one. */
int sw_worker_between_steps(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* Does sw_worker_between_steps have anything to do after step t, so that it needs the metrics of
 * the step or the parameters as it left them? May be asked before the step is finished. */
bool sw_worker_acts_after(struct sw_worker *w, int64_t t);
/* Makes asynchronous groups read the current values of the table. Called by all workers while no
 * update is pending. */
int sw_worker_refresh_values(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
