/* Evaluation without training. */
#pragma once

#include "run/job.h"

/* Loss and metrics of weights on a split: one pass, every record once. weights NULL: the initial
 * values. split NULL: val where it exists, else test. The job was opened with one_worker. *out is
 * an event of type SW_JOB_EVAL. */
int sw_job_evaluate(struct sw_job *job, const char *weights, const char *split,
                    struct sw_job_event *out, struct sw_err *err) SW_MUST_CHECK;
