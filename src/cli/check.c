/* singa-ws check: prints what a recipe would build: shapes, parameters, memory, flops. It writes
 * nothing. */
#include "base/json.h"
#include "base/os.h"
#include "base/text.h"
#include "cli/history/runs.h"
#include "cli/hosts/preflight.h"
#include "cli/plan/predict.h"
#include "cli/plot/picture.h"
#include "cli/terminal/columns.h"
#include "cli/training/piped.h"
#include "cli/training/trainer.h"
#include "recipe/recipe.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct options {
    struct sw_cli_common common;
    const char *plot;
    bool dot;
    struct sw_hosts_options hosts;
};

static const struct sw_cli_option rows[] = {
    SW_CLI_TEXT_OPTION(struct options, plot, "plot", "FILE",
                       "also draw the net and its partition to FILE.png or FILE.svg"),
    SW_CLI_FLAG_OPTION(struct options, dot, "dot",
                       "print only the net and its partition, as a Graphviz graph"),
    SW_CLI_TEXT_OPTION(struct options, hosts.hosts, "hosts", "HOST,...",
                       "also check that these hosts, of which the first is this machine, can train "
                       "it together, and measure the links between them"),
    SW_CLI_FLAG_OPTION(struct options, hosts.share_machine, "share-machine",
                       "allow several hosts of a job to be the same machine"),
    {0},
};

/* Facts that are not part of the plan. */
struct extra {
    size_t base_bytes; /* memory of the process before the job allocates; 0: unknown */
    char *db;          /* owned: path of the history; NULL: unknown */
    double step_s;     /* predicted; 0: unknown */
};

static size_t resident_bytes(void)
{
    char *text = NULL;
    size_t bytes = 0, pages = 0;
    struct sw_err ignored;
    if (sw_os_read_file("/proc/self/statm", 4096, &text, &bytes, &ignored) != SW_OK)
        return 0;

    if (sscanf(text, "%*s %zu", &pages) != 1)
        pages = 0;
    sw_free(text);

    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* ---- For people -------------------------------------------------------------------------------
 */

static void bytes_cell(struct sw_columns *t, size_t bytes)
{
    char text[32];
    sw_columns_cell(t, "%s", bytes ? sw_human_bytes(text, (double)bytes) : "");
}

static void count_cell(struct sw_columns *t, double count)
{
    char text[32];
    sw_columns_cell(t, "%s", count > 0 ? sw_human_count(text, count) : "");
}

/* The note for a layer whose output does not stay in memory until backward, else NULL. */
static const char *residency_note(const char *memory)
{
    return strcmp(memory, "repeated") == 0  ? "recomputed"
           : strcmp(memory, "swapped") == 0 ? "offloaded"
                                            : NULL;
}

static void layer_row(struct sw_columns *t, const struct sw_job_layer *l, bool verbose)
{
    sw_columns_cell(t, "%s", l->name);
    sw_columns_cell(t, "%s", l->type);
    sw_columns_cell(t, "%s", l->shape);

    if (l->params)
        sw_columns_cell(t, "%lld", (long long)l->params);
    else
        sw_columns_cell(t, "%s", "");

    bytes_cell(t, l->feature_bytes);
    bytes_cell(t, l->gradient_bytes);
    bytes_cell(t, l->saved_bytes);
    bytes_cell(t, l->scratch_bytes);
    count_cell(t, l->flops_forward);
    count_cell(t, l->flops_backward);

    struct sw_bytes notes = {0};
    const char *const words[] = {strcmp(l->spread, "rows") == 0 ? NULL : l->spread,
                                 l->in_place ? "in place" : NULL,
                                 l->handed ? "handed over" : NULL,
                                 l->fused ? "fused" : NULL,
                                 residency_note(l->memory),
                                 l->train && l->eval ? NULL
                                 : l->train          ? "train only"
                                                     : "eval only"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i])
            sw_bytes_printf(&notes, "%s%s", notes.length ? ", " : "", words[i]);

    sw_columns_cell(t, "%s", sw_bytes_text(&notes));
    sw_bytes_fini(&notes);
    if (!verbose)
        return;

    sw_columns_cell(t, "%s", l->src ? l->src : "");
    sw_columns_cell(t, "%s", l->layout);
    sw_columns_cell(t, "%s", l->algorithm ? l->algorithm : "");
}

