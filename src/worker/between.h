/* What the workers of a job do together between two steps. */
#pragma once

#include "base/err.h"

struct sw_worker;

/* By every worker when it has made, or rested in, step w->step: does what all decide about it, and
 * says in w->end whether that was the last one. */
int sw_worker_between_steps(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* Asynchronous groups read what the table has now. By all workers, when nothing is to be applied.
 */
int sw_worker_refresh_values(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
