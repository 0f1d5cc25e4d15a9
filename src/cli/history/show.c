/* singa-ws history show: one run with what belongs to it, for people or as JSON. */
#include "cli/history/verb.h"

#include "base/text.h"
#include "cli/history/run_text.h"
#include "history/reader_rows.h"
#include <math.h>
#include <stdio.h>

struct page {
    struct sw_history_view view;
    struct sw_columns table;
};

/* Begins a part of the page: a table with these columns, or an array. */
static void begin_part(struct page *v, const char *key, const char *const *titles, int count)
{
    if (v->view.as_json) {
        sw_json_open_array(&v->view.json, key);
        return;
    }
    v->table = (struct sw_columns){0};
    for (int i = 0; i < count; i++)
        sw_columns_add(&v->table, titles[i]);
}

static void end_part(struct page *v, bool some)
{
    if (v->view.as_json) {
        sw_json_close_array(&v->view.json);
        return;
    }
    if (some) {
        sw_buf_add(&v->view.out, "\n");
        sw_columns_print(&v->table, &v->view.out);
    }
    sw_columns_fini(&v->table);
    v->table = (struct sw_columns){0};
}

struct part {
    struct page *page;
    bool some;
};

static int show_metric(void *user, const struct sw_run_metric *m)
{
    struct part *p = user;
    struct sw_json_writer *w = &p->page->view.json;
    struct sw_columns *t = &p->page->table;
    p->some = true;
    if (p->page->view.as_json) {
        sw_json_open_object(w, NULL);
        sw_json_string(w, "split", m->split);
        sw_json_string(w, "name", m->name);
        sw_json_int(w, "points", m->points);
        sw_json_int(w, "last_step", m->last_step);
        sw_json_real(w, "last", m->last);
        sw_json_real(w, "min", m->min);
        sw_json_real(w, "max", m->max);
        sw_json_close_object(w);
        return 0;
    }
    sw_columns_plain(t, m->split);
    sw_columns_plain(t, m->name);
    sw_columns_cell(t, "%lld", (long long)m->last_step);
    sw_columns_real(t, m->last);
    sw_columns_real(t, m->min);
    sw_columns_real(t, m->max);
    return 0;
}

static int show_time(void *user, const char *part, double total_ms, double share)
{
    struct part *p = user;
    struct sw_json_writer *w = &p->page->view.json;
    struct sw_columns *t = &p->page->table;
    char text[64];
    if (p->page->view.as_json) {
        sw_json_open_object(w, NULL);
        sw_json_string(w, "part", part);
        sw_json_real(w, "total_ms", total_ms);
        sw_json_real(w, "share", share);
        sw_json_close_object(w);
        return 0;
    }
    if (total_ms <= 0)
        return 0;
    p->some = true;
    sw_columns_cell(t, "%s", part);
    sw_columns_cell(t, "%s", sw_human_seconds(text, total_ms / 1e3));
    if (isnan(share))
        sw_columns_cell(t, "--");
    else
        sw_columns_cell(t, "%.1f %%", 100 * share);
    return 0;
}

static int show_checkpoint(void *user, const struct sw_run_checkpoint *c)
{
    struct part *p = user;
    struct sw_json_writer *w = &p->page->view.json;
    char text[64];
    p->some = true;
    if (p->page->view.as_json) {
        sw_json_open_object(w, NULL);
        sw_json_int(w, "step", c->step);
        sw_json_string(w, "path", c->path);
        sw_json_int(w, "bytes", c->bytes);
        sw_json_string(w, "checksum", c->checksum);
        sw_json_time(w, "time", c->time);
        sw_json_bool(w, "is_best", c->is_best);
        sw_json_close_object(w);
        return 0;
    }
    sw_columns_cell(&p->page->table, "%lld", (long long)c->step);
    sw_columns_cell(&p->page->table, "%s", sw_human_bytes(text, (double)c->bytes));
    sw_columns_cell(&p->page->table, "%s%s", c->path, c->is_best ? " (best)" : "");
    return 0;
}

