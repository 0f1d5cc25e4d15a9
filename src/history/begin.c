/* Begins or resumes a run: its row, its directory, its first or next segment, or the spool in their
 * place when the database cannot be written. Called on the thread that sets the job up, before the
 * writer thread starts. Reading order: sw_history_begin_run, sw_history_resume_run. */
#include "base/os.h"
#include "base/str.h"
#include "history/writer.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int make_uid(char uid[SW_UID_TEXT], struct sw_err *err)
{
    uint64_t r;
    if (sw_os()->random_bytes(&r, sizeof r) != 0)
        return sw_err_errno(err, errno, "cannot get random bytes for the id of the run");

    snprintf(uid, SW_UID_TEXT, "%016llx", (unsigned long long)r);
    return SW_OK;
}

int sw_history_make_run(struct sw_history *h, const struct sw_run_info *i, double now,
                        struct sw_err *err)
{
    const struct sw_process *me = &h->self;
    struct sw_row r =
        SW_ROW(SW_ROW_RUN, SW_NULL, SW_TEXT(i->name), SW_TEXT(i->recipe), SW_TEXT(i->recipe_hash),
               SW_TEXT(i->overrides), SW_TEXT(i->command), SW_TEXT(me->host), SW_INT(me->pid),
               SW_REAL(now), SW_TEXT(i->framework), SW_INT(i->workers), SW_TEXT(i->device),
               SW_INT(i->seed), SW_COUNT(i->batch), SW_COUNT(i->params), SW_TEXT(i->version),
               SW_TEXT(i->note), SW_REAL(i->flops_per_sample), SW_TEXT(h->uid),
               SW_INT(me->start_ticks), SW_TEXT(me->boot_id), SW_NULL, SW_TEXT(i->recipe_text),
               SW_TEXT(i->fallback), SW_COUNT(i->steps), SW_COUNT(i->epoch_records));

    h->run = sw_row_copy(&r);
    return h->run ? SW_OK : sw_err_nomem(err, "row of the run", sizeof r);
}

static int make_segment_row(struct sw_history *h, const struct sw_run_info *i, int64_t from_step,
                            double now, struct sw_err *err)
{
    const struct sw_process *me = &h->self;
    struct sw_row r = SW_ROW(SW_ROW_SEGMENT, SW_INT(from_step), SW_REAL(now), SW_INT(me->pid),
                             SW_INT(me->start_ticks), SW_TEXT(me->boot_id), SW_TEXT(me->host),
                             SW_TEXT(i->command), SW_TEXT(i->framework), SW_INT(i->workers),
                             SW_TEXT(i->device), SW_INT(i->steps), SW_TEXT(i->version));

    h->segment = sw_row_copy(&r);
    return h->segment ? SW_OK : sw_err_nomem(err, "row of a segment", sizeof r);
}

/* --- The directory ------------------------------------------------------------------------- */

int sw_history_make_dir(const char *dir, char **path, struct sw_err *err)
{
    int code = sw_os_mkdirs(dir, 0777, err);
    if (code)
        return code;

    char *real = realpath(dir, NULL);
    if (!real)
        return sw_err_set(err, SW_ERR_IO, "%s: %s", dir, strerror(errno));

    *path = sw_strdup(real);
    free(real);
    return *path ? SW_OK : sw_err_nomem(err, "path of the output directory", 0);
}

/* Creates STATE/runs/NAME. A run of another database may have the same number, so NAME gets the
 * suffix "-2", "-3", ... if it exists already. */
static int make_own_dir(const char *name, char **path, struct sw_err *err)
{
    char *state = NULL, *runs = NULL;
    int code = sw_history_state_dir(&state, err);
    if (code)
        return sw_err_prefix(err, code, "no --out DIR given");

    runs = sw_format("%s/runs", state);

    code = runs ? sw_os_mkdirs(runs, 0700, err) : sw_err_nomem(err, "path of the runs", 0);
    for (int n = 1; !code && !*path; n++) {
        char *candidate =
            n == 1 ? sw_format("%s/%s", runs, name) : sw_format("%s/%s-%d", runs, name, n);

        if (!candidate)
            code = sw_err_nomem(err, "path of the output directory", 0);
        else if (sw_os()->mkdir(candidate, 0777) == 0)
            *path = candidate;
        else if (errno != EEXIST)
            code =
                sw_err_set(err, SW_ERR_IO, "output directory %s: %s", candidate, strerror(errno));

        if (candidate != *path)
            sw_free(candidate);
    }

    sw_free(runs);
    sw_free(state);
    return code;
}

