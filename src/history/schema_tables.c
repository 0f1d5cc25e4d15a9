/* The schema's SQL: what each version adds to the tables, and the views of the newest one. */
#include "history/schema_tables.h"

/* Version 1. Besides the columns that users query, `runs` has what a resume and a reader need: uid
 * (identifies the run across databases), pid_start and boot_id (to check that its process lives),
 * out_dir, recipe_text, fallback, steps (the total) and epoch_records. `spools` stores how many
 * bytes of each metrics.jsonl have been merged, in the same transaction as the rows, so that no row
 * is merged twice. */
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

/* Version 2. The time of a point is stored in whole milliseconds, which takes two bytes less;
 * `time` is a generated column. The summaries hold the aggregates of points, step times and traffic
 * up to step runs.summed_to, so that a query need not read a million rows, and so that gc can
 * downsample the rows without changing the aggregates. */
#define PARTS                                                                                      \
    "read_ms, decode_ms, h2d_ms, forward_ms, backward_ms, update_ms, comm_exposed_ms,"             \
    " comm_hidden_ms, wait_ms, idle_ms"
static const char tables_2[] =
    "CREATE TABLE point_2(series_id INTEGER NOT NULL REFERENCES series(id) ON DELETE CASCADE,"
    " step INTEGER NOT NULL, ms INTEGER NOT NULL, value REAL,"
    " time REAL GENERATED ALWAYS AS (ms / 1000.0) VIRTUAL, PRIMARY KEY(series_id, step))"
    " WITHOUT ROWID;"
    "INSERT INTO point_2(series_id, step, ms, value)"
    " SELECT series_id, step, CAST(round(time * 1000) AS INTEGER), value FROM point;"
    "DROP TABLE point;"
    "ALTER TABLE point_2 RENAME TO point;"
    "ALTER TABLE runs ADD COLUMN summed_to INTEGER NOT NULL DEFAULT -1;"
    "CREATE TABLE series_summary(series_id INTEGER PRIMARY KEY REFERENCES series(id)"
    " ON DELETE CASCADE, points INTEGER NOT NULL, known INTEGER NOT NULL, min REAL, max REAL,"
    " total REAL NOT NULL);"
    "CREATE TABLE time_summary(run_id INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,"
    " worker INTEGER NOT NULL, steps INTEGER NOT NULL, read_ms REAL, decode_ms REAL, h2d_ms REAL,"
    " forward_ms REAL, backward_ms REAL, update_ms REAL, comm_exposed_ms REAL, comm_hidden_ms REAL,"
    " wait_ms REAL, idle_ms REAL, PRIMARY KEY(run_id, worker)) WITHOUT ROWID;"
    "CREATE TABLE traffic_summary(run_id INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,"
    " from_unit TEXT NOT NULL, to_unit TEXT NOT NULL, kind TEXT NOT NULL, steps INTEGER NOT NULL,"
    " bytes INTEGER NOT NULL, ms REAL, PRIMARY KEY(run_id, from_unit, to_unit, kind))"
    " WITHOUT ROWID;";

/* Version 3. The net, batch and data of a run may change between steps: at a stage, or when a
 * resume has fewer asynchronous groups. `stages` stores from which step on each applies; `runs` has
 * the values of the last one. */
static const char tables_3[] =
    "CREATE TABLE stages(run_id INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,"
    " from_step INTEGER NOT NULL, name TEXT, batch INTEGER, epoch_records INTEGER,"
    " params INTEGER, flops_per_sample REAL, epochs_before REAL NOT NULL,"
    " PRIMARY KEY(run_id, from_step)) WITHOUT ROWID;"
    "INSERT INTO stages SELECT id, 0, NULL, batch, epoch_records, params, flops_per_sample, 0.0"
    " FROM runs;";

/* Version 4. The hosts of a run on several hosts; host 0 stores the run. Names of roles and devices
 * of another host begin with the name of that host and a slash. */
static const char tables_4[] =
    "CREATE TABLE hosts(run_id INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,"
    " host INTEGER NOT NULL, name TEXT, address TEXT, cpu TEXT, gpus TEXT, fabric TEXT,"
    " clock_offset_ms REAL, clock_error_ms REAL, joined_at REAL, left_at REAL, why TEXT,"
    " PRIMARY KEY(run_id, host)) WITHOUT ROWID;";

/* Version 5. Each segment has its command; runs.command stays that of the first. Older versions
 * kept only the newest, in `runs`, which is known to be that of a segment if the run has only this
 * one. */
