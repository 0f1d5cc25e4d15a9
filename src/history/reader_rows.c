/* Reads rows of one run into structs. A table gives the query of each kind of row and the types of
 * its columns, one letter each; the fields of the kind's struct are in the same order. */
#include "history/reader_rows.h"

#include "base/text.h"
#include "history/reader_open.h"
#include <assert.h>
#include <string.h>

/* The types of the columns are those of sw_query_take. In a query ?1 is the run or the series, ?2
 * after, ?3 upto. */
static const struct {
    const char *columns, *sql;
} kinds[SW_ROWS_KINDS] = {
    [SW_ROWS_SERIES] = {"itt", "SELECT id, split, name FROM series WHERE run_id = ?1"
                               " ORDER BY split <> 'train', split, name"},
    [SW_ROWS_POINT] = {"irr", "SELECT step, time, value FROM point WHERE series_id = ?1"
                              " AND step > ?2 AND step <= ?3 ORDER BY step"},
    [SW_ROWS_STEP_TIME] =
        {"iddffffffffff",
         "SELECT step, worker, staleness, read_ms, decode_ms, h2d_ms, forward_ms, backward_ms,"
         " update_ms, comm_exposed_ms, comm_hidden_ms, wait_ms, idle_ms FROM step_time"
         " WHERE run_id = ?1 AND step > ?2 ORDER BY step, worker"},
    [SW_ROWS_LAYER] = {"Mrrr",
                       "SELECT layer, sum(coalesce(forward_ms, 0) * samples) / sum(samples) AS f,"
                       " sum(coalesce(backward_ms, 0) * samples) / sum(samples) AS b,"
                       " max(coalesce(forward_ms, 0) + coalesce(backward_ms, 0)) FROM layer_time"
                       " WHERE run_id = ?1 AND samples > 0 GROUP BY layer ORDER BY f + b DESC"},
    [SW_ROWS_TRAFFIC] =
        {"SSKrrr",
         "SELECT from_unit, to_unit, kind, sum(bytes) * 1.0 / count(*), total(ms) / count(*), NULL"
         " FROM link_traffic WHERE run_id = ?1 AND step > ?2 AND kind NOT IN ('net', 'net_test')"
         " GROUP BY from_unit, to_unit, kind ORDER BY sum(bytes) DESC"},
    [SW_ROWS_NET] =
        {"SSKrrr",
         "SELECT from_unit, to_unit, kind, sum(bytes) * 1.0 / count(*), total(ms) / count(*),"
         " (SELECT r.bytes * 1000 / r.ms FROM link_traffic r WHERE r.run_id = ?1"
         "  AND r.kind = 'net_test' AND r.from_unit = t.from_unit AND r.to_unit = t.to_unit"
         "  ORDER BY r.step DESC LIMIT 1)"
         " FROM link_traffic t WHERE run_id = ?1 AND step > ?2 AND kind = 'net'"
         " GROUP BY from_unit, to_unit ORDER BY from_unit, to_unit"},
    [SW_ROWS_PLAN_TEXT] = {"trr", "SELECT json, predicted_ms, measured_ms FROM plans"
                                  " WHERE run_id = ?1 ORDER BY rowid DESC LIMIT 1"},
    [SW_ROWS_PLACEMENT] =
        {"SSMLn", "SELECT unit, device, cores, reason, numa FROM placement"
                  " WHERE run_id = ?1 ORDER BY instr(unit, '/') > 0,"
                  " substr(unit, 1, instr(unit, '/')), unit LIKE '%server%', length(unit), unit"},
    [SW_ROWS_EVENT] = {"irttt",
                       "SELECT rowid, time, level, source, text FROM events WHERE run_id = ?1"
                       " AND rowid > max(?2, coalesce((SELECT rowid FROM events WHERE run_id = ?1"
                       "  ORDER BY rowid DESC LIMIT 1 OFFSET ?3), 0)) ORDER BY rowid"},
    [SW_ROWS_LAST_EVENT] = {"irooo", "SELECT rowid, time, level, source, text FROM events"
                                     " WHERE run_id = ?1 ORDER BY time DESC LIMIT ?3"},
    [SW_ROWS_SEGMENT] = {"iirro",
                         "SELECT segment, from_step, started_at, ended_at, command FROM segments"
                         " WHERE run_id = ?1 ORDER BY segment"},
    [SW_ROWS_STAGE] = {"oiiiirr", "SELECT name, from_step, batch, epoch_records, params,"
                                  " flops_per_sample, epochs_before FROM stages WHERE run_id = ?1"
                                  " ORDER BY from_step"},
    [SW_ROWS_HARDWARE] =
        {"Srrrrrr",
         "SELECT d.device, h.time, h.util, h.mem_used, h.power_w, h.temp_c, h.clock_mhz"
         " FROM (SELECT DISTINCT device FROM hardware WHERE run_id = ?1) d JOIN hardware h"
         " ON h.run_id = ?1 AND h.device = d.device AND h.time = (SELECT max(time) FROM"
         "  hardware WHERE run_id = ?1 AND device = d.device) ORDER BY d.device"},
    [SW_ROWS_CHECKPOINT] = {"itiozi", "SELECT step, path, bytes, checksum, time, is_best <> 0"
                                      " FROM checkpoints WHERE run_id = ?1 ORDER BY step DESC"},
    [SW_ROWS_METRIC] = {"ttiirrrr", "SELECT split, name, points, last_step, last, min, max, mean"
                                    " FROM series_stats WHERE run_id = ?1 AND points > 0"
                                    " ORDER BY split <> 'train', split, name"},
    [SW_ROWS_TIME] = {"tzr", "SELECT part, total_ms, share FROM where_time_went WHERE run_id = ?1"},
    [SW_ROWS_HOST] = {"iooooorrrro", "SELECT host, name, address, cpu, gpus, fabric,"
                                     " clock_offset_ms, clock_error_ms, joined_at, left_at, why"
                                     " FROM hosts WHERE run_id = ?1 ORDER BY host"},
    [SW_ROWS_PLAN] = {"trr", "SELECT 'step', predicted_ms, measured_ms FROM plans"
                             " WHERE run_id = ?1 UNION ALL"
                             " SELECT 'until step ' || json_extract(j.value, '$.until_step'),"
                             " json_extract(j.value, '$.predicted_ms'),"
                             " json_extract(j.value, '$.measured_ms')"
                             " FROM plans p, json_each(iif(json_valid(p.json), p.json, '{}'),"
                             "  '$.replaced') j"
                             " WHERE p.run_id = ?1"},
    [SW_ROWS_TAG] = {"oo", "SELECT key, value FROM tags WHERE run_id = ?1 ORDER BY key"},
};

