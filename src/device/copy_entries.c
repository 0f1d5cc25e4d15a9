/* The pool of a copy queue: its most urgent entry, and the end of an entry. */
#include "base/os.h"
#include "device/copy_queue_private.h"

struct sw_copy_entry *sw_copy_most_urgent(struct sw_copy_queue *q, enum sw_copy_state state)
{
    struct sw_copy_entry *best = NULL;

    for (int i = 0; i < q->capacity; i++) {
        struct sw_copy_entry *e = &q->entries[i];
        if (e->state != state)
            continue;

        if (!best || e->event.priority < best->event.priority ||
            (e->event.priority == best->event.priority && e->number < best->number))
            best = e;
    }

    return best;
}

void sw_copy_complete(struct sw_copy_entry *entry, int rc)
{
    struct sw_copy_queue *q = entry->queue;
    struct sw_copy_event e = entry->event;

    sw_mutex_lock(&q->lock);
    entry->state = SW_COPY_FREE;
    if (rc == SW_OK && !sw_copy_is_limited(q, &e))
        q->busy_ns[e.direction] += sw_os()->monotonic_ns() - q->started_ns[e.direction];
    sw_mutex_unlock(&q->lock);
    __atomic_sub_fetch(&q->in_flight[e.direction], 1, __ATOMIC_RELAXED);
    if (e.done)
        e.done(e.user, rc);
}
