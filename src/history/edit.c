/* Changes finished runs. Each change is a transaction under the writers' lock. Downsampling goes
 * table by table and curve by curve, so that writers of running jobs wait only for one of them, and
 * updates the summaries before it deletes rows. */
#include "history/edit.h"

#include "base/os.h"
#include "base/str.h"
#include "history/store.h"
#include "history/summary.h"
#include <errno.h>

enum { WAIT_MS = 5000 };

struct sw_history_edit {
    struct sw_store store;
};

int sw_history_edit_open(struct sw_history_edit **out, const char *path, struct sw_err *err)
{
    struct stat st;
    if (sw_os()->stat(path, &st) != 0)
        return errno == ENOENT || errno == ENOTDIR
                   ? sw_err_set(err, SW_ERR_NOTFOUND,
                                "no history at %s: no run has been recorded yet", path)
                   : sw_err_errno(err, errno, "history %s", path);

    struct sw_history_edit *e = sw_calloc(1, sizeof *e);
    if (!e)
        return sw_err_nomem(err, "history editor", sizeof *e);

    e->store.lock_fd = -1;

    int code = sw_store_init(&e->store, path, err);
    if (!code)
        code = sw_store_open(&e->store, WAIT_MS, err);

    if (code)
        sw_history_edit_close(e);
    else
        *out = e;

    return code;
}

void sw_history_edit_close(struct sw_history_edit *e)
{
    if (!e)
        return;
    sw_store_fini(&e->store);
    sw_free(e);
}

/* Runs one statement inside a transaction; value (may be NULL) is its first result. */
static int run(struct sw_history_edit *e, const char *sql, const struct sw_cell *cells,
               size_t count, int64_t *value, struct sw_err *err)
{
    return sw_query_once(e->store.db, e->store.path, sql, cells, count, value, err);
}

/* Runs one statement in its own transaction. */
static int change(struct sw_history_edit *e, const char *sql, const struct sw_cell *cells,
                  size_t count, struct sw_err *err)
{
    for (size_t i = 0; i < count; i++)
        if (cells[i].type == SW_CELL_TEXT && !sw_utf8_is_valid(cells[i].t))
            return sw_err_set(err, SW_ERR_INVALID, "notes and tags must be UTF-8 text");

    int code = sw_store_begin(&e->store, WAIT_MS, err);
    if (code)
        return code;

    return sw_store_end(&e->store, run(e, sql, cells, count, NULL, err), err);
}

int sw_history_edit_tag(struct sw_history_edit *e, int64_t run_id, const char *key,
                        const char *value, struct sw_err *err)
{
    if (!value)
        return change(e, "DELETE FROM tags WHERE run_id = ?1 AND key = ?2",
                      SW_CELLS(SW_INT(run_id), SW_TEXT(key)), err);
    return change(e, "INSERT OR REPLACE INTO tags(run_id, key, value) VALUES (?1, ?2, ?3)",
                  SW_CELLS(SW_INT(run_id), SW_TEXT(key), SW_TEXT(value)), err);
}

int sw_history_edit_note(struct sw_history_edit *e, int64_t run_id, const char *note,
                         struct sw_err *err)
{
    return change(e, "UPDATE runs SET note = ?2 WHERE id = ?1",
                  SW_CELLS(SW_INT(run_id), SW_TEXT(note)), err);
}

int sw_history_edit_rm(struct sw_history_edit *e, int64_t run_id, struct sw_err *err)
{
    return change(e, "DELETE FROM runs WHERE id = ?1", SW_CELLS(SW_INT(run_id)), err);
}

/* --- Downsampling ------------------------------------------------------------------------------
 */

/* The rows to delete in each table. ?1 is the run (for points: the series), ?2 the number of steps
 * in a bucket, ?3 the last step that the summaries cover, so that rows which a running run adds
 * meanwhile are not touched. NOT IN with one column is a look-up in a sorted list; with two it
 * would be a scan. */
static const char deleted_points[] =
    "FROM point WHERE series_id = ?1 AND step <= ?3 AND step NOT IN ("
    " SELECT min(step) FROM point WHERE series_id = ?1 GROUP BY step / ?2"
    " UNION ALL SELECT max(step) FROM point WHERE series_id = ?1"
    " UNION ALL SELECT step FROM (SELECT step, min(value) FROM point WHERE series_id = ?1"
    "  GROUP BY step / ?2)"
    " UNION ALL SELECT step FROM (SELECT step, max(value) FROM point WHERE series_id = ?1"
    "  GROUP BY step / ?2))";
