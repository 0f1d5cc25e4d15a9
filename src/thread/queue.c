/* A bounded queue as a ring buffer under one mutex, with a condition variable for each direction.
 * Everything is guarded by q->lock; `count` is also read without it by sw_queue_pending. Closing
 * wakes all waiting threads. The contract is in thread/queue.h. */
#include "thread/queue.h"
#include "base/os.h"
#include <string.h>

int sw_queue_init(struct sw_queue *q, size_t item_bytes, size_t capacity, struct sw_err *err)
{
    *q = (struct sw_queue){.item_bytes = item_bytes, .capacity = capacity};
    if (!item_bytes || !capacity)
        return sw_err_set(
            err, SW_ERR_INVALID,
            "a queue needs an item size and a capacity of at least 1, not %zu bytes and %zu items",
            item_bytes, capacity);

    q->items = sw_calloc(capacity, item_bytes);
    if (!q->items)
        return sw_err_nomem(err, "queue", capacity * item_bytes);

    sw_mutex_init(&q->lock);
    sw_cond_init(&q->not_empty);
    sw_cond_init(&q->not_full);

    return SW_OK;
}

/* Accepts a zeroed queue and one whose init failed. */
void sw_queue_fini(struct sw_queue *q)
{
    if (!q->items)
        return;

    sw_mutex_fini(&q->lock);
    sw_cond_fini(&q->not_empty);
    sw_cond_fini(&q->not_full);
    sw_free(q->items);
    q->items = NULL;
}

/* q->lock is held. The store is atomic for sw_queue_pending, which does not take the lock. It is
 * sequentially consistent: a consumer that announces that it waits and then checks the queue cannot
 * miss an item of a producer that adds the item and then checks for waiting consumers. */
static void set_count(struct sw_queue *q, size_t count)
{
    __atomic_store_n(&q->count, count, __ATOMIC_SEQ_CST);
}

bool sw_queue_pending(const struct sw_queue *q)
{
    return __atomic_load_n(&q->count, __ATOMIC_SEQ_CST) > 0;
}

/* q->lock is held. */
static int put(struct sw_queue *q, const void *item)
{
    if (q->closed)
        return SW_ERR_CANCELLED;
    if (q->count == q->capacity)
        return SW_ERR_BUSY;

    size_t tail = (q->head + q->count) % q->capacity;
    memcpy(q->items + tail * q->item_bytes, item, q->item_bytes);
    set_count(q, q->count + 1);
    sw_cond_signal(&q->not_empty);

    return SW_OK;
}

int sw_queue_push(struct sw_queue *q, const void *item)
{
    sw_mutex_lock(&q->lock);
    while (q->count == q->capacity && !q->closed)
        sw_cond_wait(&q->not_full, &q->lock);

    int rc = put(q, item);
    sw_mutex_unlock(&q->lock);
    return rc;
}

int sw_queue_try_push(struct sw_queue *q, const void *item)
{
    sw_mutex_lock(&q->lock);
    int rc = put(q, item);
    sw_mutex_unlock(&q->lock);
    return rc;
}

/* q->lock is held. Returns `empty` for an open queue without items. */
static int take(struct sw_queue *q, void *item, int empty)
{
    if (!q->count)
        return q->closed ? SW_ERR_CANCELLED : empty;

    memcpy(item, q->items + q->head * q->item_bytes, q->item_bytes);
    q->head = (q->head + 1) % q->capacity;
    set_count(q, q->count - 1);
    sw_cond_signal(&q->not_full);

    return SW_OK;
}

int sw_queue_pop(struct sw_queue *q, void *item)
{
    sw_mutex_lock(&q->lock);
    while (!q->count && !q->closed)
        sw_cond_wait(&q->not_empty, &q->lock);

    int rc = take(q, item, SW_ERR_BUSY);
    sw_mutex_unlock(&q->lock);
    return rc;
}

int sw_queue_try_pop(struct sw_queue *q, void *item)
{
    sw_mutex_lock(&q->lock);
    int rc = take(q, item, SW_ERR_BUSY);
    sw_mutex_unlock(&q->lock);
    return rc;
}

int sw_queue_pop_ms(struct sw_queue *q, void *item, int timeout_ms)
{
    int64_t end_ns = sw_os()->monotonic_ns() + (int64_t)timeout_ms * 1000000;

    sw_mutex_lock(&q->lock);

    while (!q->count && !q->closed) {
        int64_t left_ns = end_ns - sw_os()->monotonic_ns();
        if (left_ns <= 0 || !sw_cond_wait_ms(&q->not_empty, &q->lock, (int)(left_ns / 1000000) + 1))
            break;
    }

    int rc = take(q, item, SW_ERR_BUSY);
    sw_mutex_unlock(&q->lock);
    return rc;
}

void sw_queue_close(struct sw_queue *q)
{
    sw_mutex_lock(&q->lock);
    q->closed = true;
    sw_cond_broadcast(&q->not_empty);
    sw_cond_broadcast(&q->not_full);
    sw_mutex_unlock(&q->lock);
}

void sw_queue_close_v(void *queue)
{
    sw_queue_close(queue);
}
