#include "history/schema.h"
#include <stdio.h>

/* Version 1. Beside the columns that people ask for, `runs` keeps what a resume and a reader need:
 * uid (the run's name across databases), pid_start and boot_id (is its process alive?), out_dir,
 * recipe_text, fallback, steps (the horizon) and epoch_records. `spools` says how much of each
 * metrics.jsonl has been merged, in the same transaction as the rows, so that no row is merged
 * twice. */
static const char tables_1[] =
    "CREATE TABLE runs(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, recipe TEXT,"
    " recipe_hash TEXT, overrides TEXT, command TEXT, host TEXT, pid INTEGER,"
    " started_at REAL NOT NULL, ended_at REAL, status TEXT NOT NULL DEFAULT 'running'"
    " CHECK(status IN ('running','done','failed','stopped','crashed')), framework TEXT,"
    " workers INTEGER, device TEXT, seed INTEGER, batch INTEGER, params INTEGER,"
    " flops_per_sample REAL, version TEXT, note TEXT, uid TEXT NOT NULL UNIQUE, pid_start INTEGER,"
    " boot_id TEXT, out_dir TEXT, recipe_text TEXT, fallback TEXT, steps INTEGER,"
    " epoch_records INTEGER);"
    "CREATE INDEX runs_by_name ON runs(name);"
    "CREATE INDEX runs_by_recipe ON runs(recipe_hash);"
    "CREATE TABLE series(id INTEGER PRIMARY KEY,"
    " run_id INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE, split TEXT NOT NULL,"
    " name TEXT NOT NULL, UNIQUE(run_id, split, name));"
    "CREATE TABLE point(series_id INTEGER NOT NULL REFERENCES series(id) ON DELETE CASCADE,"
    " step INTEGER NOT NULL, time REAL NOT NULL, value REAL, PRIMARY KEY(series_id, step))"
    " WITHOUT ROWID;"
    "CREATE TABLE step_time(run_id INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,"
    " step INTEGER NOT NULL, worker INTEGER NOT NULL, read_ms REAL, decode_ms REAL, h2d_ms REAL,"
    " forward_ms REAL, backward_ms REAL, update_ms REAL, comm_exposed_ms REAL, comm_hidden_ms REAL,"
    " wait_ms REAL, idle_ms REAL, staleness INTEGER, PRIMARY KEY(run_id, step, worker))"
    " WITHOUT ROWID;"
    "CREATE TABLE layer_time(run_id INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,"
    " layer TEXT NOT NULL, worker INTEGER NOT NULL, forward_ms REAL, backward_ms REAL,"
    " samples INTEGER NOT NULL, PRIMARY KEY(run_id, layer, worker)) WITHOUT ROWID;"
    "CREATE TABLE link_traffic(run_id INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,"
    " step INTEGER NOT NULL, from_unit TEXT NOT NULL, to_unit TEXT NOT NULL, kind TEXT NOT NULL,"
    " bytes INTEGER NOT NULL, ms REAL, PRIMARY KEY(run_id, step, from_unit, to_unit, kind))"
    " WITHOUT ROWID;"
    "CREATE TABLE hardware(run_id INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,"
    " time REAL NOT NULL, device TEXT NOT NULL, util REAL, mem_used INTEGER, power_w REAL,"
    " temp_c REAL, clock_mhz REAL, PRIMARY KEY(run_id, device, time)) WITHOUT ROWID;"
    "CREATE TABLE placement(run_id INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,"
    " unit TEXT NOT NULL, device TEXT, numa INTEGER, cores TEXT, reason TEXT,"
    " PRIMARY KEY(run_id, unit)) WITHOUT ROWID;"
    "CREATE TABLE checkpoints(run_id INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,"
    " step INTEGER NOT NULL, path TEXT NOT NULL, bytes INTEGER, checksum TEXT, time REAL NOT NULL,"
    " is_best INTEGER NOT NULL DEFAULT 0, PRIMARY KEY(run_id, step)) WITHOUT ROWID;"
    "CREATE TABLE events(run_id INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,"
    " time REAL NOT NULL, level TEXT NOT NULL, source TEXT, text TEXT NOT NULL);"
    "CREATE INDEX events_by_run ON events(run_id, time);"
    "CREATE TABLE tags(run_id INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,"
    " key TEXT NOT NULL, value TEXT, PRIMARY KEY(run_id, key)) WITHOUT ROWID;"
    "CREATE TABLE plans(run_id INTEGER PRIMARY KEY REFERENCES runs(id) ON DELETE CASCADE,"
    " json TEXT NOT NULL, predicted_ms REAL, measured_ms REAL);"
    "CREATE TABLE segments(run_id INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,"
    " segment INTEGER NOT NULL, from_step INTEGER NOT NULL, started_at REAL NOT NULL, ended_at "
    "REAL,"
    " PRIMARY KEY(run_id, segment)) WITHOUT ROWID;"
    "CREATE TABLE spools(id TEXT PRIMARY KEY, path TEXT NOT NULL, bytes INTEGER NOT NULL)"
    " WITHOUT ROWID;";

