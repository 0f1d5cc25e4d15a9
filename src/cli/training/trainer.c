/* Opens a job, trains it stage by stage, and turns the result into messages and an exit code.
 * Signal handlers reach the job through one variable of this file, so only one trainer may run at a
 * time; on_log is the only function here that other threads call. The contract is in
 * cli/training/trainer.h. */
#include "cli/training/trainer.h"

#include "base/os.h"
#include "base/text.h"
#include "infer/sample.h"
#include "recipe/recipe.h"
#include "run/launch.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

/* ---- Signals ----------------------------------------------------------------------------------
 * Those that do not stop (stop_signals.c has the others). A handler has no argument, so the job
 * that it speaks to is a variable of this file, set before the handlers are installed and cleared
 * after they are gone. */

static struct sw_job *volatile signalled_job;

static void on_signal(int number)
{
    struct sw_job *job = signalled_job;
    if (job) /* NULL: between two stages, where a checkpoint was just written */
        sw_job_request(job, SW_JOB_CHECKPOINT_NOW);
}

static const int handled[] = {SIGUSR1, SIGHUP};
enum { HANDLED = sizeof handled / sizeof *handled };

static void install_handlers(struct sw_job *job, struct sigaction old[HANDLED])
{
    signalled_job = job;

    for (int i = 0; i < HANDLED; i++) {
        struct sigaction action = {.sa_flags = SA_RESTART};
        action.sa_handler = handled[i] == SIGHUP ? SIG_IGN : on_signal;
        sigemptyset(&action.sa_mask);
        sigaction(handled[i], &action, &old[i]);
    }
}

static void remove_handlers(const struct sigaction old[HANDLED])
{
    for (int i = 0; i < HANDLED; i++)
        sigaction(handled[i], &old[i], NULL);
    signalled_job = NULL;
}

/* ---- Opening ----------------------------------------------------------------------------------
 */

/* Prints log messages from before the job has an observer, and those of the history writer. Any
 * thread calls it, so it does not touch the report: it erases a possible status line, which the
 * next display writes again. */
static void on_log(void *user, enum sw_log_level level, const char *source, const char *text)
{
    const struct sw_trainer *t = user;
    bool wipe = t->report.style == SW_REPORT_LIVE && isatty(STDERR_FILENO) == 1;
    struct sw_bytes line = {0};

    sw_bytes_printf(&line, "%ssinga-ws: %s: ", wipe ? "\r\033[K" : "", sw_log_level_name(level));
    sw_text_add(&line, source);
    sw_bytes_add(&line, ": ");
    sw_text_add(&line, text);
    sw_bytes_add(&line, "\n");
    sw_cli_lines_raw(sw_bytes_text(&line)); /* in one call, since other threads write too */
    sw_bytes_fini(&line);
}

int sw_trainer_init(struct sw_trainer *t, const struct sw_cli_common *common, struct sw_err *err)
{
    *t = (struct sw_trainer){0};
    sw_report_init(&t->report, common->json, common->quiet, common->verbose > 0);
    t->quiet = common->quiet;

    t->log = sw_log_new();
    if (!t->log)
        return sw_err_set(err, SW_ERR_NOMEM, "out of memory");

    enum sw_log_level level = common->quiet     ? SW_LOG_ERROR
                              : common->verbose ? SW_LOG_DEBUG
                                                : SW_LOG_WARN;
    return sw_log_add_sink(t->log, level, on_log, t, err);
}

void sw_trainer_fini(struct sw_trainer *t)
{
    sw_job_close(t->job);
    sw_free(t->trained);
    sw_log_free(t->log);
    sw_bytes_fini(&t->messages);
    sw_report_fini(&t->report);
}

static void print_wait(void *user, const char *text)
{
    const struct sw_trainer *t = user;

    if (t->report.on_wait)
        t->report.on_wait(t->report.begin_user, text);
    else
        sw_cli_message("waiting for %s; Ctrl-C leaves the queue", text);
}

void sw_trainer_reserve(struct sw_trainer *t, struct sw_job_options *options, bool when_free)
{
    options->reserve = true;
    options->on_wait = when_free ? print_wait : NULL;
    options->wait_user = t;
}

int sw_trainer_open(struct sw_trainer *t, struct sw_job_options *options, struct sw_err *err)
{
    options->display = sw_report_policy(&t->report);
    sw_bytes_clear(&t->messages);
    return sw_job_open(options, t->log, &t->job, &t->messages, err);
}

void sw_trainer_close(struct sw_trainer *t)
{
    sw_job_close(t->job);
    t->job = NULL;
}

int sw_trainer_reopen(struct sw_trainer *t, struct sw_job_options *options, struct sw_err *err)
{
    sw_trainer_close(t);
    return sw_trainer_open(t, options, err);
}

struct sw_job_options sw_trainer_job_of(const struct sw_cli_common *common)
{
    return (struct sw_job_options){
        .recipe_path = common->args[0],
        .sets = common->sets.items,
        .set_count = common->sets.count,
        .device = common->device,
        .framework = common->framework,
        .oversubscribe = common->oversubscribe,
        .stage = common->stage,
        .db = common->db,
        .command = common->command,
    };
}

/* Opens the recipe that a checkpoint holds. */
static int open_trained(struct sw_trainer *t, struct sw_job_options *options, const char *weights,
                        const struct sw_cli_common *common, struct sw_weights *w,
                        struct sw_err *err)
{
    struct sw_weights_args args = {.what = common->args[0], .db = common->db};

    int rc = sw_weights_find(&args, w, err);
    if (rc != SW_OK)
        return rc;

