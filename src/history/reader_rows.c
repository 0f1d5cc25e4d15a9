#include "history/reader_rows.h"

#include "history/reader_open.h"
#include <math.h>
#include <stdio.h>

static double real(sqlite3_stmt *st, int column)
{
    return sqlite3_column_type(st, column) == SQLITE_NULL ? NAN : sqlite3_column_double(st, column);
}

static const char *text(sqlite3_stmt *st, int column)
{
    const char *t = (const char *)sqlite3_column_text(st, column);
    return t ? t : "";
}

/* A query under way. The first error ends it and is what `end` answers. */
struct rows {
    struct sw_history_reader *reader;
    sqlite3_stmt *st;
    int code;
    struct sw_err *err;
};

/* numbers are bound to ?1, ?2 and so on; unused ones are ignored. */
static struct rows begin(struct sw_history_reader *r, const char *sql, const int64_t numbers[3],
                         struct sw_err *err)
{
    struct rows q = {.reader = r, .err = err};
    int rc = sqlite3_prepare_v2(r->db, sql, -1, &q.st, NULL);
    int count = rc == SQLITE_OK ? sqlite3_bind_parameter_count(q.st) : 0;
    for (int i = 0; i < count && rc == SQLITE_OK; i++)
        rc = sqlite3_bind_int64(q.st, i + 1, numbers[i]);
    q.code = sw_sqlite_check(r->db, rc, r->path, err);
    return q;
}

static bool next(struct rows *q)
{
    if (q->code)
        return false;
    int rc = sqlite3_step(q->st);
    q->code = sw_sqlite_check(q->reader->db, rc, q->reader->path, q->err);
    return !q->code && rc == SQLITE_ROW;
}

/* Is the first column a step? Tables take any type in any column, but who reads what is behind the
 * last row that it has seen needs steps that ascend: a row without one is none of ours. */
static bool has_step(const struct rows *q)
{
    return sqlite3_column_type(q->st, 0) == SQLITE_INTEGER;
}

static int end(struct rows *q)
{
    sqlite3_finalize(q->st);
    return q->code;
}

int sw_history_each_series(struct sw_history_reader *r, int64_t run_id,
                           int (*each)(void *user, const struct sw_run_series *s), void *user,
                           struct sw_err *err)
{
    const int64_t numbers[3] = {run_id};
    struct rows q = begin(r,
                          "SELECT id, split, name FROM series WHERE run_id = ?1"
                          " ORDER BY split <> 'train', split, name",
                          numbers, err);
    while (next(&q)) {
        struct sw_run_series s = {sqlite3_column_int64(q.st, 0), text(q.st, 1), text(q.st, 2)};
        q.code = each(user, &s);
    }
    return end(&q);
}

int sw_history_each_point(struct sw_history_reader *r, int64_t series, int64_t after, int64_t upto,
                          int (*each)(void *user, const struct sw_run_point *p), void *user,
                          struct sw_err *err)
{
    const int64_t numbers[3] = {series, after, upto};
    struct rows q = begin(r,
                          "SELECT step, time, value FROM point WHERE series_id = ?1 AND step > ?2"
                          " AND step <= ?3 ORDER BY step",
                          numbers, err);
    while (next(&q)) {
        if (!has_step(&q))
            continue;
        struct sw_run_point p = {sqlite3_column_int64(q.st, 0), real(q.st, 1), real(q.st, 2)};
        q.code = each(user, &p);
    }
    return end(&q);
}

