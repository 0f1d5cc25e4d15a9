/* singa-ws history: what was trained, read from the history database; nothing is ever written. */
#include "base/json.h"
#include "base/os.h"
#include "cli/cli.h"
#include "cli/share/columns.h"
#include "history/reader.h"
#include <errno.h>
#include <math.h>
#include <string.h>
#include <time.h>

enum { FLUSH_BYTES = 1 << 16 };

struct options {
    struct sw_cli_common common;
    bool header;
};

static const struct sw_cli_option options_of_history[] = {
    {.name = "header",
     .type = SW_CLI_FLAG,
     .offset = offsetof(struct options, header),
     .help = "sql: print the names of the columns first"},
    {0},
};

static const struct sw_cli_spec spec = {
    .verb = "history",
    .usage = "[OPTION]... [list]\nhistory [OPTION]... show [RUN]\nhistory [OPTION]... sql \"SELECT "
             "...\"",
    .about =
        "Lists the runs, shows one, or answers a query. RUN is an id, a unique prefix, a name "
        "(the\n"
        "newest run of it), or @last (the default).\n\n"
        "sql prints tab-separated rows and nothing else; NULL is empty; a tab, a newline and a\n"
        "backslash within a value are \\t, \\n and \\\\. Only reading is allowed.",
    .more = "Tables: runs series point step_time layer_time link_traffic hardware placement "
            "checkpoints\n"
            "events tags plans segments. Views: metrics(run_id, step, epoch, time, split, name, "
            "value)\n"
            "run_summary epoch_metrics slowest_layers where_time_went.",
    .takes = SW_CLI_DB | SW_CLI_JSON | SW_CLI_QUIET,
    .options = options_of_history,
    .max_args = 2,
    .arg_name = "RUN",
};

/* What the callbacks of one command share. */
struct view {
    struct sw_history_reader *reader;
    struct sw_buf out;
    struct sw_columns table;
    struct sw_json_writer json;
    bool as_json, header;
    int io_error;
    const char **names; /* sql as JSON: owned copies of the column names */
    int name_count;
};

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

static const char *or_dashes(const char *s)
{
    return s && *s ? s : "--";
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
    struct view *v = user;
    char text[64];
    if (v->as_json) {
        sw_json_open_object(&v->json, NULL);
        json_run(&v->json, r);
        sw_json_close_object(&v->json);
        return 0;
    }
    sw_columns_cell(&v->table, "%lld", (long long)r->id);
    sw_columns_cell(&v->table, "%s", or_dashes(r->name));
    sw_columns_cell(&v->table, "%s", sw_run_status_name(r->status));
    add_step(&v->table, r);
    add_real(&v->table, r->loss, "g");
    add_real(&v->table, r->accuracy, "f");
    add_real(&v->table, r->samples_per_s, "g");
    sw_columns_cell(&v->table, "%s", local_time(r->started_at, text, sizeof text));
    sw_columns_cell(&v->table, "%s", duration(r, text));
    return 0;
}

static int list(struct view *v, struct sw_err *err)
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
        sw_buf_add(&v->out, "\n");
    } else {
        sw_columns_print(&v->table, &v->out);
    }
    return code;
}

/* ---- show -------------------------------------------------------------------------------------
 */

/* Begins a part of the page: a table with these columns, or an array. */
static void begin_part(struct view *v, const char *key, const char *const *titles, int count)
{
    if (v->as_json) {
        sw_json_open_array(&v->json, key);
        return;
    }
    v->table = (struct sw_columns){0};
    for (int i = 0; i < count; i++)
        sw_columns_add(&v->table, titles[i]);
}

static void end_part(struct view *v, bool some)
{
    if (v->as_json) {
        sw_json_close_array(&v->json);
        return;
    }
    if (some) {
        sw_buf_add(&v->out, "\n");
        sw_columns_print(&v->table, &v->out);
    }
    sw_columns_fini(&v->table);
    v->table = (struct sw_columns){0};
}

struct part {
    struct view *view;
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
    sw_columns_cell(t, "%s", m->split);
    sw_columns_cell(t, "%s", m->name);
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
    sw_columns_cell(&p->view->table, "%s", or_dashes(cells[1].text));
    sw_columns_cell(&p->view->table, "%s", or_dashes(cells[2].text));
    sw_columns_cell(&p->view->table, "%s", or_dashes(cells[3].text));
    return 0;
}

static void line(struct view *v, const char *key, const char *value)
{
    if (value && *value)
        sw_buf_printf(&v->out, "%-13s%s\n", key, value);
}

