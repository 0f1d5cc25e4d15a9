/* Opens a job for `run` and `resume`, trains it with a report and signal handlers, and turns the
 * result into an exit code.
 *
 * Signals while it trains: the first SIGINT or SIGTERM finishes the step, writes a checkpoint and
 * ends; the second ends at once (stop_signals.h). SIGUSR1 writes a checkpoint. SIGHUP does nothing,
 * so that a training goes on without its terminal. One owner: the main thread. */
#pragma once

#include "cli/checkpoint/weights.h"
#include "cli/cli.h"
#include "cli/report/report.h"

struct sw_trainer {
    struct sw_report report;
    struct sw_log *log;       /* owned */
    struct sw_job *job;       /* owned; NULL until opened */
    struct sw_launch *launch; /* borrowed: the hosts of the job; NULL: this machine alone */
    char *trained;            /* owned: the checkpoint that takes the place of a recipe, or NULL */
    struct sw_bytes messages;
    bool quiet;
    /* Will the run go on in another job, so that this one's end is not that of the run? NULL: it
     * does not. Called when a job has ended with the loss of a host. */
    bool (*goes_on)(void *user, const struct sw_job *job);
    void *goes_on_user;
    /* The job has ended to go on under another plan: gives the plan to the next one
     * (sw_job_replan). NULL: there is none. */
    void (*on_replan)(void *user, struct sw_job *job);
    void *replan_user;
};

/* Free with sw_trainer_fini also after an error. Errors: SW_ERR_NOMEM. */
int sw_trainer_init(struct sw_trainer *t, const struct sw_cli_common *common,
                    struct sw_err *err) SW_MUST_CHECK;
void sw_trainer_fini(struct sw_trainer *t);
/* Makes a job that will train take cores and GPUs that no other run uses; with when_free it waits
 * for them and prints what it waits for. */
void sw_trainer_reserve(struct sw_trainer *t, struct sw_job_options *options, bool when_free);
/* sw_job_open with the report's display policy. After a failure it may be called again. */
int sw_trainer_open(struct sw_trainer *t, struct sw_job_options *options,
                    struct sw_err *err) SW_MUST_CHECK;
void sw_trainer_close(struct sw_trainer *t); /* the open job, if there is one */
/* Closes the open job and opens one with other options. */
int sw_trainer_reopen(struct sw_trainer *t, struct sw_job_options *options,
                      struct sw_err *err) SW_MUST_CHECK;
/* Job options from the common options of a verb and its first argument, the recipe; its name is not
 * that of a recipe where the verb takes a trained net in its place. The texts are borrowed. */
struct sw_job_options sw_trainer_job_of(const struct sw_cli_common *common);
/* sw_trainer_open for a verb that uses weights, and takes RUN in place of a recipe: finds the
 * weights that --weights names (NULL: those of RUN), and opens the stage that they belong to. */
int sw_trainer_open_with(struct sw_trainer *t, struct sw_job_options *options, const char *weights,
                         const struct sw_cli_common *common, struct sw_weights *w,
                         struct sw_err *err) SW_MUST_CHECK;
/* Prints why open failed (the recipe's errors, or err); returns the exit code. */
int sw_trainer_refuse(const struct sw_trainer *t, int rc, const struct sw_err *err);
/* Prints why an operation on a recipe failed: the errors of the recipe if there are any, else err.
 * Returns the exit code. recipe may be NULL. */
int sw_cli_refuse(const struct sw_recipe *recipe, int rc, const struct sw_err *err);

/* With --quiet, prints the warnings of the job and the data that a fallback replaced on stderr;
 * without, the report has them. */
void sw_trainer_warn(const struct sw_trainer *t);

/* Trains, prints the result, and returns the exit code. Does not return but exits the process if
 * threads of the job do not stop. */
int sw_trainer_run(struct sw_trainer *t);
