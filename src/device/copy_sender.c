/* The sender of a copy queue: the thread that copies to the host what a limit of the device holds
 * back (device/send_limit.h). It sends chunk by chunk, each of the copy that is most urgent then,
 * so that a small urgent copy overtakes a large one that has begun. One chunk at a time is on the
 * way: the limit counts what the link carries, not what waits for an event.
 *
 * In: copies that the worker has drained. Out: their events and callbacks, as of other copies. It
 * ends when the queue is freed, or with the first error, with which all its copies are completed.
 */
#include "base/os.h"
#include "device/copy_queue_private.h"
#include "device/send_limit.h"

enum { END_MS = 1000 };

static bool ends(const struct sw_copy_queue *q)
{
    return __atomic_load_n(&q->ends, __ATOMIC_ACQUIRE);
}

/* ---- A chunk ---- */

struct chunk {
    size_t first, count; /* bytes, or rows of a strided copy */
    size_t bytes;
    bool last;
};

/* The next chunk of the copy, of at most so many bytes, or one row. */
static struct chunk next_chunk(const struct sw_copy_entry *entry, size_t most)
{
    const struct sw_copy_event *e = &entry->event;
    size_t units = e->rows > 1 ? (size_t)e->rows : e->bytes, unit = e->rows > 1 ? e->bytes : 1;
    size_t left = units - entry->sent, fit = most / (unit ? unit : 1);
    struct chunk c = {.first = entry->sent, .count = fit < 1 ? 1 : fit};

    if (c.count > left)
        c.count = left;
    c.bytes = c.count * unit;
    c.last = c.count == left;
    return c;
}

static int copy_chunk(struct sw_copy_queue *q, const struct sw_copy_event *e, const struct chunk *c,
                      struct sw_err *err)
{
    size_t dst_at = e->rows > 1 ? c->first * e->dst_pitch : c->first;
    size_t src_at = e->rows > 1 ? c->first * e->src_pitch : c->first;
    void *dst = (char *)e->dst + dst_at;
    const void *src = (const char *)e->src + src_at;

    if (e->rows <= 1)
        return sw_copy(q->out, dst, src, c->count, err);
    return sw_copy_2d(
        q->out,
        &(struct sw_copy_2d){dst, e->dst_pitch, src, e->src_pitch, e->bytes, (int64_t)c->count},
        err);
}

/* Copies a chunk, and waits for it. */
static int send_chunk(struct sw_copy_queue *q, const struct sw_copy_entry *entry,
                      const struct chunk *c, struct sw_err *err)
{
    const struct sw_copy_event *e = &entry->event;

    int rc = e->after && c->first == 0 ? sw_event_wait(q->out, e->after, err) : SW_OK;
    if (rc != SW_OK)
        return rc;
    rc = copy_chunk(q, e, c, err);
    if (rc != SW_OK)
        return rc;
    rc = c->last && e->then ? sw_event_record(q->out, e->then, err) : SW_OK;
    if (rc != SW_OK)
        return rc;

    return sw_stream_wait(q->out, err);
}

/* ---- The thread ---- */

static struct sw_copy_entry *most_urgent(struct sw_copy_queue *q)
{
    sw_mutex_lock(&q->lock);
    struct sw_copy_entry *entry = sw_copy_most_urgent(q, SW_COPY_HELD);
    sw_mutex_unlock(&q->lock);
    return entry;
}

/* Waits for the copy's event, so that the limit is not charged for a chunk that cannot go yet. */
static int wait_ready(struct sw_copy_queue *q, const struct sw_copy_entry *entry,
                      struct sw_err *err)
{
    const struct sw_copy_event *e = &entry->event;
    return e->after && entry->sent == 0 ? sw_event_host_wait(q->dev, e->after, err) : SW_OK;
}

