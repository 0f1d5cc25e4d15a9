/* Reads runs and their rows through a read-only connection. A run with status running whose process
 * has ended is reported as crashed. RUN arguments are ids, uids, names or prefixes of names. Rows
 * as structs are in reader_rows.c, SQL queries of users in reader_sql.c. */
#include "history/reader.h"
#include "base/os.h"
#include "base/str.h"
#include "history/reader_open.h"
#include "history/schema.h"
#include <errno.h>
#include <string.h>

enum { BUSY_MS = 5000 }; /* readers wait only while the WAL of a crashed writer is recovered */

static int check_readable(struct sw_history_reader *r, struct sw_err *err)
{
    int code = sw_schema_version(r->db, r->path, &r->version, err);

    if (!code && r->version == 0)
        code =
            sw_err_set(err, SW_ERR_NOTFOUND, "%s is empty: no run has been recorded yet", r->path);

    return code;
}

int sw_history_reader_open(struct sw_history_reader **out, const char *path, struct sw_err *err)
{
    struct stat st;
    if (sw_os()->stat(path, &st) != 0) {
        if (errno == ENOENT || errno == ENOTDIR)
            return sw_err_set(err, SW_ERR_NOTFOUND,
                              "no history at %s: no run has been recorded yet", path);
        return sw_err_errno(err, errno, "history %s", path);
    }

    int code = sw_os_need_regular(path, &st, err);
    if (code)
        return code;

    struct sw_history_reader *r = sw_calloc(1, sizeof *r);
    if (!r)
        return sw_err_nomem(err, "history reader", sizeof *r);

    r->path = sw_strdup(path);
    sw_process_self(&r->self);

    code = r->path ? SW_OK : sw_err_nomem(err, "path of the history", 0);
    if (code)
        goto out;
    code = sw_sqlite_check(
        NULL, sqlite3_open_v2(path, &r->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL), path,
        err);
    if (code)
        goto out;

    sqlite3_busy_timeout(r->db, BUSY_MS);
    sw_sqlite_harden(r->db);

    code =
        sw_sqlite_exec(r->db, "PRAGMA query_only = ON; PRAGMA wal_autocheckpoint = 0", path, err);
    if (code)
        goto out;

    code = check_readable(r, err);

out:
    if (code)
        sw_history_reader_close(r);
    else
        *out = r;

    return code;
}

void sw_history_reader_close(struct sw_history_reader *r)
{
    if (!r)
        return;

    sqlite3_close(r->db);
    sw_free(r->path);
    sw_free(r);
}

/* --- Runs ---------------------------------------------------------------------------------- */

/* The texts come first, in the order of text_of below. */
static const char run_columns[] =
    "SELECT r.uid, r.name, r.recipe, r.recipe_text, r.recipe_hash, r.overrides, r.fallback, "
    "r.command,"
    " r.host, r.framework, r.device, r.version, r.note, r.out_dir,"
    " r.id, r.status, r.pid, r.pid_start, r.boot_id, r.started_at, r.ended_at, r.workers, r.seed,"
    " r.batch, r.steps, r.epoch_records, r.params, r.flops_per_sample,"
    " (SELECT count(*) FROM segments WHERE run_id = r.id),"
    " (SELECT max(started_at) FROM segments WHERE run_id = r.id),"
    " (SELECT max((SELECT max(step) FROM point WHERE series_id = s.id)) FROM series s"
    "  WHERE s.run_id = r.id),"
    " (SELECT p.value FROM series s JOIN point p ON p.series_id = s.id WHERE s.run_id = r.id"
    "  AND s.split = 'train' AND s.name = 'loss' ORDER BY p.step DESC LIMIT 1),"
    " (SELECT p.value FROM series s JOIN point p ON p.series_id = s.id WHERE s.run_id = r.id"
    "  AND s.split <> 'train' AND s.name = 'accuracy' ORDER BY p.step DESC LIMIT 1),"
    " (SELECT p.value FROM series s JOIN point p ON p.series_id = s.id WHERE s.run_id = r.id"
    "  AND s.split = 'train' AND s.name = 'samples_per_s' ORDER BY p.step DESC LIMIT 1)"
    " FROM runs r ";

enum { TEXTS = 14 };

static char **text_of(struct sw_run *run, int i)
{
    char **const texts[TEXTS] = {
        &run->uid,       &run->name,     &run->recipe,  &run->recipe_text, &run->recipe_hash,
        &run->overrides, &run->fallback, &run->command, &run->host,        &run->framework,
        &run->device,    &run->version,  &run->note,    &run->out_dir};
    return texts[i];
}

