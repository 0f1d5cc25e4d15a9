/* singa-ws history show: prints everything recorded for one run, as text or JSON. */
#include "cli/history/verb.h"

#include "base/text.h"
#include "cli/history/run_text.h"
#include "history/reader_rows.h"
#include <math.h>
#include <stdio.h>

struct page {
    struct sw_history_view view;
    struct sw_columns table; /* of the current part */
    bool some;               /* it has rows to show */
};

/* ---- Parts: a table for people, an array of objects for programs ---- */

static void begin_part(struct page *v, const char *key, const char *titles)
{
    v->some = false;
    if (v->view.as_json)
        sw_json_open_array(&v->view.json, key);
    else
        sw_columns_begin(&v->table, titles);
}

static void end_part(struct page *v)
{
    if (v->view.as_json)
        sw_json_close_array(&v->view.json);

    if (v->some && !v->view.as_json) {
        sw_bytes_add(&v->view.out, "\n");
        sw_columns_print(&v->table, &v->view.out);
    }

    sw_columns_fini(&v->table);
}

/* Begins a row, whose values follow in order. `some`: a part without such a row is not shown. */
static void begin_row(struct page *v, bool some)
{
    v->some |= some;
    if (v->view.as_json)
        sw_json_open_object(&v->view.json, NULL);
}

static int end_row(struct page *v)
{
    if (v->view.as_json)
        sw_json_close_object(&v->view.json);
    return 0;
}

static void put_text(struct page *v, const char *key, const char *text)
{
    if (v->view.as_json)
        sw_json_string(&v->view.json, key, text);
    else
        sw_columns_plain(&v->table, text);
}

static void put_int(struct page *v, const char *key, int64_t number)
{
    if (v->view.as_json)
        sw_json_int(&v->view.json, key, number);
    else
        sw_columns_cell(&v->table, "%lld", (long long)number);
}

static void put_real(struct page *v, const char *key, double number)
{
    if (v->view.as_json)
        sw_json_real(&v->view.json, key, number);
    else
        sw_columns_real(&v->table, number);
}

static void put_time(struct page *v, const char *key, double unix_s)
{
    char text[SW_RUN_TEXT];

    if (v->view.as_json)
        sw_json_time(&v->view.json, key, unix_s);
    else
        sw_columns_cell(&v->table, "%s", sw_run_time_text(unix_s, text));
}

static int show_metric(void *user, const struct sw_run_metric *m)
{
    struct page *v = user;

    begin_row(v, true);
    put_text(v, "split", m->split);
    put_text(v, "name", m->name);
    if (v->view.as_json)
        put_int(v, "points", m->points);
    put_int(v, "last_step", m->last_step);
    put_real(v, "last", m->last);
    put_real(v, "min", m->min);
    put_real(v, "max", m->max);

    return end_row(v);
}

static int show_time(void *user, const char *part, double total_ms, double share)
{
    struct page *v = user;
    char text[64];

    if (!v->view.as_json && total_ms <= 0)
        return 0;

    begin_row(v, true);
    put_text(v, "part", part);

    if (v->view.as_json) {
        put_real(v, "total_ms", total_ms);
        put_real(v, "share", share);
    } else {
        sw_columns_cell(&v->table, "%s", sw_human_seconds(text, total_ms / 1e3));
        sw_columns_cell(&v->table, isnan(share) ? "--" : "%.1f %%", 100 * share);
    }

    return end_row(v);
}

static int show_checkpoint(void *user, const struct sw_run_checkpoint *c)
{
    struct page *v = user;
    char text[64];

    begin_row(v, true);
    put_int(v, "step", c->step);

    if (v->view.as_json) {
        put_text(v, "path", c->path);
        put_int(v, "bytes", c->bytes);
        put_text(v, "checksum", c->checksum);
        put_time(v, "time", c->time);
        sw_json_bool(&v->view.json, "is_best", c->is_best);
    } else {
        sw_columns_cell(&v->table, "%s", sw_human_bytes(text, (double)c->bytes));
        sw_columns_cell(&v->table, "%s%s", c->path, c->is_best ? " (best)" : "");
    }

    return end_row(v);
}

/* 0 is shown as an empty cell. */
static double real_of(const struct sw_history_cell *cell)
{
    double value;
    return cell->text && sw_parse_real(cell->text, &value) ? value : 0;
}