static const char tables_5[] =
    "ALTER TABLE segments ADD COLUMN command TEXT;"
    "UPDATE segments SET command = (SELECT command FROM runs WHERE id = run_id)"
    " WHERE run_id IN (SELECT run_id FROM segments GROUP BY run_id HAVING count(*) = 1);";

const char *const sw_schema_tables[SW_SCHEMA_VERSION] = {tables_1, tables_2, tables_3, tables_4,
                                                         tables_5};

/* The epoch of step t is that of its last sample, counted from 1: the epochs before its stage plus
 * t * batch / records of the steps of the stage, rounded up. It is computed and not stored with
 * points. */
const char sw_schema_views[] =
    "CREATE VIEW metrics AS SELECT s.run_id AS run_id, p.step AS step,"
    " (SELECT CAST(g.epochs_before + (p.step - g.from_step) * 1.0 * g.batch"
    "  / nullif(g.epoch_records, 0) + 0.999999999 AS INTEGER) FROM stages g"
    "  WHERE g.run_id = s.run_id AND g.from_step < max(p.step, 1)"
    "  ORDER BY g.from_step DESC LIMIT 1) AS epoch,"
    " p.time AS time, s.split AS split, s.name AS name, p.value AS value"
    " FROM series s JOIN point p ON p.series_id = s.id;"

    /* Aggregates of a curve in one row: the summary plus the points after summed_to. */
    "CREATE VIEW series_stats AS SELECT s.run_id AS run_id, s.split AS split, s.name AS name,"
    " coalesce(z.points, 0) + count(p.step) AS points,"
    " (SELECT max(step) FROM point WHERE series_id = s.id) AS last_step,"
    " (SELECT value FROM point WHERE series_id = s.id ORDER BY step DESC LIMIT 1) AS last,"
    " min(coalesce(z.min, min(p.value)), coalesce(min(p.value), z.min)) AS min,"
    " max(coalesce(z.max, max(p.value)), coalesce(max(p.value), z.max)) AS max,"
    " (coalesce(z.total, 0) + total(p.value))"
    "  / nullif(coalesce(z.known, 0) + count(p.value), 0) AS mean"
    " FROM series s JOIN runs r ON r.id = s.run_id"
    " LEFT JOIN series_summary z ON z.series_id = s.id"
    " LEFT JOIN point p ON p.series_id = s.id AND p.step > r.summed_to"
    " GROUP BY s.run_id, s.id;"

    /* Best is lowest for losses and highest for accuracies, over all splits but train. */
    "CREATE VIEW run_summary AS SELECT r.id AS run_id, r.name AS name, r.status AS status,"
    " r.recipe AS recipe, r.framework AS framework, r.workers AS workers, r.device AS device,"
    " r.batch AS batch, r.params AS params, r.started_at AS started_at,"
    " (SELECT sum(max(0, coalesce(g.ended_at, (SELECT max(p.time) FROM series s JOIN point p ON"
    "   p.series_id = s.id AND p.step = (SELECT max(step) FROM point WHERE series_id = s.id)"
    "   WHERE s.run_id = r.id), g.started_at) - g.started_at))"
    "  FROM segments g WHERE g.run_id = r.id) AS duration_s,"
    " (SELECT max((SELECT max(step) FROM point WHERE series_id = s.id)) FROM series s"
    "  WHERE s.run_id = r.id AND s.split = 'train') AS last_step,"
    " (SELECT p.value FROM series s JOIN point p ON p.series_id = s.id WHERE s.run_id = r.id"
    "  AND s.split = 'train' AND s.name = 'loss' ORDER BY p.step DESC LIMIT 1) AS train_loss,"
    " (SELECT p.value FROM series s JOIN point p ON p.series_id = s.id WHERE s.run_id = r.id"
    "  AND s.split <> 'train' AND s.name = 'loss' ORDER BY p.step DESC LIMIT 1) AS eval_loss,"
    " (SELECT min(t.min) FROM series_stats t WHERE t.run_id = r.id"
    "  AND t.split <> 'train' AND t.name = 'loss') AS best_eval_loss,"
    " (SELECT p.value FROM series s JOIN point p ON p.series_id = s.id WHERE s.run_id = r.id"
    "  AND s.split <> 'train' AND s.name = 'accuracy' ORDER BY p.step DESC LIMIT 1) AS accuracy,"
    " (SELECT max(t.max) FROM series_stats t WHERE t.run_id = r.id"
    "  AND t.split <> 'train' AND t.name = 'accuracy') AS best_accuracy,"
    " (SELECT t.mean FROM series_stats t WHERE t.run_id = r.id"
    "  AND t.split = 'train' AND t.name = 'samples_per_s') AS samples_per_s,"
    " (SELECT count(*) FROM checkpoints c WHERE c.run_id = r.id) AS checkpoints,"
    " (SELECT count(*) FROM segments g WHERE g.run_id = r.id) AS segments FROM runs r;"

    "CREATE VIEW epoch_metrics AS SELECT e.run_id AS run_id, e.epoch AS epoch, e.split AS split,"
    " e.name AS name, e.points AS points, e.mean AS mean, e.min AS min, e.max AS max,"
    " p.value AS last FROM (SELECT run_id, epoch, split, name, count(*) AS points,"
    "  avg(value) AS mean, min(value) AS min, max(value) AS max, max(step) AS last_step"
    "  FROM metrics WHERE epoch IS NOT NULL GROUP BY run_id, epoch, split, name) e"
    " JOIN series s ON s.run_id = e.run_id AND s.split = e.split AND s.name = e.name"
    " JOIN point p ON p.series_id = s.id AND p.step = e.last_step;"

    /* Mean times of a layer over its workers, weighted by their numbers of samples. */
    "CREATE VIEW slowest_layers AS SELECT run_id, layer, forward_ms, backward_ms,"
    " forward_ms + backward_ms AS total_ms, (forward_ms + backward_ms)"
    "  / nullif(sum(forward_ms + backward_ms) OVER (PARTITION BY run_id), 0) AS share"
    " FROM (SELECT run_id, layer, sum(coalesce(forward_ms, 0) * samples) / sum(samples) AS "
    "forward_ms,"
    "  sum(coalesce(backward_ms, 0) * samples) / sum(samples) AS backward_ms"
    "  FROM layer_time WHERE samples > 0 GROUP BY run_id, layer) ORDER BY run_id, total_ms DESC;"

    /* Hidden communication overlaps with the other phases, so it has a sum but no share. */
    "CREATE VIEW where_time_went AS SELECT run_id, part, ms AS total_ms,"
    " CASE WHEN part <> 'comm_hidden' THEN ms / nullif(visible_ms, 0) END AS share FROM ("
    " SELECT t.run_id AS run_id, n.column1 AS part, t.visible_ms AS visible_ms, CASE n.column1"
    "  WHEN 'read' THEN read WHEN 'decode' THEN decode WHEN 'h2d' THEN h2d"
    "  WHEN 'forward' THEN forward WHEN 'backward' THEN backward WHEN 'update' THEN upd"
    "  WHEN 'comm_exposed' THEN comm_exposed WHEN 'comm_hidden' THEN comm_hidden"
    "  WHEN 'wait' THEN wait ELSE idle END AS ms"
    " FROM (SELECT run_id, total(read_ms) AS read, total(decode_ms) AS decode,"
    "  total(h2d_ms) AS h2d, total(forward_ms) AS forward, total(backward_ms) AS backward,"
    "  total(update_ms) AS upd, total(comm_exposed_ms) AS comm_exposed,"
    "  total(comm_hidden_ms) AS comm_hidden, total(wait_ms) AS wait, total(idle_ms) AS idle,"
    "  total(read_ms) + total(decode_ms) + total(h2d_ms) + total(forward_ms)"
    "  + total(backward_ms) + total(update_ms) + total(comm_exposed_ms) + total(wait_ms)"
    "  + total(idle_ms) AS visible_ms FROM ("
    "  SELECT run_id, " PARTS " FROM time_summary"
    "  UNION ALL SELECT t.run_id, " PARTS " FROM runs r JOIN step_time t"
    "   ON t.run_id = r.id AND t.step > r.summed_to) GROUP BY run_id) t,"
    " (VALUES ('read'), ('decode'), ('h2d'), ('forward'), ('backward'), ('update'),"
    "  ('comm_exposed'), ('comm_hidden'), ('wait'), ('idle')) n);"

    "CREATE VIEW traffic AS SELECT run_id, from_unit, to_unit, kind, sum(steps) AS steps,"
    " sum(bytes) AS bytes, total(ms) AS ms FROM ("
    "  SELECT run_id, from_unit, to_unit, kind, steps, bytes, ms FROM traffic_summary"
    "  UNION ALL SELECT t.run_id, t.from_unit, t.to_unit, t.kind, 1, t.bytes, t.ms"
    "   FROM runs r JOIN link_traffic t ON t.run_id = r.id AND t.step > r.summed_to)"
    " GROUP BY run_id, from_unit, to_unit, kind;";
