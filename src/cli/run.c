/* singa-ws run: trains the net of a recipe. */
#include "base/os.h"
#include "cli/checkpoint/weights.h"
#include "cli/plan/follow.h"
#include "cli/training/piped.h"
#include "cli/training/train.h"
#include "recipe/job.h"
#include <string.h>

struct options {
    struct sw_cli_common common;
    int64_t steps;
    const char *name, *out_dir, *init_from;
    const char *cores;
    bool when_free, plan;
    struct sw_cli_list resets;
    struct sw_hosts_options hosts;
    struct sw_live_view_options live_view;
};

static const struct sw_cli_option options_of_run[] = {
    SW_CLI_INT_OPTION(struct options, steps, "steps", "N", 1,
                      "end after step N; schedules keep the recipe's length"),
    SW_CLI_TEXT_OPTION(struct options, name, "name", "NAME",
                       "name of the run; default: the recipe's job.name"),
    SW_CLI_TEXT_OPTION(struct options, out_dir, "out", "DIR",
                       "folder for checkpoints; default: runs/ID in the state directory"),
    SW_CLI_TEXT_OPTION(struct options, cores, "cores", "N",
                       "processor cores to use; default: job.cores, else all that other runs do "
                       "not use"),
    SW_CLI_FLAG_OPTION(struct options, when_free, "when-free",
                       "wait in the queue until the cores and GPUs are free, then start"),
    SW_CLI_FLAG_OPTION(struct options, plan, "plan",
                       "search the fastest parallel plan first, as `singa-ws plan` does, and "
                       "follow it"),
    SW_CLI_TEXT_OPTION(
        struct options, init_from, "init-from", "FILE|RUN",
        "start from the parameters of a checkpoint or a run (RUN, RUN:best, RUN:STEP), by name; "
        "default: the recipe's job.init_from"),
    SW_CLI_LIST_OPTION(struct options, resets, "reset", "LAYER",
                       "start this layer from initial values instead; may be repeated"),
    SW_HOSTS_ROWS(struct options, hosts),
    SW_LIVE_VIEW_ROWS(struct options, live_view),
    {0},
};

/* The file that --init-from names. */
static int find_weights(const struct options *o, const struct sw_job_options *job,
                        struct sw_weights *w, struct sw_err *err)
{
    const struct sw_job_conf *conf;
    struct sw_recipe *recipe = NULL;
    struct sw_err ignored; /* opening the job reports the errors of the recipe */

    if (!o->init_from)
        return SW_OK;

    int rc = sw_job_read_recipe(job, &recipe, &conf, &ignored);
    const struct sw_weights_args args = {.what = o->init_from,
                                         .option = "--init-from",
                                         .db = o->common.db,
                                         .job_db = rc == SW_OK ? conf->db : NULL,
                                         .recipe = job->recipe_path,
                                         .hash = rc == SW_OK ? sw_recipe_hash(recipe) : NULL};
    rc = rc == SW_OK ? sw_weights_find(&args, w, err) : SW_OK;
    sw_recipe_free(recipe);

    return rc;
}

/* "fc1, fc2" of all --reset; NULL without one. */
static char *join_resets(const struct options *o)
{
    struct sw_bytes out = {0};

    for (int i = 0; i < o->resets.count; i++)
        sw_bytes_printf(&out, "%s%s", i ? ", " : "", o->resets.items[i]);

    char *text = out.length ? sw_bytes_take(&out) : NULL;
    sw_bytes_fini(&out);
    return text;
}

/* Plans if that is asked for, and prints the plan in short. Returns an exit code. */
static int make_plan(const struct options *o, struct sw_live_view *live_view,
                     struct sw_job_options *job, struct sw_plan_follow *f)
{
    if (!o->plan && !sw_plan_is_asked(job))
        return SW_EXIT_DONE;

    f->hosts = &o->hosts;
    int code = sw_plan_follow(f, &o->common, job);
    if (code == SW_EXIT_DONE && !o->common.quiet && !o->common.json && !live_view)
        code = sw_cli_print(&f->text);
    return code;
}

static int train(void *options, struct sw_live_view *live_view)
{
    const struct options *o = options;
    struct sw_plan_follow follow = {0};
    struct sw_piped_recipe piped = {0};
    struct sw_err err;
    struct sw_job_options job = sw_trainer_job_of(&o->common);
    struct sw_weights weights = {0};
    char *reset = join_resets(o);

    job.name = o->name;
    job.out_dir = o->out_dir;
    job.reset = reset;
    job.steps = o->steps;
    job.cores = o->cores;
    sw_piped_recipe_read(&piped, &job);

    int rc = find_weights(o, &job, &weights, &err);
    job.init_from = weights.path;
    const struct sw_train_args args = {.common = &o->common,
                                       .hosts = &o->hosts,
                                       .live_view = live_view,
                                       .when_free = o->when_free,
                                       .plan = &follow};
    int code = rc == SW_OK ? make_plan(o, live_view, &job, &follow) : sw_cli_fail(rc, &err);
    if (code == SW_EXIT_DONE)
        code = sw_train(&args, &job, NULL);
    sw_plan_follow_fini(&follow);
    sw_piped_recipe_fini(&piped);
    sw_weights_fini(&weights);
    sw_free(reset);

    return code;
}

static int run(void *options)
{
    const struct options *o = options;

    if (o->name && sw_job_name_is_number(o->name))
        return sw_cli_usage("run",
                            "--name=%s: a name of digits only would be read as the number "
                            "of a run",
                            o->name);
    return sw_live_view("run", &o->common, &o->live_view, train, options);
}

const struct sw_verb sw_verb_run = {
    .name = "run",
    .help = "train a recipe",
    .usage = "[OPTION]... RECIPE",
    .about =
        "Trains the net of RECIPE and records every step in the history. On a terminal, one line\n"
        "shows the progress. Otherwise it prints key=value lines: the first 5 steps, then one\n"
        "step at most every 10 s, every evaluation, checkpoint and alert; and a table at the end.\n"
        "-v also prints the reasons of the placement.",
    .more =
        "Ctrl-C (SIGINT) or SIGTERM finishes the step, writes a checkpoint and exits with 75; a\n"
        "second one ends at once. Before the first checkpoint it exits with 130 or 143.\n"
        "SIGUSR1 writes a checkpoint. SIGHUP does not end a run.",
    .takes = SW_CLI_ALL,
    SW_CLI_OPTIONS(struct options, options_of_run),
    .min_args = 1,
    .max_args = 1,
    .arg_name = "RECIPE",
    .run = run,
    .stops = true,
};
