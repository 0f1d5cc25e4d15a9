#include "history/reader.h"
#include "base/os.h"
#include "base/str.h"
#include "history/reader_open.h"
#include <errno.h>
#include <math.h>
#include <string.h>

enum {
    BUSY_MS = 5000
}; /* readers hardly ever wait: only while a crashed writer's WAL is recovered */

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
        return sw_err_nomem(err, "reader of the history", sizeof *r);
    r->path = sw_strdup(path);
    sw_process_self(&r->self);
    code = r->path ? SW_OK : sw_err_nomem(err, "path of the history", 0);
    if (!code)
        code = sw_sqlite_check(
            NULL, sqlite3_open_v2(path, &r->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL),
            path, err);
    if (!code) {
        sqlite3_busy_timeout(r->db, BUSY_MS);
        sw_sqlite_harden(r->db);
        code = sw_sqlite_exec(r->db, "PRAGMA query_only = ON; PRAGMA wal_autocheckpoint = 0", path,
                              err);
    }
    if (!code)
        code = check_readable(r, err);
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

static double real_or_nan(sqlite3_stmt *st, int column)
{
    return sqlite3_column_type(st, column) == SQLITE_NULL ? NAN : sqlite3_column_double(st, column);
}

static enum sw_run_status parse_status(const char *text)
{
    for (int s = SW_RUN_RUNNING; s <= SW_RUN_CRASHED; s++)
        if (sw_str_eq(sw_run_status_name(s), text))
            return (enum sw_run_status)s;
    return SW_RUN_FAILED;
}

/* A run that says it is running but whose process is gone has crashed. Of another host nothing can
 * be known, so its word is taken. */
static enum sw_run_status actual_status(const struct sw_history_reader *r,
                                        enum sw_run_status stored, const struct sw_run *run,
                                        int64_t pid_start, const char *boot_id)
{
    if (stored != SW_RUN_RUNNING || !run->host || !sw_str_eq(run->host, r->self.host))
        return stored;
    return sw_process_alive(run->pid, pid_start, boot_id) ? SW_RUN_RUNNING : SW_RUN_CRASHED;
}

static int fill_run(const struct sw_history_reader *r, sqlite3_stmt *st, struct sw_run *run,
                    struct sw_err *err)
{
    memset(run, 0, sizeof *run);
    for (int i = 0; i < TEXTS; i++) {
        const char *text = (const char *)sqlite3_column_text(st, i);
        if (text && !(*text_of(run, i) = sw_strdup(text))) {
            sw_run_fini(run);
            return sw_err_nomem(err, "description of a run", strlen(text) + 1);
        }
    }
    int c = TEXTS;
    run->id = sqlite3_column_int64(st, c++);
    enum sw_run_status stored = parse_status((const char *)sqlite3_column_text(st, c++));
    run->pid = sqlite3_column_int64(st, c++);
    int64_t pid_start = sqlite3_column_int64(st, c++);
    const char *boot_id = (const char *)sqlite3_column_text(st, c++);
    run->status = actual_status(r, stored, run, pid_start, boot_id);
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
    run->loss = real_or_nan(st, c++);
    run->accuracy = real_or_nan(st, c++);
    run->samples_per_s = real_or_nan(st, c);
    return SW_OK;
}

/* Prepares a query and binds ?1, as a text or, when that is NULL, as a number. */
static int prepare(struct sw_history_reader *r, const char *sql, const char *text, int64_t number,
                   sqlite3_stmt **st, struct sw_err *err)
{
    *st = NULL;
    int rc = sqlite3_prepare_v2(r->db, sql, -1, st, NULL);
    if (rc == SQLITE_OK && sqlite3_bind_parameter_count(*st) > 0)
        rc = text ? sqlite3_bind_text(*st, 1, text, -1, SQLITE_STATIC)
                  : sqlite3_bind_int64(*st, 1, number);
    return sw_sqlite_check(r->db, rc, r->path, err);
}

/* SW_OK and *row true: a row; false: the end. */
static int step(struct sw_history_reader *r, sqlite3_stmt *st, bool *row, struct sw_err *err)
{
    int rc = sqlite3_step(st);
    *row = rc == SQLITE_ROW;
    return sw_sqlite_check(r->db, rc, r->path, err);
}

