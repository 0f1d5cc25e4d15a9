/* Evaluation without training. */
#pragma once

#include "infer/class_report.h"
#include "infer/value_report.h"
#include "run/job.h"

/* Computes loss and metrics on the evaluation data of a job that was opened with one_worker: one
 * pass, every record once. weights NULL: the initial values. *out gets an event of type
 * SW_JOB_EVAL. */
int sw_job_evaluate(struct sw_job *job, const char *weights, struct sw_job_event *out,
                    struct sw_err *err) SW_MUST_CHECK;
/* The report to fill, zeroed except for what is wanted: at most one. */
struct sw_eval_reports {
    struct sw_class_report *classes;
    struct sw_value_report *values;
};
/* The same, and fills a report. Errors also: those of its begin and finish. */
int sw_job_evaluate_with(struct sw_job *job, const char *weights,
                         const struct sw_eval_reports *reports, struct sw_job_event *out,
                         struct sw_err *err) SW_MUST_CHECK;
/* Whether the evaluation net compares values with targets, and no scores with labels. */
bool sw_job_predicts_values(const struct sw_job *job);