void sw_run_fini(struct sw_run *run)
{
    for (int i = 0; i < TEXTS; i++)
        sw_free(*text_of(run, i));
    memset(run, 0, sizeof *run);
}

static enum sw_run_status parse_status(const char *text)
{
    for (int s = SW_RUN_RUNNING; s <= SW_RUN_CRASHED; s++)
        if (sw_str_eq(sw_run_status_name(s), text))
            return (enum sw_run_status)s;
    return SW_RUN_FAILED;
}

/* The actual status: a run with status running whose process has ended has crashed. A process on
 * another host cannot be checked, so its stored status is returned. */
static enum sw_run_status actual_status(const struct sw_history_reader *r,
                                        enum sw_run_status stored, const struct sw_run *run,
                                        int64_t pid_start, const char *boot_id)
{
    if (stored != SW_RUN_RUNNING || !run->host || !sw_str_eq(run->host, r->self.host))
        return stored;
    return sw_process_alive(run->pid, pid_start, boot_id) ? SW_RUN_RUNNING : SW_RUN_CRASHED;
}

static int fill_run(const struct sw_history_reader *r, const struct sw_query *q, struct sw_run *run,
                    struct sw_err *err)
{
    memset(run, 0, sizeof *run);

    for (int i = 0; i < TEXTS; i++) {
        const char *text = sw_query_text(q, i);
        if (text && !(*text_of(run, i) = sw_strdup(text))) {
            sw_run_fini(run);
            return sw_err_nomem(err, "description of a run", strlen(text) + 1);
        }
    }

    sqlite3_stmt *st = q->st;
    int c = TEXTS;
    run->id = sqlite3_column_int64(st, c++);

    enum sw_run_status stored = parse_status(sw_query_text(q, c++));
    run->pid = sqlite3_column_int64(st, c++);

    int64_t pid_start = sqlite3_column_int64(st, c++);
    run->status = actual_status(r, stored, run, pid_start, sw_query_text(q, c++));
    run->started_at = sqlite3_column_double(st, c++);
    run->ended_at = sqlite3_column_double(st, c++);
    run->workers = sqlite3_column_int64(st, c++);
    run->seed = sqlite3_column_int64(st, c++);
    run->batch = sqlite3_column_int64(st, c++);
    run->steps = sqlite3_column_int64(st, c++);
    run->epoch_records = sqlite3_column_int64(st, c++);
    run->params = sqlite3_column_int64(st, c++);
    run->flops_per_sample = sqlite3_column_double(st, c++);
    run->segments = sqlite3_column_int64(st, c++);
    run->segment_at = sqlite3_column_double(st, c++);
    run->last_step = sqlite3_column_type(st, c) == SQLITE_NULL ? -1 : sqlite3_column_int64(st, c);
    c++;
    run->loss = sw_query_real(q, c++);
    run->accuracy = sw_query_real(q, c++);
    run->samples_per_s = sw_query_real(q, c);

    return SW_OK;
}

static struct sw_query query(const struct sw_history_reader *r, const char *sql,
                             const struct sw_cell *cells, size_t count, struct sw_err *err)
{
    return sw_query_begin(r->db, r->path, sql, cells, count, err);
}

/* Begins a query that selects run_columns. */
static struct sw_query query_runs(const struct sw_history_reader *r, const char *suffix,
                                  const struct sw_cell *cells, size_t count, struct sw_err *err)
{
    char *sql = sw_format("%s%s", run_columns, suffix);
    if (!sql)
        return (struct sw_query){.code = sw_err_nomem(err, "query", 0)};

    struct sw_query q = query(r, sql, cells, count, err);
    sw_free(sql);
    return q;
}

/* Reads the first run of a query; *found: whether there is one. */
static int first_run(struct sw_history_reader *r, const char *suffix, struct sw_cell cell,
                     struct sw_run *run, bool *found, struct sw_err *err)
{
    struct sw_query q = query_runs(r, suffix, &cell, 1, err);

    *found = sw_query_next(&q);
    if (*found)
        q.code = fill_run(r, &q, run, err);

    return sw_query_end(&q);
}