/* The newest events, from the newest. */
static int show_event(void *user, int64_t row, int columns, const struct sw_history_cell *cells)
{
    struct part *p = user;
    struct sw_json_writer *w = &p->page->view.json;
    char text[64];
    double t = 0;
    if (row < 0 || columns != 4)
        return 0;
    p->some = true;
    if (!cells[0].text || !sw_parse_real(cells[0].text, &t))
        t = 0;
    if (p->page->view.as_json) {
        sw_json_open_object(w, NULL);
        sw_json_time(w, "time", t);
        sw_json_string(w, "level", cells[1].text);
        sw_json_string(w, "source", cells[2].text);
        sw_json_string(w, "text", cells[3].text);
        sw_json_close_object(w);
        return 0;
    }
    sw_columns_cell(&p->page->table, "%s", sw_run_time_text(t, text));
    sw_columns_plain(&p->page->table, cells[1].text);
    sw_columns_plain(&p->page->table, cells[2].text);
    sw_columns_plain(&p->page->table, cells[3].text);
    return 0;
}

static void line(struct page *v, const char *key, const char *value)
{
    if (!value || !*value)
        return;
    sw_buf_printf(&v->view.out, "%-13s", key);
    sw_text_add(&v->view.out, value);
    sw_buf_add(&v->view.out, "\n");
}

