/* Applies rows to the database with one or more prepared statements per kind of row. Caches ids of
 * series by handle, updates summaries when enough rows were added, and drops summaries that a row
 * invalidates. Called between sw_store_begin and sw_store_end, by the owner of the connection. */
#include "history/store.h"
#include "base/os.h"
#include "history/summary.h"
#include <string.h>

/* Summaries lag this many steps behind the newest row, more than the rings of asynchronous workers
 * can hold, so that no row of a live run arrives after its step was summarized. */
enum { SUMMARY_LAG = 32768, SUMMARY_INTERVAL = 65536 };

/* The statements of each kind of row; ?1 is the id of the run, ?2, ?3, ... are the cells of the
 * row. A statement need not use all of them. */
static const char *const sql_of[SW_ROW_KINDS][SW_STORE_STATEMENTS] = {
    [SW_ROW_RUN] =
        {"INSERT INTO runs(id, name, recipe, recipe_hash, overrides, command, host, pid, "
         "started_at,"
         " framework, workers, device, seed, batch, params, version, note, flops_per_sample, uid,"
         " pid_start, boot_id, out_dir, recipe_text, fallback, steps, epoch_records, status)"
         " SELECT CASE WHEN NOT EXISTS (SELECT 1 FROM runs WHERE id = ?2) THEN ?2 END, ?3, ?4, ?5,"
         " ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23,"
         " ?24, ?25, ?26, ?27, 'running' WHERE NOT EXISTS (SELECT 1 FROM runs WHERE uid = ?20)",
         "INSERT OR IGNORE INTO stages SELECT id, 0, NULL, batch, epoch_records, params,"
         " flops_per_sample, 0.0 FROM runs WHERE uid = ?20"},
    /* A segment that a crash left open gets the time of its last point as its end. Then this
       process becomes the owner of the run, and rows after its first step are deleted. */
    [SW_ROW_SEGMENT] =
        {"UPDATE segments SET ended_at = coalesce((SELECT max(p.time) FROM series s JOIN point p"
         " ON p.series_id = s.id AND p.step = (SELECT max(step) FROM point WHERE series_id = s.id)"
         " WHERE s.run_id = ?1 AND p.time >= started_at), started_at)"
         " WHERE run_id = ?1 AND ended_at IS NULL",
         "INSERT INTO segments(run_id, segment, from_step, started_at, command)"
         " SELECT ?1, coalesce(max(segment) + 1, 0), ?2, ?3, ?8 FROM segments WHERE run_id = ?1",
         "UPDATE runs SET status = 'running', ended_at = NULL, pid = ?4, pid_start = ?5,"
         " boot_id = ?6, host = ?7, framework = coalesce(?9, framework), workers = "
         "coalesce(nullif(?10, 0), workers),"
         " device = coalesce(?11, device), steps = coalesce(nullif(?12, 0), steps),"
         " version = coalesce(?13, version) WHERE id = ?1",
         "DELETE FROM point WHERE series_id IN (SELECT id FROM series WHERE run_id = ?1)"
         " AND step > ?2",
         "DELETE FROM step_time WHERE run_id = ?1 AND step > ?2",
         "DELETE FROM link_traffic WHERE run_id = ?1 AND step > ?2",
         "DELETE FROM checkpoints WHERE run_id = ?1 AND step > ?2",
         "DELETE FROM placement WHERE run_id = ?1",
         "DELETE FROM stages WHERE run_id = ?1 AND from_step > ?2"},
    /* A stage that equals the stage before it adds no row. */
    [SW_ROW_STAGE] =
        {"INSERT OR REPLACE INTO stages(run_id, from_step, name, batch, epoch_records, params,"
         " flops_per_sample, epochs_before) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7,"
         " coalesce((SELECT epochs_before + (?2 - from_step) * 1.0 * batch / nullif(epoch_records,"
         " 0) FROM stages WHERE run_id = ?1 AND from_step < ?2 ORDER BY from_step DESC LIMIT 1), 0)"
         " WHERE NOT EXISTS (SELECT 1 FROM (SELECT * FROM stages WHERE run_id = ?1"
         "  AND from_step <= ?2 ORDER BY from_step DESC LIMIT 1) WHERE name IS ?3 AND batch IS ?4"
         "  AND epoch_records IS ?5 AND params IS ?6 AND flops_per_sample IS ?7)",
         "UPDATE runs SET batch = coalesce(?4, batch), epoch_records = coalesce(?5, epoch_records),"
         " params = coalesce(?6, params), flops_per_sample = coalesce(?7, flops_per_sample)"
         " WHERE id = ?1"},
    [SW_ROW_POINT] =
        {"INSERT INTO series(run_id, split, name) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
         "SELECT id FROM series WHERE run_id = ?1 AND split = ?2 AND name = ?3",
         "INSERT OR REPLACE INTO point(series_id, step, ms, value)"
         " VALUES (?1, ?4, CAST(round(?5 * 1000) AS INTEGER), ?6)"},
    [SW_ROW_STEP_TIME] =
        {"INSERT OR REPLACE INTO step_time(run_id, step, worker, read_ms, decode_ms, h2d_ms,"
         " forward_ms, backward_ms, update_ms, comm_exposed_ms, comm_hidden_ms, wait_ms, idle_ms,"
         " staleness) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)"},
    [SW_ROW_LAYER_TIME] =
        {"INSERT INTO layer_time(run_id, layer, worker, forward_ms, backward_ms, samples)"
         " VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO UPDATE SET"
         " forward_ms = (forward_ms * samples + excluded.forward_ms * excluded.samples)"
         " / max(1, samples + excluded.samples),"
         " backward_ms = (backward_ms * samples + excluded.backward_ms * excluded.samples)"
         " / max(1, samples + excluded.samples), samples = samples + excluded.samples"},
    [SW_ROW_TRAFFIC] =
        {"INSERT INTO link_traffic(run_id, step, from_unit, to_unit, kind, bytes, ms)"
         " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO UPDATE SET"
         " bytes = bytes + excluded.bytes, ms = ms + excluded.ms"},
    [SW_ROW_PLACEMENT] =
        {"INSERT OR REPLACE INTO placement(run_id, unit, device, numa, cores, reason)"
         " VALUES (?1, ?2, ?3, ?4, ?5, ?6)"},
    /* Those of one host; roles of host 0 have no name of a host in front. */
    [SW_ROW_PLACEMENT_REMOVED] =
        {"DELETE FROM placement WHERE run_id = ?1 AND CASE WHEN ?2 IS NULL THEN instr(unit, '/')"
         " = 0 ELSE substr(unit, 1, length(?2) + 1) = ?2 || '/' END"},
    [SW_ROW_CHECKPOINT] =
        {"UPDATE checkpoints SET is_best = 0 WHERE run_id = ?1 AND ?7 = 1",
         "INSERT OR REPLACE INTO checkpoints(run_id, step, path, bytes, checksum, time, is_best)"
         " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"},
    [SW_ROW_CHECKPOINT_REMOVED] = {"DELETE FROM checkpoints WHERE run_id = ?1 AND step = ?2"},
    [SW_ROW_CHECKPOINT_BEST] = {"UPDATE checkpoints SET is_best = step = ?2 WHERE run_id = ?1"},
    [SW_ROW_HARDWARE] = {"INSERT OR REPLACE INTO hardware(run_id, time, device, util, mem_used,"
                         " power_w, temp_c, clock_mhz) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"},
    [SW_ROW_EVENT] = {"INSERT INTO events(run_id, time, level, source, text)"
                      " VALUES (?1, ?2, ?3, ?4, ?5)"},
    [SW_ROW_TAG] = {"INSERT OR REPLACE INTO tags(run_id, key, value) VALUES (?1, ?2, ?3)"},
    /* A resume on another machine has another plan, and the settings of that one. */
    [SW_ROW_PLAN] = {"INSERT OR REPLACE INTO plans(run_id, json, predicted_ms)"
                     " VALUES (?1, ?2, ?3)",
                     "UPDATE runs SET overrides = coalesce(?4, overrides) WHERE id = ?1"},
    [SW_ROW_PLAN_MEASURED] = {"UPDATE plans SET measured_ms = ?2 WHERE run_id = ?1"},
    /* The process goes on, so rows after the step may be stored already. */
    [SW_ROW_CHANGED] =
        {"UPDATE segments SET ended_at = ?3 WHERE run_id = ?1 AND ended_at IS NULL",
         "INSERT INTO segments(run_id, segment, from_step, started_at)"
         " SELECT ?1, coalesce(max(segment) + 1, 0), ?2, ?3 FROM segments WHERE run_id = ?1",
         "UPDATE runs SET framework = coalesce(?4, framework),"
         " workers = coalesce(nullif(?5, 0), workers), device = coalesce(?6, device)"
         " WHERE id = ?1"},
    /* The row of a host that joins replaces all values; other rows add what they know. */
    [SW_ROW_HOST] =
        {"INSERT OR IGNORE INTO hosts(run_id, host) VALUES (?1, ?2)",
         "UPDATE hosts SET name = ?3, address = ?4, cpu = ?5, gpus = ?6, fabric = ?7,"
         " clock_offset_ms = ?8, clock_error_ms = ?9, joined_at = ?10, left_at = ?11, why = ?12"
         " WHERE run_id = ?1 AND host = ?2 AND ?10 IS NOT NULL",
         "UPDATE hosts SET name = coalesce(?3, name), address = coalesce(?4, address),"
         " cpu = coalesce(?5, cpu), gpus = coalesce(?6, gpus), fabric = coalesce(?7, fabric),"
         " clock_offset_ms = coalesce(?8, clock_offset_ms),"
         " clock_error_ms = coalesce(?9, clock_error_ms), left_at = coalesce(?11, left_at),"
         " why = coalesce(?12, why) WHERE run_id = ?1 AND host = ?2 AND ?10 IS NULL"},
    [SW_ROW_FINISH] = {"UPDATE runs SET status = ?2, ended_at = ?3 WHERE id = ?1",
                       "UPDATE segments SET ended_at = ?3 WHERE run_id = ?1 AND ended_at IS NULL"},
};

