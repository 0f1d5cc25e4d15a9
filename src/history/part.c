/* The writer of a history that is a part of a run elsewhere (part.h): the writer thread turns rows
 * into lines, has at most one chunk of them on the way, and spools what cannot be sent. The thread
 * that sends tells the end of a chunk through an atomic state; everything else belongs to the
 * writer thread. Start at sw_history_part_store. */
#include "history/part.h"
#include "base/os.h"
#include "history/writer.h"
#include <math.h>
#include <string.h>
#include <unistd.h>

/* The state of the chunk. */
enum { CHUNK_FREE, CHUNK_SENT, CHUNK_FAILED };

/* Where rows of a kind go. */
enum destination { DROPPED, SENT, SPOOLED };

struct sw_part {
    struct sw_history_part args; /* texts are in the fields below */
    char host[SW_HISTORY_HOST_NAME];
    int64_t first_step;
    bool own_dir;          /* the folder was made for this part */
    double last_time;      /* the newest time of a row, of host 0's clock */
    struct sw_bytes lines; /* they wait; the first `taken` bytes are in the chunk or were sent */
    size_t taken;
    struct sw_bytes kept; /* lines for the spool */
    char *chunk;          /* owned [SW_HISTORY_CHUNK] */
    size_t chunk_bytes;
    atomic_int chunk_state;
    atomic_bool hurry; /* the writer has more to do when the chunk is free */
    atomic_bool gone;  /* host 0 is gone */
};

/* ---- Rows ---- */

static const unsigned char destinations[SW_ROW_KINDS] = {
    [SW_ROW_STEP_TIME] = SENT,
    [SW_ROW_LAYER_TIME] = SENT,
    [SW_ROW_TRAFFIC] = SENT,
    [SW_ROW_PLACEMENT] = SENT,
    [SW_ROW_PLACEMENT_REMOVED] = SENT,
    [SW_ROW_HARDWARE] = SENT,
    [SW_ROW_EVENT] = SENT,
    [SW_ROW_TAG] = SENT,
    [SW_ROW_HOST] = SENT,
    [SW_ROW_CHECKPOINT] = SPOOLED,
    [SW_ROW_CHECKPOINT_REMOVED] = SPOOLED,
};

static enum destination destination_of(const struct sw_part *p, const struct sw_row *row)
{
    /* Of another host only its end is known here. */
    if (row->kind == SW_ROW_HOST && row->cells[SW_HOST_CELL_NUMBER].i != p->args.number)
        return SPOOLED;
    if (row->kind == SW_ROW_CHECKPOINT && row->cells[0].i <= p->first_step)
        return DROPPED; /* the one that a resume begins with, which is recorded again */
    if (row->kind == SW_ROW_TAG && strcmp(row->cells[0].t, "stage") == 0)
        return DROPPED; /* all hosts are at the same stage */
    return (enum destination)destinations[row->kind];
}

/* The cells of a kind that name a role, a device, a source or a tag of this host; the one that is
 * the number of a worker; the one that is a time. Numbers are those of the columns plus 1; 0: none.
 */
static const struct {
    unsigned char name[2], worker, time;
} places[SW_ROW_KINDS] = {
    [SW_ROW_STEP_TIME] = {.worker = 2},   [SW_ROW_LAYER_TIME] = {.worker = 2},
    [SW_ROW_TRAFFIC] = {.name = {2, 3}},  [SW_ROW_PLACEMENT] = {.name = {1}},
    [SW_ROW_HARDWARE] = {{2}, .time = 1}, [SW_ROW_EVENT] = {{3}, .time = 1},
    [SW_ROW_TAG] = {.name = {1}},
};

/* The time of host 0's clock, which does not go backwards; of the own clock while the difference is
 * not known, in the first half second. */
static double correct_time(struct sw_part *p, double time)
{
    int64_t offset_ns;

    if (!p->args.clock_offset(p->args.user, &offset_ns))
        return time;

    double corrected = time - (double)offset_ns * 1e-9;
    p->last_time = fmax(p->last_time, corrected);
    return p->last_time;
}

