/* singa-ws history compare: shows how runs differ in settings and results. */
#include "base/os.h"
#include "cli/history/cells.h"
#include "cli/history/curves.h"
#include "cli/history/run_text.h"
#include "cli/history/settings.h"
#include "history/reader_rows.h"
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { MOST_RUNS = SW_COLUMNS_MOST - 1, CURVE_ROWS = 16, CURVE_POINTS = 1024 };

struct options {
    struct sw_cli_common common;
    const char *metric, *target;
    bool all;
    double target_value; /* of --target; NaN: choose */
};

static const struct sw_cli_option rows[] = {
    SW_CLI_TEXT_OPTION(struct options, metric, "metric", "NAME",
                       "metric of --target; default: accuracy, else loss"),
    SW_CLI_TEXT_OPTION(
        struct options, target, "target", "R",
        "compare the time to reach R; default: the best value that every run reached"),
    SW_CLI_FLAG_OPTION(struct options, all, "all",
                       "also print facts and recipe values that are equal"),
    {0},
};

/* A metric of all runs; NaN for runs without it. */
struct metric {
    char *split, *name; /* owned */
    double last[MOST_RUNS], min[MOST_RUNS], max[MOST_RUNS];
};

struct comparison {
    const struct options *o;
    struct sw_history_view view;
    struct sw_settings settings[MOST_RUNS];
    struct metric *metrics; /* owned */
    int metric_count;
    int at; /* index of the run that is being read */
    const char *goal;
    double target;
    int64_t reached_step[MOST_RUNS]; /* -1: never */
    double reached_s[MOST_RUNS];
    struct sw_columns table;
};

static double best_of(const struct metric *m, int run)
{
    return sw_metric_falls(m->name) ? m->min[run] : m->max[run];
}

/* ---- Reading ----------------------------------------------------------------------------------
 */

static struct metric *metric_of(struct comparison *c, const char *split, const char *name)
{
    for (int i = 0; i < c->metric_count; i++)
        if (sw_str_eq(c->metrics[i].split, split) && sw_str_eq(c->metrics[i].name, name))
            return &c->metrics[i];

    struct metric *m = sw_array_add(&c->metrics, &c->metric_count, sizeof *m);
    if (!m)
        return NULL;

    m->split = sw_strdup(split);
    m->name = sw_strdup(name);
    for (int i = 0; i < MOST_RUNS; i++)
        m->last[i] = m->min[i] = m->max[i] = NAN;

    return m->split && m->name ? m : NULL;
}

static int read_metrics(struct comparison *c)
{
    struct sw_rows metrics =
        sw_rows_begin(c->view.reader, SW_ROWS_METRIC, c->view.runs[c->at].id, 0, 0, &c->view.err);
    struct sw_run_metric in;

    while (sw_rows_next(&metrics, &in)) {
        struct metric *m = metric_of(c, in.split, in.name);

        if (!m) {
            metrics.code = sw_err_nomem(&c->view.err, "metrics", 0);
        } else {
            m->last[c->at] = in.last;
            m->min[c->at] = in.min;
            m->max[c->at] = in.max;
        }
    }

    return sw_rows_end(&metrics);
}

/* Chooses the metric and the target value whose time to reach is compared. */
static void choose_goal(struct comparison *c)
{
    const char *wanted = c->o->metric;

    for (int pass = 0; !c->goal && pass < (wanted ? 1 : 2); pass++)
        for (int i = 0; i < c->metric_count; i++)
            if (strcmp(c->metrics[i].split, "train") != 0 &&
                sw_str_eq(c->metrics[i].name, wanted ? wanted
                                              : pass ? "loss"
                                                     : "accuracy"))
                c->goal = c->metrics[i].name;

    c->target = c->o->target_value;
    for (int i = 0; c->goal && !c->o->target && i < c->metric_count; i++) {
        if (strcmp(c->metrics[i].split, "train") == 0 || !sw_str_eq(c->metrics[i].name, c->goal))
            continue;

        for (int r = 0; r < c->view.run_count; r++) {
            double best = best_of(&c->metrics[i], r);
            bool worse = sw_metric_falls(c->goal) ? best > c->target : best < c->target;
            if (!isnan(best) && (isnan(c->target) || worse))
                c->target = best;
        }
    }
}