static int prepare_runs(struct sw_history_reader *r, const char *suffix, const char *text,
                        int64_t number, sqlite3_stmt **st, struct sw_err *err)
{
    char *sql = sw_format("%s%s", run_columns, suffix);
    *st = NULL;
    if (!sql)
        return sw_err_nomem(err, "query", 0);
    int code = prepare(r, sql, text, number, st, err);
    sw_free(sql);
    return code;
}

/* The first run of a query; *found says whether there is one. */
static int first_run(struct sw_history_reader *r, const char *suffix, const char *text,
                     int64_t number, struct sw_run *run, bool *found, struct sw_err *err)
{
    sqlite3_stmt *st;
    *found = false;
    int code = prepare_runs(r, suffix, text, number, &st, err);
    if (!code)
        code = step(r, st, found, err);
    if (!code && *found)
        code = fill_run(r, st, run, err);
    sqlite3_finalize(st);
    return code;
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
    const char *texts[] = {filter->name, filter->tag, filter->tag_value};
    sqlite3_stmt *st = NULL;
    char *suffix = sw_format("WHERE (?1 IS NULL OR r.name GLOB ?1) AND (?2 IS NULL OR EXISTS"
                             " (SELECT 1 FROM tags t WHERE t.run_id = r.id AND t.key = ?2"
                             " AND (?3 IS NULL OR t.value = ?3))) ORDER BY %s",
                             orders[filter->order]);
    bool more = true;
    int code = suffix ? prepare_runs(r, suffix, NULL, 0, &st, err) : sw_err_nomem(err, "query", 0);
    for (int i = 0; !code && i < 3; i++)
        code = sw_sqlite_check(r->db,
                               texts[i] ? sqlite3_bind_text(st, i + 1, texts[i], -1, SQLITE_STATIC)
                                        : sqlite3_bind_null(st, i + 1),
                               r->path, err);
    while (!code) {
        struct sw_run run;
        code = step(r, st, &more, err);
        if (code || !more)
            break;
        code = fill_run(r, st, &run, err);
        if (code)
            break;
        code = each(user, &run);
        sw_run_fini(&run);
    }
    sqlite3_finalize(st);
    sw_free(suffix);
    return code;
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
    int code = first_run(r, "WHERE r.id = ?1", NULL, run_id, run, &found, err);
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
                         recipe_hash, 0, run, &found, err);
    if (!code && !found)
        code = sw_err_set(err, SW_ERR_NOTFOUND, "%s has no run of this recipe with a checkpoint",
                          r->path);
    return code;
}

/* --- RUN ----------------------------------------------------------------------------------- */

/* Names (or ids of nameless runs) that begin with the text; ids and uids count as names of their
 * run. */
static const char prefix_sql[] =
    "SELECT DISTINCT coalesce(name, id) FROM runs WHERE substr(name, 1, length(?1)) = ?1"
    " OR substr(CAST(id AS TEXT), 1, length(?1)) = ?1"
    " OR (length(?1) >= 4 AND substr(uid, 1, length(?1)) = ?1) ORDER BY id DESC LIMIT 4";

static int suggest(struct sw_history_reader *r, const char *text, struct sw_err *err)
{
    sqlite3_stmt *st;
    bool more;
    int best = (int)strlen(text) / 3;
    char near[128] = "";
    best = best < 1 ? 1 : best > 3 ? 3 : best;
    int code =
        prepare(r, "SELECT DISTINCT name FROM runs WHERE name IS NOT NULL", NULL, 0, &st, err);
    while (!code && !(code = step(r, st, &more, err)) && more) {
        const char *name = (const char *)sqlite3_column_text(st, 0);
        int distance = sw_str_distance(text, name);
        if (distance <= best && strlen(name) < sizeof near) {
            best = distance - 1;
            strcpy(near, name);
        }
    }
    sqlite3_finalize(st);
    if (code)
        return code;
    return sw_err_set(err, SW_ERR_NOTFOUND, "no run '%s' in %s%s%s%s", text, r->path,
                      *near ? "; did you mean '" : "; singa-ws history lists them", near,
                      *near ? "'?" : "");
}