    t->trained = w->path;
    if (weights) {
        w->path = NULL;
        sw_weights_fini(w);
        *w = (struct sw_weights){0};

        args.what = weights;
        args.option = "--weights";
        rc = sw_weights_find(&args, w, err);
        if (rc != SW_OK)
            return rc;
    } else {
        w->path = sw_strdup(t->trained);
        if (!w->path)
            return sw_err_set(err, SW_ERR_NOMEM, "out of memory");
    }

    options->recipe_path = NULL;
    options->trained = t->trained;
    options->weights = w->path;
    return sw_trainer_open(t, options, err);
}

int sw_trainer_open_with(struct sw_trainer *t, struct sw_job_options *options, const char *weights,
                         const struct sw_cli_common *common, struct sw_weights *w,
                         struct sw_err *err)
{
    if (!sw_weights_is_recipe(common->args[0]))
        return open_trained(t, options, weights, common, w, err);

    int rc = sw_trainer_open(t, options, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_weights_find_for(weights, common, t->job, w, err);
    if (rc != SW_OK || options->stage || sw_recipe_stage_count(sw_job_recipe(t->job)) == 0)
        return rc;

    options->weights = w->path;
    return sw_trainer_reopen(t, options, err);
}

int sw_trainer_refuse(const struct sw_trainer *t, int rc, const struct sw_err *err)
{
    if (t->messages.length == 0 || rc == SW_ERR_CANCELLED)
        return sw_cli_fail(rc, err);
    sw_cli_lines(sw_bytes_text(&t->messages));
    return sw_cli_exit_code(rc);
}

int sw_cli_refuse(const struct sw_recipe *recipe, int rc, const struct sw_err *err)
{
    struct sw_bytes text = {0};

    if (!recipe || sw_recipe_diags(recipe)->count == 0)
        return sw_cli_fail(rc, err);

    sw_diags_print(sw_recipe_diags(recipe), &text);
    sw_cli_lines(sw_bytes_text(&text));
    sw_bytes_fini(&text);

    return sw_cli_exit_code(rc);
}

/* ---- Running ----------------------------------------------------------------------------------
 */

/* Once training has begun, SW_ERR_INVALID is a failure of the training and not a recipe error. */
static int exit_code_of_run(const struct sw_trainer *t, int rc)
{
    if (rc == SW_ERR_CANCELLED && sw_job_resumable(t->job))
        return SW_EXIT_STOPPED;
    if (t->report.run_began && rc == SW_ERR_INVALID)
        return SW_EXIT_FAILED;

    return sw_cli_exit_code(rc);
}

static bool goes_on(const struct sw_trainer *t)
{
    return t->goes_on && sw_job_lost_hosts(t->job) && t->goes_on(t->goes_on_user, t->job);
}

/* The table at the end is that of the whole run. */
static void observe(void *user, const struct sw_job_event *e)
{
    struct sw_trainer *t = user;

    if (e->type != SW_JOB_SUMMARY || !goes_on(t))
        sw_report_observe(&t->report, e);
}

static void print_end(const struct sw_trainer *t, int rc, const struct sw_err *err)
{
    if (rc != SW_ERR_CANCELLED || goes_on(t)) {
        sw_cli_message("%s", err->text);
        return;
    }
    /* Host 0 reports for all hosts, unless it is lost. */
    if (t->report.style == SW_REPORT_QUIET && (sw_job_lost_hosts(t->job) & 1) == 0)
        return;

    if (!sw_job_resumable(t->job))
        sw_cli_message("%s; there is no checkpoint to resume from", err->text);
    else if (t->report.run_id)
        sw_cli_message("%s; `singa-ws resume %lld` continues the run", err->text,
                       (long long)t->report.run_id);
    else
        sw_cli_message("%s", err->text);
}

static int run_next(struct sw_trainer *t, bool *stuck, struct sw_err *err)
{
    signalled_job = NULL;
    sw_bytes_clear(&t->messages);
    if (t->launch)
        sw_launch_reopen(t->launch);
    if (sw_job_replans(t->job) && t->on_replan)
        t->on_replan(t->replan_user, t->job);

    int rc = sw_job_next(&t->job, &t->messages, err);
    signalled_job = t->job;
    if (rc != SW_OK) {
        sw_cli_lines(sw_bytes_text(&t->messages));
        return rc;
    }

    t->report.plan = sw_job_plan(t->job);
    if (sw_job_predicted_ms(t->job) > 0)
        t->report.predicted_ms = sw_job_predicted_ms(t->job);
    return sw_job_run(t->job, observe, t, stuck, err);
}

static void warn(const char *lines)
{
    for (; *lines; lines += strcspn(lines, "\n") + 1)
        sw_cli_message("warning: %.*s", (int)strcspn(lines, "\n"), lines);
}

void sw_trainer_warn(const struct sw_trainer *t)
{
    if (!t->quiet)
        return;

    warn(sw_job_plan(t->job)->warnings);
    warn(sw_job_plan(t->job)->fallback);
}

int sw_trainer_run(struct sw_trainer *t)
{
    struct sigaction old[HANDLED];
    struct sw_err err;
    bool stuck = false;

    t->report.plan = sw_job_plan(t->job);
    t->report.writes_text = sw_job_writes_text(t->job);
    sw_trainer_warn(t);
    install_handlers(t->job, old);

    int rc = sw_job_run(t->job, observe, t, &stuck, &err);
    while (rc == SW_OK && sw_job_has_next(t->job))
        rc = run_next(t, &stuck, &err);
    sw_report_end_line(&t->report);
    if (rc != SW_OK)
        print_end(t, rc, &err);

    if (stuck) {
        sw_cli_message("some threads of the job did not stop; exiting");
        _exit(SW_EXIT_FAILED);
    }

    remove_handlers(old);
    return exit_code_of_run(t, rc);
}