/* Overrides and fallback hold one setting per line; here they share one. */
static void line_of_lines(struct view *v, const char *key, const char *value)
{
    char *copy = value ? sw_strdup(value) : NULL;
    for (char *c = copy; c && *c; c++)
        if (*c == '\n')
            *c = c[1] ? ' ' : 0;
    line(v, key, copy);
    sw_free(copy);
}

static void show_text(struct view *v, const struct sw_run *r)
{
    char text[64];
    sw_buf_printf(&v->out, "%-13s%lld%s%s\n", "run", (long long)r->id, r->name ? " " : "",
                  r->name ? r->name : "");
    line(v, "status", sw_run_status_name(r->status));
    line(v, "recipe", r->recipe);
    line_of_lines(v, "overrides", r->overrides);
    line_of_lines(v, "fallback", r->fallback);
    line(v, "command", r->command);
    line(v, "host", r->host);
    line(v, "started", local_time(r->started_at, text, sizeof text));
    if (!isnan(seconds_of(r)))
        line(v, "time", duration(r, text));
    line(v, "framework", r->framework);
    sw_buf_printf(&v->out, "%-13s%lld on %s\n", "workers", (long long)r->workers,
                  or_dashes(r->device));
    sw_buf_printf(&v->out, "%-13s%lld of %lld steps, batch %lld, seed %lld\n", "progress",
                  (long long)(r->last_step < 0 ? 0 : r->last_step), (long long)r->steps,
                  (long long)r->batch, (long long)r->seed);
    if (r->params > 0)
        line(v, "parameters", sw_human_count(text, (double)r->params));
    line(v, "folder", r->out_dir);
    line(v, "version", r->version);
    line(v, "note", r->note);
}

static void show_json(struct view *v, const struct sw_run *r)
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

static int show_parts(struct view *v, int64_t id, struct sw_err *err)
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

static int show(struct view *v, const char *name, struct sw_err *err)
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
        sw_buf_add(&v->out, "\n");
    }
    sw_run_fini(&run);
    return code;
}

/* ---- sql --------------------------------------------------------------------------------------
 */

static void add_cell(struct sw_buf *out, const char *cell)
{
    for (const char *c = cell ? cell : ""; *c;) {
        size_t plain = strcspn(c, "\t\n\\");
        sw_buf_add_bytes(out, c, plain);
        c += plain;
        if (*c)
            sw_buf_add(out, *c == '\t' ? "\\t" : *c == '\n' ? "\\n" : "\\\\");
        c += *c != 0;
    }
}

/* Rows are many: what is ready is written in pieces, and a reader that has gone ends the query. */
static int flush_rows(struct view *v, size_t limit)
{
    if (v->out.length < limit)
        return 0;
    v->io_error = v->out.failed ? ENOMEM : sw_cli_write(v->out.text, v->out.length);
    sw_buf_clear(&v->out);
    return v->io_error ? SW_ERR_CANCELLED : 0;
}

static int print_row(void *user, int64_t row, int columns, const struct sw_history_cell *cells)
{
    struct view *v = user;
    if (row < 0 && !v->header)
        return 0;
    for (int i = 0; i < columns; i++) {
        sw_buf_add(&v->out, i ? "\t" : "");
        add_cell(&v->out, cells[i].text);
    }
    sw_buf_add(&v->out, "\n");
    return flush_rows(v, FLUSH_BYTES);
}

static int keep_names(struct view *v, int columns, const struct sw_history_cell *cells)
{
    v->names = sw_calloc((size_t)columns + 1, sizeof *v->names);
    for (v->name_count = 0; v->names && v->name_count < columns; v->name_count++) {
        v->names[v->name_count] = sw_strdup(cells[v->name_count].text);
        if (!v->names[v->name_count])
            break;
    }
    if (v->names && v->name_count == columns)
        return 0;
    v->io_error = ENOMEM;
    return SW_ERR_CANCELLED;
}

/* Infinity is the one number that JSON cannot spell; it stays a text. */
static void json_cell(struct sw_json_writer *w, const char *key, const struct sw_history_cell *cell)
{
    int64_t i;
    double r;
    if (cell->is_number && sw_parse_int(cell->text, &i))
        sw_json_int(w, key, i);
    else if (cell->is_number && sw_parse_real(cell->text, &r))
        sw_json_real(w, key, r);
    else
        sw_json_string(w, key, cell->text);
}