static int find_prefix(struct sw_history_reader *r, const char *text, struct sw_run *run,
                       struct sw_err *err)
{
    struct sw_buf fits = {0};
    sqlite3_stmt *st;
    bool more, found;
    int count = 0, code = prepare(r, prefix_sql, text, 0, &st, err);
    while (!code && !(code = step(r, st, &more, err)) && more)
        sw_buf_printf(&fits, "%s%s", count++ ? ", " : "", (const char *)sqlite3_column_text(st, 0));
    sqlite3_finalize(st);
    if (!code && count == 0)
        code = suggest(r, text, err);
    else if (!code && count > 1)
        code = sw_err_set(err, SW_ERR_INVALID,
                          "'%s' fits several runs: %s; give more of the name, or an id", text,
                          sw_buf_text(&fits));
    else if (!code)
        code = first_run(r,
                         "WHERE substr(r.name, 1, length(?1)) = ?1"
                         " OR substr(CAST(r.id AS TEXT), 1, length(?1)) = ?1"
                         " OR (length(?1) >= 4 AND substr(r.uid, 1, length(?1)) = ?1)"
                         " ORDER BY r.id DESC LIMIT 1",
                         text, 0, run, &found, err);
    sw_buf_fini(&fits);
    return code;
}

int sw_history_find(struct sw_history_reader *r, const char *text, struct sw_run *run,
                    struct sw_err *err)
{
    int64_t id;
    bool found = false;
    int code = SW_OK;
    if (!*text)
        return sw_err_set(err, SW_ERR_INVALID, "the name of a run is empty");
    if (sw_str_eq(text, "@last")) {
        code = first_run(r, "ORDER BY r.id DESC LIMIT 1", NULL, 0, run, &found, err);
        if (!code && !found)
            code = sw_err_set(err, SW_ERR_NOTFOUND, "%s has no run yet", r->path);
        return code;
    }
    if (sw_parse_int(text, &id))
        code = first_run(r, "WHERE r.id = ?1", NULL, id, run, &found, err);
    if (!code && !found)
        code =
            first_run(r, "WHERE r.name = ?1 ORDER BY r.id DESC LIMIT 1", text, 0, run, &found, err);
    return code || found ? code : find_prefix(r, text, run, err);
}

/* --- What belongs to a run ----------------------------------------------------------------- */

int sw_history_each_checkpoint(struct sw_history_reader *r, int64_t run_id,
                               int (*each)(void *user, const struct sw_run_checkpoint *c),
                               void *user, struct sw_err *err)
{
    sqlite3_stmt *st;
    bool more;
    int code = prepare(r,
                       "SELECT step, bytes, path, checksum, time, is_best FROM checkpoints"
                       " WHERE run_id = ?1 ORDER BY step DESC",
                       NULL, run_id, &st, err);
    while (!code && !(code = step(r, st, &more, err)) && more) {
        struct sw_run_checkpoint c = {
            .step = sqlite3_column_int64(st, 0),
            .bytes = sqlite3_column_int64(st, 1),
            .path = (const char *)sqlite3_column_text(st, 2),
            .checksum = (const char *)sqlite3_column_text(st, 3),
            .time = sqlite3_column_double(st, 4),
            .is_best = sqlite3_column_int(st, 5) != 0,
        };
        code = each(user, &c);
    }
    sqlite3_finalize(st);
    return code;
}

/* The second is for a file of the first version, which has no summaries: all points are read. */
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
    sqlite3_stmt *st;
    bool more;
    int code = prepare(r, metric_sql[r->version < 2], NULL, run_id, &st, err);
    while (!code && !(code = step(r, st, &more, err)) && more) {
        struct sw_run_metric m = {
            .split = (const char *)sqlite3_column_text(st, 0),
            .name = (const char *)sqlite3_column_text(st, 1),
            .points = sqlite3_column_int64(st, 2),
            .last_step = sqlite3_column_int64(st, 3),
            .min = real_or_nan(st, 4),
            .max = real_or_nan(st, 5),
            .last = real_or_nan(st, 6),
            .mean = real_or_nan(st, 7),
        };
        code = each(user, &m);
    }
    sqlite3_finalize(st);
    return code;
}

int sw_history_each_time(struct sw_history_reader *r, int64_t run_id,
                         int (*each)(void *user, const char *part, double total_ms, double share),
                         void *user, struct sw_err *err)
{
    sqlite3_stmt *st;
    bool more;
    int code = prepare(r, "SELECT part, total_ms, share FROM where_time_went WHERE run_id = ?1",
                       NULL, run_id, &st, err);
    while (!code && !(code = step(r, st, &more, err)) && more)
        code = each(user, (const char *)sqlite3_column_text(st, 0), sqlite3_column_double(st, 1),
                    real_or_nan(st, 2));
    sqlite3_finalize(st);
    return code;
}