static void print_layers(struct sw_bytes *out, const struct sw_job_plan *p, bool verbose)
{
    struct sw_columns t = {0};

    sw_columns_begin(
        &t, "layer|type|output|>parameters|>activation|>gradient|>saved|>scratch|>flop fwd|"
            ">flop bwd|notes");
    if (verbose)
        sw_columns_begin(&t, "src|layout|algorithm");
    for (int i = 0; i < p->layer_count; i++)
        layer_row(&t, &p->layers[i], verbose);
    sw_columns_print(&t, out);
    sw_columns_fini(&t);
}

static void print_memory(struct sw_bytes *out, const struct sw_job_plan *p, size_t base)
{
    char text[32], rss[32], own[32], buffers[32];

    sw_bytes_printf(out, "memory       %s at most\n", sw_human_bytes(text, (double)p->bytes.peak));
    const struct {
        const char *name;
        size_t bytes;
    } part[] = {
        {"parameters", p->bytes.params},
        {"gradients and updater state", p->bytes.state},
        {"activations, their gradients, scratch", p->bytes.arena},
        {"batches", p->bytes.batches},
        {"activations between workers", p->bytes.exchange},
        {"activations offloaded to the host", p->bytes.offloaded},
    };

    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        sw_bytes_printf(out, "             %10s  %s\n", sw_human_bytes(text, (double)part[i].bytes),
                        part[i].name);

    if (p->bytes.device > 0)
        sw_bytes_printf(out, "             at most %s of it on each device\n",
                        sw_human_bytes(text, (double)p->bytes.device));

    sw_bytes_printf(out,
                    "resident     about %s, including %s for the program and its data, and %s for "
                    "checkpoints, history and threads\n",
                    sw_human_bytes(rss, (double)(p->bytes.peak + base + p->bytes.buffers)),
                    sw_human_bytes(own, (double)base),
                    sw_human_bytes(buffers, (double)p->bytes.buffers));
    sw_report_fit(out, p);
    if (p->streams > 1)
        sw_bytes_printf(out, "streams      %d on every device, for independent layers\n",
                        p->streams);
}

static void print_text(struct sw_bytes *out, const struct sw_job_plan *p, const struct extra *x,
                       bool verbose)
{
    char count[32], flops[32];

    if (p->stage)
        sw_bytes_printf(out, "%sstage %s, %d of %d: ", out->length ? "\n" : "", p->stage,
                        p->stage_index + 1, p->stage_count);

    sw_text_add(out, p->name);
    sw_bytes_printf(out, " (%s): %lld steps of %lld samples, evaluation in batches of %lld\n\n",
                    p->recipe, (long long)(p->stage ? p->stage_steps : p->steps),
                    (long long)p->batch, (long long)p->eval_batch);
    print_layers(out, p, verbose);
    sw_report_partition(out, p, verbose);
    if (p->comm_requested || verbose)
        sw_report_exchange(out, p);
    sw_bytes_printf(out, "\nparameters   %lld (%s)\n", (long long)p->params,
                    sw_human_count(count, (double)p->params));
    sw_bytes_printf(out, "work         %s per sample\n",
                    sw_human_unit(flops, p->flops_per_sample, "flop"));
    if (x->step_s > 0)
        sw_bytes_printf(out, "step         %s predicted\n", sw_human_seconds(count, x->step_s));
    print_memory(out, p, x->base_bytes);
    sw_bytes_add(out, "placement    ");
    sw_print_placement(out, p->placement, "             ", verbose);
    sw_report_device(out, p);
    sw_bytes_printf(out, "framework    %s (%s)\n", p->framework, p->framework_reason);
    sw_report_precision(out, p);
    sw_report_copy(out, p);
    sw_bytes_printf(out, "history      %s\n", x->db ? x->db : "--");
    sw_report_warnings(out, p);
    sw_report_data(out, p);
    sw_report_notes(out, p);
}

