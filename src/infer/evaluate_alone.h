/* Evaluation without training. */
#pragma once

#include "infer/class_report.h"
#include "run/job.h"

/* Computes loss and metrics on the evaluation data of a job that was opened with one_worker: one
 * pass, every record once. weights NULL: the initial values. *out gets an event of type
 * SW_JOB_EVAL. */
int sw_job_evaluate(struct sw_job *job, const char *weights, struct sw_job_event *out,
                    struct sw_err *err) SW_MUST_CHECK;
/* The same, and fills a report by class, zeroed except for what is wanted. Errors also: those of
 * sw_class_report_begin and sw_class_report_finish. */
int sw_job_evaluate_classes(struct sw_job *job, const char *weights, struct sw_class_report *report,
                            struct sw_job_event *out, struct sw_err *err) SW_MUST_CHECK;
