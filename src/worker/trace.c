/* The memory of a trace, and appending to it without a lock. */
#include "worker/trace.h"

#include "base/os.h"

struct sw_trace *sw_trace_new(size_t capacity)
{
    struct sw_trace *t = sw_calloc(1, sizeof *t);
    if (!t)
        return NULL;

    t->events = sw_calloc(capacity, sizeof *t->events);
    t->capacity = capacity;
    if (!t->events) {
        sw_free(t);
        return NULL;
    }

    return t;
}

void sw_trace_free(struct sw_trace *t)
{
    if (!t)
        return;
    sw_free(t->events);
    sw_free(t);
}

void sw_trace_add(struct sw_trace *t, const struct sw_trace_event *e)
{
    if (!t)
        return;

    /* Relaxed: only a unique index is needed; readers come after the threads have ended. */
    size_t i = atomic_fetch_add_explicit(&t->count, 1, memory_order_relaxed);
    if (i < t->capacity)
        t->events[i] = *e;
}