static int bind_row(sqlite3_stmt *st, int64_t run_id, const struct sw_row *row)
{
    int wanted = sqlite3_bind_parameter_count(st),
        cells = (int)strlen(sw_row_specs[row->kind].types);
    int rc = wanted ? sqlite3_bind_int64(st, 1, run_id) : SQLITE_OK;

    for (int i = 0; rc == SQLITE_OK && i < cells && i + 2 <= wanted; i++)
        rc = sw_query_bind(st, i + 2, &row->cells[i]);
    return rc;
}

/* Binds and runs one statement of the kind of the row; value (may be NULL) gets its first result. A
 * violated constraint gives SW_ERR_INVALID and leaves the transaction usable. */
static int run(struct sw_store *s, const struct sw_row *row, int index, int64_t run_id,
               int64_t *value, struct sw_err *err)
{
    sqlite3_stmt **st = &s->statements[row->kind][index];
    int rc = SQLITE_OK;

    if (!*st)
        rc = sqlite3_prepare_v3(s->db, sql_of[row->kind][index], -1, SQLITE_PREPARE_PERSISTENT, st,
                                NULL);

    if (rc == SQLITE_OK)
        rc = bind_row(*st, run_id, row);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(*st);
    if (rc == SQLITE_ROW && value)
        *value = sqlite3_column_int64(*st, 0);

    int code = sw_sqlite_check(s->db, rc, s->path, err);
    if ((rc & 0xff) == SQLITE_CONSTRAINT || (rc & 0xff) == SQLITE_TOOBIG)
        code = sw_err_set(err, SW_ERR_INVALID, "%s: cannot store a row of %s: %s", s->path,
                          sw_row_specs[row->kind].name, sqlite3_errmsg(s->db));

    if (*st) {
        sqlite3_reset(*st);
        sqlite3_clear_bindings(*st);
    }

    return code;
}

