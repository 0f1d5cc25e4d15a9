/* The events of a simulation: a binary heap. */
#include "planner/simulate_events.h"

#include "base/os.h"

static bool before(const struct sw_plansim_event *a, const struct sw_plansim_event *b)
{
    return a->time_s != b->time_s ? a->time_s < b->time_s : a->order < b->order;
}

int sw_plansim_events_push(struct sw_plansim_events *e, struct sw_plansim_event event,
                           struct sw_err *err)
{
    int rc = sw_grow(&e->heap, sizeof *e->heap, e->count, &e->capacity, 256, "events", err);
    if (rc != SW_OK)
        return rc;

    event.order = e->made++;

    int64_t i = e->count++;
    for (; i > 0 && before(&event, &e->heap[(i - 1) / 2]); i = (i - 1) / 2)
        e->heap[i] = e->heap[(i - 1) / 2];
    e->heap[i] = event;

    return SW_OK;
}

struct sw_plansim_event sw_plansim_events_pop(struct sw_plansim_events *e)
{
    struct sw_plansim_event first = e->heap[0], last = e->heap[--e->count];
    int64_t i = 0;

    for (int64_t child = 1; child < e->count; i = child, child = 2 * i + 1) {
        if (child + 1 < e->count && before(&e->heap[child + 1], &e->heap[child]))
            child++;
        if (!before(&e->heap[child], &last))
            break;
        e->heap[i] = e->heap[child];
    }
    e->heap[i] = last;

    return first;
}

void sw_plansim_events_fini(struct sw_plansim_events *e)
{
    sw_free(e->heap);
    *e = (struct sw_plansim_events){.heap = NULL};
}
