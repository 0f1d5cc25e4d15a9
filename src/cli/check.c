/* singa-ws check: what a recipe would build: shapes, parameters, memory, flops. Writes nothing. */
#include "base/json.h"
#include "base/os.h"
#include "cli/share/columns.h"
#include "cli/share/drawings.h"
#include "cli/share/picture.h"
#include "cli/share/runs.h"
#include "cli/share/trainer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct options {
    struct sw_cli_common common;
    const char *plot;
    bool dot;
};

static const struct sw_cli_option rows[] = {
    {.name = "plot",
     .arg = "FILE",
     .type = SW_CLI_TEXT,
     .offset = offsetof(struct options, plot),
     .help = "also draw the net and how it is split, into FILE.png or FILE.svg"},
    {.name = "dot",
     .type = SW_CLI_FLAG,
     .offset = offsetof(struct options, dot),
     .help = "print only the net and how it is split, as a graph for Graphviz"},
    {0},
};

static const struct sw_cli_spec spec = {
    .verb = "check",
    .usage = "[OPTION]... RECIPE",
    .about =
        "Checks RECIPE and prints what it would build: shapes, parameters, memory and flops of\n"
        "every layer; with several workers what the first one has, how outputs are spread\n"
        "over them, what each has and sends, and the connections (bridges) between. With -v\n"
        "also sources, layout and algorithm, and every layer by worker. Writes nothing but what "
        "--plot asks for.",
    .takes = SW_CLI_ALL,
    .options = rows,
    .min_args = 1,
    .max_args = 1,
    .arg_name = "RECIPE",
};

/* What is printed beside the plan. */
struct extra {
    size_t base_bytes; /* what the process takes by itself, before the job takes its memory; 0:
                          unknown */
    char *db;          /* owned: where the history would be; NULL: unknown */
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
    struct sw_buf notes = {0};
    const char *const words[] = {strcmp(l->spread, "rows") == 0 ? NULL : l->spread,
                                 l->in_place ? "in place" : NULL,
                                 l->handed ? "handed over" : NULL,
                                 l->fused ? "fused" : NULL,
                                 *l->memory ? l->memory : NULL,
                                 l->train && l->eval ? NULL
                                 : l->train          ? "train only"
                                                     : "eval only"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i])
            sw_buf_printf(&notes, "%s%s", notes.length ? ", " : "", words[i]);
    sw_columns_cell(t, "%s", sw_buf_text(&notes));
    sw_buf_fini(&notes);
    if (!verbose)
        return;
    sw_columns_cell(t, "%s", l->src ? l->src : "");
    sw_columns_cell(t, "%s", l->layout);
    sw_columns_cell(t, "%s", l->algorithm ? l->algorithm : "");
}

static void print_layers(struct sw_buf *out, const struct sw_job_plan *p, bool verbose)
{
    static const char *const titles[] = {
        "layer",    "type",      "output",    ">parameters", ">feature", ">gradient", ">saved",
        ">scratch", ">flop fwd", ">flop bwd", "notes",       "src",      "layout",    "algorithm"};
    enum { TITLES = sizeof titles / sizeof *titles, BRIEF = TITLES - 3 };
    struct sw_columns t = {0};
    for (int i = 0; i < (verbose ? TITLES : BRIEF); i++)
        sw_columns_add(&t, titles[i]);
    for (int i = 0; i < p->layer_count; i++)
        layer_row(&t, &p->layers[i], verbose);
    sw_columns_print(&t, out);
    sw_columns_fini(&t);
}

static void print_memory(struct sw_buf *out, const struct sw_job_plan *p, size_t base)
{
    char text[32], rss[32], own[32];
    sw_buf_printf(out, "memory       %s at most\n", sw_human_bytes(text, (double)p->memory_bytes));
    const struct {
        const char *name;
        size_t bytes;
    } part[] = {
        {"parameters", p->param_bytes},
        {"gradients and updater state", p->state_bytes},
        {"features, their gradients, scratch", p->arena_bytes},
        {"batches", p->batch_bytes},
        {"features between workers", p->exchange_bytes},
        {"features swapped to the host", p->swap_bytes},
    };
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        sw_buf_printf(out, "             %10s  %s\n", sw_human_bytes(text, (double)part[i].bytes),
                      part[i].name);
    sw_buf_printf(out, "resident     about %s: with the %s of the program itself\n",
                  sw_human_bytes(rss, (double)(p->memory_bytes + base)),
                  sw_human_bytes(own, (double)base));
    sw_report_fit(out, p);
}

