/* Early stopping: job.patience. A job whose evaluations have not improved for that many in a row
 * ends, as done, and whenever a job with patience ends, its last checkpoint has the parameters of
 * the best evaluation. What is better, and which evaluation is the best so far, is that of
 * checkpoint/retention.h. */
#pragma once

#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>

struct sw_job;

/* Errors go to the recipe's diagnostics. */
void sw_patience_check(struct sw_job *job);
/* Is the evaluation after step t one of those that are compared? With patience, not one that is
 * only made because --steps interrupts the run: a run that goes on does not make it. */
bool sw_patience_counts(const struct sw_job *job, int64_t t);
/* Is the evaluation after step t the last one that may be worse than the best? Not if it is not
 * compared. By any worker, while no evaluation is noted. */
bool sw_patience_is_over(const struct sw_job *job, int64_t t);
/* Reports the end after step t. By the leader. */
void sw_patience_report(struct sw_job *job, int64_t t);
/* Restores the best parameters, with their updater state and running statistics, before the last
 * checkpoint of the job is written. Does nothing without patience, before the end of the stage
 * (--steps), or where the values of step t are the best. Reports what it restores, what it cannot,
 * and the end of patience at a step that ends the run anyway. By the leader, when all updates of
 * the step are applied. */
int sw_patience_restore(struct sw_job *job, int64_t t, struct sw_err *err) SW_MUST_CHECK;