/* The epoch of step t is the one that its last sample belongs to, counted from 1:
 * ceil(t * batch / records). Nothing of it is stored with a point. */
static const char views_1[] =
    "CREATE VIEW metrics AS SELECT s.run_id AS run_id, p.step AS step,"
    " CASE WHEN r.epoch_records > 0 AND r.batch > 0"
    "  THEN (p.step * r.batch + r.epoch_records - 1) / r.epoch_records END AS epoch,"
    " p.time AS time, s.split AS split, s.name AS name, p.value AS value"
    " FROM series s JOIN runs r ON r.id = s.run_id JOIN point p ON p.series_id = s.id;"

    /* Best is lowest for losses and highest for accuracies, over all splits but train. */
    "CREATE VIEW run_summary AS SELECT r.id AS run_id, r.name AS name, r.status AS status,"
    " r.recipe AS recipe, r.framework AS framework, r.workers AS workers, r.device AS device,"
    " r.batch AS batch, r.params AS params, r.started_at AS started_at,"
    " (SELECT sum(max(0, coalesce(g.ended_at, (SELECT max(p.time) FROM series s JOIN point p ON"
    "   p.series_id = s.id AND p.step = (SELECT max(step) FROM point WHERE series_id = s.id)"
    "   WHERE s.run_id = r.id), g.started_at) - g.started_at))"
    "  FROM segments g WHERE g.run_id = r.id) AS duration_s,"
    " (SELECT max(p.step) FROM series s JOIN point p ON p.series_id = s.id"
    "  WHERE s.run_id = r.id AND s.split = 'train') AS last_step,"
    " (SELECT p.value FROM series s JOIN point p ON p.series_id = s.id WHERE s.run_id = r.id"
    "  AND s.split = 'train' AND s.name = 'loss' ORDER BY p.step DESC LIMIT 1) AS train_loss,"
    " (SELECT p.value FROM series s JOIN point p ON p.series_id = s.id WHERE s.run_id = r.id"
    "  AND s.split <> 'train' AND s.name = 'loss' ORDER BY p.step DESC LIMIT 1) AS eval_loss,"
    " (SELECT min(p.value) FROM series s JOIN point p ON p.series_id = s.id WHERE s.run_id = r.id"
    "  AND s.split <> 'train' AND s.name = 'loss') AS best_eval_loss,"
    " (SELECT p.value FROM series s JOIN point p ON p.series_id = s.id WHERE s.run_id = r.id"
    "  AND s.split <> 'train' AND s.name = 'accuracy' ORDER BY p.step DESC LIMIT 1) AS accuracy,"
    " (SELECT max(p.value) FROM series s JOIN point p ON p.series_id = s.id WHERE s.run_id = r.id"
    "  AND s.split <> 'train' AND s.name = 'accuracy') AS best_accuracy,"
    " (SELECT avg(p.value) FROM series s JOIN point p ON p.series_id = s.id WHERE s.run_id = r.id"
    "  AND s.split = 'train' AND s.name = 'samples_per_s') AS samples_per_s,"
    " (SELECT count(*) FROM checkpoints c WHERE c.run_id = r.id) AS checkpoints,"
    " (SELECT count(*) FROM segments g WHERE g.run_id = r.id) AS segments FROM runs r;"

    "CREATE VIEW epoch_metrics AS SELECT e.run_id AS run_id, e.epoch AS epoch, e.split AS split,"
    " e.name AS name, e.points AS points, e.mean AS mean, e.min AS min, e.max AS max,"
    " p.value AS last FROM (SELECT run_id, epoch, split, name, count(*) AS points,"
    "  avg(value) AS mean, min(value) AS min, max(value) AS max, max(step) AS last_step"
    "  FROM metrics WHERE epoch IS NOT NULL GROUP BY run_id, epoch, split, name) e"
    " JOIN series s ON s.run_id = e.run_id AND s.split = e.split AND s.name = e.name"
    " JOIN point p ON p.series_id = s.id AND p.step = e.last_step;"

    /* A layer's mean over its workers, weighted by what each measured. */
    "CREATE VIEW slowest_layers AS SELECT run_id, layer, forward_ms, backward_ms,"
    " forward_ms + backward_ms AS total_ms, (forward_ms + backward_ms)"
    "  / nullif(sum(forward_ms + backward_ms) OVER (PARTITION BY run_id), 0) AS share"
    " FROM (SELECT run_id, layer, sum(coalesce(forward_ms, 0) * samples) / sum(samples) AS "
    "forward_ms,"
    "  sum(coalesce(backward_ms, 0) * samples) / sum(samples) AS backward_ms"
    "  FROM layer_time WHERE samples > 0 GROUP BY run_id, layer) ORDER BY run_id, total_ms DESC;"

    /* Hidden communication runs beside the rest, so it has a sum and no share. */
    "CREATE VIEW where_time_went AS SELECT run_id, part, ms AS total_ms,"
    " CASE WHEN part <> 'comm_hidden' THEN ms / nullif(visible_ms, 0) END AS share FROM ("
    " SELECT t.run_id AS run_id, n.column1 AS part, t.visible_ms AS visible_ms, CASE n.column1"
    "  WHEN 'read' THEN read WHEN 'decode' THEN decode WHEN 'h2d' THEN h2d WHEN 'forward' THEN "
    "forward"
    "  WHEN 'backward' THEN backward WHEN 'update' THEN upd WHEN 'comm_exposed' THEN comm_exposed"
    "  WHEN 'comm_hidden' THEN comm_hidden WHEN 'wait' THEN wait ELSE idle END AS ms"
    " FROM (SELECT run_id, total(read_ms) AS read, total(decode_ms) AS decode, total(h2d_ms) AS "
    "h2d,"
    "  total(forward_ms) AS forward, total(backward_ms) AS backward, total(update_ms) AS upd,"
    "  total(comm_exposed_ms) AS comm_exposed, total(comm_hidden_ms) AS comm_hidden,"
    "  total(wait_ms) AS wait, total(idle_ms) AS idle, total(read_ms) + total(decode_ms)"
    "  + total(h2d_ms) + total(forward_ms) + total(backward_ms) + total(update_ms)"
    "  + total(comm_exposed_ms) + total(wait_ms) + total(idle_ms) AS visible_ms"
    "  FROM step_time GROUP BY run_id) t, (VALUES ('read'), ('decode'), ('h2d'), ('forward'),"
    "  ('backward'), ('update'), ('comm_exposed'), ('comm_hidden'), ('wait'), ('idle')) n);";

