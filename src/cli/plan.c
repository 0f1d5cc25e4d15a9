/* singa-ws plan: searches the fastest way to train a net on a machine, real or imagined, and says
 * why. It trains nothing, unless --measure asks for measured times of layers. */
#include "base/json.h"
#include "cli/history/runs.h"
#include "cli/plan/model.h"
#include "cli/plan/sweep.h"
#include "cli/plot/picture.h"

/* The options that give figures of the machine. */
enum figure {
    HOSTS,
    GPUS_PER_HOST,
    GPUS,
    SERVER_HOSTS,
    NET,
    NET_LATENCY,
    PCIE,
    GFLOPS,
    MEMORY_RATE,
    GPU_MEMORY,
    FIGURES
};

struct options {
    struct sw_cli_common common;
    const char *figure[FIGURES];
    const char *from, *what_if, *simulate, *plot;
    bool measure, scale_batch;
};

#define FIGURE(which, name, arg, help)                                                             \
    SW_CLI_TEXT_OPTION(struct options, figure[which], name, arg, help)

static const struct sw_cli_option rows[] = {
    FIGURE(HOSTS, "hosts", "N", "an imagined machine: number of hosts"),
    FIGURE(GPUS_PER_HOST, "gpus-per-host", "N", "GPUs of each host"),
    FIGURE(GPUS, "gpus", "N", "GPUs of all hosts together"),
    FIGURE(SERVER_HOSTS, "server-hosts", "N",
           "more hosts with a server each, and layers split between hosts, as in the papers: "
           "no run can do either"),
    FIGURE(NET, "net", "RATE", "network of each host, in each direction: 1Gbit, 10Gbit, 1.2GB/s"),
    FIGURE(NET_LATENCY, "net-latency", "TIME", "of a message between hosts: 50us"),
    FIGURE(PCIE, "pcie", "RATE", "link of each GPU, in each direction: 12GB/s"),
    FIGURE(GFLOPS, "gflops", "X",
           "matrix products of a GPU, in Gflop/s; without GPUs, of all cores of a host"),
    FIGURE(MEMORY_RATE, "memory-rate", "RATE", "memory of a GPU; without GPUs, of a host: 900GB/s"),
    FIGURE(GPU_MEMORY, "gpu-memory", "SIZE", "memory of each GPU: 16GB"),
    SW_CLI_TEXT_OPTION(
        struct options, from, "from", "FILE|SYNTHETIC",
        "another machine: an hwloc XML file, or a description such as \"numa:4 core:6 pu:2\""),
    SW_CLI_TEXT_OPTION(struct options, what_if, "what-if", "LIST",
                       "the same figures in one list: \"gpus=4, net=10Gbit\""),
    SW_CLI_FLAG_OPTION(struct options, measure, "measure",
                       "train a few steps first, to measure every layer on this machine"),
    SW_CLI_TEXT_OPTION(struct options, simulate, "simulate", "A..B",
                       "simulate 1 to 1024 hosts, or GPUs with --gpus, and say where more of them "
                       "stop paying"),
    SW_CLI_FLAG_OPTION(struct options, scale_batch, "scale-batch",
                       "with --simulate: the batch grows with the workers"),
    SW_CLI_TEXT_OPTION(struct options, plot, "plot", "FILE",
                       "with --simulate: also draw the curve to FILE.png or FILE.svg"),
    {0},
};

static const char *const keys[FIGURES] = {
    [HOSTS] = "hosts",
    [GPUS_PER_HOST] = "gpus-per-host",
    [GPUS] = "gpus",
    [SERVER_HOSTS] = "server-hosts",
    [NET] = "net",
    [NET_LATENCY] = "net-latency",
    [PCIE] = "pcie",
    [GFLOPS] = "gflops",
    [MEMORY_RATE] = "memory-rate",
    [GPU_MEMORY] = "gpu-memory",
};

/* Options come after --what-if, so that one of them can change a list. */
static int read_figures(const struct options *o, struct sw_given_figures *given, struct sw_err *err)
{
    int rc = o->what_if ? sw_given_parse(given, o->what_if, "--what-if", err) : SW_OK;

    for (int i = 0; i < FIGURES && rc == SW_OK; i++) {
        char by[32];

        snprintf(by, sizeof by, "--%s", keys[i]);
        if (o->figure[i])
            rc = sw_given_set(given, keys[i], o->figure[i], by, err);
    }

    return rc;
}

/* ---- A run in place of a recipe ---- */

struct planned_run {
    struct sw_history_reader *reader;
    struct sw_run run;
    struct sw_job_told told;
    char *db; /* owned */
};

/* The recipe and overrides of a run, whose measured times are used. */
static int find_run(const struct options *o, struct planned_run *r, struct sw_job_options *job,
                    struct sw_err *err)
{
    const char *what = o->common.args[0];

    int rc = sw_runs_open(o->common.db, NULL, &r->reader, &r->db, err);
    if (rc == SW_OK)
        rc = sw_history_find(r->reader, what, &r->run, err);
    if (rc != SW_OK)
        return rc;
    if (!r->run.recipe_text)
        return sw_err_set(err, SW_ERR_NOTFOUND, "run %lld: its recipe is not in the history",
                          (long long)r->run.id);

    r->told = (struct sw_job_told){r->run.recipe, r->run.recipe_text, r->run.overrides,
                                   r->run.fallback ? r->run.fallback : ""};
    job->recipe_path = NULL;
    job->told = &r->told;
    return SW_OK;
}