/* The query of a kind for a file of an older schema. Version 1 has no summaries, so that all points
 * are read; before version 3 a run has a single stage, before version 4 a single host, and before
 * version 5 no segment has a command. */
static const char *sql_of(enum sw_rows_kind kind, int version)
{
    if (kind == SW_ROWS_METRIC && version < 2)
        return "SELECT s.split, s.name, count(*), max(p.step), (SELECT value FROM point"
               "  WHERE series_id = s.id ORDER BY step DESC LIMIT 1), min(p.value), max(p.value),"
               " avg(p.value) FROM series s JOIN point p ON p.series_id = s.id"
               " WHERE s.run_id = ?1 GROUP BY s.id ORDER BY s.split <> 'train', s.split, s.name";
    if (kind == SW_ROWS_STAGE && version < 3)
        return "SELECT NULL, 0, batch, epoch_records, params, flops_per_sample, 0.0 FROM runs"
               " WHERE id = ?1";
    if (kind == SW_ROWS_HOST && version < 4)
        return "SELECT 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL WHERE 0";
    if (kind == SW_ROWS_SEGMENT && version < 5)
        return "SELECT segment, from_step, started_at, ended_at, NULL FROM segments"
               " WHERE run_id = ?1 ORDER BY segment";
    return kinds[kind].sql;
}

