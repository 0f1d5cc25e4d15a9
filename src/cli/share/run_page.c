#include "cli/share/run_page.h"

#include "base/os.h"
#include <math.h>
#include <string.h>
#include <time.h>

/* ---- Values for people: unknown is "--" --------------------------------------------------------
 */

static void add_real(struct sw_columns *t, double v, const char *fmt_known)
{
    char text[64];
    if (isnan(v))
        sw_columns_cell(t, "--");
    else {
        snprintf(text, sizeof text, *fmt_known == 'f' ? "%.4f" : "%.4g", v);
        sw_columns_cell(t, "%s", text);
    }
}

static const char *local_time(double unix_s, char *out, size_t bytes)
{
    time_t t = (time_t)unix_s;
    struct tm tm;
    if (unix_s <= 0 || !localtime_r(&t, &tm) || !strftime(out, bytes, "%Y-%m-%d %H:%M:%S", &tm))
        snprintf(out, bytes, "--");
    return out;
}

/* From the start to the end, or to now for a run that is running; of a crashed one the end is
 * unknown. */
static double seconds_of(const struct sw_run *r)
{
    if (r->ended_at > 0)
        return r->ended_at - r->started_at;
    return r->status == SW_RUN_RUNNING ? sw_os()->unix_time() - r->started_at : NAN;
}

static const char *duration(const struct sw_run *r, char *out)
{
    double s = seconds_of(r);
    return isnan(s) ? "--" : sw_human_seconds(out, s);
}

/* Texts of others may hold what a terminal obeys: escape codes, and newlines that break a table. */
static void add_plain(struct sw_buf *out, const char *s)
{
    for (; s && *s; s++) {
        unsigned char c = (unsigned char)*s;
        sw_buf_add_bytes(out, c < 0x20 || c == 0x7f ? " " : s, 1);
    }
}

static void add_text(struct sw_columns *t, const char *s)
{
    struct sw_buf plain = {0};
    add_plain(&plain, s && *s ? s : "--");
    sw_columns_cell(t, "%s", sw_buf_text(&plain));
    sw_buf_fini(&plain);
}

/* ---- list -------------------------------------------------------------------------------------
 */

static void json_time(struct sw_json_writer *w, const char *key, double t)
{
    sw_json_real(w, key, t > 0 ? t : NAN);
}

static void json_run(struct sw_json_writer *w, const struct sw_run *r)
{
    sw_json_int(w, "id", r->id);
    sw_json_string(w, "uid", r->uid);
    sw_json_string(w, "name", r->name);
    sw_json_string(w, "status", sw_run_status_name(r->status));
    sw_json_string(w, "recipe", r->recipe);
    sw_json_string(w, "recipe_hash", r->recipe_hash);
    sw_json_string(w, "framework", r->framework);
    sw_json_int(w, "workers", r->workers);
    sw_json_string(w, "device", r->device);
    sw_json_int(w, "seed", r->seed);
    sw_json_int(w, "batch", r->batch);
    sw_json_int(w, "steps", r->steps);
    sw_json_int(w, "params", r->params);
    json_time(w, "started_at", r->started_at);
    json_time(w, "ended_at", r->ended_at);
    if (r->last_step >= 0)
        sw_json_int(w, "last_step", r->last_step);
    else
        sw_json_string(w, "last_step", NULL);
    sw_json_real(w, "loss", r->loss);
    sw_json_real(w, "accuracy", r->accuracy);
    sw_json_real(w, "samples_per_s", r->samples_per_s);
    sw_json_string(w, "out_dir", r->out_dir);
}

static void add_step(struct sw_columns *t, const struct sw_run *r)
{
    if (r->last_step < 0)
        sw_columns_cell(t, "--");
    else if (r->steps > 0)
        sw_columns_cell(t, "%lld/%lld", (long long)r->last_step, (long long)r->steps);
    else
        sw_columns_cell(t, "%lld", (long long)r->last_step);
}

static int list_run(void *user, const struct sw_run *r)
{
    struct sw_run_page *v = user;
    char text[64];
    if (v->as_json) {
        sw_json_open_object(&v->json, NULL);
        json_run(&v->json, r);
        sw_json_close_object(&v->json);
        return 0;
    }
    sw_columns_cell(&v->table, "%lld", (long long)r->id);
    add_text(&v->table, r->name);
    sw_columns_cell(&v->table, "%s", sw_run_status_name(r->status));
    add_step(&v->table, r);
    add_real(&v->table, r->loss, "g");
    add_real(&v->table, r->accuracy, "f");
    add_real(&v->table, r->samples_per_s, "g");
    sw_columns_cell(&v->table, "%s", local_time(r->started_at, text, sizeof text));
    sw_columns_cell(&v->table, "%s", duration(r, text));
    return 0;
}

