/* A job that follows a parallel plan: its main thread compares the steps with the prediction, tells
 * when they deviate, and has the run go on under another plan. Then the job ends after an
 * evaluation, with a checkpoint like a stopped one, and sw_job_next opens the next one from it with
 * the settings of the new plan, as another segment of the same run. With repeat_exact the bits stay
 * those of a run that was never interrupted, as resume promises. By the job's main thread. */
#pragma once

#include "run/job.h"
#include "thread/queue.h"

/* A plan with its texts, all owned. */
struct sw_following_plan {
    struct sw_job_followed_plan plan; /* its json is that below */
    char *json;
    char *what;      /* it replaces another plan; NULL: it does not */
    char *overrides; /* of the job that is to follow it */
};

struct sw_job_following {
    struct sw_following_plan now, next;
    struct sw_queue breakdowns; /* of struct sw_step_breakdown */
    bool ready;                 /* the queue is initialized */
    struct sw_plan_watch watch;
    bool ended; /* the job has ended to go on under another plan */
};

/* Does the recipe ask for `replan` where that is impossible? Errors go to its diagnostics. */
void sw_replan_check(struct sw_job *job);

/* Records a plan that the history does not have yet. */
void sw_following_record(struct sw_job *job);
/* Begins to watch the steps; before the workers start. Errors: SW_ERR_NOMEM. */
int sw_following_open(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* Reports which plan has taken the place of another one. */
void sw_following_report(struct sw_job *job);
/* While the workers run: looks at the steps since the last call. */
void sw_following_watch(struct sw_job *job);
void sw_following_fini(struct sw_job_following *f);

/* Have the workers ended to go on under another plan, and not to stop the run? */
bool sw_replan_is_requested(const struct sw_job *job);
/* The next job of the run follows the next plan, or, where there is none and its stage is the same,
 * the plan of this one. */
void sw_following_hand_over(struct sw_job *from, struct sw_job *to);
/* No job could be opened for the next plan: reports why, and forgets it. Returns whether there was
 * one. */
bool sw_replan_give_up(struct sw_job *job, const struct sw_err *why);