static int take_reached(void *user, int64_t row, int columns, const struct sw_history_cell *cells)
{
    struct comparison *c = user;
    int64_t step;
    double seconds;

    if (row == 0 && columns == 2 && cells[0].text && sw_parse_int(cells[0].text, &step) &&
        sw_parse_real(cells[1].text, &seconds)) {
        c->reached_step[c->at] = step;
        c->reached_s[c->at] = seconds;
    }

    return 0;
}

/* Finds the first evaluation that reached the target, and the seconds of training until then,
 * without the pauses between segments. */
static int find_reached(struct comparison *c)
{
    struct sw_bytes sql = {0};

    long long id = (long long)c->view.runs[c->at].id;
    c->reached_step[c->at] = -1;

    c->reached_s[c->at] = NAN;
    if (!c->goal || isnan(c->target))
        return SW_OK;

    sw_bytes_printf(&sql,
                    "SELECT q.step, (SELECT total(min(coalesce(g.ended_at, q.time), q.time)"
                    " - g.started_at) FROM segments g WHERE g.run_id = %lld"
                    " AND g.started_at <= q.time) FROM (SELECT p.step AS step, p.time AS time"
                    " FROM series s JOIN point p ON p.series_id = s.id WHERE s.run_id = %lld"
                    " AND s.split <> 'train' AND s.name = ",
                    id, id);
    sw_sql_literal(&sql, c->goal);
    sw_bytes_printf(&sql, " AND p.value %s %.17g ORDER BY p.step LIMIT 1) q",
                    sw_metric_falls(c->goal) ? "<=" : ">=", c->target);

    int code = sql.failed ? sw_err_nomem(&c->view.err, "query", 0)
                          : sw_history_sql(c->view.reader, sw_bytes_text(&sql), take_reached, c,
                                           &c->view.err);
    sw_bytes_fini(&sql);

    return code;
}

static int read_runs(struct comparison *c)
{
    int code = SW_OK;

    for (c->at = 0; !code && c->at < c->view.run_count; c->at++) {
        const struct sw_run *run = &c->view.runs[c->at];
        struct sw_err why;

        if (sw_settings_load(&c->settings[c->at], run, &why) != SW_OK)
            sw_cli_message("skipping the recipe of run %lld: %s", (long long)run->id, why.text);
        code = read_metrics(c);
    }

    if (!code)
        choose_goal(c);
    for (c->at = 0; !code && c->at < c->view.run_count; c->at++)
        code = find_reached(c);

    return code;
}

/* ---- Facts and recipes ------------------------------------------------------------------------
 */

/* The facts of a run; without a member: its status. */
#define MEMBER(member) offsetof(struct sw_run, member)
static const struct {
    const char *name;
    size_t text, number;
} facts[] = {
    {.name = "status"},
    {"recipe", .text = MEMBER(recipe)},
    {"framework", .text = MEMBER(framework)},
    {"workers", .number = MEMBER(workers)},
    {"device", .text = MEMBER(device)},
    {"batch", .number = MEMBER(batch)},
    {"seed", .number = MEMBER(seed)},
    {"parameters", .number = MEMBER(params)},
    {"last step", .number = MEMBER(last_step)},
    {"host", .text = MEMBER(host)},
    {"version", .text = MEMBER(version)},
    {"note", .text = MEMBER(note)},
};
enum { FACTS = sizeof facts / sizeof *facts };

/* Fact number i of a run as text. */
static const char *fact(const struct sw_run *r, int i, char *text)
{
    if (facts[i].text)
        return *(char *const *)((const char *)r + facts[i].text);
    if (!facts[i].number)
        return sw_run_status_name(r->status);

    snprintf(text, SW_RUN_TEXT, "%lld",
             (long long)*(const int64_t *)((const char *)r + facts[i].number));
    return text;
}

/* Adds a row of values if they differ or --all is given: a line of the table, or an object. */
static void add_values(struct comparison *c, const char *key, const char *const *values)
{
    bool differ = false;

    for (int r = 1; r < c->view.run_count; r++)
        differ |= !sw_str_eq(values[0] ? values[0] : "", values[r] ? values[r] : "");
    if (!differ && !c->o->all)
        return;

    if (!c->view.as_json) {
        sw_columns_plain(&c->table, key);
        for (int r = 0; r < c->view.run_count; r++)
            sw_columns_plain(&c->table, values[r]);
        return;
    }

    sw_json_open_object(&c->view.json, NULL);
    sw_json_string(&c->view.json, "key", key);
    sw_json_open_array(&c->view.json, "values");
    for (int r = 0; r < c->view.run_count; r++)
        sw_json_string(&c->view.json, NULL, values[r]);
    sw_json_close_array(&c->view.json);
    sw_json_close_object(&c->view.json);
}