int sw_history_set_out_dir(struct sw_history *h, char *path, struct sw_err *err)
{
    struct sw_cell *cell = &h->run->cells[SW_RUN_CELL_OUT_DIR];
    char *copy = sw_strdup(path);
    if (!copy)
        return sw_err_nomem(err, "path of the output directory", 0);

    if (cell->type == SW_CELL_TEXT)
        sw_free((void *)cell->t);
    *cell = SW_TEXT(copy);
    h->out_dir = path;

    return SW_OK;
}

static int choose_out_dir(struct sw_history *h, const char *given, const char *name,
                          struct sw_err *err)
{
    char *path = NULL;
    int code = given ? sw_history_make_dir(given, &path, err) : make_own_dir(name, &path, err);
    if (code)
        goto out;
    code = sw_claim_take(&h->claim, path, 0, "choose another --out", h->log, err);
    if (code)
        goto out;

    code = sw_history_set_out_dir(h, path, err);

out:
    if (code)
        sw_free(path);
    return code;
}

/* Undoes choose_out_dir after a failed transaction: removes a directory that was named after the
 * id. A directory given with --out stays, and stays claimed. */
static void discard_out_dir(struct sw_history *h, bool remove)
{
    if (remove)
        sw_claim_release(&h->claim);
    if (h->out_dir && remove)
        rmdir(h->out_dir);
    sw_free(h->out_dir);
    h->out_dir = NULL;
}

/* --- A directory with checkpoints of another run --------------------------------------------- */

/* The highest step of a checkpoint in a directory; 0: there is none, or only that of step 0, which
 * holds only initial values. */
static int64_t newest_checkpoint(const char *dir)
{
    int64_t newest = 0;
    DIR *d = opendir(dir);
    if (!d)
        return 0;

    for (const struct dirent *e; (e = readdir(d));) {
        if (!sw_str_match("checkpoint-*.safetensors", e->d_name))
            continue;

        int64_t step = strtoll(e->d_name + strlen("checkpoint-"), NULL, 10);
        if (step > newest)
            newest = step;
    }

    closedir(d);
    return newest;
}

/* The id of the newest run in the database that used this directory; 0: there is none. */
static int64_t run_in(struct sw_history *h, const char *dir)
{
    static const char sql[] = "SELECT max(id) FROM runs WHERE out_dir = ?1";
    int64_t id = 0;
    struct sw_err ignored;

    if (sw_store_open(&h->store, h->timeouts.setup_ms, &ignored) != SW_OK ||
        sw_query_once(h->store.db, h->path, sql, SW_CELLS(SW_TEXT(dir)), &id, &ignored) != SW_OK)
        return 0;

    return id;
}

/* Refuses a directory with checkpoints: a new run writes checkpoints of the same names, and --out
 * may be a mistake. */
static int refuse_existing_checkpoints(struct sw_history *h, const char *dir, struct sw_err *err)
{
    int64_t step = newest_checkpoint(dir), id = step > 0 ? run_in(h, dir) : 0;
    if (step == 0)
        return SW_OK;

    if (id == 0)
        return sw_err_set(err, SW_ERR_INVALID,
                          "%s holds checkpoints up to step %lld of a run that is not in this "
                          "history, and a new run would overwrite them; choose another --out, or "
                          "remove them",
                          dir, (long long)step);

    return sw_err_set(err, SW_ERR_INVALID,
                      "%s holds the checkpoints of run %lld up to step %lld, and a new run would "
                      "overwrite them; choose another --out, or remove that run with `singa-ws "
                      "history rm --files %lld`",
                      dir, (long long)id, (long long)step, (long long)id);
}

/* Claims the directory given with --out. It does so before anything is stored, so that a run that
 * may not use its directory leaves no row. */
static int claim_given_dir(struct sw_history *h, const struct sw_run_info *info, struct sw_err *err)
{
    char *path = NULL;
    int code = sw_history_make_dir(info->out_dir, &path, err);
    if (code)
        goto out;
    code = sw_claim_take(&h->claim, path, 0, "choose another --out", h->log, err);
    if (code)
        goto out;

    if (!info->overwrite)
        code = refuse_existing_checkpoints(h, path, err);

out:
    sw_free(path);
    return code;
}

/* --- A new run ----------------------------------------------------------------------------- */

static int store_out_dir(struct sw_history *h, int64_t id, struct sw_err *err)
{
    return sw_query_once(h->store.db, h->path, "UPDATE runs SET out_dir = ?1 WHERE id = ?2",
                         SW_CELLS(SW_TEXT(h->out_dir), SW_INT(id)), NULL, err);
}

/* Inserts the run inside the transaction, because its id names the default directory. *no_dir: the
 * error is of the directory, not of the database. */