/* Finds the id of the series in the table of handles or in the database; inserts a new series. */
static int find_series(struct sw_store *s, const struct sw_row *row, int64_t run_id, int64_t *id,
                       struct sw_err *err)
{
    if (row->series >= 0 && s->series[row->series]) {
        *id = s->series[row->series];
        return SW_OK;
    }

    *id = 0;

    int code = run(s, row, 1, run_id, id, err);
    if (!code && !*id) {
        code = run(s, row, 0, run_id, NULL, err);
        if (!code)
            code = run(s, row, 1, run_id, id, err);
    }

    if (!code && row->series >= 0)
        s->series[row->series] = *id;
    return code;
}

int sw_store_run_id(struct sw_store *s, const char *uid, int64_t *run_id, struct sw_err *err)
{
    if (s->cached_run && strcmp(s->cached_uid, uid) == 0) {
        *run_id = s->cached_run;
        return SW_OK;
    }

    struct sw_query q =
        sw_query_begin(s->db, s->path, "SELECT id, summed_to FROM runs WHERE uid = ?1",
                       SW_CELLS(SW_TEXT(uid)), err);
    bool known = sw_query_next(&q);
    int64_t id = known ? sw_query_int(&q, 0) : 0, summed_to = known ? sw_query_int(&q, 1) : -1;
    int code = sw_query_end(&q);
    if (code)
        return code;

    *run_id = s->cached_run = id;
    s->summed_to = summed_to;
    if (strcmp(s->cached_uid, uid) != 0)
        s->newest_step = -1;
    strncpy(s->cached_uid, uid, sizeof s->cached_uid - 1);

    return SW_OK;
}