/* Appends the row as a line, as host 0 stores it. */
static void print_row(struct sw_history *h, const struct sw_row *row, struct sw_bytes *out)
{
    struct sw_part *p = h->part;
    const bool is_net = row->kind == SW_ROW_TRAFFIC && row->cells[3].type == SW_CELL_TEXT &&
                        strcmp(row->cells[3].t, "net") == 0; /* it names hosts */
    struct sw_row r = *row;
    char name[2][128];

    for (int i = 0; i < 2 && !is_net && places[r.kind].name[i]; i++) {
        struct sw_cell *c = &r.cells[places[r.kind].name[i] - 1];

        snprintf(name[i], sizeof name[i], "%s/%s", p->host, c->type == SW_CELL_TEXT ? c->t : "");
        *c = SW_TEXT(name[i]);
    }

    if (places[r.kind].worker)
        r.cells[places[r.kind].worker - 1].i += p->args.first_worker;
    if (places[r.kind].time) {
        struct sw_cell *c = &r.cells[places[r.kind].time - 1];
        *c = SW_REAL(correct_time(p, c->r));
    }
    if (r.kind == SW_ROW_PLACEMENT_REMOVED)
        r.cells[0] = SW_TEXT(p->host);

    sw_row_print(&r, h->uid, out);
}

/* After a failed allocation: the row whose line is incomplete is lost. */
static void drop_incomplete(struct sw_history *h, struct sw_bytes *lines)
{
    while (lines->length && lines->text[lines->length - 1] != '\n')
        lines->length--;
    lines->failed = false;
    sw_history_count_lost(h, 1);
}

/* Appends the line of a row to those that are sent, if it can be sent, else to those that are
 * spooled. */
static void add_row(struct sw_history *h, const struct sw_row *row)
{
    struct sw_part *p = h->part;
    enum destination to = destination_of(p, row);
    const size_t before = p->kept.length;

    if (to == DROPPED)
        return;

    print_row(h, row, &p->kept);
    if (p->kept.failed) {
        drop_incomplete(h, &p->kept);
        return;
    }

    const size_t bytes = p->kept.length - before;
    if (to == SPOOLED || atomic_load_explicit(&p->gone, memory_order_relaxed) ||
        bytes > SW_HISTORY_CHUNK || p->lines.length - p->taken + bytes > SW_HISTORY_PART_WAITING)
        return;

    sw_bytes_append(&p->lines, p->kept.text + before, bytes);
    if (!p->lines.failed)
        p->kept.length = before;
    p->lines.failed = false;
}

/* Cuts off what was handed over. */
static void compact(struct sw_part *p)
{
    if (p->taken < p->lines.length && p->taken < SW_HISTORY_PART_WAITING / 2)
        return;

    p->lines.length -= p->taken;
    if (p->lines.length)
        memmove(p->lines.text, p->lines.text + p->taken, p->lines.length);
    p->taken = 0;
}

static void add_pending(struct sw_history *h)
{
    compact(h->part);

    for (size_t i = 0; i < h->backlog.count; i++) {
        struct sw_row row = sw_history_row_of(h, &h->backlog.records[i]);
        add_row(h, &row);
    }

    for (const struct sw_row *r = h->backlog.rows.first; r; r = r->next)
        add_row(h, r);
    sw_history_drop_all(h);
}

/* ---- Sending ---- */

void sw_history_part_sent(struct sw_history *h, int rc)
{
    struct sw_part *p = h->part;
    int sent = CHUNK_SENT; /* otherwise the writer thread has given it up */

    /* Releases the chunk to the writer thread. */
    atomic_compare_exchange_strong_explicit(&p->chunk_state, &sent,
                                            rc == SW_OK ? CHUNK_FREE : CHUNK_FAILED,
                                            memory_order_release, memory_order_relaxed);
    if (atomic_load_explicit(&p->hurry, memory_order_relaxed))
        sw_history_wake(h);
}

void sw_history_part_gone(struct sw_history *h)
{
    atomic_store_explicit(&h->part->gone, true, memory_order_relaxed);
    sw_history_wake(h);
}