static void free_run(struct planned_run *r)
{
    sw_history_reader_close(r->reader);
    sw_run_fini(&r->run);
    sw_free(r->db);
}

/* ---- The verb ---- */

static int print_plan(const struct options *o, struct sw_plan_model *m, struct sw_bytes *out,
                      struct sw_err *err)
{
    struct sw_planned planned = {0};
    struct sw_planning_texts texts = {0};
    struct sw_json_writer w;

    int rc = sw_plan_model_plan(m, &planned, err);
    if (rc == SW_OK)
        rc = sw_plan_model_texts(m, &planned, &texts, err);

    if (rc == SW_OK) {
        const struct sw_planned_about about = sw_plan_model_about(m, &texts, o->common.verbose > 0);

        if (o->common.json) {
            sw_cli_json_begin(&w, out);
            sw_planned_json(&w, &planned, &about);
            sw_cli_json_end(&w);
        } else {
            sw_planned_print(out, &planned, &about);
        }
    }

    sw_planning_texts_fini(&texts);
    sw_planned_fini(&planned);
    return rc;
}

static int print_sweep(const struct options *o, struct sw_plan_model *m,
                       const struct sw_sweep_range *range, struct sw_bytes *out, struct sw_err *err)
{
    struct sw_sweep sweep = {.range = *range, .scale_batch = o->scale_batch};
    struct sw_json_writer w;

    int rc = sw_sweep_make(m, &sweep, err);
    if (rc == SW_OK && o->plot)
        rc = sw_sweep_plot(&sweep, o->plot, err);

    if (rc == SW_OK && o->common.json) {
        sw_cli_json_begin(&w, out);
        sw_sweep_json(&w, &sweep);
        sw_cli_json_end(&w);
    } else if (rc == SW_OK) {
        rc = sw_sweep_print(out, &sweep, err);
    }

    sw_sweep_fini(&sweep);
    return rc;
}

/* What an option needs of others. */
static int check_options(const struct options *o)
{
    if (!o->simulate && (o->plot || o->scale_batch))
        return sw_cli_usage("plan", "--%s needs --simulate", o->plot ? "plot" : "scale-batch");
    if (o->plot && !sw_picture_is_named("plan", o->plot))
        return SW_EXIT_USAGE;
    if (o->measure && (o->from || o->what_if || o->figure[HOSTS] || o->figure[GPUS] ||
                       o->figure[GPUS_PER_HOST] || o->figure[SERVER_HOSTS]))
        return sw_cli_usage("plan", "--measure is for this machine: it cannot be used with figures "
                                    "of another one");
    if (o->measure && o->figure[GFLOPS])
        return sw_cli_usage("plan", "--measure and --gflops contradict each other");
    if (o->measure && !sw_weights_is_recipe(o->common.args[0]))
        return sw_cli_usage("plan", "--measure needs a recipe: the times of a run are measured");

    return SW_EXIT_DONE;
}

static int plan(void *options)
{
    const struct options *o = options;
    struct sw_plan_target target = {
        .from = o->from, .grows = o->simulate != NULL, .measure = o->measure};
    struct sw_job_options job = sw_trainer_job_of(&o->common);
    struct planned_run run = {0};
    struct sw_plan_model m = {0};
    struct sw_sweep_range range = {0};
    struct sw_bytes out = {0};
    struct sw_err err;

    int code = check_options(o);
    if (code != SW_EXIT_DONE)
        return code;

    int rc = read_figures(o, &target.given, &err);
    if (rc == SW_OK && o->simulate)
        rc = sw_sweep_range_parse(o->simulate, &range, &err);
    if (rc == SW_OK && !sw_weights_is_recipe(o->common.args[0])) {
        rc = find_run(o, &run, &job, &err);
        target.run = &run.run;
        target.reader = run.reader;
    }
    if (rc == SW_OK)
        rc = sw_plan_model_open(&m, &o->common, &job, &target, &err);
    if (rc == SW_OK)
        rc = o->simulate ? print_sweep(o, &m, &range, &out, &err) : print_plan(o, &m, &out, &err);

    code = rc == SW_OK ? sw_cli_print(&out) : sw_trainer_refuse(&m.trainer, rc, &err);
    sw_bytes_fini(&out);
    sw_plan_model_fini(&m);
    free_run(&run);
    return code;
}

const struct sw_verb sw_verb_plan = {
    .name = "plan",
    .help = "find the fastest way to train a net on a machine",
    .usage = "[OPTION]... RECIPE|RUN",
    .about =
        "Searches how workers should share the net of RECIPE on this machine, or on an imagined\n"
        "one: groups, the partition of every layer and the exchange of its gradients, within the\n"
        "memory of every device. Prints the predicted time of a step, the reasons, what was\n"
        "rejected, and lines for the recipe. Keys that the recipe sets are kept. With a RUN, its\n"
        "recipe and the times that it measured are used.",
    .more = "`singa-ws run --plan RECIPE` plans and trains. Figures that are neither given nor\n"
            "measured are assumed, and the output says so; --measure measures this machine.",
    .takes = SW_CLI_SET | SW_CLI_DEVICE | SW_CLI_DB | SW_CLI_JSON | SW_CLI_VERBOSE |
             SW_CLI_FRAMEWORK | SW_CLI_OVERSUBSCRIBE | SW_CLI_STAGE,
    SW_CLI_OPTIONS(struct options, rows),
    .min_args = 1,
    .max_args = 1,
    .arg_name = "RECIPE",
    .run = plan,
    .stops = true,
};