static int apply_plain(struct sw_store *s, int64_t run_id, const struct sw_row *row,
                       struct sw_err *err)
{
    int code = SW_OK;
    for (int i = 0; !code && i < SW_STORE_STATEMENTS && sql_of[row->kind][i]; i++)
        code = run(s, row, i, run_id, NULL, err);
    return code;
}

/* The index of the cell with the step of a row that summaries include; -1: they do not include such
 * rows. */
static int step_cell(enum sw_row_kind kind)
{
    return kind == SW_ROW_POINT ? 2 : kind == SW_ROW_STEP_TIME || kind == SW_ROW_TRAFFIC ? 0 : -1;
}

/* Drops the summaries if the row has a step that they cover, or resumes the run from before such a
 * step. */
static int check_summary(struct sw_store *s, int64_t run_id, const struct sw_row *row,
                         struct sw_err *err)
{
    int cell = step_cell(row->kind);
    if (cell < 0 && row->kind != SW_ROW_SEGMENT)
        return SW_OK;

    int64_t step = row->cells[cell < 0 ? 0 : cell].i;
    bool valid = cell < 0 ? step >= s->summed_to : step > s->summed_to;
    if (cell < 0)
        s->newest_step = step;
    else if (step > s->newest_step)
        s->newest_step = step;

    if (valid)
        return SW_OK;

    s->summed_to = -1;
    return sw_summary_drop(s->db, s->path, run_id, err);
}

int sw_store_apply(struct sw_store *s, const char *uid, const struct sw_row *row,
                   struct sw_err *err)
{
    int64_t id = 0;

    if (row->kind == SW_ROW_RUN) {
        s->cached_run = 0;
        return apply_plain(s, 0, row, err);
    }