int sw_history_each_step_time(struct sw_history_reader *r, int64_t run_id, int64_t after,
                              int (*each)(void *user, const struct sw_step_time *row), void *user,
                              struct sw_err *err)
{
    const int64_t numbers[3] = {run_id, after};
    struct rows q =
        begin(r,
              "SELECT step, worker, staleness, read_ms, decode_ms, h2d_ms, forward_ms,"
              " backward_ms, update_ms, comm_exposed_ms, comm_hidden_ms, wait_ms, idle_ms"
              " FROM step_time WHERE run_id = ?1 AND step > ?2 ORDER BY step, worker",
              numbers, err);
    while (next(&q)) {
        if (!has_step(&q))
            continue;
        struct sw_step_time t = {.step = sqlite3_column_int64(q.st, 0),
                                 .worker = sqlite3_column_int(q.st, 1),
                                 .staleness = sqlite3_column_int(q.st, 2)};
        float *const parts[] = {&t.read_ms,     &t.decode_ms, &t.h2d_ms,          &t.forward_ms,
                                &t.backward_ms, &t.update_ms, &t.comm_exposed_ms, &t.comm_hidden_ms,
                                &t.wait_ms,     &t.idle_ms};
        for (int i = 0; i < (int)(sizeof parts / sizeof *parts); i++)
            *parts[i] = (float)sqlite3_column_double(q.st, 3 + i);
        q.code = each(user, &t);
    }
    return end(&q);
}

int sw_history_newest_step_time(struct sw_history_reader *r, int64_t run_id, int64_t *step,
                                struct sw_err *err)
{
    char sql[128];
    snprintf(sql, sizeof sql,
             "SELECT coalesce((SELECT max(step) FROM step_time WHERE run_id = %lld), -1)",
             (long long)run_id);
    return sw_sqlite_int(r->db, sql, step, r->path, err);
}

int sw_history_each_layer(struct sw_history_reader *r, int64_t run_id,
                          int (*each)(void *user, const struct sw_run_layer *l), void *user,
                          struct sw_err *err)
{
    const int64_t numbers[3] = {run_id};
    struct rows q =
        begin(r,
              "SELECT layer, sum(coalesce(forward_ms, 0) * samples) / sum(samples) AS f,"
              " sum(coalesce(backward_ms, 0) * samples) / sum(samples) AS b FROM layer_time"
              " WHERE run_id = ?1 AND samples > 0 GROUP BY layer ORDER BY f + b DESC",
              numbers, err);
    while (next(&q)) {
        struct sw_run_layer l = {text(q.st, 0), real(q.st, 1), real(q.st, 2)};
        q.code = each(user, &l);
    }
    return end(&q);
}

int sw_history_each_traffic(struct sw_history_reader *r, int64_t run_id, int64_t after,
                            int (*each)(void *user, const struct sw_run_traffic *t), void *user,
                            struct sw_err *err)
{
    const int64_t numbers[3] = {run_id, after};
    struct rows q =
        begin(r,
              "SELECT from_unit, to_unit, kind, count(*), sum(bytes), total(ms) FROM link_traffic"
              " WHERE run_id = ?1 AND step > ?2 GROUP BY from_unit, to_unit, kind"
              " ORDER BY sum(bytes) DESC",
              numbers, err);
    while (next(&q)) {
        struct sw_run_traffic t = {text(q.st, 0),
                                   text(q.st, 1),
                                   text(q.st, 2),
                                   sqlite3_column_int64(q.st, 3),
                                   sqlite3_column_int64(q.st, 4),
                                   sqlite3_column_double(q.st, 5)};
        q.code = each(user, &t);
    }
    return end(&q);
}

int sw_history_each_unit(struct sw_history_reader *r, int64_t run_id,
                         int (*each)(void *user, const struct sw_run_unit *u), void *user,
                         struct sw_err *err)
{
    const int64_t numbers[3] = {run_id};
    struct rows q =
        begin(r,
              "SELECT unit, device, cores, reason, numa FROM placement WHERE run_id = ?1"
              " ORDER BY unit LIKE 'server%', length(unit), unit",
              numbers, err);
    while (next(&q)) {
        bool known = sqlite3_column_type(q.st, 4) != SQLITE_NULL;
        struct sw_run_unit u = {text(q.st, 0), text(q.st, 1), text(q.st, 2), text(q.st, 3),
                                known ? sqlite3_column_int(q.st, 4) : -1};
        q.code = each(user, &u);
    }
    return end(&q);
}