static void print_text(struct sw_buf *out, const struct sw_job_plan *p, const struct extra *x,
                       bool verbose)
{
    char count[32], flops[32];
    sw_buf_printf(out, "%s (%s): %lld steps of %lld samples, evaluation in batches of %lld\n\n",
                  p->name, p->recipe, (long long)p->steps, (long long)p->batch,
                  (long long)p->eval_batch);
    print_layers(out, p, verbose);
    sw_report_split(out, p, verbose);
    sw_buf_printf(out, "\nparameters   %lld (%s)\n", (long long)p->params,
                  sw_human_count(count, (double)p->params));
    sw_buf_printf(out, "work         %sflop a sample\n",
                  sw_human_count(flops, p->flops_per_sample));
    print_memory(out, p, x->base_bytes);
    sw_buf_add(out, "placement    ");
    sw_print_placement(out, p->placement, "             ");
    sw_buf_printf(out, "framework    %s: %s\n", p->framework, p->framework_reason);
    sw_report_precision(out, p);
    if (*p->sums)
        sw_buf_printf(out, "all-reduce   %s\n", p->sums);
    sw_buf_printf(out, "history      %s\n", x->db ? x->db : "--");
    sw_report_data(out, p);
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
    sw_json_close_object(w);
}

static void json_memory(struct sw_json_writer *w, const struct sw_job_plan *p, size_t base)
{
    sw_json_int(w, "memory_bytes", (int64_t)p->memory_bytes);
    sw_json_int(w, "param_bytes", (int64_t)p->param_bytes);
    sw_json_int(w, "state_bytes", (int64_t)p->state_bytes);
    sw_json_int(w, "arena_bytes", (int64_t)p->arena_bytes);
    sw_json_int(w, "batch_bytes", (int64_t)p->batch_bytes);
    sw_json_int(w, "exchange_bytes", (int64_t)p->exchange_bytes);
    sw_json_int(w, "swap_bytes", (int64_t)p->swap_bytes);
    sw_json_int(w, "base_bytes", (int64_t)base);
    sw_report_fit_json(w, p);
    sw_json_int(w, "rss_bytes", (int64_t)(p->memory_bytes + base));
}

static void print_json(struct sw_buf *out, const struct sw_job_plan *p, const struct extra *x)
{
    struct sw_json_writer w;
    sw_json_begin(&w, out);
    sw_json_open_object(&w, NULL);
    sw_json_string(&w, "name", p->name);
    sw_json_string(&w, "recipe", p->recipe);
    sw_json_int(&w, "parameters", p->params);
    json_memory(&w, p, x->base_bytes);
    sw_json_real(&w, "flops_per_sample", p->flops_per_sample);
    sw_json_int(&w, "steps", p->steps);
    sw_json_int(&w, "batch", p->batch);
    sw_json_int(&w, "eval_batch", p->eval_batch);
    sw_json_string(&w, "device", p->device);
    sw_json_string(&w, "precision", p->precision);
    sw_json_string(&w, "framework", p->framework);
    sw_json_string(&w, "framework_reason", p->framework_reason);
    sw_json_string(&w, "all_reduce", p->sums);
    sw_json_string(&w, "partition_notes", p->notes);
    sw_json_placement(&w, p->placement);
    sw_json_string(&w, "db", x->db);
    sw_report_data_json(&w, p);
    sw_json_open_array(&w, "layers");
    for (int i = 0; i < p->layer_count; i++)
        json_layer(&w, p, &p->layers[i]);
    sw_json_close_array(&w);
    sw_json_close_object(&w);
    sw_buf_add(out, "\n");
}

/* ---- The verb ---------------------------------------------------------------------------------
 */

static int check(const struct sw_cli_common *o, const char *plot, bool dot)
{
    struct sw_trainer t = {0};
    struct sw_buf out = {0};
    struct sw_err err;
    struct sw_job_options job = {
        .recipe_path = o->args[0],
        .sets = o->sets.items,
        .set_count = o->sets.count,
        .device = o->device,
        .framework = o->framework,
        .oversubscribe = o->oversubscribe,
    };
    int code;

    int rc = sw_trainer_init(&t, o, &err);
    if (rc == SW_OK)
        rc = sw_trainer_open(&t, &job, &err);
    if (rc != SW_OK) {
        code = sw_trainer_refuse(&t, rc, &err);
    } else if (plot && (rc = sw_draw_net(plot, sw_job_plan(t.job), &err)) != SW_OK) {
        code = sw_cli_fail(rc, &err);
    } else {
        struct extra x = {.base_bytes = resident_bytes()};
        if (sw_history_default_path(o->db, sw_runs_job_db(t.job), &x.db, &err) != SW_OK)
            x.db = NULL;
        if (dot)
            sw_report_dot(&out, sw_job_plan(t.job));
        else if (o->json)
            print_json(&out, sw_job_plan(t.job), &x);
        else if (!o->quiet)
            print_text(&out, sw_job_plan(t.job), &x, o->verbose > 0);
        code = sw_cli_print(&out);
        sw_free(x.db);
    }
    sw_buf_fini(&out);
    sw_trainer_fini(&t);
    return code;
}

static int run(int argc, char **argv)
{
    struct options options = {0};
    int code = sw_cli_parse(&spec, argc, argv, &options);
    if (code == SW_CLI_GO_ON && options.plot)
        code = sw_picture_check_path("check", options.plot);
    if (code == SW_CLI_GO_ON)
        code = check(&options.common, options.plot, options.dot);
    sw_cli_fini(&spec, &options);
    return code;
}

const struct sw_verb sw_verb_check = {
    .name = "check",
    .help = "print shapes, parameters, memory and flops of a recipe",
    .run = run,
    .spec = &spec,
};