    int code = sw_store_run_id(s, uid, &id, err);
    if (!code && !id)
        return sw_err_set(err, SW_ERR_INVALID, "%s: run %s is unknown", s->path, uid);

    if (!code)
        code = check_summary(s, id, row, err);

    if (!code && row->kind != SW_ROW_POINT)
        code = apply_plain(s, id, row, err);
    else if (!code && !(code = find_series(s, row, id, &id, err)))
        code = run(s, row, 2, id, NULL, err);

    if (!code && row->kind == SW_ROW_FINISH) {
        s->summed_to = -1; /* read again if further rows arrive */
        s->cached_run = 0;
        code = sw_summary_add_all(s->db, s->path, id, err);
    }

    return code;
}

int sw_store_update_summaries(struct sw_store *s, struct sw_err *err)
{
    int64_t upto = s->newest_step - SUMMARY_LAG;
    if (!s->cached_run || upto - s->summed_to < SUMMARY_INTERVAL)
        return SW_OK;

    s->summed_to = upto;
    return sw_summary_add(s->db, s->path, s->cached_run, upto, err);
}

static void add_columns(struct sw_bytes *sql)
{
    const struct sw_row_spec *spec = &sw_row_specs[SW_ROW_RUN];
    for (int i = 0; spec->types[i]; i++)
        sw_bytes_printf(sql, "%s%s", i ? ", " : "SELECT ", spec->columns[i]);
    sw_bytes_add(sql, " FROM runs WHERE id = ?1");
}

static struct sw_cell cell_of(sqlite3_stmt *st, int column, char type)
{
    if (sqlite3_column_type(st, column) == SQLITE_NULL)
        return SW_NULL;
    if (type == 'i')
        return SW_INT(sqlite3_column_int64(st, column));
    if (type == 'r')
        return SW_REAL(sqlite3_column_double(st, column));

    return SW_TEXT((const char *)sqlite3_column_text(st, column));
}

int sw_store_read_run(struct sw_store *s, int64_t run_id, struct sw_row **row, struct sw_err *err)
{
    const struct sw_row_spec *spec = &sw_row_specs[SW_ROW_RUN];
    struct sw_row r = {.kind = SW_ROW_RUN, .series = -1};
    struct sw_bytes sql = {0};

    add_columns(&sql);
    if (sql.failed) {
        sw_bytes_fini(&sql);
        return sw_err_nomem(err, "query for a run", 0);
    }

    struct sw_query q =
        sw_query_begin(s->db, s->path, sw_bytes_text(&sql), SW_CELLS(SW_INT(run_id)), err);
    *row = NULL;

    bool found = sw_query_next(&q);
    if (found) {
        for (int i = 0; spec->types[i]; i++)
            r.cells[i] = cell_of(q.st, i, spec->types[i]);
        *row = sw_row_copy(&r);
    }

    int code = sw_query_end(&q);
    if (!code && !found)
        code = sw_err_set(err, SW_ERR_NOTFOUND, "%s has no run %lld", s->path, (long long)run_id);
    else if (!code && !*row)
        code = sw_err_nomem(err, "row of a run", sizeof r);

    sw_bytes_fini(&sql);
    return code;
}

int sw_store_spool_offset(struct sw_store *s, const char *spool_id, int64_t *bytes,
                          struct sw_err *err)
{
    *bytes = 0;
    return sw_query_once(s->db, s->path, "SELECT bytes FROM spools WHERE id = ?1",
                         SW_CELLS(SW_TEXT(spool_id)), bytes, err);
}

int sw_store_set_spool_offset(struct sw_store *s, const char *spool_id, const char *path,
                              int64_t bytes, struct sw_err *err)
{
    return sw_query_once(s->db, s->path,
                         "INSERT OR REPLACE INTO spools(id, path, bytes) VALUES (?1, ?2, ?3)",
                         SW_CELLS(SW_TEXT(spool_id), SW_TEXT(path), SW_INT(bytes)), NULL, err);
}