static int print_json_row(void *user, int64_t row, int columns, const struct sw_history_cell *cells)
{
    struct view *v = user;
    if (row < 0)
        return keep_names(v, columns, cells);
    sw_json_open_object(&v->json, NULL);
    for (int i = 0; i < columns; i++)
        json_cell(&v->json, v->names[i], &cells[i]);
    sw_json_close_object(&v->json);
    return flush_rows(v, FLUSH_BYTES);
}

static int query(struct view *v, const char *sql, struct sw_err *err)
{
    if (v->as_json)
        sw_json_open_array(&v->json, NULL);
    int code = sw_history_sql(v->reader, sql, v->as_json ? print_json_row : print_row, v, err);
    if (!code && v->as_json) {
        sw_json_close_array(&v->json);
        sw_buf_add(&v->out, "\n");
    }
    /* A pipe whose reader had enough is no failure. */
    if (v->io_error == EPIPE)
        code = SW_OK;
    else if (v->io_error)
        code = sw_err_set(err, SW_ERR_IO, "cannot write the rows: %s", strerror(v->io_error));
    return code;
}

/* ---- The verb ---------------------------------------------------------------------------------
 */

enum command { LIST, SHOW, SQL, UNKNOWN };

static enum command command_of(const struct sw_cli_common *o)
{
    static const char *const names[] = {"list", "show", "sql"};
    if (o->arg_count == 0)
        return LIST;
    for (int i = 0; i < UNKNOWN; i++)
        if (sw_str_eq(o->args[0], names[i]))
            return (enum command)i;
    return UNKNOWN;
}

static int check_usage(const struct options *o, enum command command)
{
    static const char *const names[] = {"list", "show", "sql"};
    if (command == UNKNOWN) {
        const char *near = sw_str_nearest(o->common.args[0], names, UNKNOWN);
        if (near)
            return sw_cli_usage("history", "unknown command '%s'; did you mean '%s'?",
                                o->common.args[0], near);
        return sw_cli_usage("history", "unknown command '%s'; known are list, show, sql",
                            o->common.args[0]);
    }
    if (command == SQL && o->common.arg_count != 2)
        return sw_cli_usage("history", "sql wants one query, in quotes");
    if (command == LIST && o->common.arg_count > 1)
        return sw_cli_usage("history", "list takes no argument; 'history show %s' shows one run",
                            o->common.args[1]);
    if (o->header && command != SQL)
        return sw_cli_usage("history", "--header belongs to sql");
    return SW_EXIT_DONE;
}

static void tell_waiting(const struct options *o, const char *path)
{
    int waiting = o->common.quiet ? 0 : sw_history_waiting(path);
    if (waiting)
        sw_cli_say(
            "%d run%s rows that are not in the database yet; the next run or resume merges them",
            waiting, waiting == 1 ? " has" : "s have");
}

static int answer(const struct options *o, enum command command)
{
    struct sw_err err = {0};
    struct view v = {.as_json = o->common.json, .header = o->header};
    char *path = NULL;
    int code = sw_history_default_path(o->common.db, NULL, &path, &err);
    if (!code && command != SQL)
        tell_waiting(o, path);
    if (!code)
        code = sw_history_reader_open(&v.reader, path, &err);
    sw_json_begin(&v.json, &v.out);
    if (!code && command == LIST)
        code = list(&v, &err);
    else if (!code && command == SHOW)
        code = show(&v, o->common.arg_count > 1 ? o->common.args[1] : "@last", &err);
    else if (!code)
        code = query(&v, o->common.args[1], &err);
    int exit_code = code         ? sw_cli_fail(code, &err)
                    : v.io_error ? SW_EXIT_DONE
                                 : sw_cli_print(&v.out);
    for (int i = 0; i < v.name_count; i++)
        sw_free((void *)v.names[i]);
    sw_free(v.names);
    sw_columns_fini(&v.table);
    sw_buf_fini(&v.out);
    sw_history_reader_close(v.reader);
    sw_free(path);
    return exit_code;
}

static int run(int argc, char **argv)
{
    struct options o = {0};
    int code = sw_cli_parse(&spec, argc, argv, &o);
    if (code == SW_CLI_GO_ON) {
        enum command command = command_of(&o.common);
        code = check_usage(&o, command);
        if (code == SW_EXIT_DONE)
            code = answer(&o, command);
    }
    sw_cli_fini(&spec, &o);
    return code;
}

const struct sw_verb sw_verb_history = {
    .name = "history",
    .help = "query finished and running runs: list, show RUN, sql \"SELECT ...\"",
    .run = run,
};