/* ---- For programs -----------------------------------------------------------------------------
 */

/* "128x96x55x55" as an array of numbers. */
static void json_shape(struct sw_json_writer *w, const char *shape)
{
    sw_json_open_array(w, "shape");

    for (char *end; *shape; shape = *end == 'x' ? end + 1 : end) {
        long long dim = strtoll(shape, &end, 10);
        if (end == shape)
            break;
        sw_json_int(w, NULL, dim);
    }

    sw_json_close_array(w);
}

static void json_sources(struct sw_json_writer *w, const char *src)
{
    char name[128];

    sw_json_open_array(w, "src");

    while (src && *src) {
        src += strspn(src, ", ");

        size_t n = strcspn(src, ", ");
        snprintf(name, sizeof name, "%.*s", (int)n, src);
        if (n)
            sw_json_string(w, NULL, name);
        src += n;
    }

    sw_json_close_array(w);
}

static void json_layer(struct sw_json_writer *w, const struct sw_job_plan *p,
                       const struct sw_job_layer *l)
{
    sw_json_open_object(w, NULL);
    sw_json_string(w, "name", l->name);
    sw_json_string(w, "type", l->type);
    json_sources(w, l->src);
    json_shape(w, l->shape);
    sw_json_string(w, "layout", l->layout);
    sw_json_string(w, "algorithm", l->algorithm);
    sw_json_string(w, "spread", l->spread);
    sw_json_string(w, "memory", *l->memory ? l->memory : NULL);
    sw_json_bool(w, "in_place", l->in_place);
    sw_json_bool(w, "handed_over", l->handed);
    sw_json_bool(w, "fused", l->fused);
    sw_json_bool(w, "train", l->train);
    sw_json_bool(w, "eval", l->eval);
    sw_json_int(w, "parameters", l->params);
    sw_json_int(w, "param_bytes", (int64_t)l->param_bytes);
    sw_json_int(w, "feature_bytes", (int64_t)l->feature_bytes);
    sw_json_int(w, "gradient_bytes", (int64_t)l->gradient_bytes);
    sw_json_int(w, "saved_bytes", (int64_t)l->saved_bytes);
    sw_json_int(w, "scratch_bytes", (int64_t)l->scratch_bytes);
    sw_json_real(w, "flops_forward", l->flops_forward);
    sw_json_real(w, "flops_backward", l->flops_backward);
    sw_report_split_json(w, p, l);
    sw_report_exchange_json(w, l);
    sw_json_close_object(w);
}

static void json_memory(struct sw_json_writer *w, const struct sw_job_plan *p, size_t base)
{
    sw_json_int(w, "memory_bytes", (int64_t)p->bytes.peak);
    sw_json_int(w, "device_bytes", (int64_t)p->bytes.device);
    sw_json_int(w, "param_bytes", (int64_t)p->bytes.params);
    sw_json_int(w, "state_bytes", (int64_t)p->bytes.state);
    sw_json_int(w, "arena_bytes", (int64_t)p->bytes.arena);
    sw_json_int(w, "batch_bytes", (int64_t)p->bytes.batches);
    sw_json_int(w, "exchange_bytes", (int64_t)p->bytes.exchange);
    sw_json_int(w, "swap_bytes", (int64_t)p->bytes.offloaded);
    sw_json_int(w, "base_bytes", (int64_t)base);
    sw_json_int(w, "buffer_bytes", (int64_t)p->bytes.buffers);
    sw_report_fit_json(w, p);
    sw_json_int(w, "rss_bytes", (int64_t)(p->bytes.peak + base + p->bytes.buffers));
    sw_json_int(w, "streams", p->streams);
}