int sw_history_each_event(struct sw_history_reader *r, int64_t run_id, int64_t after, int64_t most,
                          int (*each)(void *user, const struct sw_run_event *e), void *user,
                          struct sw_err *err)
{
    const int64_t numbers[3] = {run_id, after, most};
    struct rows q =
        begin(r,
              "SELECT rowid, time, level, source, text FROM events WHERE run_id = ?1 AND rowid >"
              " max(?2, coalesce((SELECT rowid FROM events WHERE run_id = ?1 ORDER BY rowid DESC"
              "  LIMIT 1 OFFSET ?3), 0)) ORDER BY rowid",
              numbers, err);
    while (next(&q)) {
        struct sw_run_event e = {sqlite3_column_int64(q.st, 0), real(q.st, 1), text(q.st, 2),
                                 text(q.st, 3), text(q.st, 4)};
        q.code = each(user, &e);
    }
    return end(&q);
}

int sw_history_each_segment(struct sw_history_reader *r, int64_t run_id,
                            int (*each)(void *user, const struct sw_run_segment *s), void *user,
                            struct sw_err *err)
{
    const int64_t numbers[3] = {run_id};
    struct rows q =
        begin(r,
              "SELECT segment, from_step, started_at, ended_at FROM segments WHERE run_id = ?1"
              " ORDER BY segment",
              numbers, err);
    while (next(&q)) {
        struct sw_run_segment s = {sqlite3_column_int64(q.st, 0), sqlite3_column_int64(q.st, 1),
                                   real(q.st, 2), real(q.st, 3)};
        q.code = each(user, &s);
    }
    return end(&q);
}

int sw_history_each_stage(struct sw_history_reader *r, int64_t run_id,
                          int (*each)(void *user, const struct sw_run_stage *s), void *user,
                          struct sw_err *err)
{
    static const char *const sql[] = {
        "SELECT name, from_step, batch, epoch_records, params, flops_per_sample, epochs_before"
        " FROM stages WHERE run_id = ?1 ORDER BY from_step",
        "SELECT NULL, 0, batch, epoch_records, params, flops_per_sample, 0.0 FROM runs"
        " WHERE id = ?1"};
    const int64_t numbers[3] = {run_id};
    struct rows q = begin(r, sql[r->version < 3], numbers, err);
    while (next(&q)) {
        struct sw_run_stage s = {(const char *)sqlite3_column_text(q.st, 0),
                                 sqlite3_column_int64(q.st, 1),
                                 sqlite3_column_int64(q.st, 2),
                                 sqlite3_column_int64(q.st, 3),
                                 sqlite3_column_int64(q.st, 4),
                                 real(q.st, 5),
                                 real(q.st, 6)};
        q.code = each(user, &s);
    }
    return end(&q);
}

int sw_history_each_hardware(struct sw_history_reader *r, int64_t run_id,
                             int (*each)(void *user, const struct sw_run_hardware *h), void *user,
                             struct sw_err *err)
{
    const int64_t numbers[3] = {run_id};
    struct rows q =
        begin(r,
              "SELECT d.device, h.time, h.util, h.mem_used, h.power_w, h.temp_c, h.clock_mhz"
              " FROM (SELECT DISTINCT device FROM hardware WHERE run_id = ?1) d JOIN hardware h"
              " ON h.run_id = ?1 AND h.device = d.device AND h.time = (SELECT max(time) FROM"
              "  hardware WHERE run_id = ?1 AND device = d.device) ORDER BY d.device",
              numbers, err);
    while (next(&q)) {
        struct sw_run_hardware h = {text(q.st, 0), real(q.st, 1), real(q.st, 2), real(q.st, 3),
                                    real(q.st, 4), real(q.st, 5), real(q.st, 6)};
        q.code = each(user, &h);
    }
    return end(&q);
}