/* Row i takes a file from version i to i+1. A new version is a new row here, never a change above.
 */
static const struct {
    const char *tables, *views;
} migrations[SW_SCHEMA_VERSION] = {{tables_1, views_1}};

static int code_of(int rc)
{
    switch (rc & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE:
        return SW_OK;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL: /* the WAL's own lock was not to be had */
        return SW_ERR_BUSY;
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
        return SW_ERR_FORMAT;
    case SQLITE_NOMEM:
        return SW_ERR_NOMEM;
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_NOLFS:
        return SW_ERR_IO;
    default:
        return SW_ERR_LIBRARY;
    }
}

int sw_sqlite_check(sqlite3 *db, int rc, const char *what, struct sw_err *err)
{
    int code = code_of(rc);
    if (!code)
        return SW_OK;
    return sw_err_set(err, code, "%s: %s", what, db ? sqlite3_errmsg(db) : sqlite3_errstr(rc));
}

int sw_sqlite_exec(sqlite3 *db, const char *sql, const char *what, struct sw_err *err)
{
    return sw_sqlite_check(db, sqlite3_exec(db, sql, NULL, NULL, NULL), what, err);
}

int sw_sqlite_int(sqlite3 *db, const char *sql, int64_t *value, const char *what,
                  struct sw_err *err)
{
    sqlite3_stmt *s = NULL;
    int rc = sqlite3_prepare_v2(db, sql, -1, &s, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(s);
    int code = sw_sqlite_check(db, rc, what, err);
    if (!code)
        *value = rc == SQLITE_ROW ? sqlite3_column_int64(s, 0) : 0;
    sqlite3_finalize(s);
    return code;
}

int sw_schema_version(sqlite3 *db, const char *path, int *version, struct sw_err *err)
{
    int64_t user = 0, application = 0, tables = 0;
    int code = sw_sqlite_int(db, "PRAGMA user_version", &user, path, err);
    if (!code)
        code = sw_sqlite_int(db, "PRAGMA application_id", &application, path, err);
    if (!code)
        code = sw_sqlite_int(db, "SELECT count(*) FROM sqlite_schema", &tables, path, err);
    if (code)
        return code;
    if (application != SW_SCHEMA_APPLICATION_ID && (tables || user || application))
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s is a database of another program; give --db FILE or set SINGA_DB",
                          path);
    if (user > SW_SCHEMA_VERSION)
        return sw_err_set(
            err, SW_ERR_UNSUPPORTED,
            "%s was written by a newer singa-ws (schema %lld, this program knows %d); "
            "use that program, or another file with --db",
            path, (long long)user, SW_SCHEMA_VERSION);
    *version = (int)user;
    return SW_OK;
}

static int migrate_in_transaction(sqlite3 *db, const char *path, struct sw_err *err)
{
    int version, code = sw_schema_version(db, path, &version, err);
    for (int v = version; !code && v < SW_SCHEMA_VERSION; v++) {
        code = sw_sqlite_exec(db, migrations[v].tables, path, err);
        if (!code)
            code = sw_sqlite_exec(db, migrations[v].views, path, err);
    }
    char pragmas[96];
    snprintf(pragmas, sizeof pragmas, "PRAGMA application_id = %d; PRAGMA user_version = %d",
             SW_SCHEMA_APPLICATION_ID, SW_SCHEMA_VERSION);
    return code ? code : sw_sqlite_exec(db, pragmas, path, err);
}

int sw_schema_migrate(sqlite3 *db, const char *path, struct sw_err *err)
{
    int version, code = sw_schema_version(db, path, &version, err);
    if (code || version == SW_SCHEMA_VERSION)
        return code;
    code = sw_sqlite_exec(db, "BEGIN IMMEDIATE", path, err);
    if (code)
        return code;
    code = migrate_in_transaction(db, path, err);
    if (!code)
        code = sw_sqlite_exec(db, "COMMIT", path, err);
    if (code)
        sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    return code;
}