static int insert_run(struct sw_history *h, const char *given, bool *no_dir, struct sw_err *err)
{
    int64_t id = 0;
    char name[32];
    int code = sw_store_apply(&h->store, h->uid, h->run, err);
    if (code)
        return code;
    code = sw_store_run_id(&h->store, h->uid, &id, err);
    if (code)
        return code;

    snprintf(name, sizeof name, "%lld", (long long)id);
    code = choose_out_dir(h, given, name, err);
    *no_dir = code != SW_OK;
    if (code)
        return code;

    code = store_out_dir(h, id, err);
    if (code)
        return code;
    code = sw_store_apply(&h->store, h->uid, h->segment, err);
    if (code)
        return code;

    h->run->cells[SW_RUN_CELL_ID] = SW_INT(id);
    h->run_id = id;
    return SW_OK;
}

static int store_run(struct sw_history *h, const char *given, bool *no_dir, struct sw_err *err)
{
    *no_dir = false;

    int code = sw_store_open(&h->store, h->timeouts.setup_ms, err);
    if (code)
        return code;
    code = sw_store_begin(&h->store, h->timeouts.setup_ms, err);
    if (code)
        return code;

    code = sw_store_end(&h->store, insert_run(h, given, no_dir, err), err);
    if (code) {
        discard_out_dir(h, !given);
        h->run->cells[SW_RUN_CELL_ID] = SW_NULL;
        h->run_id = 0;
    }

    h->segment_stored = code == SW_OK;
    return code;
}

/* Records the run in the spool because the database cannot be used; *why goes to the log and, as an
 * event, to the run. */
static int spool_run(struct sw_history *h, const struct sw_err *why, struct sw_err *err)
{
    size_t taken;
    int code = sw_history_spool_lines(h, NULL, 0, &taken, err);

    sw_store_close(&h->store);
    if (code)
        return sw_err_prefix(err, code, "cannot record the run: %s; and", why->text);

    h->outage.degraded = true;
    h->outage.retry_at_ns = sw_os()->monotonic_ns() + SW_HISTORY_TICK_MS * 1000000ll;
    sw_log_write(h->log, SW_LOG_WARN, "history", "%s; rows go to %s until it works again",
                 why->text, h->spool.path);
    sw_history_event(h, SW_LOG_WARN, "history", "%s; rows go to %s until it works again", why->text,
                     h->spool.path);

    return SW_OK;
}

int sw_history_begin_run(struct sw_history *h, const struct sw_run_info *info, struct sw_err *err)
{
    double now = sw_os()->unix_time();
    struct sw_err why = {0};
    bool no_dir;
    int code = make_uid(h->uid, err);
    if (code)
        return code;
    code = sw_history_make_run(h, info, now, err);
    if (code)
        return code;
    code = make_segment_row(h, info, info->first_step, now, err);
    if (code)
        return code;

    if (info->out_dir)
        code = claim_given_dir(h, info, err);
    if (code)
        return code;

    int stored = store_run(h, info->out_dir, &no_dir, &why);
    if (no_dir)
        return sw_err_set(err, why.code, "%s", why.text);

    if (stored)
        code = choose_out_dir(h, info->out_dir, h->uid, err);
    sw_claim_write_owner(&h->claim, h->run_id);
    if (code)
        return code;

    code = sw_spool_init(&h->spool, h->path, h->out_dir, h->uid, err);
    if (code)
        return code;

    if (stored)
        code = spool_run(h, &why, err);
    if (code)
        return code;

    return sw_history_start_writer(h, err);
}

/* --- Spools of earlier runs ---------------------------------------------------------------- */

static void report_merged(struct sw_log *log, const char *path, const struct sw_merge *m)
{
    if (m->rows || m->damaged || m->refused)
        sw_log_write(log, SW_LOG_INFO, "history",
                     "%s: %llu rows merged, %llu damaged and %llu invalid lines skipped", path,
                     (unsigned long long)m->rows, (unsigned long long)m->damaged,
                     (unsigned long long)m->refused);
}

static int merge_announced(struct sw_store *store, const struct sw_spool_list *list,
                           struct sw_log *log, uint64_t *rows, struct sw_err *err)
{
    int code = SW_OK;

    for (size_t i = 0; !code && i < list->count; i++) {
        struct sw_merge m = {0};
        int64_t bytes = sw_spool_bytes(list->items[i].spool);

        code = sw_history_merge_spool(store, list->items[i].spool, SW_HISTORY_SETUP_MS, &m, err);
        report_merged(log, list->items[i].spool, &m);
        if (!code)
            sw_spool_withdraw(&list->items[i], bytes);
        *rows += m.rows;
    }

    return code;
}