static void add_facts(struct comparison *c)
{
    char texts[MOST_RUNS][SW_RUN_TEXT];
    const char *values[MOST_RUNS];

    for (int i = 0; i < FACTS; i++) {
        for (int r = 0; r < c->view.run_count; r++)
            values[r] = fact(&c->view.runs[r], i, texts[r]);
        add_values(c, facts[i].name, values);
    }
}

static bool seen_before(const struct comparison *c, int run, const char *key)
{
    for (int r = 0; r < run; r++)
        if (sw_settings_find(&c->settings[r], key))
            return true;
    return false;
}

/* Adds the keys of all recipes in order of appearance; a recipe without a key has no value. */
static void add_settings(struct comparison *c)
{
    const char *values[MOST_RUNS];

    for (int run = 0; run < c->view.run_count; run++)
        for (int i = 0; i < c->settings[run].count; i++) {
            const char *key = c->settings[run].items[i].key;
            if (seen_before(c, run, key))
                continue;

            for (int r = 0; r < c->view.run_count; r++) {
                const struct sw_setting *s = sw_settings_find(&c->settings[r], key);
                values[r] = s ? s->value : NULL;
            }

            add_values(c, key, values);
        }
}

/* ---- The page ---------------------------------------------------------------------------------
 */

static void begin_table(struct comparison *c, const char *title)
{
    sw_columns_add(&c->table, title);

    for (int r = 0; r < c->view.run_count; r++) {
        struct sw_bytes text = {0};
        sw_bytes_printf(&text, "%lld %s", (long long)c->view.runs[r].id,
                        c->view.runs[r].name ? c->view.runs[r].name : "");
        sw_columns_add(&c->table, sw_bytes_text(&text));
        sw_bytes_fini(&text);
    }
}

static void end_table(struct comparison *c)
{
    int columns = c->view.run_count + 1;

    if (c->table.count > columns) {
        sw_columns_print(&c->table, &c->view.out);
        sw_bytes_add(&c->view.out, "\n");
    }

    sw_columns_fini(&c->table);
}

static void add_metrics(struct comparison *c)
{
    char text[SW_RUN_TEXT];

    for (int i = 0; i < c->metric_count; i++) {
        const struct metric *m = &c->metrics[i];
        bool graded = sw_metric_falls(m->name) || strstr(m->name, "accuracy");

        sw_columns_cell(&c->table, "%s %s", m->split, m->name);
        for (int r = 0; r < c->view.run_count; r++)
            sw_columns_real(&c->table, m->last[r]);
        if (!graded)
            continue;

        sw_columns_cell(&c->table, "  best");
        for (int r = 0; r < c->view.run_count; r++)
            sw_columns_real(&c->table, best_of(m, r));
    }

    sw_columns_cell(&c->table, "time");
    for (int r = 0; r < c->view.run_count; r++)
        sw_columns_cell(&c->table, "%s", sw_run_duration(&c->view.runs[r], text));
    if (!c->goal || isnan(c->target))
        return;

    sw_columns_cell(&c->table, "%s %s %.4g at", c->goal,
                    sw_metric_falls(c->goal) ? "<=" : ">=", c->target);

    for (int r = 0; r < c->view.run_count; r++)
        if (c->reached_step[r] < 0)
            sw_columns_cell(&c->table, "never");
        else
            sw_columns_cell(&c->table, "step %lld, %s", (long long)c->reached_step[r],
                            sw_human_seconds(text, c->reached_s[r]));
}

static int add_curves(struct comparison *c)
{
    struct sw_curves curves = {0};
    struct sw_curves_args args = {
        .metric = "loss", .split = "train", .smooth = 0.9, .capacity = CURVE_POINTS};
    int code = sw_curves_load(&curves, &c->view, &args);

    if (!code)
        code =
            sw_curves_print(&curves, sw_cli_stdout_width(), CURVE_ROWS, &c->view.out, &c->view.err);
    sw_curves_fini(&curves);

    return code == SW_ERR_NOTFOUND ? SW_OK : code; /* no run has recorded a step yet */
}

