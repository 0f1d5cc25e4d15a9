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

/* The columns of struct sw_run and their types (see reader_rows.c); then what status() needs. */
static const char run_types[] = "ooooooooooooooiizziiiiiizizirrrziriri";
enum { STATUS_COLUMN = sizeof run_types - 1 };
/* The best value of a metric of evaluations of run r, or its step; name is an SQL expression. */
#define BEST(column, name, order)                                                                  \
    "SELECT " column " FROM series s JOIN point p ON p.series_id = s.id WHERE s.run_id = r.id"     \
    " AND s.split <> 'train' AND s.name = " name " AND p.value IS NOT NULL"                        \
    " ORDER BY p.value " order ", p.step LIMIT 1"
static const char run_columns[] =
    "SELECT r.uid, r.name, r.recipe, r.recipe_text, r.recipe_hash, r.overrides, r.fallback,"
    " r.command, r.host, r.framework, r.device, r.version, r.note, r.out_dir, r.id, r.pid,"
    " r.started_at, r.ended_at, r.workers, r.seed, r.batch, r.steps, r.epoch_records, r.params,"
    " r.flops_per_sample, (SELECT count(*) FROM segments WHERE run_id = r.id),"
    " (SELECT max(started_at) FROM segments WHERE run_id = r.id),"
    " coalesce((SELECT max((SELECT max(step) FROM point WHERE series_id = s.id)) FROM series s"
    "  WHERE s.run_id = r.id), -1),"
    " (SELECT p.value FROM series s JOIN point p ON p.series_id = s.id WHERE s.run_id = r.id"
    "  AND s.split = 'train' AND s.name = 'loss' ORDER BY p.step DESC LIMIT 1) AS loss,"
    " (SELECT p.value FROM series s JOIN point p ON p.series_id = s.id WHERE s.run_id = r.id"
    "  AND s.split <> 'train' AND s.name = 'accuracy' ORDER BY p.step DESC LIMIT 1) AS accuracy,"
    " (SELECT count(*) / sum(1 / value) FROM (SELECT p.value AS value FROM series s"
    "  JOIN point p ON p.series_id = s.id WHERE s.run_id = r.id AND s.split = 'train'"
    "  AND s.name = 'samples_per_s' AND p.value > 0 ORDER BY p.step DESC LIMIT 100)) AS speed,"
    " CASE WHEN r.status = 'running' THEN max(r.started_at,"
    "  coalesce((SELECT max((SELECT time FROM point WHERE series_id = s.id ORDER BY step DESC"
    "   LIMIT 1)) FROM series s WHERE s.run_id = r.id), 0),"
    "  coalesce((SELECT max(started_at) FROM segments WHERE run_id = r.id), 0),"
    "  coalesce((SELECT max(time) FROM events WHERE run_id = r.id), 0),"
    "  coalesce((SELECT max(time) FROM checkpoints WHERE run_id = r.id), 0),"
    "  coalesce((SELECT max(time) FROM hardware WHERE run_id = r.id), 0)) END,"
    " coalesce((SELECT max(step) FROM checkpoints WHERE run_id = r.id), -1),"
    " (" BEST(
        "p.value", "'accuracy'",
        "DESC") ") AS best_accuracy,"
                " coalesce((" BEST(
                    "p.step", "'accuracy'",
                    "DESC") "), -1),"
                            " (" BEST(
                                "p.value", "'loss'",
                                "ASC") ") AS best_loss,"
                                       " coalesce((" BEST(
                                           "p.step", "'loss'",
                                           "ASC") "), -1),"
                                                  " r.status, r.pid_start, r.boot_id FROM runs r ";

