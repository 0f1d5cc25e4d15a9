/* The plan of a job, as users see it (struct sw_job_plan). */
#pragma once

#include "base/str.h"
#include "run/job.h"

/* Texts and rows that the plan shows. All owned but for the framework's name. */
struct sw_job_report {
    struct sw_job_layer *layers;
    struct sw_job_share *shares; /* [layers of the plan][group size]; NULL: one worker */
    struct sw_buf fallback;
    const char *framework; /* borrowed */
    char framework_reason[256];
    char *partition_notes;
    char *choices; /* what the plans chose (kept_choices.h) */
};

/* The part of the plan that is known once the units are placed; sw_job_describe has it too. */
void sw_job_describe_units(struct sw_job *job);
int sw_job_describe(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* Writes job->report.choices again, after the rows have changed. */
int sw_job_write_choices(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