/* The newest events, newest first. */
static int show_event(void *user, int64_t row, int columns, const struct sw_history_cell *cells)
{
    struct page *v = user;

    if (row < 0 || columns != 4)
        return 0;

    begin_row(v, true);
    put_time(v, "time", real_of(&cells[0]));
    put_text(v, "level", cells[1].text);
    put_text(v, "source", cells[2].text);
    put_text(v, "text", cells[3].text);

    return end_row(v);
}

static int show_tag(void *user, int64_t row, int columns, const struct sw_history_cell *cells)
{
    struct page *v = user;

    if (row < 0 || columns != 2)
        return 0;

    begin_row(v, true);
    put_text(v, "key", cells[0].text);
    put_text(v, "value", cells[1].text);

    return end_row(v);
}

/* A resumed run has several segments. */
static int show_segment(void *user, int64_t row, int columns, const struct sw_history_cell *cells)
{
    struct page *v = user;
    double started;
    int64_t from;

    if (row < 0 || columns != 3 || !sw_parse_int(cells[0].text, &from) ||
        !sw_parse_real(cells[1].text, &started))
        return 0;

    begin_row(v, row > 0);
    put_int(v, "from_step", from);
    put_time(v, "started_at", started);
    put_time(v, "ended_at", real_of(&cells[2]));

    return end_row(v);
}

/* A stage that is not in the recipe was added by a resume. */
static int show_stages(struct page *v, int64_t id, struct sw_err *err)
{
    struct sw_rows rows = sw_rows_begin(v->view.reader, SW_ROWS_STAGE, id, 0, 0, err);
    struct sw_run_stage s;
    char text[64];

    while (sw_rows_next(&rows, &s)) {
        begin_row(v, s.from_step > 0);
        put_text(v, "name", s.name);
        put_int(v, "from_step", s.from_step);
        put_int(v, "batch", s.batch);

        if (v->view.as_json) {
            put_int(v, "epoch_records", s.epoch_records);
            put_int(v, "params", s.params);
            put_real(v, "flops_per_sample", s.flops_per_sample);
        } else {
            sw_columns_cell(&v->table, "%s", sw_human_count(text, (double)s.params));
        }

        end_row(v);
    }

    return sw_rows_end(&rows);
}

/* Shows the result of a query for this run as a part; what: "COLUMNS FROM TABLE". */
static int show_query(struct page *v, const char *what, const char *order, int64_t id,
                      sw_history_row *each, struct sw_err *err)
{
    char sql[256];
    snprintf(sql, sizeof sql, "SELECT %s WHERE run_id = %lld %s", what, (long long)id, order);
    return sw_history_sql(v->view.reader, sql, each, v, err);
}

static int show_metrics(struct page *v, int64_t id, struct sw_err *err)
{
    return sw_history_each_metric(v->view.reader, id, show_metric, v, err);
}

static int show_times(struct page *v, int64_t id, struct sw_err *err)
{
    return sw_history_each_time(v->view.reader, id, show_time, v, err);
}

static int show_checkpoints(struct page *v, int64_t id, struct sw_err *err)
{
    return sw_history_each_checkpoint(v->view.reader, id, show_checkpoint, v, err);
}

static int show_segments(struct page *v, int64_t id, struct sw_err *err)
{
    return show_query(v, "from_step, started_at, ended_at FROM segments", "ORDER BY segment", id,
                      show_segment, err);
}

static int show_tags(struct page *v, int64_t id, struct sw_err *err)
{
    return show_query(v, "key, value FROM tags", "ORDER BY key", id, show_tag, err);
}

static int show_events(struct page *v, int64_t id, struct sw_err *err)
{
    return show_query(v, "time, level, source, text FROM events", "ORDER BY time DESC LIMIT 20", id,
                      show_event, err);
}

static const struct {
    const char *key, *titles;
    int (*show)(struct page *v, int64_t id, struct sw_err *err);
} parts[] = {
    {"metrics", "SPLIT|METRIC|>STEP|>LAST|>MIN|>MAX", show_metrics},
    {"time", "PART|>TIME|>SHARE", show_times},
    {"checkpoints", ">CHECKPOINT|>SIZE|FILE", show_checkpoints},
    {"segments", ">FROM STEP|STARTED|ENDED", show_segments},
    {"stages", "STAGE|>FROM STEP|>BATCH|>PARAMETERS", show_stages},
    {"tags", "TAG|VALUE", show_tags},
    {"events", "EVENT|LEVEL|FROM|TEXT", show_events},
};