/* Fields of an object. */
static void json_plan(struct sw_json_writer *w, const struct sw_job_plan *p, const struct extra *x)
{
    sw_json_string(w, "name", p->name);
    sw_json_string(w, "recipe", p->recipe);
    if (p->stage)
        sw_json_string(w, "stage", p->stage);
    sw_json_int(w, "parameters", p->params);
    json_memory(w, p, x->base_bytes);
    sw_json_real(w, "flops_per_sample", p->flops_per_sample);
    sw_json_real(w, "predicted_ms", x->step_s > 0 ? x->step_s * 1000 : (double)NAN);
    sw_json_int(w, "steps", p->stage ? p->stage_steps : p->steps);
    sw_json_int(w, "batch", p->batch);
    sw_json_int(w, "eval_batch", p->eval_batch);
    sw_json_string(w, "device", p->device);
    sw_json_string(w, "device_reason", p->device_why);
    sw_json_string(w, "precision", p->precision);
    sw_json_string(w, "framework", p->framework);
    sw_json_string(w, "framework_reason", p->framework_reason);
    sw_json_string(w, "copy", p->copy);
    sw_json_string(w, "copy_reason", p->copy_why);
    sw_json_string(w, "all_reduce", p->sums);
    sw_json_string(w, "partition_notes", p->notes);
    sw_json_string(w, "comm_notes", p->comm_notes);
    sw_json_placement(w, p->placement);
    sw_json_string(w, "db", x->db);
    sw_report_data_json(w, p);
    sw_json_open_array(w, "layers");
    for (int i = 0; i < p->layer_count; i++)
        json_layer(w, p, &p->layers[i]);
    sw_json_close_array(w);
}

/* ---- The verb ---------------------------------------------------------------------------------
 */

/* The state of the check. Jobs are opened one at a time. */
struct checking {
    const struct options *options;
    struct sw_trainer t;
    struct sw_job_options job;
    char *stage; /* owned: name of the open stage of several */
    struct extra extra;
    struct sw_preflight *hosts; /* owned; NULL: without --hosts */
    struct sw_piped_recipe piped;
    struct sw_bytes out;
    struct sw_json_writer json;
};

static int open_stage(struct checking *c, int index, struct sw_err *err)
{
    char *name = sw_strdup(sw_recipe_stage_name(sw_job_recipe(c->t.job), index));
    if (!name)
        return sw_err_nomem(err, "stage name", 0);

    sw_free(c->stage);
    c->job.stage = c->stage = name;
    return sw_trainer_reopen(&c->t, &c->job, err);
}

static void print_one(struct checking *c)
{
    const struct sw_cli_common *o = &c->options->common;

    if (!o->quiet && !c->options->hosts.hosts)
        c->extra.step_s = sw_plan_predict(o, &c->job, c->t.job);

    if (o->json)
        json_plan(&c->json, sw_job_plan(c->t.job), &c->extra);
    else if (!o->quiet)
        print_text(&c->out, sw_job_plan(c->t.job), &c->extra, o->verbose > 0);
}

/* Prints every stage, then in JSON the totals of the last one. */
static int print_stages(struct checking *c, int count, struct sw_err *err)
{
    const bool json = c->options->common.json;

    if (json)
        sw_json_open_array(&c->json, "stages");

    for (int i = 0; i < count; i++) {
        int rc = open_stage(c, i, err);
        if (rc != SW_OK)
            return rc;

        if (json)
            sw_json_open_object(&c->json, NULL);
        print_one(c);
        if (json)
            sw_json_close_object(&c->json);
    }

    if (!json)
        return SW_OK;

    sw_json_close_array(&c->json);
    print_one(c);
    return SW_OK;
}

