/* Plans for this machine, or for the hosts of a job, and makes the job follow the plan (run --plan,
 * partition = auto). One owner: the main thread. */
#pragma once

#include "cli/plan/model.h"

/* Zero-initialise, and set hosts where the job may have several; free with sw_plan_follow_fini,
 * after the job. */
struct sw_plan_follow {
    const struct sw_hosts_options *hosts; /* borrowed; NULL: this machine alone */
    struct sw_planning_texts texts;
    const char **sets;    /* owned: the job's and those of the plan */
    struct sw_bytes text; /* the plan in a few lines */
    struct sw_bytes json; /* the whole plan */
    bool is_recorded;     /* the history has the plan already */
};

/* Does the recipe of a job ask for a plan, by partition, framework or workers_per_group = auto?
 * false also for a recipe with errors, which opening the job reports. */
bool sw_plan_is_asked(const struct sw_job_options *job);

/* Leaves only plans that have the bits of `repeat_exact`, if the recipe asks for these. */
void sw_plan_keep_exact(struct sw_plan_model *m);

/* Plans, and adds the settings of the plan to job->sets. Prints why it cannot. Returns an exit
 * code. */
int sw_plan_follow(struct sw_plan_follow *f, const struct sw_cli_common *common,
                   struct sw_job_options *job);
void sw_plan_follow_fini(struct sw_plan_follow *f);