static const char deleted_step_times[] = "FROM step_time WHERE run_id = ?1 AND step <= ?3 AND step "
                                         "NOT IN (SELECT min(step) FROM step_time"
                                         " WHERE run_id = ?1 GROUP BY step / ?2)";
static const char deleted_traffic[] = "FROM link_traffic WHERE run_id = ?1 AND step <= ?3 AND step "
                                      "NOT IN (SELECT min(step) FROM link_traffic"
                                      " WHERE run_id = ?1 GROUP BY step / ?2)";

/* The parameters of a downsampling. */
struct downsampling {
    int64_t bucket, upto; /* ?2 and ?3 */
    bool dry;
};

/* Downsamples one table, or one curve, in its own transaction, so that writers need not wait long.
 */
static int downsample_table(struct sw_history_edit *e, int64_t id, const struct downsampling *t,
                            const char *deleted, int64_t *count, struct sw_err *err)
{
    int64_t rows = 0;
    char *sql = sw_format("%s %s", t->dry ? "SELECT count(*)" : "DELETE", deleted);
    int code = sql ? sw_store_begin(&e->store, WAIT_MS, err) : sw_err_nomem(err, "query", 0);

    if (!code) {
        code = run(e, sql, SW_CELLS(SW_INT(id), SW_INT(t->bucket), SW_INT(t->upto)), &rows, err);
        if (!code && !t->dry)
            rows = sqlite3_changes(e->store.db);
        code = sw_store_end(&e->store, code, err);
    }

    *count += code ? 0 : rows;
    sw_free(sql);
    return code;
}

/* Downsamples the training curves of a run one by one, by ascending id. */
static int downsample_curves(struct sw_history_edit *e, int64_t run_id,
                             const struct downsampling *t, int64_t *count, struct sw_err *err)
{
    static const char next_sql[] = "SELECT coalesce(min(id), 0) FROM series WHERE run_id = ?1"
                                   " AND id > ?2 AND split = 'train'";
    int64_t id = 0, after = 0;
    int code;

    while (!(code = run(e, next_sql, SW_CELLS(SW_INT(run_id), SW_INT(after)), &id, err)) && id) {
        code = downsample_table(e, id, t, deleted_points, count, err);
        if (code)
            break;
        after = id;
    }

    return code;
}

/* Updates the summaries to all rows, so that they stay exact when rows are deleted. */
static int update_summaries(struct sw_history_edit *e, int64_t run_id, struct sw_err *err)
{
    int code = sw_store_begin(&e->store, WAIT_MS, err);
    if (code)
        return code;

    return sw_store_end(&e->store, sw_summary_add_all(e->store.db, e->store.path, run_id, err),
                        err);
}

int sw_history_edit_thin(struct sw_history_edit *e, int64_t run_id, int64_t keep, bool dry,
                         struct sw_history_thinned *sum, struct sw_err *err)
{
    struct downsampling t = {.upto = INT64_MAX, .dry = dry};
    int64_t steps = 0; /* to the last one, since they count from 0 or 1 */
    int code = run(e,
                   "SELECT coalesce(max((SELECT max(step) FROM point WHERE series_id = s.id)), 0)"
                   " FROM series s WHERE s.run_id = ?1",
                   SW_CELLS(SW_INT(run_id)), &steps, err);

    t.bucket = steps / keep;
    if (code || t.bucket < 2)
        return code;

    if (!dry) {
        code = update_summaries(e, run_id, err);
        if (code)
            return code;
        code = run(e, "SELECT summed_to FROM runs WHERE id = ?1", SW_CELLS(SW_INT(run_id)), &t.upto,
                   err);
        if (code)
            return code;
    }

    code = downsample_curves(e, run_id, &t, &sum->points, err);
    if (code)
        return code;
    code = downsample_table(e, run_id, &t, deleted_step_times, &sum->step_times, err);
    if (code)
        return code;

    return downsample_table(e, run_id, &t, deleted_traffic, &sum->traffic, err);
}

int sw_history_edit_vacuum(struct sw_history_edit *e, struct sw_err *err)
{
    return sw_store_exec(&e->store, "VACUUM", WAIT_MS, err);
}
