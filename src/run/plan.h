/* The plan of a job, as users see it (struct sw_job_plan). */
#pragma once

#include "base/str.h"
#include "plan/conf.h"
#include "run/job.h"

/* Texts and rows of the plan; owned. */
struct sw_job_report {
    struct sw_job_layer *layers;
    int *rows; /* of each layer of the training net, then of the evaluation net: its index there */
    struct sw_job_shard *shards; /* [layers of the plan][group size]; NULL: one worker */
    struct sw_bytes fallback, limits;
    struct sw_bytes warnings, comm_notes; /* lines */
    struct sw_framework_choice framework;
    char *partition_notes;
    char *choices; /* algorithms that were chosen (saved_choices.h) */
};

/* Fills the part of the plan that is known after the roles are placed; sw_job_describe includes it.
 */
void sw_job_describe_roles(struct sw_job *job);
int sw_job_describe(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* Rewrites job->report.choices after the rows have changed. */
int sw_job_write_choices(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
