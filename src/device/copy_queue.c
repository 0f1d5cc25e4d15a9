/* The copy queue: one pool of entries, each free, pending or issued. A linear search finds the most
 * urgent one, since there are only tens or hundreds. The contract is in device/copy_queue.h. */
#include "device/copy_queue.h"
#include "base/os.h"
#include "thread/thread.h"

enum state { FREE, PENDING, ISSUED };

struct entry {
    struct sw_copy_queue *queue;
    struct sw_copy_event event;
    uint64_t number; /* sequence number of the push */
    enum state state;
};

struct sw_copy_queue {
    struct sw_device *dev;      /* borrowed */
    struct sw_stream *in, *out; /* owned; used by the worker */
    int capacity;
    /* Start times of the running copies, written on a thread of the device; copies of a direction
     * run one after the other. They are not in the entries, since an entry may be reused when a
     * copy could not be issued. */
    int64_t started_ns[SW_COPY_DIRECTIONS];
    int in_flight[SW_COPY_DIRECTIONS]; /* atomic */

    struct sw_mutex lock; /* guards all below; no callback runs under it */
    struct entry
        *entries; /* owned; [capacity]. An issued entry belongs to the device until it is done */
    uint64_t pushed;
    int64_t busy_ns[SW_COPY_DIRECTIONS];
    bool closed;
};

/* ---- Life ---- */

static void destroy(struct sw_copy_queue *q)
{
    sw_mutex_fini(&q->lock);
    sw_free(q->entries);
    sw_free(q);
}

int sw_copy_queue_new(struct sw_device *dev, int capacity, struct sw_copy_queue **out,
                      struct sw_err *err)
{
    if (capacity < 1)
        return sw_err_set(err, SW_ERR_INVALID,
                          "a copy queue needs a capacity of at least 1, not %d", capacity);

    struct sw_copy_queue *q = sw_calloc(1, sizeof *q);
    if (!q)
        return sw_err_nomem(err, "copy queue", sizeof *q);

    q->dev = dev;
    q->capacity = capacity;
    sw_mutex_init(&q->lock);
    q->entries = sw_calloc((size_t)capacity, sizeof *q->entries);

    int rc = SW_OK;
    if (!q->entries) {
        rc = sw_err_nomem(err, "copy queue", (size_t)capacity * sizeof *q->entries);
        goto fail;
    }

    rc = sw_stream_new_urgent(dev, 1, &q->in, err);
    if (rc != SW_OK)
        goto fail;
    rc = sw_stream_new_urgent(dev, 1, &q->out, err);
    if (rc != SW_OK)
        goto fail;

    sw_stream_name(q->in, "copy in");
    sw_stream_name(q->out, "copy out");
    *out = q;
    return SW_OK;

fail:
    sw_stream_free(q->in);
    destroy(q);

    return rc;
}

/* Returns the entry to the pool before the callback, which may push. */
static void complete(struct entry *entry, int rc)
{
    struct sw_copy_queue *q = entry->queue;
    struct sw_copy_event e = entry->event;

    sw_mutex_lock(&q->lock);
    entry->state = FREE;
    if (rc == SW_OK)
        q->busy_ns[e.direction] += sw_os()->monotonic_ns() - q->started_ns[e.direction];
    sw_mutex_unlock(&q->lock);
    __atomic_sub_fetch(&q->in_flight[e.direction], 1, __ATOMIC_RELAXED);
    if (e.done)
        e.done(e.user, rc);
}

void sw_copy_queue_free(struct sw_copy_queue *q)
{
    if (!q)
        return;

    sw_copy_queue_close(q);
    sw_stream_free(q->in);
    sw_stream_free(q->out);

    /* The streams are freed, so entries that are not done yet will never complete. */
    for (int i = 0; i < q->capacity; i++)
        if (q->entries[i].state != FREE)
            complete(&q->entries[i], SW_ERR_CANCELLED);

    destroy(q);
}

void sw_copy_queue_close(struct sw_copy_queue *q)
{
    sw_mutex_lock(&q->lock);
    q->closed = true;
    sw_mutex_unlock(&q->lock);
}

/* ---- Pushing ---- */

/* q->lock is held. */
static struct entry *find_free(struct sw_copy_queue *q)
{
    for (int i = 0; i < q->capacity; i++)
        if (q->entries[i].state == FREE)
            return &q->entries[i];
    return NULL;
}

