/* singa-ws history gc: shrinks the database. Old runs keep thinned curves, which look the same, and
 * all their totals. */
#include "base/os.h"
#include "cli/history/verb.h"

enum { DEFAULT_DAYS = 30, DEFAULT_KEEP = 1000, DAY_S = 86400 };

struct options {
    struct sw_cli_common common;
    int64_t days, keep;
    bool yes, dry;
};

static const struct sw_cli_option rows[] = {
    SW_CLI_INT_OPTION(struct options, days, "older-than", "DAYS", 0,
                      "thin runs that began at least DAYS days ago; default: 30"),
    SW_CLI_INT_OPTION(
        struct options, keep, "keep", "N", 10,
        "intervals of steps, of which each keeps its first, lowest and highest point; default: "
        "1000"),
    SW_HISTORY_CONSENT(struct options),
    {0},
};

/* The runs to thin, and the result. */
struct gc {
    struct sw_history_view view;
    const struct options *o;
    struct sw_history_thinned sum;
    double before; /* runs that began before are old */
    int64_t *ids;  /* owned */
    int count;
};

static int add_run(struct gc *g, int64_t id)
{
    int64_t *added = sw_array_add(&g->ids, &g->count, sizeof *added);
    if (!added)
        return sw_err_nomem(&g->view.err, "list of runs", 2 * (size_t)g->count * sizeof *added);

    *added = id;
    return SW_OK;
}

static int add_old_run(void *user, const struct sw_run *run)
{
    struct gc *g = user;
    if (run->status == SW_RUN_RUNNING || run->started_at >= g->before)
        return 0;
    return add_run(g, run->id);
}

/* Removes a run tagged keep from the list. */
static int skip_tagged_run(void *user, const struct sw_run *run)
{
    struct gc *g = user;
    int to = 0;

    for (int i = 0; i < g->count; i++)
        if (g->ids[i] != run->id)
            g->ids[to++] = g->ids[i];

    g->count = to;
    return 0;
}

static int choose(struct gc *g)
{
    struct sw_history_view *v = &g->view;
    int code = SW_OK;

    for (int i = 0; !code && i < v->run_count; i++)
        if (v->runs[i].status != SW_RUN_RUNNING)
            code = add_run(g, v->runs[i].id);

    if (!code && !v->runs)
        code = sw_history_list(v->reader, &(struct sw_run_filter){0}, add_old_run, g, &v->err);
    if (!code)
        code = sw_history_list(v->reader, &(struct sw_run_filter){.tag = "keep"}, skip_tagged_run,
                               g, &v->err);

    return code;
}

static int64_t file_bytes(const char *path)
{
    struct stat st;
    return sw_os()->stat(path, &st) == 0 ? (int64_t)st.st_size : 0;
}

static void report(struct gc *g, int64_t before)
{
    struct sw_history_view *v = &g->view;
    int64_t after = file_bytes(v->path);
    char a[32], b[32];

    if (v->as_json) {
        sw_json_open_object(&v->json, NULL);
        sw_json_bool(&v->json, "dry_run", g->o->dry);
        sw_json_int(&v->json, "runs", g->count);
        sw_json_int(&v->json, "points", g->sum.points);
        sw_json_int(&v->json, "step_times", g->sum.step_times);
        sw_json_int(&v->json, "traffic", g->sum.traffic);
        sw_json_int(&v->json, "bytes_before", before);
        sw_json_int(&v->json, "bytes_after", after);
        sw_cli_json_end(&v->json);
        return;
    }

    sw_bytes_printf(&v->out, "%s %lld points, %lld step times and %lld rows of traffic of %d run%s",
                    g->o->dry ? "would remove" : "removed", (long long)g->sum.points,
                    (long long)g->sum.step_times, (long long)g->sum.traffic, g->count,
                    g->count == 1 ? "" : "s");

    if (!g->o->dry)
        sw_bytes_printf(&v->out, "; %s, was %s", sw_human_bytes(a, (double)after),
                        sw_human_bytes(b, (double)before));

    sw_bytes_add(&v->out, "\n");
}

static int collect(struct gc *g)
{
    struct sw_history_view *v = &g->view;
    char question[128];
    int64_t before = file_bytes(v->path);
    int code = choose(g);
    if (code)
        return code;

    snprintf(question, sizeof question, "Thin the rows of %d run%s and compact the database?",
             g->count, g->count == 1 ? "" : "s");
    if (!g->o->dry)
        code = sw_history_confirm(g->o->yes, question, &v->err);
    for (int i = 0; !code && i < g->count; i++)
        code = sw_history_edit_thin(v->edit, g->ids[i], g->o->keep, g->o->dry, &g->sum, &v->err);

    if (!code && !g->o->dry)
        code = sw_history_edit_vacuum(v->edit, &v->err);
    if (!code && !g->o->common.quiet)
        report(g, before);

    return code;
}

static int thin(void *options)
{
    const struct options *o = options;
    struct gc g = {.o = o, .before = sw_os()->unix_time() - (double)o->days * DAY_S};
    int code = sw_history_view_open(&g.view, &o->common,
                                    SW_VIEW_EDIT | (o->common.arg_count ? SW_VIEW_RUNS : 0));

    if (!code)
        code = collect(&g);
    sw_free(g.ids);

    return sw_history_view_close(&g.view, code);
}

static const struct options defaults = {.days = DEFAULT_DAYS, .keep = DEFAULT_KEEP};

const struct sw_verb sw_history_verb_gc = {
    .name = "gc",
    .help = "thin old runs and compact the database",
    .typed = "history gc",
    .usage = "[OPTION]... [RUN]...",
    .about =
        "Thins the rows that old runs (or the given RUNs) recorded at every step, and returns\n"
        "the space to the file system. Evaluation curves, checkpoints, events, last points and\n"
        "all totals (time breakdown; lowest, highest and mean value of a curve) are kept.\n"
        "Running runs and runs tagged `keep` are not changed.",
    .takes = SW_CLI_DB | SW_CLI_JSON | SW_CLI_QUIET,
    SW_CLI_OPTIONS(struct options, rows),
    .defaults = &defaults,
    .max_args = -1,
    .arg_name = "RUN",
    .run = thin,
};
