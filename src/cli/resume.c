/* singa-ws resume: continues a stored run from its newest undamaged checkpoint. */
#include "base/os.h"
#include "base/stop.h"
#include "cli/checkpoint/folder.h"
#include "cli/history/run_text.h"
#include "cli/history/runs.h"
#include "cli/plan/again.h"
#include "cli/training/train.h"
#include <string.h>

struct options {
    struct sw_cli_common common;
    int64_t steps;
    const char *cores;
    bool when_free;
    struct sw_hosts_options hosts;
    struct sw_live_view_options live_view;
};

static const struct sw_cli_option options_of_resume[] = {
    SW_CLI_INT_OPTION(
        struct options, steps, "steps", "N", 1,
        "end after step N instead of the run's last step; schedules keep their length (--set "
        "job.steps=N changes it)"),
    SW_CLI_TEXT_OPTION(struct options, cores, "cores", "N",
                       "processor cores to use; default: job.cores, else all that other runs do "
                       "not use"),
    SW_CLI_FLAG_OPTION(struct options, when_free, "when-free",
                       "wait in the queue until the cores and GPUs are free, then start"),
    SW_HOSTS_ROWS(struct options, hosts),
    SW_LIVE_VIEW_ROWS(struct options, live_view),
    {0},
};

/* Whether a --set gives the length of the run or of a stage. */
static bool gives_length(const char *set)
{
    const size_t key = strcspn(set, "=");
    const bool of_stage = sw_str_starts(set, "stage.");
    static const char *const names[] = {".steps", ".epochs"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const size_t bytes = strlen(names[i]);
        if (key > bytes && strncmp(set + key - bytes, names[i], bytes) == 0 &&
            (of_stage || key == strlen("job") + bytes))
            return true;
    }

    return false;
}

/* The last step: --steps, else that of --set job.steps or of the run; 0 if --set gives a length in
 * another way. */
static int64_t last_step(const struct options *o, const struct sw_run *run)
{
    static const char key[] = "job.steps=";
    int64_t last = run->steps;

    if (o->steps)
        return o->steps;

    for (int i = 0; i < o->common.sets.count; i++) {
        const char *set = o->common.sets.items[i];

        if (gives_length(set) &&
            !(sw_str_starts(set, key) && sw_parse_int(set + strlen(key), &last)))
            return 0;
    }

    return last;
}

static bool is_complete(const struct sw_checkpoints *checkpoints, int64_t last)
{
    return last > 0 && checkpoints->items[0].step >= last;
}

/* Reports that no step is left to train, if the last checkpoint is undamaged. */
static int report_complete(const struct sw_run *run, const struct sw_checkpoints *checkpoints,
                           int64_t last)
{
    const struct sw_checkpoint_file *newest = &checkpoints->items[0];
    char title[128];
    struct sw_err err, ignored;

    int rc = sw_checkpoint_check_file(newest, &err);
    if (rc == SW_OK) {
        sw_cli_message("%s is already at step %lld%s%lld; use --steps N to train until step N",
                       sw_run_title(run, title, sizeof title), (long long)newest->step,
                       newest->step > last ? ", beyond step " : " of ", (long long)last);
        return SW_EXIT_DONE;
    }

    int i = 1;
    while (i < checkpoints->count &&
           sw_checkpoint_check_file(&checkpoints->items[i], &ignored) != SW_OK)
        i++;

    if (i < checkpoints->count)
        sw_cli_message(
            "%s; the newest undamaged checkpoint is that of step %lld, %s: remove the damaged "
            "file to resume from there",
            err.text, (long long)checkpoints->items[i].step, checkpoints->items[i].path);
    else
        sw_cli_message("%s; the run has no other undamaged checkpoint", err.text);

    return sw_cli_exit_code(rc);
}

static int continue_run(const struct options *o, const struct sw_run *run,
                        const struct sw_checkpoints *checkpoints, const char *db,
                        struct sw_live_view *live_view)
{
    struct sw_job_options job = {
        .sets = o->common.sets.items,
        .set_count = o->common.sets.count,
        .device = o->common.device,
        .framework = o->common.framework,
        .cores = o->cores,
        .oversubscribe = o->common.oversubscribe,
        .db = db ? db : o->common.db,
        .out_dir = run->id ? NULL : run->out_dir,
        .overwrite = !run->id, /* the checkpoints are its own */
        .steps = last_step(o, run),
        .steps_at_most = !o->steps,
        .command = o->common.command,
        .resume = run,
    };
    struct sw_plan_again again = {0};
    const struct sw_train_args args = {.common = &o->common,
                                       .hosts = &o->hosts,
                                       .live_view = live_view,
                                       .when_free = o->when_free,
                                       .plan = &again.follow};

