/* singa-ws history list: lists runs, newest first, optionally filtered. */
#include "cli/history/verb.h"

#include "base/os.h"
#include "base/text.h"
#include "cli/history/run_text.h"
#include "ui/ending.h"
#include <string.h>

struct options {
    struct sw_cli_common common;
    int64_t limit; /* 0: all */
    const char *status, *name, *tag, *sort;
};

static const struct sw_cli_option rows[] = {
    {.name = "limit",
     .letter = 'n',
     .arg = "N",
     .type = SW_CLI_INT,
     .offset = offsetof(struct options, limit),
     .min = 1,
     .help = "list at most N runs"},
    SW_CLI_TEXT_OPTION(struct options, status, "status", "STATUS",
                       "only runs that are running, done, failed, stopped or crashed"),
    SW_CLI_TEXT_OPTION(struct options, name, "name", "PATTERN",
                       "only runs with a matching name; * and ? are wildcards"),
    SW_CLI_TEXT_OPTION(struct options, tag, "tag", "KEY[=VALUE]", "only runs with this tag"),
    SW_CLI_TEXT_OPTION(struct options, sort, "sort", "FIGURE",
                       "best first: loss, accuracy or another metric (the best of all\n"
                       "evaluations), or speed;\n"
                       "default: id, newest first"),
    {0},
};

static const char *const orders[] = {[SW_RUNS_BY_ID] = "id",
                                     [SW_RUNS_BY_LOSS] = "loss",
                                     [SW_RUNS_BY_ACCURACY] = "accuracy",
                                     [SW_RUNS_BY_SPEED] = "speed"};
enum { ORDERS = sizeof orders / sizeof *orders, STATUSES = SW_RUN_CRASHED + 1 };

enum { NAME_MOST = 40 /* characters */, MOST_HINTS = 3 };

/* State of the walk over the runs. */
struct list {
    struct sw_history_view view;
    struct sw_columns table;
    int status; /* -1: any */
    enum sw_run_order order;
    const char *metric;    /* the runs are sorted by it, or NULL; borrowed */
    struct sw_bytes hints; /* what to do about crashed runs */
    int crashes;
    int64_t left;
};

static void add_step(struct sw_columns *t, const struct sw_run *r)
{
    if (r->last_step < 0)
        sw_columns_cell(t, "--");
    else if (r->steps > 0)
        sw_columns_cell(t, "%lld/%lld", (long long)r->last_step, (long long)r->steps);
    else
        sw_columns_cell(t, "%lld", (long long)r->last_step);
}

/* A long name is cut, to keep the other columns on the screen; `show` and --json have all of it. */
static void add_name(struct sw_columns *t, const char *name)
{
    struct sw_bytes shown = {0};

    sw_text_add(&shown, name ? name : "");

    const char *end = sw_bytes_text(&shown);
    size_t left = shown.length;
    if (sw_text_columns(end) <= NAME_MOST) {
        sw_columns_plain(t, end);
    } else {
        for (int columns = 0; columns < NAME_MOST;)
            columns += sw_rune_columns(sw_utf8_next(&end, &left));
        sw_columns_cell(t, "%.*s...", (int)(shown.length - left), sw_bytes_text(&shown));
    }

    sw_bytes_fini(&shown);
}

/* The best accuracy of the evaluations and its step; the best loss, if the runs are sorted by that
 * or the run has no accuracy. */
static void add_best(struct sw_columns *t, const struct sw_run *r, enum sw_run_order order)
{
    char text[SW_RUN_TEXT];

    if (order != SW_RUNS_BY_LOSS && r->best_accuracy_step >= 0)
        sw_columns_cell(t, "%.4f @%lld", r->best_accuracy, (long long)r->best_accuracy_step);
    else if (order != SW_RUNS_BY_ACCURACY && r->best_loss_step >= 0)
        sw_columns_cell(t, "loss %s @%lld", sw_human_real(text, r->best_loss),
                        (long long)r->best_loss_step);
    else
        sw_columns_cell(t, "--");
}

/* The best value of the metric that the runs are sorted by. */
static int add_best_metric(struct list *l, const struct sw_run *r)
{
    char text[SW_RUN_TEXT];
    double value = 0;
    int64_t step = -1;

    int code = sw_history_best(l->view.reader, r->id, l->metric, &value, &step, &l->view.err);
    if (step >= 0)
        sw_columns_cell(&l->table, "%s %s @%lld", l->metric, sw_human_real(text, value),
                        (long long)step);
    else
        sw_columns_cell(&l->table, "--");

    return code;
}

static int add_run(struct list *l, const struct sw_run *r)
{
    struct sw_columns *t = &l->table;
    int code = SW_OK;
    char text[SW_RUN_TEXT];

    sw_columns_cell(t, "%lld", (long long)r->id);
    add_name(t, r->name);
    sw_columns_cell(t, "%s", sw_run_status_name(r->status));
    add_step(t, r);
    sw_columns_real(t, r->loss);
    sw_columns_share(t, r->accuracy);
    if (l->metric)
        code = add_best_metric(l, r);
    else
        add_best(t, r, l->order);
    sw_columns_real(t, r->samples_per_s);
    sw_columns_cell(t, "%s", sw_run_time_text(r->started_at, text));
    sw_columns_cell(t, "%s", sw_run_duration(r, text));

    return code;
}

/* "run 2 crashed at 2026-11-20 14:02:03: singa-ws resume 2 continues from step 4800" */
static void add_hint(struct sw_bytes *out, const struct sw_run *r)
{
    char when[SW_RUN_TEXT], hint[SW_RESUME_HINT];

    sw_bytes_printf(out, "run %lld crashed at %s: %s\n", (long long)r->id,
                    sw_run_time_text(r->ended_at, when),
                    sw_resume_hint(hint, r->id, r->status, r->checkpoint_step));
}

