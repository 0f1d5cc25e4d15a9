#include "history/reader_rows.h"

#include "history/reader_open.h"

/* "" for NULL. */
static const char *text(const struct sw_query *q, int column)
{
    const char *t = sw_query_text(q, column);
    return t ? t : "";
}

static struct sw_query begin(const struct sw_history_reader *r, const char *sql,
                             const struct sw_cell *cells, size_t count, struct sw_err *err)
{
    return sw_query_begin(r->db, r->path, sql, cells, count, err);
}

/* Is the first column a step? Tables take any type in any column, but who reads what is behind the
 * last row that it has seen needs steps that ascend: a row without one is none of ours. */
static bool has_step(const struct sw_query *q)
{
    return sqlite3_column_type(q->st, 0) == SQLITE_INTEGER;
}

int sw_history_each_series(struct sw_history_reader *r, int64_t run_id,
                           int (*each)(void *user, const struct sw_run_series *s), void *user,
                           struct sw_err *err)
{
    struct sw_query q = begin(r,
                              "SELECT id, split, name FROM series WHERE run_id = ?1"
                              " ORDER BY split <> 'train', split, name",
                              SW_CELLS(SW_INT(run_id)), err);

    while (sw_query_next(&q)) {
        struct sw_run_series s = {sw_query_int(&q, 0), text(&q, 1), text(&q, 2)};
        q.code = each(user, &s);
    }
    return sw_query_end(&q);
}

int sw_history_each_point(struct sw_history_reader *r, int64_t series, int64_t after, int64_t upto,
                          int (*each)(void *user, const struct sw_run_point *p), void *user,
                          struct sw_err *err)
{
    struct sw_query q =
        begin(r,
              "SELECT step, time, value FROM point WHERE series_id = ?1 AND step > ?2"
              " AND step <= ?3 ORDER BY step",
              SW_CELLS(SW_INT(series), SW_INT(after), SW_INT(upto)), err);

    while (sw_query_next(&q)) {
        if (!has_step(&q))
            continue;
        struct sw_run_point p = {sw_query_int(&q, 0), sw_query_real(&q, 1), sw_query_real(&q, 2)};
        q.code = each(user, &p);
    }
    return sw_query_end(&q);
}

int sw_history_each_step_time(struct sw_history_reader *r, int64_t run_id, int64_t after,
                              int (*each)(void *user, const struct sw_step_time *row), void *user,
                              struct sw_err *err)
{
    struct sw_query q =
        begin(r,
              "SELECT step, worker, staleness, read_ms, decode_ms, h2d_ms, forward_ms,"
              " backward_ms, update_ms, comm_exposed_ms, comm_hidden_ms, wait_ms, idle_ms"
              " FROM step_time WHERE run_id = ?1 AND step > ?2 ORDER BY step, worker",
              SW_CELLS(SW_INT(run_id), SW_INT(after)), err);

    while (sw_query_next(&q)) {
        if (!has_step(&q))
            continue;
        struct sw_step_time t = {.step = sw_query_int(&q, 0),
                                 .worker = sqlite3_column_int(q.st, 1),
                                 .staleness = sqlite3_column_int(q.st, 2)};
        float *const parts[] = {&t.read_ms,     &t.decode_ms, &t.h2d_ms,          &t.forward_ms,
                                &t.backward_ms, &t.update_ms, &t.comm_exposed_ms, &t.comm_hidden_ms,
                                &t.wait_ms,     &t.idle_ms};
        for (int i = 0; i < (int)(sizeof parts / sizeof *parts); i++)
            *parts[i] = (float)sqlite3_column_double(q.st, 3 + i);
        q.code = each(user, &t);
    }
    return sw_query_end(&q);
}

int sw_history_newest_step_time(struct sw_history_reader *r, int64_t run_id, int64_t *step,
                                struct sw_err *err)
{
    return sw_query_once(r->db, r->path,
                         "SELECT coalesce((SELECT max(step) FROM step_time WHERE run_id = ?1), -1)",
                         SW_CELLS(SW_INT(run_id)), step, err);
}

int sw_history_each_layer(struct sw_history_reader *r, int64_t run_id,
                          int (*each)(void *user, const struct sw_run_layer *l), void *user,
                          struct sw_err *err)
{
    struct sw_query q =
        begin(r,
              "SELECT layer, sum(coalesce(forward_ms, 0) * samples) / sum(samples) AS f,"
              " sum(coalesce(backward_ms, 0) * samples) / sum(samples) AS b FROM layer_time"
              " WHERE run_id = ?1 AND samples > 0 GROUP BY layer ORDER BY f + b DESC",
              SW_CELLS(SW_INT(run_id)), err);

    while (sw_query_next(&q)) {
        struct sw_run_layer l = {text(&q, 0), sw_query_real(&q, 1), sw_query_real(&q, 2)};
        q.code = each(user, &l);
    }
    return sw_query_end(&q);
}