int sw_history_list(struct sw_history_reader *r, const struct sw_run_filter *filter,
                    int (*each)(void *user, const struct sw_run *run), void *user,
                    struct sw_err *err)
{
    /* Columns by number: those of run_columns that hold loss, accuracy and speed. */
    static const char *const orders[] = {
        [SW_RUNS_BY_ID] = "r.id DESC",
        [SW_RUNS_BY_LOSS] = "30 ASC NULLS LAST, r.id DESC",
        [SW_RUNS_BY_ACCURACY] = "31 DESC NULLS LAST, r.id DESC",
        [SW_RUNS_BY_SPEED] = "32 DESC NULLS LAST, r.id DESC",
    };
    const struct sw_cell cells[] = {SW_TEXT(filter->name), SW_TEXT(filter->tag),
                                    SW_TEXT(filter->tag_value)};
    char *suffix = sw_format("WHERE (?1 IS NULL OR r.name GLOB ?1) AND (?2 IS NULL OR EXISTS"
                             " (SELECT 1 FROM tags t WHERE t.run_id = r.id AND t.key = ?2"
                             " AND (?3 IS NULL OR t.value = ?3))) ORDER BY %s",
                             orders[filter->order]);
    if (!suffix)
        return sw_err_nomem(err, "query", 0);

    struct sw_query q = query_runs(r, suffix, cells, 3, err);
    while (sw_query_next(&q)) {
        struct sw_run run;

        q.code = fill_run(r, &q, &run, err);
        if (q.code)
            break;

        q.code = each(user, &run);
        sw_run_fini(&run);
    }

    sw_free(suffix);
    return sw_query_end(&q);
}

int sw_history_each_run(struct sw_history_reader *r,
                        int (*each)(void *user, const struct sw_run *run), void *user,
                        struct sw_err *err)
{
    return sw_history_list(r, &(struct sw_run_filter){0}, each, user, err);
}

int sw_history_find_id(struct sw_history_reader *r, int64_t run_id, struct sw_run *run,
                       struct sw_err *err)
{
    bool found;
    int code = first_run(r, "WHERE r.id = ?1", SW_INT(run_id), run, &found, err);

    if (!code && !found)
        code = sw_err_set(err, SW_ERR_NOTFOUND, "%s has no run %lld", r->path, (long long)run_id);
    return code;
}

int sw_history_find_recipe(struct sw_history_reader *r, const char *recipe_hash, struct sw_run *run,
                           struct sw_err *err)
{
    bool found;
    int code = first_run(r,
                         "WHERE r.recipe_hash = ?1 AND EXISTS (SELECT 1 FROM checkpoints c"
                         " WHERE c.run_id = r.id) ORDER BY r.id DESC LIMIT 1",
                         SW_TEXT(recipe_hash), run, &found, err);

    if (!code && !found)
        code = sw_err_set(err, SW_ERR_NOTFOUND, "%s has no run of this recipe with a checkpoint",
                          r->path);

    return code;
}

/* --- Finding a run
 * ----------------------------------------------------------------------------------- */

/* Selects names (or ids of nameless runs) that begin with the text; the text may also be a prefix
 * of an id or uid. */
static const char prefix_sql[] =
    "SELECT DISTINCT coalesce(name, id) FROM runs WHERE substr(name, 1, length(?1)) = ?1"
    " OR substr(CAST(id AS TEXT), 1, length(?1)) = ?1"
    " OR (length(?1) >= 4 AND substr(uid, 1, length(?1)) = ?1) ORDER BY id DESC LIMIT 4";

static int suggest(struct sw_history_reader *r, const char *text, struct sw_err *err)
{
    int best = (int)strlen(text) / 3;
    char near[128] = "";

    best = best < 1 ? 1 : best > 3 ? 3 : best;

    struct sw_query q =
        query(r, "SELECT DISTINCT name FROM runs WHERE name IS NOT NULL", NULL, 0, err);
    while (sw_query_next(&q)) {
        const char *name = sw_query_text(&q, 0);
        int distance = sw_str_distance(text, name);

        if (distance <= best && strlen(name) < sizeof near) {
            best = distance - 1;
            strcpy(near, name);
        }
    }

    int code = sw_query_end(&q);
    if (code)
        return code;

    return sw_err_set(err, SW_ERR_NOTFOUND, "no run '%s' in %s%s%s%s", text, r->path,
                      *near ? "; did you mean '" : "; `singa-ws history` lists all runs", near,
                      *near ? "'?" : "");
}

static int find_prefix(struct sw_history_reader *r, const char *text, struct sw_run *run,
                       struct sw_err *err)
{
    struct sw_bytes fits = {0};
    struct sw_query q = query(r, prefix_sql, SW_CELLS(SW_TEXT(text)), err);
    bool found;
    int count = 0;

    while (sw_query_next(&q))
        sw_bytes_printf(&fits, "%s%s", count++ ? ", " : "", sw_query_text(&q, 0));