    int code = o->hosts.hosts ? SW_EXIT_DONE : sw_plan_again(&again, &o->common, db, &job);
    if (code == SW_EXIT_DONE)
        code = sw_train(&args, &job, checkpoints);
    sw_plan_again_fini(&again);
    return code;
}

/* Finds the run, which must have ended, and its checkpoints. A folder with checkpoints is a run,
 * known to the history or not. *db: path of the history; owned by the caller; NULL: there is none.
 */
static int find_run(const struct options *o, struct sw_run *run, struct sw_checkpoints *checkpoints,
                    char **db, struct sw_err *err)
{
    struct sw_history_reader *reader = NULL;
    const char *what = o->common.arg_count ? o->common.args[0] : "@last";
    const bool is_folder = sw_folder_has_checkpoints(what);
    char title[128], since[SW_RUN_TEXT], *job_db = NULL;

    int rc = is_folder ? sw_folder_find_db(what, &o->common.sets, &job_db, err) : SW_OK;
    if (rc == SW_OK)
        rc = sw_runs_open(o->common.db, job_db, &reader, db, err);
    if (is_folder && (rc == SW_OK || rc == SW_ERR_NOTFOUND))
        rc = sw_folder_find_run(what, reader, run, checkpoints, err);
    else if (rc == SW_OK)
        rc = sw_history_find(reader, what, run, err);
    if (rc != SW_OK)
        goto out;

    if (run->status == SW_RUN_RUNNING)
        rc = sw_err_set(err, SW_ERR_INVALID,
                        "%s is still running (pid %lld on %s, since %s); wait for its end, or use "
                        "`singa-ws stop %lld`",
                        sw_run_title(run, title, sizeof title), (long long)run->pid,
                        run->host ? run->host : "this machine",
                        sw_run_time_text(run->segment_at, since), (long long)run->id);
    else if (!is_folder)
        rc = sw_checkpoints_find(reader, run, checkpoints, err);

out:
    sw_history_reader_close(reader);
    sw_free(job_db);
    return rc;
}

static int resume(void *options, struct sw_live_view *live_view)
{
    const struct options *o = options;
    struct sw_run run = {0};
    struct sw_checkpoints checkpoints = {0};
    struct sw_err err;
    char *db = NULL;
    int code;

    int rc = find_run(o, &run, &checkpoints, &db, &err);

    /* After a stop, files that were not read to the end may seem damaged. */
    if (sw_stop_check(&err) != SW_OK)
        rc = SW_ERR_CANCELLED;

    if (rc != SW_OK)
        code = sw_cli_fail(rc, &err);
    else if (is_complete(&checkpoints, last_step(o, &run)))
        code = report_complete(&run, &checkpoints, last_step(o, &run));
    else
        code = continue_run(o, &run, &checkpoints, db, live_view);

    sw_checkpoints_fini(&checkpoints);
    sw_run_fini(&run);
    sw_free(db);

    return code;
}

static int run(void *options)
{
    const struct options *o = options;
    return sw_live_view("resume", &o->common, &o->live_view, resume, options);
}

const struct sw_verb sw_verb_resume = {
    .name = "resume",
    .help = "continue a run from its newest checkpoint",
    .usage = "[OPTION]... [RUN]",
    .about =
        "Continues RUN (an id, a unique prefix, a name, or @last; default: @last) from its\n"
        "newest checkpoint, in its folder, with its recipe and overrides. The result is\n"
        "bit-identical to that of an uninterrupted run. A folder with checkpoints is a RUN,\n"
        "too, of the history that its recipe names; if it was moved or copied here, it becomes\n"
        "a new run of it.",
    .more = "--oversubscribe is not stored with a run: repeat it.\n"
            "Signals and exit codes are those of 'singa-ws run'.",
    .takes = SW_CLI_ALL,
    SW_CLI_OPTIONS(struct options, options_of_resume),
    .max_args = 1,
    .run = run,
    .stops = true,
};
