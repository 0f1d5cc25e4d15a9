/* Stores rows: in the database while it works, in the spool while it does not; merges the spool
 * when the database works again. Called only by the writer thread, or, before that starts, by the
 * thread that sets the run up. Start at sw_history_store_pending. */
#include "base/os.h"
#include "history/writer.h"
#include <string.h>

enum { BLOCK_ROWS = 4096, RETRY_MIN_MS = 1000, RETRY_MAX_MS = 10000 };

static void count(atomic_ullong *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

struct sw_row sw_history_row_of(const struct sw_history *h, const struct sw_record *r)
{
    if (r->kind == SW_RECORD_POINT) {
        char *const *text = h->series.text[r->handle];
        struct sw_row row =
            SW_ROW(SW_ROW_POINT, SW_TEXT(text[0]), SW_TEXT(text[1]), SW_INT(r->step),
                   SW_REAL(r->point.time), SW_REAL(r->point.value));
        row.series = r->handle;
        return row;
    }

    if (r->kind == SW_RECORD_TRAFFIC) {
        char *const *text = h->links.text[r->handle];
        return SW_ROW(SW_ROW_TRAFFIC, SW_INT(r->step), SW_TEXT(text[0]), SW_TEXT(text[1]),
                      SW_TEXT(text[2]), SW_INT(r->traffic.bytes), SW_REAL(r->traffic.ms));
    }

    struct sw_row row = SW_ROW(SW_ROW_STEP_TIME, SW_INT(r->step), SW_INT(r->handle));
    for (int i = 0; i < 10; i++)
        row.cells[2 + i] = SW_REAL((double)r->step_time.ms[i]);
    row.cells[12] = SW_INT(r->step_time.staleness);

    return row;
}

static void drop_records(struct sw_history_backlog *b, size_t n)
{
    b->count -= n;
    if (b->count)
        memmove(b->records, b->records + n, b->count * sizeof *b->records);
}

void sw_history_drop_rows(struct sw_history *h, size_t n)
{
    struct sw_history_rows *rows = &h->backlog.rows;

    while (n-- && rows->first) {
        struct sw_row *next = rows->first->next;
        atomic_fetch_sub_explicit(&h->taken_bytes, rows->first->taken_bytes, memory_order_relaxed);
        sw_row_free(rows->first);
        rows->first = next;
        rows->count--;
    }

    if (!rows->first)
        rows->last = NULL;
}

static bool has_rows(const struct sw_history_backlog *b)
{
    return b->count || b->rows.first;
}

void sw_history_drop_all(struct sw_history *h)
{
    drop_records(&h->backlog, h->backlog.count);
    sw_history_drop_rows(h, SIZE_MAX);
}

/* --- Into the database --------------------------------------------------------------------- */

/* Inserts the run and its segment if the database lacks them: the file was removed or replaced, or
 * could not be written when the run began. */
static int ensure_run(struct sw_history *h, bool *segment_stored, struct sw_err *err)
{
    int64_t id;
    int code = sw_store_run_id(&h->store, h->uid, &id, err);

    if (!code && !id) {
        code = sw_store_apply(&h->store, h->uid, h->run, err);
        if (!code)
            code = sw_store_run_id(&h->store, h->uid, &id, err);
        *segment_stored = false;
    }

    if (!code && !*segment_stored) {
        code = sw_store_apply(&h->store, h->uid, h->segment, err);
        *segment_stored = code == SW_OK;
    }

    if (!code && id != h->run_id) {
        h->run->cells[SW_RUN_CELL_ID] = SW_INT(id);
        h->run_id = id;
    }

    return code;
}

/* Applies a row. A row that breaks a constraint is counted as lost, and the transaction continues.
 */
static int apply_one(struct sw_history *h, const struct sw_row *row, uint64_t *refused,
                     struct sw_err *err)
{
    int code = sw_store_apply(&h->store, h->uid, row, err);
    if (code != SW_ERR_INVALID)
        return code;

    if (!*refused)
        sw_log_write(h->log, SW_LOG_WARN, "history", "%s", err->text);
    ++*refused;

    return SW_OK;
}

static int apply_all(struct sw_history *h, uint64_t *applied, uint64_t *refused, struct sw_err *err)
{
    int code = SW_OK;

    *applied = 0;
    for (size_t i = 0; !code && i < h->backlog.count; i++, ++*applied) {
        struct sw_row row = sw_history_row_of(h, &h->backlog.records[i]);
        code = apply_one(h, &row, refused, err);
    }

    for (const struct sw_row *r = h->backlog.rows.first; !code && r; r = r->next, ++*applied)
        code = apply_one(h, r, refused, err);
    return code;
}

/* One transaction: merges the next chunk of our own spool and, at the end of the spool, the pending
 * rows. Older lines come first, because a later point of the same step replaces an earlier one. */
static int commit_once(struct sw_history *h, int wait_ms, struct sw_merge *m, struct sw_err *err)
{
    uint64_t applied = 0, refused = 0;
    bool segment_stored = h->segment_stored;
    int code = sw_store_open(&h->store, wait_ms, err);

    if (!code)
        code = sw_store_begin(&h->store, wait_ms, err);
    if (code)
        return code;

    if (h->spool.waiting)
        code = sw_spool_merge_chunk(&h->store, h->spool.path, m, err);
    if (!code && !m->more)
        code = ensure_run(h, &segment_stored, err);
    if (!code && !m->more)
        code = apply_all(h, &applied, &refused, err);
    if (!code)
        code = sw_store_update_summaries(&h->store, err);
    code = sw_store_end(&h->store, code, err);
    if (code)
        return code;

    count(&h->counts.merged, m->rows);

    if (!m->more) {
        h->segment_stored = segment_stored;
        sw_history_drop_all(h);
        count(&h->counts.rows, applied - refused);
        count(&h->counts.lost, refused);
    }

    return SW_OK;
}

static void own_spool_merged(struct sw_history *h)
{
    char *name = sw_format("%s-spool/%s", h->path, h->uid);

    if (name)
        sw_os()->unlink(name);
    sw_free(name);
    h->spool.waiting = false;
}

static int try_database(struct sw_history *h, int wait_ms, bool *more, struct sw_err *err)
{
    struct sw_merge m = {0};

    if (h->store.db && sw_store_moved(&h->store))
        sw_store_close(&h->store);

    int code = commit_once(h, wait_ms, &m, err);
    *more = m.more;
    if (code)
        return code;

    if (m.damaged || m.refused)
        sw_log_write(h->log, SW_LOG_WARN, "history",
                     "%s: %llu damaged and %llu invalid lines skipped", h->spool.path,
                     (unsigned long long)m.damaged, (unsigned long long)m.refused);

    if (!m.more && h->spool.waiting)
        own_spool_merged(h);
    return SW_OK;
}

/* --- Into the spool ------------------------------------------------------------------------ */

/* Writes the run and the segment first, so that the file can be merged into a database that does
 * not know the run. */
static int spool_head(struct sw_history *h, struct sw_err *err)
{
    struct sw_bytes lines = {0};
    size_t taken = 0;

    if (h->spool.started)
        return SW_OK;

    sw_row_print(h->run, h->uid, &lines);
    if (!h->segment_stored)
        sw_row_print(h->segment, h->uid, &lines);

    int code = lines.failed ? sw_err_nomem(err, "lines of a spool", lines.length)
                            : sw_spool_append(&h->spool, lines.text, lines.length, &taken, err);
    if (!code)
        h->spool.started = h->segment_stored = true;
    sw_bytes_fini(&lines);

    return code;
}

int sw_history_spool_lines(struct sw_history *h, const char *lines, size_t bytes, size_t *taken,
                           struct sw_err *err)
{
    *taken = 0;
    int code = spool_head(h, err);
    return code || !bytes ? code : sw_spool_append(&h->spool, lines, bytes, taken, err);
}

static size_t count_lines(const char *text, size_t bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < bytes; i++)
        n += text[i] == '\n';
    return n;
}