/* The cells of tables and of the chart are already escaped, and the chart may have colors. */
static int print_text(struct comparison *c)
{
    c->view.raw = true;
    begin_table(c, "RUN");
    add_facts(c);
    end_table(c);
    begin_table(c, "RECIPE");
    add_settings(c);
    end_table(c);
    begin_table(c, "RESULT");
    add_metrics(c);
    end_table(c);

    return add_curves(c);
}

static void json_reals(struct sw_json_writer *w, const char *key, const double *v, int count)
{
    sw_json_open_array(w, key);
    for (int i = 0; i < count; i++)
        sw_json_real(w, NULL, v[i]);
    sw_json_close_array(w);
}

static void json_metrics(struct comparison *c)
{
    struct sw_json_writer *w = &c->view.json;

    sw_json_open_array(w, "metrics");

    for (int i = 0; i < c->metric_count; i++) {
        double best[MOST_RUNS];

        for (int r = 0; r < c->view.run_count; r++)
            best[r] = best_of(&c->metrics[i], r);
        sw_json_open_object(w, NULL);
        sw_json_string(w, "split", c->metrics[i].split);
        sw_json_string(w, "name", c->metrics[i].name);
        json_reals(w, "last", c->metrics[i].last, c->view.run_count);
        json_reals(w, "best", best, c->view.run_count);
        sw_json_close_object(w);
    }

    sw_json_close_array(w);
}

static void print_json(struct comparison *c)
{
    struct sw_json_writer *w = &c->view.json;

    sw_json_open_object(w, NULL);
    sw_json_open_array(w, "runs");

    for (int r = 0; r < c->view.run_count; r++) {
        sw_json_open_object(w, NULL);
        sw_json_run(w, &c->view.runs[r]);
        sw_json_real(w, "duration_s", sw_run_seconds(&c->view.runs[r]));
        sw_json_close_object(w);
    }

    sw_json_close_array(w);
    sw_json_open_array(w, "facts");
    add_facts(c);
    sw_json_close_array(w);
    sw_json_open_array(w, "recipe");
    add_settings(c);
    sw_json_close_array(w);
    json_metrics(c);
    sw_json_open_object(w, "reached");
    sw_json_string(w, "metric", c->goal);
    sw_json_real(w, "value", c->target);
    sw_json_open_array(w, "steps");

    for (int r = 0; r < c->view.run_count; r++)
        if (c->reached_step[r] < 0)
            sw_json_string(w, NULL, NULL);
        else
            sw_json_int(w, NULL, c->reached_step[r]);

    sw_json_close_array(w);
    json_reals(w, "seconds", c->reached_s, c->view.run_count);
    sw_json_close_object(w);
    sw_cli_json_end(w);
}

static void fini(struct comparison *c)
{
    for (int r = 0; r < c->view.run_count; r++)
        sw_settings_fini(&c->settings[r]);

    for (int i = 0; i < c->metric_count; i++) {
        sw_free(c->metrics[i].split);
        sw_free(c->metrics[i].name);
    }

    sw_free(c->metrics);
    sw_columns_fini(&c->table);
}

static int compare(void *options)
{
    struct options *o = options;
    struct comparison c = {.o = o};

    o->target_value = NAN;
    if (o->target && !sw_parse_real(o->target, &o->target_value))
        return sw_cli_usage("history compare", "--target=%s: R must be a number", o->target);

    int code = sw_history_view_open(&c.view, &o->common, SW_VIEW_RUNS);
    if (!code)
        code = read_runs(&c);
    if (!code && c.view.as_json)
        print_json(&c);
    else if (!code)
        code = print_text(&c);
    fini(&c);

    return sw_history_view_close(&c.view, code);
}

const struct sw_verb sw_history_verb_compare = {
    .name = "compare",
    .help = "compare runs side by side",
    .typed = "history compare",
    .usage = "[OPTION]... RUN RUN...",
    .about =
        "Compares runs side by side: the differences of their settings and recipes, the last and\n"
        "best value of every metric, the training loss in one chart, and how soon an evaluation\n"
        "of each run reached the target.",
    .takes = SW_CLI_DB | SW_CLI_JSON | SW_CLI_QUIET,
    SW_CLI_OPTIONS(struct options, rows),
    .min_args = 2,
    .max_args = MOST_RUNS,
    .arg_name = "the other RUN",
    .run = compare,
};
