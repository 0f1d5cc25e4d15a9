/* What the planner would do in a run whose steps deviate from its plan: searches again, with what
 * the run measured under this plan and under those before it, and has the run follow the result if
 * the recipe says so (`replan`). One owner: the main thread. */
#pragma once

#include "cli/plan/follow.h"

struct sw_followed;

/* Zero-initialise; free with sw_replanner_fini, after the job. */
struct sw_replanner {
    const struct sw_cli_common *common; /* borrowed */
    bool oversubscribe;                 /* of the job */
    struct sw_followed *newest;         /* owned list of plans, the newest first */
    struct sw_followed *outdated;       /* the one from which the steps deviated last */
};

/* Before the job runs: tells it the plan that it follows, unless the history has one which the
 * settings of the job are not those of any more. Errors: SW_ERR_NOMEM. */
int sw_replanner_begin(struct sw_replanner *r, const struct sw_plan_follow *plan,
                       struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* The job has ended to go on under the new plan: gives it to the next one. */
void sw_replanner_switch(struct sw_replanner *r, struct sw_job *job);
void sw_replanner_fini(struct sw_replanner *r);
