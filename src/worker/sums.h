/* Workers meet, wait for each other and sum numbers, and meanwhile serve and show in the live
 * snapshot what they wait for. */
#pragma once

#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>

struct sw_worker;

/* Of a pass of training, over all who share the batch; of an evaluation, over the group. */
int sw_worker_sum(void *worker, double *values, int count, bool in_rows,
                  struct sw_err *err) SW_MUST_CHECK;
int sw_worker_sum_in_group(void *worker, double *values, int count, bool in_rows,
                           struct sw_err *err) SW_MUST_CHECK;
/* The following wait, and meanwhile the live snapshot says that the worker waits for `what`.
 * Errors: SW_ERR_CANCELLED when the job is ending. */
/* Until all workers have come here; or those that made step w->step. */
int sw_worker_meet(struct sw_worker *w, const char *what, struct sw_err *err) SW_MUST_CHECK;
int sw_worker_meet_active(struct sw_worker *w, const char *what, struct sw_err *err) SW_MUST_CHECK;
/* Until the warm-up of the first group is over; w->step becomes that after which all go on. */
int sw_worker_rest(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* Until no worker is more than `most` steps behind this one. */
int sw_worker_keep_pace(struct sw_worker *w, int64_t most, struct sw_err *err) SW_MUST_CHECK;
/* Until over(state), which another worker of the group makes true and tells. Answers as
 * sw_group_wait. */
int sw_worker_wait_in_group(struct sw_worker *w, const char *what, bool (*over)(const void *state),
                            const void *state) SW_MUST_CHECK;
