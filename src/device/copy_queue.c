/* The copy queue: one pool of entries, each free, pending or issued. A linear search finds the most
 * urgent one, since there are only tens or hundreds. The contract is in device/copy_queue.h. */
#include "device/copy_queue.h"
#include "base/os.h"
#include "device/copy_queue_private.h"

/* ---- Life ---- */

static void destroy(struct sw_copy_queue *q)
{
    sw_cond_fini(&q->changed);
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
    sw_cond_init(&q->changed);
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

    rc = dev->send_limit ? sw_copy_sender_start(q, err) : SW_OK;
    if (rc != SW_OK)
        goto fail;

    *out = q;
    return SW_OK;

fail:
    sw_stream_free(q->in);
    sw_stream_free(q->out);
    destroy(q);

    return rc;
}

void sw_copy_queue_free(struct sw_copy_queue *q)
{
    if (!q)
        return;

    sw_copy_queue_close(q);
    sw_copy_sender_stop(q);
    sw_stream_free(q->in);
    sw_stream_free(q->out);

    /* The streams are freed, so entries that are not done yet will never complete. */
    for (int i = 0; i < q->capacity; i++)
        if (q->entries[i].state != SW_COPY_FREE)
            sw_copy_complete(&q->entries[i], SW_ERR_CANCELLED);

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
static struct sw_copy_entry *find_free(struct sw_copy_queue *q)
{
    for (int i = 0; i < q->capacity; i++)
        if (q->entries[i].state == SW_COPY_FREE)
            return &q->entries[i];
    return NULL;
}

int sw_copy_queue_push(struct sw_copy_queue *q, const struct sw_copy_event *e, struct sw_err *err)
{
    int rc = SW_OK;

    sw_mutex_lock(&q->lock);

    struct sw_copy_entry *entry = find_free(q);
    if (q->closed)
        rc = sw_err_set(err, SW_ERR_CANCELLED, "the copy queue of %s is closed", q->dev->name);
    else if (!entry)
        rc = sw_err_set(err, SW_ERR_BUSY, "the copy queue of %s is full: %d copies are in flight",
                        q->dev->name, q->capacity);
    else
        *entry = (struct sw_copy_entry){
            .queue = q, .event = *e, .number = q->pushed++, .state = SW_COPY_PENDING};

    if (rc == SW_OK)
        __atomic_add_fetch(&q->in_flight[e->direction], 1, __ATOMIC_RELAXED);
    sw_mutex_unlock(&q->lock);

    return rc;
}

/* ---- Issuing ---- */

static struct sw_copy_entry *pop_most_urgent(struct sw_copy_queue *q)
{
    sw_mutex_lock(&q->lock);

    struct sw_copy_entry *best = sw_copy_most_urgent(q, SW_COPY_PENDING);
    if (best)
        best->state = SW_COPY_ISSUED;
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
    sw_copy_complete(entry, SW_OK);
}

/* Issues a copy. The device owns the entry once its last part is queued, and it may be reused right
 * after. If a later call fails, the copy may still be running: it is completed after the streams
 * have been freed. */
static int issue(struct sw_copy_queue *q, struct sw_copy_entry *entry, struct sw_err *err)
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
    sw_copy_complete(entry, rc);
    return rc;
}

int sw_copy_queue_drain(struct sw_copy_queue *q, struct sw_err *err)
{
    struct sw_copy_entry *entry;

    while ((entry = pop_most_urgent(q))) {
        if (sw_copy_is_limited(q, &entry->event)) {
            sw_copy_sender_hold(q, entry);
            continue;
        }

        int rc = issue(q, entry, err);
        if (rc != SW_OK)
            return rc;
    }

    return q->dev->send_limit ? sw_copy_sender_check(q, err) : SW_OK;
}

int sw_copy_queue_wait(struct sw_copy_queue *q, struct sw_err *err)
{
    int rc = sw_copy_queue_drain(q, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_stream_wait(q->in, err);
    if (rc != SW_OK)
        return rc;

    return q->dev->send_limit ? sw_copy_sender_wait(q, err) : sw_stream_wait(q->out, err);
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
    return q->dev->send_limit ? sw_copy_sender_check(q, err)
                              : sw_stream_call(q->out, no_op, NULL, err);
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