int sw_run_page_list(struct sw_run_page *v, struct sw_err *err)
{
    static const char *const titles[] = {">ID",       "NAME",       "STATUS",  ">STEP", ">LOSS",
                                         ">ACCURACY", ">SAMPLES/S", "STARTED", ">TIME"};
    if (v->as_json)
        sw_json_open_array(&v->json, NULL);
    for (size_t i = 0; !v->as_json && i < sizeof titles / sizeof *titles; i++)
        sw_columns_add(&v->table, titles[i]);
    int code = sw_history_each_run(v->reader, list_run, v, err);
    if (v->as_json) {
        sw_json_close_array(&v->json);
        sw_buf_add(v->out, "\n");
    } else {
        sw_columns_print(&v->table, v->out);
    }
    sw_columns_fini(&v->table);
    v->table = (struct sw_columns){0};
    return code;
}

/* ---- show -------------------------------------------------------------------------------------
 */

/* Begins a part of the page: a table with these columns, or an array. */
static void begin_part(struct sw_run_page *v, const char *key, const char *const *titles, int count)
{
    if (v->as_json) {
        sw_json_open_array(&v->json, key);
        return;
    }
    v->table = (struct sw_columns){0};
    for (int i = 0; i < count; i++)
        sw_columns_add(&v->table, titles[i]);
}

static void end_part(struct sw_run_page *v, bool some)
{
    if (v->as_json) {
        sw_json_close_array(&v->json);
        return;
    }
    if (some) {
        sw_buf_add(v->out, "\n");
        sw_columns_print(&v->table, v->out);
    }
    sw_columns_fini(&v->table);
    v->table = (struct sw_columns){0};
}

struct part {
    struct sw_run_page *view;
    bool some;
};

