/* Moves the pieces of a connection between workers: the sender publishes them in place, or packs
 * them into staging memory on a separate stream; the receiver copies them, adds them or reads them
 * in place. The time of all copies is accumulated per pair of workers (net/transfer.h). */
#include "net/layers/bridge.h"

#include "base/os.h"
#include "device/ops/elementwise.h"
#include "device/send_limit.h"

/* ---- The exchange ---- */

/* Where the address of a worker's shard is published; in host memory other workers copy their
 * pieces from there. */
static void **part_at(const struct sw_bridge *st, int worker, bool backward)
{
    const struct sw_transfer *e = st->exchange;
    return &e->parts[((size_t)st->c.index * (size_t)e->workers + (size_t)worker) * 2 + backward];
}

char *sw_bridge_published(const struct sw_bridge *st, int worker, bool backward)
{
    return __atomic_load_n(part_at(st, worker, backward), __ATOMIC_RELAXED);
}

/* How often a piece was sent, or taken. */
static uint64_t *count_of(const struct sw_transfer *e, const struct sw_piece *p, bool taken)
{
    size_t i = sw_transfer_index(e, p->connection, p->from, p->to, 0) / SW_TRANSFER_TURNS;
    return (taken ? e->taken : e->sent) + 2 * i + p->backward;
}

struct least {
    const uint64_t *count;
    uint64_t least;
};

static bool is_reached(const void *what)
{
    const struct least *l = what;
    return __atomic_load_n(l->count, __ATOMIC_ACQUIRE) >= l->least;
}

/* Was the piece sent, or taken, so many times? */
static bool is_done(const struct sw_bridge *st, const struct sw_piece *p, bool taken,
                    uint64_t times)
{
    return is_reached(&(struct least){count_of(st->exchange, p, taken), times});
}

/* Waits for it. Errors: SW_ERR_CANCELLED. */
static int wait_until(const struct sw_bridge *st, const struct sw_piece *p, bool taken,
                      uint64_t times, struct sw_err *err)
{
    const struct sw_transfer *e = st->exchange;
    struct least what = {count_of(e, p, taken), times};
    bool over = is_reached(&what) ||
                e->waits.wait(e->waits.user, taken ? p->from : p->to, is_reached, &what) == SW_OK;
    return over ? SW_OK : sw_err_set(err, SW_ERR_CANCELLED, "the job is ending");
}

/* ---- Measuring ---- */

/* Callback of the stream, on a thread of the device. */
static void record_stamp(void *user)
{
    const struct sw_bridge_stamp *stamp = user;
    struct sw_bridge *st = stamp->of;
    bool takes = stamp - st->stamps >= st->workers;
    int64_t now_ns = sw_os()->monotonic_ns(), *last_ns = &st->stamp_ns[takes];
    const struct sw_piece *p = &stamp->piece;

    if (p->from != p->to)
        __atomic_add_fetch(&st->exchange->ns[p->from * st->workers + p->to], now_ns - *last_ns,
                           __ATOMIC_RELAXED);
    *last_ns = now_ns;
}

/* Queues a time stamp: the time since the previous one counts for the piece sent to or received
 * from worker k; it is discarded if k is this worker. */
static int take_stamp(const struct sw_bridge *st, bool takes, int k, struct sw_err *err)
{
    struct sw_stream *s = takes ? st->stream : st->exchange->senders[st->worker];
    return sw_stream_call(s, record_stamp, &st->stamps[takes * st->workers + k], err);
}

/* ---- Sending ---- */

static const struct sw_piece *piece_to(const struct sw_bridge *st, int k)
{
    return &st->stamps[k].piece;
}

static const struct sw_piece *piece_from(const struct sw_bridge *st, int j)
{
    return &st->stamps[st->workers + j].piece;
}

/* Is the piece not empty, and between two workers? */
static bool moves(const struct sw_bridge *st, const struct sw_piece *p)
{
    struct sw_rect r = sw_bridge_piece(st, p->backward, p->from, p->to);
    return p->from != p->to && !sw_rect_is_empty(&r);
}

/* Counts all pieces of this end as sent, or as taken, once more, and wakes those who wait. */
static void mark(const struct sw_bridge *st, bool taken)
{
    bool any = false;

    for (int k = 0; k < st->workers; k++) {
        const struct sw_piece *p = taken ? piece_from(st, k) : piece_to(st, k);
        if (!moves(st, p))
            continue;

        __atomic_add_fetch(count_of(st->exchange, p, taken), 1, __ATOMIC_RELEASE);
        any = true;
    }

    if (any)
        st->exchange->waits.notify(st->exchange->waits.user);
}

/* Stream callbacks, which run on a thread of the device: they mark the pieces as sent, or as taken.
 */
static void mark_sent(void *state)
{
    mark(state, false);
}

static void mark_taken(void *state)
{
    mark(state, true);
}

