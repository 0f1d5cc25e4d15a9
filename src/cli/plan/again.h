/* A run that followed a plan and is resumed: it keeps the plan, or on another machine plans again.
 * One owner: the main thread. */
#pragma once

#include "cli/plan/follow.h"
#include "history/reader.h"

/* Zero-initialise; free with sw_plan_again_fini, after the job. */
struct sw_plan_again {
    struct sw_plan_follow follow;
    struct sw_run run; /* borrows from that of the job, but for the overrides, which are owned */
    struct sw_job_told told;
};

/* If job->resume followed a plan on another host, plans without the settings of that plan, says so,
 * and makes the job follow the new one; if it followed one on this host, a->follow has that plan,
 * and the job is unchanged. db: path of the history. Prints why
 * it cannot. Returns an exit code. */
int sw_plan_again(struct sw_plan_again *a, const struct sw_cli_common *common, const char *db,
                  struct sw_job_options *job);
void sw_plan_again_fini(struct sw_plan_again *a);