/* Takes as many whole lines as fit into the chunk. */
static void fill_chunk(struct sw_part *p)
{
    const char *from = p->lines.text + p->taken;
    size_t n = p->lines.length - p->taken;

    if (n > SW_HISTORY_CHUNK)
        n = SW_HISTORY_CHUNK;
    while (n && from[n - 1] != '\n')
        n--;

    memcpy(p->chunk, from, n);
    p->chunk_bytes = n;
    p->taken += n;
}

static bool has_flush(struct sw_history *h)
{
    sw_mutex_lock(&h->lock);
    bool some = h->flush_done < h->flush_wanted;
    sw_mutex_unlock(&h->lock);
    return some;
}

static int chunk_state(struct sw_part *p)
{
    return atomic_load_explicit(&p->chunk_state, memory_order_acquire);
}

/* Hands over chunks until one is on the way, or nothing waits. */
static void send_lines(struct sw_history *h)
{
    struct sw_part *p = h->part;
    struct sw_err ignored; /* host 0's loss is the error of the job */

    while (chunk_state(p) == CHUNK_FREE && p->taken < p->lines.length &&
           !atomic_load_explicit(&p->gone, memory_order_relaxed)) {
        fill_chunk(p);
        atomic_store_explicit(&p->hurry, p->taken < p->lines.length || has_flush(h),
                              memory_order_relaxed);
        atomic_store_explicit(&p->chunk_state, CHUNK_SENT, memory_order_relaxed);

        int rc = p->args.send(p->args.user, p->chunk, p->chunk_bytes, &ignored);
        if (rc == SW_OK)
            continue;

        atomic_store_explicit(&p->chunk_state, CHUNK_FREE, memory_order_relaxed);
        p->taken -= p->chunk_bytes;
        if (rc == SW_ERR_BUSY)
            return;
        atomic_store_explicit(&p->gone, true, memory_order_relaxed);
    }
}

/* ---- Spooling ---- */

static size_t count_lines(const char *text, size_t bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < bytes; i++)
        n += text[i] == '\n';
    return n;
}

static void keep(struct sw_history *h, const char *lines, size_t bytes)
{
    struct sw_bytes *kept = &h->part->kept;

    sw_bytes_append(kept, lines, bytes);
    if (kept->failed)
        sw_history_count_lost(h, count_lines(lines, bytes));
    kept->failed = false;
}

/* Moves everything that will not be sent to the lines for the spool: also a chunk that is on the
 * way to a host that is gone, or that has failed. */
static void give_up_sending(struct sw_history *h)
{
    struct sw_part *p = h->part;
    int state = atomic_exchange_explicit(&p->chunk_state, CHUNK_FREE, memory_order_acquire);

    if (state != CHUNK_FREE)
        keep(h, p->chunk, p->chunk_bytes);

    if (p->taken < p->lines.length)
        keep(h, p->lines.text + p->taken, p->lines.length - p->taken);
    sw_bytes_clear(&p->lines);
    p->taken = 0;
}

static int make_spool_dir(const struct sw_history *h, struct sw_err *err)
{
    char *dir = sw_format("%s/hosts/%s", h->out_dir, h->part->host);
    int rc = dir ? sw_os_mkdirs(dir, 0777, err) : sw_err_nomem(err, "path of a spool", 0);

    sw_free(dir);
    return rc;
}

static void report_spool(struct sw_history *h)
{
    if (h->outage.degraded)
        return;

    h->outage.degraded = true;
    sw_log_write(h->log, SW_LOG_WARN, "history",
                 "rows cannot be sent to the host that stores the run; they go to %s, and the next "
                 "`singa-ws history` that reads %s merges them",
                 h->spool.path, h->path);
}

/* Writes the lines for the spool. Those that a full disk does not take stay, up to the limit. */
static bool spool_lines(struct sw_history *h, bool last)
{
    struct sw_part *p = h->part;
    struct sw_err err;
    size_t written = 0;

    if (p->kept.length == 0)
        return true;

    report_spool(h);
    int rc = make_spool_dir(h, &err);
    if (rc == SW_OK)
        rc = sw_history_spool_lines(h, p->kept.text, p->kept.length, &written, &err);

    atomic_fetch_add_explicit(&h->counts.spooled, count_lines(p->kept.text, written),
                              memory_order_relaxed);
    p->kept.length -= written;
    memmove(p->kept.text, p->kept.text + written, p->kept.length);

    if (rc == SW_OK || (!last && p->kept.length < SW_HISTORY_PART_WAITING))
        return rc == SW_OK;

    size_t lost = count_lines(p->kept.text, p->kept.length);
    sw_history_count_lost(h, lost);
    sw_bytes_clear(&p->kept);
    sw_log_write(h->log, SW_LOG_ERROR, "history", "%zu rows are lost: %s", lost, err.text);
    return true;
}