static struct sw_event *event_of(const struct sw_bridge *st, int worker, bool backward,
                                 uint64_t pass, enum sw_transfer_moment moment)
{
    int turn = (backward ? 2 : 0) + (int)(pass & 1);
    size_t i = sw_transfer_event_index(st->exchange, st->c.index, worker, turn);
    return st->exchange->events[i + moment];
}

/* Between devices: staging memory of the piece. */
static char *stage_of(const struct sw_bridge *st, const struct sw_piece *p, uint64_t pass)
{
    const struct sw_transfer *e = st->exchange;
    int turn = (p->backward ? 2 : 0) + (int)(pass & 1);
    return e->memory + e->at[sw_transfer_index(e, p->connection, p->from, p->to, turn)];
}

/* Packs one piece of a device's shard into staging memory, once that is free. */
static int pack(const struct sw_bridge *st, struct sw_stream *s, const struct sw_piece *p,
                const char *part, struct sw_err *err)
{
    struct sw_rect place = sw_bridge_shard(st, p->backward, p->from),
                   r = sw_bridge_piece(st, p->backward, p->from, p->to);
    size_t width = (size_t)r.columns * st->c.column_bytes;
    uint64_t done = st->sent < 2 ? 0 : st->sent - 1;
    int rc = SW_OK;

    if (!is_done(st, p, true, done))
        rc = sw_stream_wait(st->stream, err);
    if (rc != SW_OK)
        return rc;

    rc = wait_until(st, p, true, done, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_event_wait(s, event_of(st, p->to, p->backward, st->sent, SW_TRANSFER_TAKEN), err);
    if (rc != SW_OK)
        return rc;
    rc = sw_send_2d(s,
                    &(struct sw_copy_2d){stage_of(st, p, st->sent), width,
                                         part + sw_bridge_offset(st, &place, &r),
                                         (size_t)place.columns * st->c.column_bytes, width, r.rows},
                    err);
    if (rc != SW_OK)
        return rc;

    return take_stamp(st, false, p->to, err);
}

/* Packs all pieces after the shard is computed, concurrently with later computing. */
static int pack_all(struct sw_bridge *st, const char *part, struct sw_err *err)
{
    struct sw_stream *s = st->exchange->senders[st->worker];
    bool backward = piece_to(st, 0)->backward;
    struct sw_event *made = event_of(st, st->worker, backward, st->sent, SW_TRANSFER_MADE),
                    *sent = event_of(st, st->worker, backward, st->sent, SW_TRANSFER_SENT);

    int rc = sw_event_record(st->stream, made, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_event_wait(s, made, err);
    if (rc != SW_OK)
        return rc;

    rc = take_stamp(st, false, st->worker, err);
    for (int k = 0; k < st->workers && rc == SW_OK; k++)
        if (moves(st, piece_to(st, k)))
            rc = pack(st, s, piece_to(st, k), part, err);

    if (rc != SW_OK)
        return rc;

    rc = sw_event_record(s, sent, err);
    if (rc != SW_OK)
        return rc;

    return sw_stream_call(s, mark_sent, st, err);
}

int sw_bridge_send(struct sw_bridge *st, char *part, struct sw_err *err)
{
    int rc = SW_OK;

    __atomic_store_n(part_at(st, st->worker, piece_to(st, 0)->backward), part, __ATOMIC_RELAXED);

    if (st->host)
        mark(st, false);
    else
        rc = pack_all(st, part, err);

    st->sent++;
    return rc;
}

int sw_bridge_wait_free(const struct sw_layer *l, struct sw_err *err)
{
    const struct sw_bridge *st = l->state;
    int rc = SW_OK;

    for (int k = 0; k < st->workers && rc == SW_OK; k++)
        if (moves(st, piece_to(st, k)))
            rc = wait_until(st, piece_to(st, k), true, st->sent, err);

    return rc;
}

/* ---- Receiving ---- */

/* The address of piece r of worker j's shard, and the pitch of its rows. */
static const char *find_piece(const struct sw_bridge *st, const struct sw_bridge_receive_args *t,
                              int j, const struct sw_rect *r, size_t *pitch)
{
    const struct sw_piece *p = piece_from(st, j);
    struct sw_rect place = sw_bridge_shard(st, p->backward, j);
    const char *part = j == st->worker ? t->own
                       : st->host      ? sw_bridge_published(st, j, p->backward)
                                       : NULL;

    *pitch = (size_t)(part ? place.columns : r->columns) * st->c.column_bytes;
    return part ? part + sw_bridge_offset(st, &place, r) : stage_of(st, p, st->taken);
}

static int wait_piece(const struct sw_bridge *st, int j, struct sw_err *err)
{
    const struct sw_piece *p = piece_from(st, j);
    int rc = SW_OK;

    if (!st->host && !is_done(st, p, false, st->taken + 1))
        rc = sw_stream_wait(st->stream, err);
    if (rc == SW_OK)
        rc = wait_until(st, p, false, st->taken + 1, err);

    return rc == SW_OK && !st->host
               ? sw_event_wait(st->stream,
                               event_of(st, j, p->backward, st->taken, SW_TRANSFER_SENT), err)
               : rc;
}

/* Adds a partial sum, which covers this worker's whole shard. It is copied to temporary memory
 * first, unless it is contiguous and accessible. */
static int add_partial(const struct sw_bridge *st, const struct sw_bridge_receive_args *t, int j,
                       const struct sw_rect *r, struct sw_err *err)
{
    struct sw_stream *s = st->stream;
    size_t pitch, width = (size_t)r->columns * st->c.column_bytes;
    const char *at = find_piece(st, t, j, r, &pitch);

    if (pitch != width || !(st->host || j == st->worker)) {
        int rc =
            sw_copy_2d(s, &(struct sw_copy_2d){t->room, width, at, pitch, width, r->rows}, err);
        if (rc != SW_OK)
            return rc;
        at = t->room;
    }

    return sw_op_add(s, (float *)(void *)t->to, (const float *)(const void *)at,
                     r->rows * r->columns * (int64_t)(st->c.column_bytes / sizeof(float)), err);
}

static int copy_piece(const struct sw_bridge *st, const struct sw_bridge_receive_args *t, int j,
                      const struct sw_rect *r, struct sw_err *err)
{
    size_t pitch, width = (size_t)r->columns * st->c.column_bytes;
    const char *at = find_piece(st, t, j, r, &pitch);

    return sw_copy_2d(st->stream,
                      &(struct sw_copy_2d){t->to + sw_bridge_offset(st, t->place, r),
                                           (size_t)t->place->columns * st->c.column_bytes, at,
                                           pitch, width, r->rows},
                      err);
}

/* Receives worker j's piece: copies it, or adds it to the pieces before. */
static int take_piece(const struct sw_bridge *st, const struct sw_bridge_receive_args *t, int j,
                      struct sw_err *err)
{
    bool backward = piece_from(st, j)->backward, other = j != st->worker;
    struct sw_rect r = sw_bridge_piece(st, backward, j, st->worker);
    if (sw_rect_is_empty(&r))
        return SW_OK;

    int rc = other ? wait_piece(st, j, err) : SW_OK;

    /* Do not count the wait as copy time. */
    if (rc == SW_OK && other)
        rc = take_stamp(st, true, st->worker, err);

    if (rc == SW_OK && j > 0 && sw_movement_adds(st->c.move.from, st->c.move.to, backward))
        rc = add_partial(st, t, j, &r, err);
    else if (rc == SW_OK)
        rc = copy_piece(st, t, j, &r, err);

    return rc == SW_OK && other ? take_stamp(st, true, j, err) : rc;
}

int sw_bridge_receive(struct sw_bridge *st, const struct sw_bridge_receive_args *t,
                      struct sw_err *err)
{
    bool backward = piece_from(st, 0)->backward, done[SW_TREE_LEAVES] = {false};
    bool adds = sw_movement_adds(st->c.move.from, st->c.move.to, backward);
    struct sw_stream *s = st->stream;
    int rc = SW_OK;

    for (int j = 0; j < st->workers && rc == SW_OK && !adds; j++) {
        done[j] = j == st->worker || is_done(st, piece_from(st, j), false, st->taken + 1);
        if (done[j])
            rc = take_piece(st, t, j, err);
    }

    for (int j = 0; j < st->workers && rc == SW_OK; j++)
        if (!done[j])
            rc = take_piece(st, t, j, err);

    /* The next packing into these buffers waits for this event. Later computing waits for this
     * worker's own sends, because it may reuse the memory they read. */
    if (rc == SW_OK && !st->host)
        rc = sw_event_record(s, event_of(st, st->worker, backward, st->taken, SW_TRANSFER_TAKEN),
                             err);

    if (rc == SW_OK && !st->host)
        rc = sw_event_wait(s, event_of(st, st->worker, backward, st->taken, SW_TRANSFER_SENT), err);

    if (rc == SW_OK && !st->host)
        rc = sw_stream_call(s, mark_taken, st, err);
    else if (rc == SW_OK)
        mark(st, true);

    st->taken++;
    return rc;
}

void sw_bridge_release(struct sw_layer *l)
{
    mark(l->state, true);
}

int sw_bridge_wait_in_place(struct sw_bridge *st, char *own, void **at, struct sw_err *err)
{
    int j = st->owner;
    bool backward = piece_from(st, j)->backward;
    struct sw_rect place = sw_bridge_shard(st, backward, j),
                   r = sw_bridge_piece(st, backward, j, st->worker);

    int rc = j == st->worker ? SW_OK : wait_piece(st, j, err);
    if (rc != SW_OK)
        return rc;

    char *part = j == st->worker ? own : sw_bridge_published(st, j, backward);
    *at = part + sw_bridge_offset(st, &place, &r);
    st->taken++;

    return SW_OK;
}