int sw_history_merge(const char *path, struct sw_log *log, uint64_t *rows, struct sw_err *err)
{
    struct sw_spool_list list;
    struct sw_store store;
    uint64_t merged = 0;
    int code = sw_spool_list(path, &list, err);
    if (code)
        return code;

    if (list.count) {
        code = sw_store_init(&store, path, err);
        if (!code)
            code = sw_store_open(&store, SW_HISTORY_SETUP_MS, err);
        if (!code)
            code = merge_announced(&store, &list, log, &merged, err);
        sw_store_fini(&store);
    }

    sw_spool_list_fini(&list);
    if (rows)
        *rows = merged;

    return code;
}

int sw_history_waiting(const char *path)
{
    struct sw_spool_list list;
    if (sw_spool_list(path, &list, NULL) != SW_OK)
        return 0;

    int count = (int)list.count;
    sw_spool_list_fini(&list);
    return count;
}

/* --- Resuming a run ------------------------------------------------------------------------------
 */

static int load_run(struct sw_history *h, int64_t run_id, struct sw_err *err)
{
    int code = sw_store_read_run(&h->store, run_id, &h->run, err);
    if (code)
        return code;

    const struct sw_cell *uid = &h->run->cells[SW_RUN_CELL_UID];
    const struct sw_cell *dir = &h->run->cells[SW_RUN_CELL_OUT_DIR];
    if (uid->type != SW_CELL_TEXT || strlen(uid->t) != SW_UID_TEXT - 1 || dir->type != SW_CELL_TEXT)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: run %lld has no valid uid or output directory",
                          h->path, (long long)run_id);

    strcpy(h->uid, uid->t);
    h->out_dir = sw_strdup(dir->t);
    if (!h->out_dir)
        return sw_err_nomem(err, "path of the output directory", 0);

    h->run_id = run_id;
    code = sw_os_mkdirs(h->out_dir, 0777, err);
    return code ? code
                : sw_claim_take(&h->claim, h->out_dir, run_id,
                                "wait until it ends, or use `singa-ws stop`", h->log, err);
}

/* Checks inside the transaction that the run has not been resumed since its checkpoints were
 * chosen. */
static int compare_segments(struct sw_history *h, int64_t segments, bool *changed,
                            struct sw_err *err)
{
    static const char sql[] = "SELECT count(s.run_id), r.pid FROM runs r"
                              " LEFT JOIN segments s ON s.run_id = r.id WHERE r.id = ?1";
    struct sw_query q = sw_query_begin(h->store.db, h->path, sql, SW_CELLS(SW_INT(h->run_id)), err);

    *changed = sw_query_next(&q) && segments > 0 && sw_query_int(&q, 0) != segments;

    int64_t pid = *changed ? sw_query_int(&q, 1) : 0;
    int code = sw_query_end(&q);
    if (!*changed)
        return code;

    return sw_err_set(
        err, SW_ERR_INVALID,
        "run %lld was resumed by another process (pid %lld) in the meantime; check it with "
        "`singa-ws history show %lld`, and resume it again if it has ended",
        (long long)h->run_id, (long long)pid, (long long)h->run_id);
}

/* Stores the new segment. Rows that the run spooled earlier must be merged first, or precede the
 * segment in the same spool, because a segment supersedes all rows after its first step. */
static int store_segment(struct sw_history *h, int64_t segments, bool *changed, struct sw_err *err)
{
    struct sw_merge m = {0};

    *changed = false;

    int code = sw_history_merge_spool(&h->store, h->spool.path, h->timeouts.setup_ms, &m, err);
    report_merged(h->log, h->spool.path, &m);
    atomic_fetch_add(&h->counts.merged, m.rows);
    if (code)
        return code;

    code = sw_store_begin(&h->store, h->timeouts.setup_ms, err);
    if (code)
        return code;

    code = compare_segments(h, segments, changed, err);
    if (!code)
        code = sw_store_apply(&h->store, h->uid, h->segment, err);
    code = sw_store_end(&h->store, code, err);
    h->segment_stored = code == SW_OK;

    return code;
}

int sw_history_resume_run(struct sw_history *h, int64_t run_id, int64_t from_step,
                          const struct sw_run_info *info, struct sw_err *err)
{
    struct sw_err why = {0};
    bool changed = false;
    int code = sw_store_open(&h->store, h->timeouts.setup_ms, err);
    if (code)
        return code;
    code = load_run(h, run_id, err);
    if (code)
        return code;
    code = make_segment_row(h, info, from_step, sw_os()->unix_time(), err);
    if (code)
        return code;
    code = sw_spool_init(&h->spool, h->path, h->out_dir, h->uid, err);
    if (code)
        return code;

    if (store_segment(h, info->segments, &changed, &why) != SW_OK)
        code = changed ? sw_err_set(err, why.code, "%s", why.text) : spool_run(h, &why, err);
    if (code)
        return code;

    return sw_history_start_writer(h, err);
}