/* Sends a chunk of the copy that is most urgent when the limit lets one through. */
static int send_next(struct sw_copy_queue *q, struct sw_copy_entry **entry, struct sw_err *err)
{
    struct sw_send_limit *limit = q->dev->send_limit;
    size_t most = sw_send_limit_chunk(limit);

    int rc = wait_ready(q, *entry, err);
    if (rc != SW_OK)
        return rc;
    if (!sw_send_limit_wait(limit, most, &q->ends))
        return sw_err_set(err, SW_ERR_CANCELLED, "the copies of %s end", q->dev->name);

    *entry = most_urgent(q);

    const struct chunk c = next_chunk(*entry, most);
    int64_t began_ns = sw_os()->monotonic_ns();

    sw_send_limit_correct(limit, most, c.bytes);
    rc = send_chunk(q, *entry, &c, err);
    if (rc != SW_OK)
        return rc;

    sw_mutex_lock(&q->lock);
    (*entry)->sent += c.count;
    q->busy_ns[SW_COPY_TO_HOST] += sw_os()->monotonic_ns() - began_ns;
    sw_mutex_unlock(&q->lock);

    if (c.last)
        sw_copy_complete(*entry, SW_OK);
    return SW_OK;
}

static void fail(struct sw_copy_queue *q, struct sw_copy_entry *entry, const struct sw_err *why)
{
    sw_mutex_lock(&q->lock);
    q->why = *why;
    sw_mutex_unlock(&q->lock);

    for (; entry; entry = most_urgent(q))
        sw_copy_complete(entry, why->code);
}

/* With the lock: the next copy to send, or NULL when the sender is to end. */
static struct sw_copy_entry *await_copy(struct sw_copy_queue *q)
{
    struct sw_copy_entry *entry;

    q->sending = false;
    sw_cond_broadcast(&q->changed);
    while (!(entry = sw_copy_most_urgent(q, SW_COPY_HELD)) && !ends(q))
        sw_cond_wait(&q->changed, &q->lock);

    q->sending = entry != NULL;
    return ends(q) ? NULL : entry;
}

static void sender_main(void *queue)
{
    struct sw_copy_queue *q = queue;
    struct sw_err err = {.code = SW_OK};

    sw_stream_attach(q->out);

    for (;;) {
        sw_mutex_lock(&q->lock);
        struct sw_copy_entry *entry = await_copy(q);
        sw_mutex_unlock(&q->lock);

        if (!entry)
            return;
        if (q->why.code != SW_OK)
            fail(q, entry, &q->why);
        else if (send_next(q, &entry, &err) != SW_OK)
            fail(q, entry, &err);
    }
}

/* ---- The worker's side ---- */

int sw_copy_sender_start(struct sw_copy_queue *q, struct sw_err *err)
{
    return sw_thread_start(&q->sender, "copy sender", sender_main, q, err);
}

void sw_copy_sender_stop(struct sw_copy_queue *q)
{
    if (!q->sender.running)
        return;

    sw_mutex_lock(&q->lock);
    __atomic_store_n(&q->ends, true, __ATOMIC_RELEASE);
    sw_cond_broadcast(&q->changed);
    sw_mutex_unlock(&q->lock);
    sw_send_limit_wake(q->dev->send_limit);

    if (!sw_thread_join_timed(&q->sender, END_MS)) {
        sw_device_cancel(q->dev);
        sw_thread_join(&q->sender);
    }
}

void sw_copy_sender_hold(struct sw_copy_queue *q, struct sw_copy_entry *entry)
{
    sw_mutex_lock(&q->lock);
    entry->sent = 0;
    entry->state = SW_COPY_HELD;
    sw_cond_broadcast(&q->changed);
    sw_mutex_unlock(&q->lock);
}

/* q->lock is held. */
static int error_of(const struct sw_copy_queue *q, struct sw_err *err)
{
    if (q->why.code != SW_OK)
        *err = q->why;
    return q->why.code;
}

int sw_copy_sender_check(struct sw_copy_queue *q, struct sw_err *err)
{
    sw_mutex_lock(&q->lock);
    int rc = error_of(q, err);
    sw_mutex_unlock(&q->lock);
    return rc;
}

int sw_copy_sender_wait(struct sw_copy_queue *q, struct sw_err *err)
{
    sw_mutex_lock(&q->lock);
    while (q->sending || sw_copy_most_urgent(q, SW_COPY_HELD))
        sw_cond_wait(&q->changed, &q->lock);
    int rc = error_of(q, err);
    sw_mutex_unlock(&q->lock);
    return rc;
}