int sw_history_each_traffic(struct sw_history_reader *r, int64_t run_id, int64_t after,
                            int (*each)(void *user, const struct sw_run_traffic *t), void *user,
                            struct sw_err *err)
{
    struct sw_query q =
        begin(r,
              "SELECT from_unit, to_unit, kind, count(*), sum(bytes), total(ms) FROM link_traffic"
              " WHERE run_id = ?1 AND step > ?2 GROUP BY from_unit, to_unit, kind"
              " ORDER BY sum(bytes) DESC",
              SW_CELLS(SW_INT(run_id), SW_INT(after)), err);

    while (sw_query_next(&q)) {
        struct sw_run_traffic t = {text(&q, 0),         text(&q, 1),
                                   text(&q, 2),         sw_query_int(&q, 3),
                                   sw_query_int(&q, 4), sqlite3_column_double(q.st, 5)};
        q.code = each(user, &t);
    }
    return sw_query_end(&q);
}

int sw_history_each_unit(struct sw_history_reader *r, int64_t run_id,
                         int (*each)(void *user, const struct sw_run_unit *u), void *user,
                         struct sw_err *err)
{
    struct sw_query q =
        begin(r,
              "SELECT unit, device, cores, reason, numa FROM placement WHERE run_id = ?1"
              " ORDER BY unit LIKE 'server%', length(unit), unit",
              SW_CELLS(SW_INT(run_id)), err);

    while (sw_query_next(&q)) {
        bool known = sqlite3_column_type(q.st, 4) != SQLITE_NULL;
        struct sw_run_unit u = {text(&q, 0), text(&q, 1), text(&q, 2), text(&q, 3),
                                known ? sqlite3_column_int(q.st, 4) : -1};
        q.code = each(user, &u);
    }
    return sw_query_end(&q);
}

int sw_history_each_event(struct sw_history_reader *r, int64_t run_id, int64_t after, int64_t most,
                          int (*each)(void *user, const struct sw_run_event *e), void *user,
                          struct sw_err *err)
{
    struct sw_query q =
        begin(r,
              "SELECT rowid, time, level, source, text FROM events WHERE run_id = ?1 AND rowid >"
              " max(?2, coalesce((SELECT rowid FROM events WHERE run_id = ?1 ORDER BY rowid DESC"
              "  LIMIT 1 OFFSET ?3), 0)) ORDER BY rowid",
              SW_CELLS(SW_INT(run_id), SW_INT(after), SW_INT(most)), err);

    while (sw_query_next(&q)) {
        struct sw_run_event e = {sw_query_int(&q, 0), sw_query_real(&q, 1), text(&q, 2),
                                 text(&q, 3), text(&q, 4)};
        q.code = each(user, &e);
    }
    return sw_query_end(&q);
}

int sw_history_each_segment(struct sw_history_reader *r, int64_t run_id,
                            int (*each)(void *user, const struct sw_run_segment *s), void *user,
                            struct sw_err *err)
{
    struct sw_query q =
        begin(r,
              "SELECT segment, from_step, started_at, ended_at FROM segments WHERE run_id = ?1"
              " ORDER BY segment",
              SW_CELLS(SW_INT(run_id)), err);

    while (sw_query_next(&q)) {
        struct sw_run_segment s = {sw_query_int(&q, 0), sw_query_int(&q, 1), sw_query_real(&q, 2),
                                   sw_query_real(&q, 3)};
        q.code = each(user, &s);
    }
    return sw_query_end(&q);
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
    struct sw_query q = begin(r, sql[r->version < 3], SW_CELLS(SW_INT(run_id)), err);

    while (sw_query_next(&q)) {
        struct sw_run_stage s = {sw_query_text(&q, 0), sw_query_int(&q, 1), sw_query_int(&q, 2),
                                 sw_query_int(&q, 3),  sw_query_int(&q, 4), sw_query_real(&q, 5),
                                 sw_query_real(&q, 6)};
        q.code = each(user, &s);
    }
    return sw_query_end(&q);
}

int sw_history_each_hardware(struct sw_history_reader *r, int64_t run_id,
                             int (*each)(void *user, const struct sw_run_hardware *h), void *user,
                             struct sw_err *err)
{
    struct sw_query q =
        begin(r,
              "SELECT d.device, h.time, h.util, h.mem_used, h.power_w, h.temp_c, h.clock_mhz"
              " FROM (SELECT DISTINCT device FROM hardware WHERE run_id = ?1) d JOIN hardware h"
              " ON h.run_id = ?1 AND h.device = d.device AND h.time = (SELECT max(time) FROM"
              "  hardware WHERE run_id = ?1 AND device = d.device) ORDER BY d.device",
              SW_CELLS(SW_INT(run_id)), err);

    while (sw_query_next(&q)) {
        struct sw_run_hardware h = {
            text(&q, 0),          sw_query_real(&q, 1), sw_query_real(&q, 2), sw_query_real(&q, 3),
            sw_query_real(&q, 4), sw_query_real(&q, 5), sw_query_real(&q, 6)};
        q.code = each(user, &h);
    }
    return sw_query_end(&q);
}