struct sw_rows sw_rows_begin(const struct sw_history_reader *r, enum sw_rows_kind kind, int64_t id,
                             int64_t after, int64_t upto, struct sw_err *err)
{
    struct sw_query q = sw_query_begin(r->db, r->path, sql_of(kind, r->version),
                                       SW_CELLS(SW_INT(id), SW_INT(after), SW_INT(upto)), err);

    return (struct sw_rows){
        .kind = kind, .reader = r, .statement = q.st, .code = q.code, .err = err};
}

/* Stores one column in its field; returns the size of the field in bytes. */
static size_t take(const struct sw_query *q, int column, char type, void *field)
{
    union {
        int64_t i;
        int32_t d;
        double r;
        float f;
        const char *t;
    } v;

    size_t bytes = sizeof v.i;
    const bool null = sqlite3_column_type(q->st, column) == SQLITE_NULL;

    switch (type) {
    case 'i':
        v.i = sw_query_int(q, column);
        break;
    case 'd':
    case 'n':
        v.d = null && type == 'n' ? -1 : sqlite3_column_int(q->st, column);
        bytes = sizeof v.d;
        break;
    case 'f':
        v.f = (float)sqlite3_column_double(q->st, column);
        bytes = sizeof v.f;
        break;
    case 'r':
        v.r = sw_query_real(q, column);
        break;
    case 'z':
        v.r = sqlite3_column_double(q->st, column);
        break;
    case 'K':
    case 'S':
    case 'M':
    case 'L':
        bytes = type == 'K' ? 16 : type == 'S' ? 32 : type == 'M' ? 64 : 128;
        sw_utf8_copy(field, bytes, null ? "" : sw_query_text(q, column));
        return bytes;
    default:
        v.t = sw_query_text(q, column);
        v.t = v.t || type == 'o' ? v.t : "";
    }

    memcpy(field, &v, bytes);
    return bytes;
}

size_t sw_query_take(const struct sw_query *q, const char *types, void *row)
{
    size_t at = 0;

    for (int i = 0; types[i]; i++)
        at += take(q, i, types[i], (char *)row + at);

    return at;
}

bool sw_rows_fill(struct sw_rows *rows, void *row, size_t bytes)
{
    const struct sw_history_reader *r = rows->reader;
    struct sw_query q = {r->db, r->path, rows->statement, rows->code, rows->err};
    bool there = sw_query_next(&q);

    /* SQLite allows any type in any column, but a caller that continues after the last step it has
     * seen needs ascending steps, so rows whose step is not an integer are skipped. */
    if (rows->kind == SW_ROWS_POINT || rows->kind == SW_ROWS_STEP_TIME)
        while (there && sqlite3_column_type(q.st, 0) != SQLITE_INTEGER)
            there = sw_query_next(&q);

    size_t filled = there ? sw_query_take(&q, kinds[rows->kind].columns, row) : bytes;
    assert(filled <= bytes && bytes - filled < sizeof(double)); /* padding at the end */
    (void)filled;

    rows->code = q.code;

    return there;
}

int sw_rows_end(struct sw_rows *rows)
{
    sqlite3_finalize(rows->statement);
    rows->statement = NULL;
    return rows->code;
}

int sw_history_newest_step_time(struct sw_history_reader *r, int64_t run_id, int64_t *step,
                                struct sw_err *err)
{
    return sw_query_once(r->db, r->path,
                         "SELECT coalesce((SELECT max(step) FROM step_time WHERE run_id = ?1), -1)",
                         SW_CELLS(SW_INT(run_id)), step, err);
}