/* Appends a block of lines; *stored is the number of rows that were written completely, also if the
 * disk became full in between. */
static int spool_block(struct sw_history *h, const struct sw_bytes *lines, size_t *stored,
                       struct sw_err *err)
{
    size_t taken = 0;

    *stored = 0;
    if (lines->failed)
        return sw_err_nomem(err, "lines of a spool", lines->length);

    int code = sw_history_spool_lines(h, lines->text, lines->length, &taken, err);
    *stored = count_lines(lines->text, taken);
    count(&h->counts.spooled, *stored);
    h->outage.spooled += *stored;

    return code;
}

static int spool_records(struct sw_history *h, struct sw_bytes *lines, struct sw_err *err)
{
    size_t done = 0, stored = 0;
    int code = SW_OK;

    while (!code && done < h->backlog.count) {
        sw_bytes_clear(lines);

        for (size_t i = done; i < h->backlog.count && i < done + BLOCK_ROWS; i++) {
            struct sw_row row = sw_history_row_of(h, &h->backlog.records[i]);
            sw_row_print(&row, h->uid, lines);
        }

        code = spool_block(h, lines, &stored, err);
        done += stored;
    }

    drop_records(&h->backlog, done);
    return code;
}

static int spool_rows(struct sw_history *h, struct sw_bytes *lines, struct sw_err *err)
{
    size_t stored = 0;

    sw_bytes_clear(lines);
    for (const struct sw_row *r = h->backlog.rows.first; r; r = r->next)
        sw_row_print(r, h->uid, lines);

    int code = h->backlog.rows.first ? spool_block(h, lines, &stored, err) : SW_OK;
    sw_history_drop_rows(h, stored);
    return code;
}

