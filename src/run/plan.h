/* The plan of a job, as users see it (struct sw_job_plan). */
#pragma once

#include "base/str.h"
#include "run/job.h"

/* Texts and rows of the plan. All owned except the framework's name. */
struct sw_job_report {
    struct sw_job_layer *layers;
    struct sw_job_shard *shards; /* [layers of the plan][group size]; NULL: one worker */
    struct sw_bytes fallback;
    const char *framework; /* borrowed */
    char framework_reason[256];
    char *partition_notes;
    char *choices; /* algorithms that were chosen (saved_choices.h) */
};

/* Fills the part of the plan that is known after the roles are placed; sw_job_describe includes it.
 */
void sw_job_describe_roles(struct sw_job *job);
int sw_job_describe(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* Rewrites job->report.choices after the rows have changed. */
int sw_job_write_choices(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
