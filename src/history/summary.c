/* The SQL of summaries: adds the rows after runs.summed_to to the summaries and advances summed_to,
 * or drops the summaries. Runs inside the caller's transaction. */
#include "history/summary.h"
#include "history/sqlite.h"

/* ?1 is the run, ?2 the last step to cover; runs.summed_to is updated last. */
static const char *const add_sql[] = {
    "INSERT INTO series_summary(series_id, points, known, min, max, total)"
    " SELECT s.id, count(*), count(p.value), min(p.value), max(p.value), total(p.value)"
    " FROM runs r JOIN series s ON s.run_id = r.id"
    " JOIN point p ON p.series_id = s.id AND p.step > r.summed_to AND p.step <= ?2"
    " WHERE r.id = ?1 GROUP BY s.id ON CONFLICT DO UPDATE SET"
    " points = points + excluded.points, known = known + excluded.known,"
    " min = min(coalesce(min, excluded.min), coalesce(excluded.min, min)),"
    " max = max(coalesce(max, excluded.max), coalesce(excluded.max, max)),"
    " total = total + excluded.total",
    "INSERT INTO time_summary(run_id, worker, steps, read_ms, decode_ms, h2d_ms, forward_ms,"
    " backward_ms, update_ms, comm_exposed_ms, comm_hidden_ms, wait_ms, idle_ms)"
    " SELECT r.id, t.worker, count(*), total(t.read_ms), total(t.decode_ms), total(t.h2d_ms),"
    " total(t.forward_ms), total(t.backward_ms), total(t.update_ms), total(t.comm_exposed_ms),"
    " total(t.comm_hidden_ms), total(t.wait_ms), total(t.idle_ms)"
    " FROM runs r JOIN step_time t ON t.run_id = r.id AND t.step > r.summed_to AND t.step <= ?2"
    " WHERE r.id = ?1 GROUP BY t.worker ON CONFLICT DO UPDATE SET"
    " steps = steps + excluded.steps, read_ms = read_ms + excluded.read_ms,"
    " decode_ms = decode_ms + excluded.decode_ms, h2d_ms = h2d_ms + excluded.h2d_ms,"
    " forward_ms = forward_ms + excluded.forward_ms,"
    " backward_ms = backward_ms + excluded.backward_ms, update_ms = update_ms + excluded.update_ms,"
    " comm_exposed_ms = comm_exposed_ms + excluded.comm_exposed_ms,"
    " comm_hidden_ms = comm_hidden_ms + excluded.comm_hidden_ms,"
    " wait_ms = wait_ms + excluded.wait_ms, idle_ms = idle_ms + excluded.idle_ms",
    "INSERT INTO traffic_summary(run_id, from_unit, to_unit, kind, steps, bytes, ms)"
    " SELECT r.id, t.from_unit, t.to_unit, t.kind, count(*), sum(t.bytes), total(t.ms)"
    " FROM runs r JOIN link_traffic t ON t.run_id = r.id AND t.step > r.summed_to"
    " AND t.step <= ?2 WHERE r.id = ?1 GROUP BY t.from_unit, t.to_unit, t.kind"
    " ON CONFLICT DO UPDATE SET steps = steps + excluded.steps, bytes = bytes + excluded.bytes,"
    " ms = ms + excluded.ms",
    "UPDATE runs SET summed_to = ?2 WHERE id = ?1 AND summed_to < ?2",
};

static const char *const drop_sql[] = {
    "DELETE FROM series_summary WHERE series_id IN (SELECT id FROM series WHERE run_id = ?1)",
    "DELETE FROM time_summary WHERE run_id = ?1",
    "DELETE FROM traffic_summary WHERE run_id = ?1",
    "UPDATE runs SET summed_to = -1 WHERE id = ?1",
};

int sw_summary_add(sqlite3 *db, const char *path, int64_t run_id, int64_t upto_step,
                   struct sw_err *err)
{
    int code = SW_OK;

    for (size_t i = 0; !code && i < sizeof add_sql / sizeof *add_sql; i++)
        code = sw_query_once(db, path, add_sql[i], SW_CELLS(SW_INT(run_id), SW_INT(upto_step)),
                             NULL, err);

    return code;
}

int sw_summary_add_all(sqlite3 *db, const char *path, int64_t run_id, struct sw_err *err)
{
    static const char last_sql[] =
        "SELECT coalesce(max(step), -1) FROM ("
        " SELECT (SELECT max(step) FROM point WHERE series_id = s.id) AS step"
        "  FROM series s WHERE s.run_id = ?1"
        " UNION ALL SELECT * FROM (SELECT max(step) FROM step_time WHERE run_id = ?1)"
        " UNION ALL SELECT * FROM (SELECT max(step) FROM link_traffic WHERE run_id = ?1))";
    int64_t last = -1;
    int code = sw_query_once(db, path, last_sql, SW_CELLS(SW_INT(run_id)), &last, err);

    return code ? code : sw_summary_add(db, path, run_id, last, err);
}

int sw_summary_drop(sqlite3 *db, const char *path, int64_t run_id, struct sw_err *err)
{
    int code = SW_OK;
    for (size_t i = 0; !code && i < sizeof drop_sql / sizeof *drop_sql; i++)
        code = sw_query_once(db, path, drop_sql[i], SW_CELLS(SW_INT(run_id)), NULL, err);
    return code;
}