static void show_text(struct page *v, const struct sw_run *r)
{
    char text[64];
    sw_buf_printf(&v->view.out, "%-13s%lld%s", "run", (long long)r->id, r->name ? " " : "");
    sw_text_add(&v->view.out, r->name ? r->name : "");
    sw_buf_add(&v->view.out, "\n");
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
    sw_buf_printf(&v->view.out, "%-13s%lld\n", "workers", (long long)r->workers);
    line(v, "device", r->device);
    sw_buf_printf(&v->view.out, "%-13s%lld of %lld steps, batch %lld, seed %lld\n", "progress",
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

/* key=value pairs of tags. */
static int show_tag(void *user, int64_t row, int columns, const struct sw_history_cell *cells)
{
    struct part *p = user;
    if (row < 0 || columns != 2)
        return 0;
    p->some = true;
    if (p->page->view.as_json) {
        sw_json_open_object(&p->page->view.json, NULL);
        sw_json_string(&p->page->view.json, "key", cells[0].text);
        sw_json_string(&p->page->view.json, "value", cells[1].text);
        sw_json_close_object(&p->page->view.json);
        return 0;
    }
    sw_columns_plain(&p->page->table, cells[0].text);
    sw_columns_plain(&p->page->table, cells[1].text);
    return 0;
}

/* A run that was resumed has several. */
static int show_segment(void *user, int64_t row, int columns, const struct sw_history_cell *cells)
{
    struct part *p = user;
    char text[SW_RUN_TEXT];
    double started = 0, ended = 0;
    int64_t from = 0;
    if (row < 0 || columns != 3)
        return 0;
    if (!sw_parse_int(cells[0].text, &from) || !sw_parse_real(cells[1].text, &started))
        return 0;
    if (!cells[2].text || !sw_parse_real(cells[2].text, &ended))
        ended = 0;
    p->some |= row > 0;
    if (p->page->view.as_json) {
        sw_json_open_object(&p->page->view.json, NULL);
        sw_json_int(&p->page->view.json, "from_step", from);
        sw_json_time(&p->page->view.json, "started_at", started);
        sw_json_time(&p->page->view.json, "ended_at", ended);
        sw_json_close_object(&p->page->view.json);
        return 0;
    }
    sw_columns_cell(&p->page->table, "%lld", (long long)from);
    sw_columns_cell(&p->page->table, "%s", sw_run_time_text(started, text));
    sw_columns_cell(&p->page->table, "%s", sw_run_time_text(ended, text));
    return 0;
}

/* One that is not the recipe's is what a resume made of the run. */
static int show_stage(void *user, const struct sw_run_stage *s)
{
    struct part *p = user;
    struct sw_json_writer *w = &p->page->view.json;
    char text[64];
    p->some |= s->from_step > 0;
    if (p->page->view.as_json) {
        sw_json_open_object(w, NULL);
        sw_json_string(w, "name", s->name);
        sw_json_int(w, "from_step", s->from_step);
        sw_json_int(w, "batch", s->batch);
        sw_json_int(w, "epoch_records", s->epoch_records);
        sw_json_int(w, "params", s->params);
        sw_json_real(w, "flops_per_sample", s->flops_per_sample);
        sw_json_close_object(w);
        return 0;
    }
    sw_columns_plain(&p->page->table, s->name);
    sw_columns_cell(&p->page->table, "%lld", (long long)s->from_step);
    sw_columns_cell(&p->page->table, "%lld", (long long)s->batch);
    sw_columns_cell(&p->page->table, "%s", sw_human_count(text, (double)s->params));
    return 0;
}

/* A part of the page that is a query of this run: `what` FROM a table, and its order. */
static int show_query(struct page *v, const char *key, const char *const *titles, int count,
                      const char *what, const char *order, int64_t id, sw_history_row *each,
                      struct sw_err *err)
{
    struct part p = {.page = v};
    char text[256];
    snprintf(text, sizeof text, "SELECT %s WHERE run_id = %lld %s", what, (long long)id, order);
    begin_part(v, key, titles, count);
    int code = sw_history_sql(v->view.reader, text, each, &p, err);
    end_part(v, p.some);
    return code;
}

static int show_parts(struct page *v, int64_t id, struct sw_err *err)
{
    static const char *const metric[] = {"SPLIT", "METRIC", ">STEP", ">LAST", ">MIN", ">MAX"};
    static const char *const times[] = {"PART", ">TIME", ">SHARE"};
    static const char *const checkpoint[] = {">CHECKPOINT", ">SIZE", "FILE"};
    static const char *const event[] = {"EVENT", "LEVEL", "FROM", "TEXT"};
    static const char *const tag[] = {"TAG", "VALUE"};
    static const char *const segment[] = {">FROM STEP", "STARTED", "ENDED"};
    static const char *const stage[] = {"STAGE", ">FROM STEP", ">BATCH", ">PARAMETERS"};
    struct part p = {.page = v};
    begin_part(v, "metrics", metric, 6);
    int code = sw_history_each_metric(v->view.reader, id, show_metric, &p, err);
    end_part(v, p.some);
    p.some = false;
    begin_part(v, "time", times, 3);
    if (!code)
        code = sw_history_each_time(v->view.reader, id, show_time, &p, err);
    end_part(v, p.some);
    p.some = false;
    begin_part(v, "checkpoints", checkpoint, 3);
    if (!code)
        code = sw_history_each_checkpoint(v->view.reader, id, show_checkpoint, &p, err);
    end_part(v, p.some);
    if (!code)
        code =
            show_query(v, "segments", segment, 3, "from_step, started_at, ended_at FROM segments",
                       "ORDER BY segment", id, show_segment, err);
    p.some = false;
    begin_part(v, "stages", stage, 4);
    if (!code)
        code = sw_history_each_stage(v->view.reader, id, show_stage, &p, err);
    end_part(v, p.some);
    if (!code)
        code = show_query(v, "tags", tag, 2, "key, value FROM tags", "ORDER BY key", id, show_tag,
                          err);
    if (!code)
        code = show_query(v, "events", event, 4, "time, level, source, text FROM events",
                          "ORDER BY time DESC LIMIT 20", id, show_event, err);
    return code;
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
    if (v->view.as_json) {
        sw_cli_json_end(&v->view.json);
    }
    return code;
}

static int show(void *options)
{
    const struct sw_cli_common *o = options;
    struct page page = {0};
    struct sw_run run = {0};
    struct sw_err err = {0};
    int code = sw_history_view_open(&page.view, o, &err);
    if (!code)
        code = sw_history_find(page.view.reader, o->arg_count ? o->args[0] : "@last", &run, &err);
    if (!code)
        code = show_run(&page, &run, &err);
    sw_run_fini(&run);
    return sw_history_view_close(&page.view, code, &err);
}

const struct sw_verb sw_history_verb_show = {
    .name = "show",
    .help = "one run, with all that belongs to it",
    .typed = "history show",
    .usage = "[OPTION]... [RUN]",
    .about = "Shows one run: facts, curves, where the time went, checkpoints, and what happened.\n"
             "RUN is an id, the beginning of one, a name (the newest run of it), or @last (the "
             "default).",
    .takes = SW_CLI_DB | SW_CLI_JSON | SW_CLI_QUIET,
    .max_args = 1,
    .arg_name = "RUN",
    .run = show,
};
