/* Trains a job of `run` or `resume` to its end, on all its hosts. If hosts are lost that this
 * process has started, the run goes on without them from the newest checkpoint, as another segment
 * of the same run, as often as cluster.restarts says and never twice from the same step. One owner:
 * the main thread. */
#pragma once

#include "cli/checkpoint/checkpoints.h"
#include "cli/hosts/hosts.h"
#include "cli/training/live_view.h"
#include "cli/training/trainer.h"

struct sw_plan_follow;

struct sw_train_args {
    const struct sw_cli_common *common;
    const struct sw_hosts_options *hosts;
    struct sw_live_view *live_view;    /* or NULL */
    bool when_free;                    /* wait for free cores and GPUs */
    const struct sw_plan_follow *plan; /* of the job, for the history; NULL, or json empty: none */
};

/* Opens and trains the job, prints the result, and returns the exit code. checkpoints: those of the
 * run that the job resumes, of which the newest undamaged one is used; NULL: a new run. */
int sw_train(const struct sw_train_args *args, struct sw_job_options *job,
             const struct sw_checkpoints *checkpoints);