void sw_run_fini(struct sw_run *run)
{
    for (int i = 0; i < SW_RUN_TEXTS; i++)
        sw_free(run->texts[i]);
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
static enum sw_run_status actual_status(const struct sw_history_reader *r, const struct sw_run *run,
                                        const struct sw_query *q)
{
    enum sw_run_status stored = parse_status(sw_query_text(q, STATUS_COLUMN));

    if (stored != SW_RUN_RUNNING || !run->host || !sw_str_eq(run->host, r->self.host))
        return stored;
    return sw_process_alive(run->pid, sw_query_int(q, STATUS_COLUMN + 1),
                            sw_query_text(q, STATUS_COLUMN + 2))
               ? SW_RUN_RUNNING
               : SW_RUN_CRASHED;
}

static int fill_run(const struct sw_history_reader *r, const struct sw_query *q, struct sw_run *run,
                    struct sw_err *err)
{
    bool failed = false;

    sw_query_take(q, run_types, run);
    run->status = actual_status(r, run, q);
    if (run->status == SW_RUN_CRASHED)
        run->ended_at = run->last_sign_at;

    for (int i = 0; i < SW_RUN_TEXTS; i++) {
        const char *text = run->texts[i];

        run->texts[i] = text ? sw_strdup(text) : NULL;
        failed |= text && !run->texts[i];
    }

    if (!failed)
        return SW_OK;

    sw_run_fini(run);
    return sw_err_nomem(err, "description of a run", 0);
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
    static const char *const orders[] = {
        [SW_RUNS_BY_ID] = "r.id DESC",
        [SW_RUNS_BY_LOSS] = "best_loss ASC NULLS LAST, loss ASC NULLS LAST, r.id DESC",
        [SW_RUNS_BY_ACCURACY] = "best_accuracy DESC NULLS LAST, r.id DESC",
        [SW_RUNS_BY_SPEED] = "speed DESC NULLS LAST, r.id DESC",
        [SW_RUNS_BY_METRIC] = "(" BEST("p.value", "?4", "DESC") ") DESC NULLS LAST, r.id DESC",
    };
    static const char smallest_first[] =
        "(" BEST("p.value", "?4", "ASC") ") ASC NULLS LAST, r.id DESC";
    const bool falls = filter->order == SW_RUNS_BY_METRIC && sw_metric_falls(filter->metric);
    const struct sw_cell cells[] = {SW_TEXT(filter->name), SW_TEXT(filter->tag),
                                    SW_TEXT(filter->tag_value), SW_TEXT(filter->metric)};
    char *suffix = sw_format("WHERE (?1 IS NULL OR r.name GLOB ?1) AND (?2 IS NULL OR EXISTS"
                             " (SELECT 1 FROM tags t WHERE t.run_id = r.id AND t.key = ?2"
                             " AND (?3 IS NULL OR t.value = ?3))) ORDER BY %s",
                             falls ? smallest_first : orders[filter->order]);
    if (!suffix)
        return sw_err_nomem(err, "query", 0);

    struct sw_query q = query_runs(r, suffix, cells, filter->metric ? 4 : 3, err);
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

int sw_history_find_folder(struct sw_history_reader *r, const char *folder, struct sw_run *run,
                           struct sw_err *err)
{
    bool found;
    int code = first_run(r, "WHERE r.out_dir = ?1 ORDER BY r.id DESC LIMIT 1", SW_TEXT(folder), run,
                         &found, err);

    if (!code && !found)
        code = sw_err_set(err, SW_ERR_NOTFOUND, "%s has no run in %s", r->path, folder);

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

int sw_history_metric_names(struct sw_history_reader *r, struct sw_bytes *out, struct sw_err *err)
{
    struct sw_query q = query(
        r, "SELECT DISTINCT name FROM series WHERE split <> 'train' ORDER BY name", NULL, 0, err);

    while (sw_query_next(&q)) {
        sw_bytes_add(out, out->length ? ", " : "");
        sw_bytes_add(out, sw_query_text(&q, 0));
    }

    return sw_query_end(&q);
}

int sw_history_best(struct sw_history_reader *r, int64_t run_id, const char *metric, double *value,
                    int64_t *step, struct sw_err *err)
{
    static const char largest[] = "SELECT (" BEST("p.value", "?2", "DESC") "), coalesce((" BEST(
        "p.step", "?2", "DESC") "), -1) FROM runs r WHERE r.id = ?1";
    static const char smallest[] = "SELECT (" BEST("p.value", "?2", "ASC") "), coalesce((" BEST(
        "p.step", "?2", "ASC") "), -1) FROM runs r WHERE r.id = ?1";
    struct sw_query q = query(r, sw_metric_falls(metric) ? smallest : largest,
                              SW_CELLS(SW_INT(run_id), SW_TEXT(metric)), err);

    *step = -1;
    if (sw_query_next(&q)) {
        *value = sw_query_real(&q, 0);
        *step = sw_query_int(&q, 1);
    }

    return sw_query_end(&q);
}

bool sw_metric_falls(const char *name)
{
    static const char *const falling[] = {"loss",   "error",   "perplexity", "mae",      "mse",
                                          "energy", "entropy", "sparsity",   "sampling", "softmax"};
    const char *end = name + strcspn(name, "."); /* a layer's name follows */

    for (size_t i = 0; i < sizeof falling / sizeof *falling; i++) {
        const char *at = strstr(name, falling[i]);
        if (at && at < end)
            return true;
    }

    return false;
}

/* --- Finding a run
 * ----------------------------------------------------------------------------------- */

/* Selects names (or ids of nameless runs) that begin with the text; the text may also be a prefix
 * of an id or uid. */
static const char prefix_sql[] =
    "SELECT DISTINCT coalesce(name, id) FROM runs WHERE substr(name, 1, length(?1)) = ?1"
    " OR substr(CAST(id AS TEXT), 1, length(?1)) = ?1"
    " OR (length(?1) >= 4 AND substr(uid, 1, length(?1)) = ?1) ORDER BY id DESC LIMIT 4";

/* Whether the text is "RUN:SUFFIX" with the number or name of a run; then says what suffixes mean.
 */
static int suggest_suffix(struct sw_history_reader *r, const char *text, bool *fits,
                          struct sw_err *err)
{
    const char *colon = strrchr(text, ':');
    char *run = colon ? sw_format("%.*s", (int)(colon - text), text) : NULL;
    int64_t found = 0;

    *fits = false;
    if (!run)
        return SW_OK;

    int code = sw_query_once(r->db, r->path,
                             "SELECT count(*) FROM runs WHERE name = ?1 OR CAST(id AS TEXT) = ?1",
                             SW_CELLS(SW_TEXT(run)), &found, err);
    *fits = !code && found > 0;
    if (*fits)
        code =
            sw_err_set(err, SW_ERR_NOTFOUND,
                       "no run '%s', but there is '%s'; %s:best and %s:STEP are its checkpoints, "
                       "where a verb or option takes one",
                       text, run, run, run);
    sw_free(run);

    return code;
}

static int suggest(struct sw_history_reader *r, const char *text, struct sw_err *err)
{
    bool fits;
    int answer = suggest_suffix(r, text, &fits, err);
    if (answer || fits)
        return answer;

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