static int list_run(void *user, const struct sw_run *r)
{
    struct list *l = user;
    if (l->status >= 0 && (int)r->status != l->status)
        return 0;
    if (l->left-- == 0)
        return SW_ERR_CANCELLED;
    if (!l->view.as_json) {
        int code = add_run(l, r);
        if (r->status == SW_RUN_CRASHED && l->crashes++ < MOST_HINTS)
            add_hint(&l->hints, r);
        return code;
    }

    sw_json_open_object(&l->view.json, NULL);
    sw_json_run(&l->view.json, r);
    sw_json_close_object(&l->view.json);

    return 0;
}

static int list_runs(struct list *l, const struct sw_run_filter *filter)
{
    if (l->view.as_json)
        sw_json_open_array(&l->view.json, NULL);
    sw_columns_begin(&l->table,
                     ">ID|NAME|STATUS|>STEP|>LOSS|>ACCURACY|>BEST @STEP|>SAMPLES/S|STARTED|>TIME");

    int code = sw_history_list(l->view.reader, filter, list_run, l, &l->view.err);
    if (code == SW_ERR_CANCELLED)
        code = SW_OK;

    if (l->view.as_json)
        sw_json_close_array(&l->view.json);
    else
        sw_columns_print(&l->table, &l->view.out);
    if (l->hints.length)
        sw_bytes_printf(&l->view.out, "\n%s", sw_bytes_text(&l->hints));

    return code;
}

/* The index of a word, or -1. */
static int index_of(const char *word, const char *const *words, int count)
{
    for (int i = 0; i < count; i++)
        if (sw_str_eq(word, words[i]))
            return i;
    return -1;
}

/* Says which words there are, or which one is meant. */
static void refuse_status(const char *word, const char *const *words)
{
    const char *near = sw_str_nearest(word, words, STATUSES);
    struct sw_bytes all = {0};

    for (int i = 0; i < STATUSES; i++)
        sw_bytes_printf(&all, "%s%s", i ? ", " : "", words[i]);
    if (near)
        sw_cli_usage("history list", "--status=%s is unknown; did you mean '%s'?", word, near);
    else
        sw_cli_usage("history list", "--status=%s is unknown: use one of %s", word,
                     sw_bytes_text(&all));
    sw_bytes_fini(&all);
}

/* Is it one of the names that ", " separates? */
static bool is_listed(const char *names, const char *word)
{
    const size_t n = strlen(word);

    for (const char *at = names; n && (at = strstr(at, word)); at++)
        if ((at == names || at[-1] == ' ') && (at[n] == ',' || !at[n]))
            return true;
    return false;
}

/* Sets the order: one of the table, or the name of a metric. */
static int set_order(struct list *l, struct sw_run_filter *filter, const char *sort)
{
    struct sw_bytes names = {0};
    const int order = sort ? index_of(sort, orders, ORDERS) : SW_RUNS_BY_ID;

    filter->order = l->order = order < 0 ? SW_RUNS_BY_METRIC : (enum sw_run_order)order;
    if (order >= 0)
        return SW_OK;

    filter->metric = l->metric = sort;
    int code = sw_history_metric_names(l->view.reader, &names, &l->view.err);
    if (!code && !is_listed(sw_bytes_text(&names), sort))
        code = sw_err_set(&l->view.err, SW_ERR_INVALID,
                          "--sort=%s is unknown: use id, loss, accuracy, speed, or a metric of the "
                          "history: %s",
                          sort, names.length ? sw_bytes_text(&names) : "it has none yet");
    sw_bytes_fini(&names);

    return code;
}

static int list(void *options)
{
    const struct options *o = options;
    const char *statuses[STATUSES];
    struct list l = {.status = -1, .left = o->limit ? o->limit : INT64_MAX};
    struct sw_run_filter filter = {.name = o->name};

    for (int i = 0; i < STATUSES; i++)
        statuses[i] = sw_run_status_name((enum sw_run_status)i);
    if (o->status && (l.status = index_of(o->status, statuses, STATUSES)) < 0) {
        refuse_status(o->status, statuses);
        return SW_EXIT_USAGE;
    }

    char *tag = o->tag ? sw_strdup(o->tag) : NULL, *equals = tag ? strchr(tag, '=') : NULL;
    if (equals)
        *equals = 0;
    filter.tag = tag;
    filter.tag_value = equals ? equals + 1 : NULL;

    int code = o->tag && !tag ? sw_err_nomem(&l.view.err, "name of a tag", 0)
                              : sw_history_view_open(&l.view, &o->common, 0);
    if (!code)
        code = set_order(&l, &filter, o->sort);
    if (!code)
        code = list_runs(&l, &filter);
    sw_columns_fini(&l.table);
    sw_bytes_fini(&l.hints);
    sw_free(tag);

    return sw_history_view_close(&l.view, code);
}

const struct sw_verb sw_history_verb_list = {
    .name = "list",
    .help = "list runs",
    .typed = "history list",
    .usage = "[OPTION]...",
    .about =
        "Lists the runs, newest first. LOSS is the newest training loss, ACCURACY that of the\n"
        "newest evaluation, BEST the best accuracy (or loss) of all evaluations and its step. A\n"
        "run that was running when its process died is shown as crashed, with its last record.",
    .takes = SW_CLI_DB | SW_CLI_JSON | SW_CLI_QUIET,
    SW_CLI_OPTIONS(struct options, rows),
    .run = list,
};