/* --plot and --dot: draws the net, of the last stage if there are several. */
static int draw(struct checking *c, int stages, struct sw_err *err)
{
    const struct options *o = c->options;

    if (stages > 0) {
        int rc = open_stage(c, stages - 1, err);
        if (rc != SW_OK)
            return rc;
    }

    return o->plot ? sw_draw_net(o->plot, sw_job_plan(c->t.job), err) : SW_OK;
}

static int print(struct checking *c, struct sw_err *err)
{
    const struct options *o = c->options;
    const int stages = o->common.stage ? 0 : sw_recipe_stage_count(sw_job_recipe(c->t.job));

    int rc = o->plot || o->dot ? draw(c, stages, err) : SW_OK;
    if (rc != SW_OK)
        return rc;
    if (o->dot) {
        sw_report_dot(&c->out, sw_job_plan(c->t.job));
        return SW_OK;
    }

    if (o->common.json)
        sw_cli_json_begin(&c->json, &c->out);

    if (stages > 0)
        rc = print_stages(c, stages, err);
    else
        print_one(c);

    if (c->hosts && o->common.json)
        sw_preflight_json(c->hosts, &c->json);
    else if (c->hosts && !o->common.quiet)
        sw_preflight_print(c->hosts, &c->out);
    if (o->common.json)
        sw_cli_json_end(&c->json);
    return rc;
}

static int check(void *given)
{
    const struct options *options = given;
    const struct sw_cli_common *o = &options->common;
    struct checking c = {.options = options, .job = sw_trainer_job_of(o)};

    c.job.no_probes = true;

    struct sw_err err, ignored;

    if (options->plot && !sw_picture_is_named("check", options->plot))
        return SW_EXIT_USAGE;

    int code, rc = sw_trainer_init(&c.t, o, &err);
    if (rc != SW_OK)
        goto out;
    sw_piped_recipe_read(&c.piped, &c.job);
    rc = sw_trainer_open(&c.t, &c.job, &err);
    if (rc != SW_OK)
        goto out;

    c.extra.base_bytes = resident_bytes();
    if (sw_history_default_path(o->db, sw_runs_job_db(c.t.job), &c.extra.db, &ignored) != SW_OK)
        c.extra.db = NULL;
    if (options->hosts.hosts)
        rc = sw_preflight_run(&options->hosts, &c.job, c.t.job, &c.t.report, &c.hosts, &err);
    if (rc == SW_OK)
        rc = print(&c, &err);

out:
    code = rc == SW_OK ? sw_cli_print(&c.out) : sw_trainer_refuse(&c.t, rc, &err);
    if (code == SW_EXIT_DONE && c.hosts && sw_preflight_differs(c.hosts))
        code = SW_EXIT_USAGE; /* a run would refuse it */
    sw_preflight_free(c.hosts);
    sw_free(c.extra.db);
    sw_free(c.stage);
    sw_bytes_fini(&c.out);
    sw_trainer_fini(&c.t);
    sw_piped_recipe_fini(&c.piped);

    return code;
}

const struct sw_verb sw_verb_check = {
    .name = "check",
    .help = "print shapes, parameters, memory and flops of a recipe",
    .usage = "[OPTION]... RECIPE",
    .about =
        "Checks RECIPE and prints what it would build: shapes, parameters, memory and flops of\n"
        "every layer. With several workers: the layers of the first worker, how outputs are\n"
        "partitioned, what each worker holds and sends, and the connections (bridges) between\n"
        "them. -v adds sources, layout and algorithm, every layer by worker, and the reasons of\n"
        "the placement. Checks all stages of a recipe, or that of --stage; --plot and --dot show\n"
        "the last one. Writes no file but that of --plot.",
    .takes = SW_CLI_ALL | SW_CLI_STAGE,
    SW_CLI_OPTIONS(struct options, rows),
    .min_args = 1,
    .max_args = 1,
    .arg_name = "RECIPE",
    .run = check,
    .stops = true,
};