static int spool_all(struct sw_history *h, struct sw_err *err)
{
    struct sw_bytes lines = {0};
    int code = spool_records(h, &lines, err);

    if (!code)
        code = spool_rows(h, &lines, err);
    sw_bytes_fini(&lines);

    return code;
}

/* --- Switching between database and spool
 * ----------------------------------------------------------------------- */

static void add_event(struct sw_history *h, enum sw_log_level level, const char *text)
{
    sw_history_queue_row(h, &SW_ROW(SW_ROW_EVENT, SW_REAL(sw_os()->unix_time()),
                                    SW_TEXT(sw_log_level_name(level)), SW_TEXT("history"),
                                    SW_TEXT(text)));
    sw_log_write(h->log, level, "history", "%s", text);
}

static void degrade(struct sw_history *h, const struct sw_err *why)
{
    if (h->outage.degraded)
        return;

    struct sw_bytes text = {0};
    h->outage.degraded = true;
    h->outage.spooled = 0;
    sw_bytes_printf(&text, "%s; rows go to %s until it works again", why->text, h->spool.path);
    add_event(h, SW_LOG_WARN, sw_bytes_text(&text));
    sw_bytes_fini(&text);
}

static void recover(struct sw_history *h)
{
    h->outage.busy_since_ns = h->outage.retry_at_ns = h->outage.retry_pause_ms = 0;
    if (!h->outage.degraded || h->spool.waiting)
        return;

    struct sw_bytes text = {0};
    h->outage.degraded = false;
    sw_bytes_printf(&text, "%s works again; %llu rows merged from %s", h->path,
                    (unsigned long long)h->outage.spooled, h->spool.path);
    add_event(h, SW_LOG_INFO, sw_bytes_text(&text));
    sw_bytes_fini(&text);
}

/* Decides after a failed commit whether rows stay in memory (true) or are spooled. A locked
 * database is retried at every tick, and rows are spooled after two seconds. After any other error
 * the database is closed, and reopened after a pause that grows to ten seconds. */