int sw_copy_queue_push(struct sw_copy_queue *q, const struct sw_copy_event *e, struct sw_err *err)
{
    int rc = SW_OK;

    sw_mutex_lock(&q->lock);

    struct entry *entry = find_free(q);
    if (q->closed)
        rc = sw_err_set(err, SW_ERR_CANCELLED, "the copy queue of %s is closed", q->dev->name);
    else if (!entry)
        rc = sw_err_set(err, SW_ERR_BUSY, "the copy queue of %s is full: %d copies are in flight",
                        q->dev->name, q->capacity);
    else
        *entry = (struct entry){q, *e, q->pushed++, PENDING};

    if (rc == SW_OK)
        __atomic_add_fetch(&q->in_flight[e->direction], 1, __ATOMIC_RELAXED);
    sw_mutex_unlock(&q->lock);

    return rc;
}

/* ---- Issuing ---- */

static struct entry *pop_most_urgent(struct sw_copy_queue *q)
{
    struct entry *best = NULL;

    sw_mutex_lock(&q->lock);

    for (int i = 0; i < q->capacity; i++) {
        struct entry *e = &q->entries[i];
        if (e->state != PENDING)
            continue;

        if (!best || e->event.priority < best->event.priority ||
            (e->event.priority == best->event.priority && e->number < best->number))
            best = e;
    }

    if (best)
        best->state = ISSUED;
    sw_mutex_unlock(&q->lock);

    return best;
}

/* Runs on a thread of the device, as copy_finished does. */
static void copy_started(void *started_ns)
{
    *(int64_t *)started_ns = sw_os()->monotonic_ns();
}

static void copy_finished(void *entry)
{
    complete(entry, SW_OK);
}

/* Issues a copy. The device owns the entry once its last part is queued, and it may be reused right
 * after. If a later call fails, the copy may still be running: it is completed after the streams
 * have been freed. */
static int issue(struct sw_copy_queue *q, struct entry *entry, struct sw_err *err)
{
    const struct sw_copy_event e = entry->event;
    struct sw_stream *s = e.direction == SW_COPY_TO_DEVICE ? q->in : q->out;

    int rc = e.after ? sw_event_wait(s, e.after, err) : SW_OK;
    if (rc != SW_OK)
        goto fail;
    rc = sw_stream_call(s, copy_started, &q->started_ns[e.direction], err);
    if (rc != SW_OK)
        goto fail;
    rc = e.rows > 1
             ? sw_copy_2d(
                   s, &(struct sw_copy_2d){e.dst, e.dst_pitch, e.src, e.src_pitch, e.bytes, e.rows},
                   err)
             : sw_copy(s, e.dst, e.src, e.bytes, err);
    if (rc != SW_OK)
        goto fail;

    if (e.then) {
        rc = sw_event_record(s, e.then, err);
        if (rc != SW_OK)
            return rc;
    }

    return sw_stream_call(s, copy_finished, entry, err);

fail:
    complete(entry, rc);
    return rc;
}

int sw_copy_queue_drain(struct sw_copy_queue *q, struct sw_err *err)
{
    struct entry *entry;

    while ((entry = pop_most_urgent(q))) {
        int rc = issue(q, entry, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

int sw_copy_queue_wait(struct sw_copy_queue *q, struct sw_err *err)
{
    int rc = sw_copy_queue_drain(q, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_stream_wait(q->in, err);
    if (rc != SW_OK)
        return rc;

    return sw_stream_wait(q->out, err);
}

static void no_op(void *user)
{
}

/* The error of a stream persists and is returned with the next queued operation. */
int sw_copy_queue_check(struct sw_copy_queue *q, struct sw_err *err)
{
    int rc = sw_stream_call(q->in, no_op, NULL, err);
    if (rc != SW_OK)
        return rc;
    return sw_stream_call(q->out, no_op, NULL, err);
}

int sw_copy_queue_in_flight(const struct sw_copy_queue *q, enum sw_copy_direction d)
{
    return __atomic_load_n(&q->in_flight[d], __ATOMIC_RELAXED);
}

int64_t sw_copy_queue_busy_ns(struct sw_copy_queue *q, enum sw_copy_direction d)
{
    sw_mutex_lock(&q->lock);
    int64_t ns = q->busy_ns[d];
    sw_mutex_unlock(&q->lock);
    return ns;
}