bool sw_history_part_store(struct sw_history *h, bool last)
{
    struct sw_part *p = h->part;

    /* A chunk that failed says that host 0 is gone. */
    if (chunk_state(p) == CHUNK_FAILED)
        atomic_store_explicit(&p->gone, true, memory_order_relaxed);

    add_pending(h);
    send_lines(h);
    if (last || atomic_load_explicit(&p->gone, memory_order_relaxed))
        give_up_sending(h);

    bool spooled = spool_lines(h, last);
    return spooled && p->taken == p->lines.length && chunk_state(p) == CHUNK_FREE;
}

/* ---- Life ---- */

static int make_part(struct sw_history *h, const struct sw_history_part *args, struct sw_err *err)
{
    if (strlen(args->uid) != SW_UID_TEXT - 1 || strlen(args->host) >= SW_HISTORY_HOST_NAME)
        return sw_err_set(err, SW_ERR_INVALID, "'%s' of host '%s' is not the id of a run",
                          args->uid, args->host);

    struct sw_part *p = h->part = sw_calloc(1, sizeof *p);
    if (p)
        p->chunk = sw_calloc(1, SW_HISTORY_CHUNK);
    if (!p || !p->chunk)
        return sw_err_nomem(err, "part of a history", SW_HISTORY_CHUNK);

    p->args = *args;
    strcpy(p->host, args->host);
    strcpy(h->uid, args->uid);
    return SW_OK;
}

void sw_history_part_free(struct sw_history *h)
{
    struct sw_part *p = h->part;

    if (!p)
        return;

    if (p->own_dir && h->out_dir)
        rmdir(h->out_dir); /* stays if something is in it */
    sw_bytes_fini(&p->lines);
    sw_bytes_fini(&p->kept);
    sw_free(p->chunk);
    sw_free(p);
    h->part = NULL;
}

/* STATE/runs/UID. */
static int make_own_dir(struct sw_history *h, char **path, struct sw_err *err)
{
    char *state = NULL;
    int rc = sw_history_state_dir(&state, err);
    if (rc != SW_OK)
        return sw_err_prefix(err, rc, "no --out DIR given");

    char *runs = sw_format("%s/runs", state), *dir = sw_format("%s/runs/%s", state, h->uid);
    rc = runs && dir ? sw_os_mkdirs(runs, 0700, err)
                     : sw_err_nomem(err, "path of the output directory", 0);
    if (rc == SW_OK)
        rc = sw_history_make_dir(dir, path, err);
    h->part->own_dir = rc == SW_OK;

    sw_free(dir);
    sw_free(runs);
    sw_free(state);
    return rc;
}

static int choose_dir(struct sw_history *h, const char *given, struct sw_err *err)
{
    char *path = NULL;
    int rc = given ? sw_history_make_dir(given, &path, err) : make_own_dir(h, &path, err);
    if (rc != SW_OK)
        return rc;

    rc = sw_history_set_out_dir(h, path, err);
    if (rc != SW_OK)
        sw_free(path);
    return rc;
}

int sw_history_begin_part(struct sw_history *h, const struct sw_run_info *info,
                          const struct sw_history_part *part, struct sw_err *err)
{
    int rc = make_part(h, part, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_history_make_run(h, info, sw_os()->unix_time(), err);
    if (rc != SW_OK)
        return rc;
    h->part->first_step = info->first_step;
    rc = choose_dir(h, info->out_dir, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_spool_init_part(&h->spool, h->path, h->out_dir, h->uid, part->number, part->host, err);
    if (rc != SW_OK)
        return rc;

    h->segment_stored = true; /* it is host 0's */
    return sw_history_start_writer(h, err);
}