static bool keep_waiting(struct sw_history *h, int code)
{
    struct sw_history_outage *o = &h->outage;
    int64_t now = sw_os()->monotonic_ns();

    if (code == SW_ERR_BUSY) {
        if (!o->busy_since_ns)
            o->busy_since_ns = now;
        return !o->degraded && h->backlog.count < SW_HISTORY_PENDING_ROWS &&
               now - o->busy_since_ns < h->timeouts.busy_ms * 1000000ll;
    }

    sw_store_close(&h->store);
    o->retry_pause_ms = o->retry_pause_ms ? 2 * o->retry_pause_ms : RETRY_MIN_MS;
    if (o->retry_pause_ms > RETRY_MAX_MS)
        o->retry_pause_ms = RETRY_MAX_MS;
    o->retry_at_ns = now + o->retry_pause_ms * 1000000;

    return false;
}

/* Drops the pending rows when neither database nor spool can store them, and logs the loss. */
static void give_up(struct sw_history *h, const struct sw_err *why)
{
    uint64_t n = h->backlog.count + h->backlog.rows.count;

    count(&h->counts.lost, n);
    sw_history_drop_all(h);
    sw_log_write(h->log, SW_LOG_ERROR, "history", "%llu rows are lost: %s", (unsigned long long)n,
                 why->text);
}

bool sw_history_store_pending(struct sw_history *h, int wait_ms, bool last)
{
    struct sw_err err = {0};
    bool more = false;

    if (h->part)
        return sw_history_part_store(h, last);

    h->merging = false;
    if (!has_rows(&h->backlog) && !h->spool.waiting && h->segment_stored)
        return true;

    if (last || sw_os()->monotonic_ns() >= h->outage.retry_at_ns) {
        int code = try_database(h, wait_ms, &more, &err);
        if (!code) {
            recover(h);
            h->merging = more;
            return !more;
        }

        if (keep_waiting(h, code) && !last)
            return !has_rows(&h->backlog);

        degrade(h, &err);
    }

    if (!has_rows(&h->backlog))
        return true;

    int code = spool_all(h, &err);
    if (code && last)
        give_up(h, &err);

    return code == SW_OK;
}

int sw_history_merge_spool(struct sw_store *store, const char *path, int wait_ms,
                           struct sw_merge *sum, struct sw_err *err)
{
    const int64_t until = sw_spool_bytes(path);
    struct sw_merge m = {0};
    int code = SW_OK;

    do {
        struct sw_merge chunk = {0};

        code = sw_store_begin(store, wait_ms, err);
        if (code)
            break;

        code = sw_store_end(store, sw_spool_merge_chunk(store, path, &chunk, err), err);
        if (!code) {
            m.rows += chunk.rows;
            m.refused += chunk.refused;
            m.damaged += chunk.damaged;
        }

        m.more = chunk.more && chunk.offset < until;
    } while (!code && m.more);

    sum->rows += m.rows;
    sum->refused += m.refused;
    sum->damaged += m.damaged;

    return code;
}

bool sw_history_merge_other(struct sw_history *h)
{
    struct sw_merge m = {0};

    if (h->outage.degraded || !h->store.db)
        return false;

    if (!h->other_spools.listed) {
        h->other_spools.listed = true;
        if (sw_spool_list(h->path, &h->other_spools.list, NULL) != SW_OK)
            return false;
    }

    if (h->other_spools.next == h->other_spools.list.count)
        return false;

    const struct sw_announced *a = &h->other_spools.list.items[h->other_spools.next];
    int64_t bytes = sw_spool_bytes(a->spool);
    if (sw_store_begin(&h->store, 0, NULL) != SW_OK)
        return false;

    if (sw_store_end(&h->store, sw_spool_merge_chunk(&h->store, a->spool, &m, NULL), NULL) !=
        SW_OK) {
        h->other_spools.next++; /* the next process that opens the database retries */
        return false;
    }

    count(&h->counts.merged, m.rows);

    if (!m.more) {
        sw_spool_withdraw(a, bytes);
        h->other_spools.next++;
    }

    return true;
}