static int show_parts(struct page *v, int64_t id, struct sw_err *err)
{
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        begin_part(v, parts[i].key, parts[i].titles);

        int code = parts[i].show(v, id, err);
        end_part(v);
        if (code)
            return code;
    }

    return SW_OK;
}

/* ---- Facts ---- */

static void line(struct page *v, const char *key, const char *value)
{
    if (!value || !*value)
        return;

    sw_bytes_printf(&v->view.out, "%-13s", key);
    sw_text_add(&v->view.out, value);
    sw_bytes_add(&v->view.out, "\n");
}

static void show_text(struct page *v, const struct sw_run *r)
{
    char text[64];

    sw_bytes_printf(&v->view.out, "%-13s%lld%s", "run", (long long)r->id, r->name ? " " : "");
    sw_text_add(&v->view.out, r->name ? r->name : "");
    sw_bytes_add(&v->view.out, "\n");
    line(v, "status", sw_run_status_name(r->status));
    line(v, "recipe", r->recipe);
    line(v, "overrides", r->overrides);
    line(v, "fallback", r->fallback);
    line(v, "command", r->command);
    line(v, "host", r->host);
    line(v, "started", sw_run_time_text(r->started_at, text));
    if (!isnan(sw_run_seconds(r)))
        line(v, "time", sw_run_duration(r, text));
    line(v, "framework", r->framework);
    sw_bytes_printf(&v->view.out, "%-13s%lld\n", "workers", (long long)r->workers);
    line(v, "device", r->device);
    sw_bytes_printf(&v->view.out, "%-13s%lld of %lld steps, batch %lld, seed %lld\n", "progress",
                    (long long)(r->last_step < 0 ? 0 : r->last_step), (long long)r->steps,
                    (long long)r->batch, (long long)r->seed);
    if (r->params > 0)
        line(v, "parameters", sw_human_count(text, (double)r->params));
    line(v, "folder", r->out_dir);
    line(v, "version", r->version);
    line(v, "note", r->note);
}

static void show_json(struct page *v, const struct sw_run *r)
{
    sw_json_run(&v->view.json, r);
    sw_json_string(&v->view.json, "overrides", r->overrides);
    sw_json_string(&v->view.json, "fallback", r->fallback);
    sw_json_string(&v->view.json, "command", r->command);
    sw_json_string(&v->view.json, "host", r->host);
    sw_json_int(&v->view.json, "pid", r->pid);
    sw_json_int(&v->view.json, "epoch_records", r->epoch_records);
    sw_json_real(&v->view.json, "flops_per_sample", r->flops_per_sample);
    sw_json_string(&v->view.json, "version", r->version);
    sw_json_string(&v->view.json, "note", r->note);
}

static int show_run(struct page *v, const struct sw_run *run, struct sw_err *err)
{
    if (v->view.as_json) {
        sw_json_open_object(&v->view.json, NULL);
        show_json(v, run);
    } else {
        show_text(v, run);
    }

    int code = show_parts(v, run->id, err);
    if (v->view.as_json)
        sw_cli_json_end(&v->view.json);

    return code;
}

static int show(void *options)
{
    const struct sw_cli_common *o = options;
    struct page page = {0};
    struct sw_run run = {0};
    struct sw_err err = {0};
    int code = sw_history_view_open(&page.view, o, &err);
    if (code)
        goto out;
    code = sw_history_find(page.view.reader, o->arg_count ? o->args[0] : "@last", &run, &err);
    if (code)
        goto out;

    code = show_run(&page, &run, &err);

out:
    sw_run_fini(&run);
    return sw_history_view_close(&page.view, code, &err);
}

const struct sw_verb sw_history_verb_show = {
    .name = "show",
    .help = "show one run and everything recorded for it",
    .typed = "history show",
    .usage = "[OPTION]... [RUN]",
    .about =
        "Shows one run: facts, curves, time breakdown, checkpoints and events. RUN is an id, a\n"
        "unique prefix, a name (its newest run), or @last (the default).",
    .takes = SW_CLI_DB | SW_CLI_JSON | SW_CLI_QUIET,
    .max_args = 1,
    .arg_name = "RUN",
    .run = show,
};