    int code = sw_query_end(&q);
    if (!code && count == 0)
        code = suggest(r, text, err);
    else if (!code && count > 1)
        code =
            sw_err_set(err, SW_ERR_INVALID,
                       "'%s' is ambiguous: it matches the runs %s; give a longer prefix or an id",
                       text, sw_bytes_text(&fits));
    else if (!code)
        code = first_run(r,
                         "WHERE substr(r.name, 1, length(?1)) = ?1"
                         " OR substr(CAST(r.id AS TEXT), 1, length(?1)) = ?1"
                         " OR (length(?1) >= 4 AND substr(r.uid, 1, length(?1)) = ?1)"
                         " ORDER BY r.id DESC LIMIT 1",
                         SW_TEXT(text), run, &found, err);

    sw_bytes_fini(&fits);
    return code;
}

int sw_history_find(struct sw_history_reader *r, const char *text, struct sw_run *run,
                    struct sw_err *err)
{
    int64_t id;
    bool found = false;
    int code = SW_OK;

    if (!*text)
        return sw_err_set(err, SW_ERR_INVALID, "the run name is empty");

    if (sw_str_eq(text, "@last")) {
        code = first_run(r, "ORDER BY r.id DESC LIMIT 1", SW_NULL, run, &found, err);
        if (!code && !found)
            code = sw_err_set(err, SW_ERR_NOTFOUND, "%s contains no runs yet", r->path);
        return code;
    }

    if (sw_parse_int(text, &id))
        code = first_run(r, "WHERE r.id = ?1", SW_INT(id), run, &found, err);

    if (!code && !found)
        code = first_run(r, "WHERE r.name = ?1 ORDER BY r.id DESC LIMIT 1", SW_TEXT(text), run,
                         &found, err);

    return code || found ? code : find_prefix(r, text, run, err);
}

/* --- Rows of a run ----------------------------------------------------------------- */

int sw_history_each_checkpoint(struct sw_history_reader *r, int64_t run_id,
                               int (*each)(void *user, const struct sw_run_checkpoint *c),
                               void *user, struct sw_err *err)
{
    struct sw_query q = query(r,
                              "SELECT step, bytes, path, checksum, time, is_best FROM checkpoints"
                              " WHERE run_id = ?1 ORDER BY step DESC",
                              SW_CELLS(SW_INT(run_id)), err);

    while (sw_query_next(&q)) {
        struct sw_run_checkpoint c = {
            .step = sw_query_int(&q, 0),
            .bytes = sw_query_int(&q, 1),
            .path = sw_query_text(&q, 2),
            .checksum = sw_query_text(&q, 3),
            .time = sqlite3_column_double(q.st, 4),
            .is_best = sqlite3_column_int(q.st, 5) != 0,
        };
        q.code = each(user, &c);
    }

    return sw_query_end(&q);
}

/* The second query is for a file of schema version 1, which has no summaries; it reads all points.
 */
static const char *const metric_sql[] = {
    "SELECT split, name, points, last_step, min, max, last, mean FROM series_stats"
    " WHERE run_id = ?1 AND points > 0 ORDER BY split <> 'train', split, name",
    "SELECT s.split, s.name, count(*), max(p.step), min(p.value), max(p.value),"
    " (SELECT value FROM point WHERE series_id = s.id ORDER BY step DESC LIMIT 1), avg(p.value)"
    " FROM series s JOIN point p ON p.series_id = s.id WHERE s.run_id = ?1"
    " GROUP BY s.id ORDER BY s.split <> 'train', s.split, s.name"};

int sw_history_each_metric(struct sw_history_reader *r, int64_t run_id,
                           int (*each)(void *user, const struct sw_run_metric *m), void *user,
                           struct sw_err *err)
{
    struct sw_query q = query(r, metric_sql[r->version < 2], SW_CELLS(SW_INT(run_id)), err);

    while (sw_query_next(&q)) {
        struct sw_run_metric m = {
            .split = sw_query_text(&q, 0),
            .name = sw_query_text(&q, 1),
            .points = sw_query_int(&q, 2),
            .last_step = sw_query_int(&q, 3),
            .min = sw_query_real(&q, 4),
            .max = sw_query_real(&q, 5),
            .last = sw_query_real(&q, 6),
            .mean = sw_query_real(&q, 7),
        };
        q.code = each(user, &m);
    }

    return sw_query_end(&q);
}

int sw_history_each_time(struct sw_history_reader *r, int64_t run_id,
                         int (*each)(void *user, const char *part, double total_ms, double share),
                         void *user, struct sw_err *err)
{
    struct sw_query q =
        query(r, "SELECT part, total_ms, share FROM where_time_went WHERE run_id = ?1",
              SW_CELLS(SW_INT(run_id)), err);

    while (sw_query_next(&q))
        q.code =
            each(user, sw_query_text(&q, 0), sqlite3_column_double(q.st, 1), sw_query_real(&q, 2));

    return sw_query_end(&q);
}