static int show_metric(void *user, const struct sw_run_metric *m)
{
    struct part *p = user;
    struct sw_json_writer *w = &p->view->json;
    struct sw_columns *t = &p->view->table;
    p->some = true;
    if (p->view->as_json) {
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
    add_text(t, m->split);
    add_text(t, m->name);
    sw_columns_cell(t, "%lld", (long long)m->last_step);
    add_real(t, m->last, "g");
    add_real(t, m->min, "g");
    add_real(t, m->max, "g");
    return 0;
}

static int show_time(void *user, const char *part, double total_ms, double share)
{
    struct part *p = user;
    struct sw_json_writer *w = &p->view->json;
    struct sw_columns *t = &p->view->table;
    char text[64];
    if (p->view->as_json) {
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
    struct sw_json_writer *w = &p->view->json;
    char text[64];
    p->some = true;
    if (p->view->as_json) {
        sw_json_open_object(w, NULL);
        sw_json_int(w, "step", c->step);
        sw_json_string(w, "path", c->path);
        sw_json_int(w, "bytes", c->bytes);
        sw_json_string(w, "checksum", c->checksum);
        json_time(w, "time", c->time);
        sw_json_bool(w, "is_best", c->is_best);
        sw_json_close_object(w);
        return 0;
    }
    sw_columns_cell(&p->view->table, "%lld", (long long)c->step);
    sw_columns_cell(&p->view->table, "%s", sw_human_bytes(text, (double)c->bytes));
    sw_columns_cell(&p->view->table, "%s%s", c->path, c->is_best ? " (best)" : "");
    return 0;
}

/* The newest events, from the newest. */
static int show_event(void *user, int64_t row, int columns, const struct sw_history_cell *cells)
{
    struct part *p = user;
    struct sw_json_writer *w = &p->view->json;
    char text[64];
    double t = 0;
    if (row < 0 || columns != 4)
        return 0;
    p->some = true;
    if (!cells[0].text || !sw_parse_real(cells[0].text, &t))
        t = 0;
    if (p->view->as_json) {
        sw_json_open_object(w, NULL);
        json_time(w, "time", t);
        sw_json_string(w, "level", cells[1].text);
        sw_json_string(w, "source", cells[2].text);
        sw_json_string(w, "text", cells[3].text);
        sw_json_close_object(w);
        return 0;
    }
    sw_columns_cell(&p->view->table, "%s", local_time(t, text, sizeof text));
    add_text(&p->view->table, cells[1].text);
    add_text(&p->view->table, cells[2].text);
    add_text(&p->view->table, cells[3].text);
    return 0;
}

static void line(struct sw_run_page *v, const char *key, const char *value)
{
    if (!value || !*value)
        return;
    sw_buf_printf(v->out, "%-13s", key);
    add_plain(v->out, value);
    sw_buf_add(v->out, "\n");
}

static void show_text(struct sw_run_page *v, const struct sw_run *r)
{
    char text[64];
    sw_buf_printf(v->out, "%-13s%lld%s", "run", (long long)r->id, r->name ? " " : "");
    add_plain(v->out, r->name);
    sw_buf_add(v->out, "\n");
    line(v, "status", sw_run_status_name(r->status));
    line(v, "recipe", r->recipe);
    line(v, "overrides", r->overrides);
    line(v, "fallback", r->fallback);
    line(v, "command", r->command);
    line(v, "host", r->host);
    line(v, "started", local_time(r->started_at, text, sizeof text));
    if (!isnan(seconds_of(r)))
        line(v, "time", duration(r, text));
    line(v, "framework", r->framework);
    sw_buf_printf(v->out, "%-13s%lld\n", "workers", (long long)r->workers);
    line(v, "device", r->device);
    sw_buf_printf(v->out, "%-13s%lld of %lld steps, batch %lld, seed %lld\n", "progress",
                  (long long)(r->last_step < 0 ? 0 : r->last_step), (long long)r->steps,
                  (long long)r->batch, (long long)r->seed);
    if (r->params > 0)
        line(v, "parameters", sw_human_count(text, (double)r->params));
    line(v, "folder", r->out_dir);
    line(v, "version", r->version);
    line(v, "note", r->note);
}

static void show_json(struct sw_run_page *v, const struct sw_run *r)
{
    json_run(&v->json, r);
    sw_json_string(&v->json, "overrides", r->overrides);
    sw_json_string(&v->json, "fallback", r->fallback);
    sw_json_string(&v->json, "command", r->command);
    sw_json_string(&v->json, "host", r->host);
    sw_json_int(&v->json, "pid", r->pid);
    sw_json_int(&v->json, "epoch_records", r->epoch_records);
    sw_json_real(&v->json, "flops_per_sample", r->flops_per_sample);
    sw_json_string(&v->json, "version", r->version);
    sw_json_string(&v->json, "note", r->note);
}

static int show_parts(struct sw_run_page *v, int64_t id, struct sw_err *err)
{
    static const char *const metric[] = {"SPLIT", "METRIC", ">STEP", ">LAST", ">MIN", ">MAX"};
    static const char *const times[] = {"PART", ">TIME", ">SHARE"};
    static const char *const checkpoint[] = {">CHECKPOINT", ">SIZE", "FILE"};
    static const char *const event[] = {"EVENT", "LEVEL", "FROM", "TEXT"};
    char sql[160];
    struct part p = {.view = v};
    begin_part(v, "metrics", metric, 6);
    int code = sw_history_each_metric(v->reader, id, show_metric, &p, err);
    end_part(v, p.some);
    p.some = false;
    begin_part(v, "time", times, 3);
    if (!code)
        code = sw_history_each_time(v->reader, id, show_time, &p, err);
    end_part(v, p.some);
    p.some = false;
    begin_part(v, "checkpoints", checkpoint, 3);
    if (!code)
        code = sw_history_each_checkpoint(v->reader, id, show_checkpoint, &p, err);
    end_part(v, p.some);
    p.some = false;
    snprintf(sql, sizeof sql,
             "SELECT time, level, source, text FROM events WHERE run_id = %lld ORDER BY time DESC "
             "LIMIT 20",
             (long long)id);
    begin_part(v, "events", event, 4);
    if (!code)
        code = sw_history_sql(v->reader, sql, show_event, &p, err);
    end_part(v, p.some);
    return code;
}

int sw_run_page_show(struct sw_run_page *v, const char *name, struct sw_err *err)
{
    struct sw_run run = {0};
    int code = sw_history_find(v->reader, name, &run, err);
    if (code)
        return code;
    if (v->as_json) {
        sw_json_open_object(&v->json, NULL);
        show_json(v, &run);
    } else {
        show_text(v, &run);
    }
    code = show_parts(v, run.id, err);
    if (v->as_json) {
        sw_json_close_object(&v->json);
        sw_buf_add(v->out, "\n");
    }
    sw_run_fini(&run);
    return code;
}
