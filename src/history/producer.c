/* The hot path: a thread of the job claims a record in its own ring, fills it and publishes it by
 * moving the head (release; the writer acquires). It takes no lock and makes no system call except
 * a wake-up when the ring is half full. A producer waits, for a limited time, only if its ring is
 * full. */
#include "base/os.h"
#include "history/writer.h"
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

enum {
    HALF = SW_RING_RECORDS / 2,
    WAKE_EVERY = 512, /* beyond half, the writer is woken every so many records */
};

void sw_history_wake(struct sw_history *h)
{
    if (h->wake_fd >= 0)
        eventfd_write(h->wake_fd, 1);
}

static bool has_room(struct sw_history_producer *p, size_t head)
{
    if (head - p->known_tail < SW_RING_RECORDS)
        return true;
    p->known_tail = atomic_load_explicit(&p->tail, memory_order_acquire);
    return head - p->known_tail < SW_RING_RECORDS;
}

/* Waits while the ring is full. The writer empties rings into memory even while the database is
 * stuck, so the wait is short. If the writer does not move the tail in time, later calls do not
 * wait until it does. */
static bool wait_for_room(struct sw_history_producer *p, size_t head)
{
    struct sw_history *h = p->history;

    if (p->gave_up_at == p->known_tail)
        return false;

    atomic_fetch_add_explicit(&h->counts.ring_waits, 1, memory_order_relaxed);

    int64_t until = sw_os()->monotonic_ns() + h->timeouts.ring_ms * 1000000ll;
    while (atomic_load_explicit(&h->alive, memory_order_acquire) &&
           sw_os()->monotonic_ns() < until) {
        sw_history_wake(h);
        nanosleep(&(struct timespec){0, 100000}, NULL);
        if (has_room(p, head))
            return true;
    }

    p->gave_up_at = p->known_tail;
    return false;
}

/* Wakes the writer early if the ring is more than half full. */
static void wake_when_filling(struct sw_history_producer *p, size_t head)
{
    if (head - p->known_tail < HALF || head % WAKE_EVERY)
        return;

    p->known_tail = atomic_load_explicit(&p->tail, memory_order_acquire);
    if (head - p->known_tail >= HALF)
        sw_history_wake(p->history);
}

static struct sw_record *claim(struct sw_history_producer *p, size_t *head)
{
    *head = atomic_load_explicit(&p->head, memory_order_relaxed);
    if (has_room(p, *head) || wait_for_room(p, *head))
        return &p->records[*head % SW_RING_RECORDS];

    atomic_fetch_add_explicit(&p->history->counts.lost, 1, memory_order_relaxed);
    return NULL;
}

static void publish(struct sw_history_producer *p, size_t head)
{
    atomic_store_explicit(&p->head, head + 1, memory_order_release);
    wake_when_filling(p, head + 1);
}

void sw_history_point(struct sw_history_producer *p, int series, int64_t step, double value)
{
    size_t head;
    struct sw_record *r = claim(p, &head);
    if (!r)
        return;

    r->kind = SW_RECORD_POINT;
    r->handle = series;
    r->step = step;
    r->point.time = sw_os()->unix_time();
    r->point.value = value;
    publish(p, head);
}

void sw_history_step_time(struct sw_history_producer *p, const struct sw_step_time *row)
{
    size_t head;
    struct sw_record *r = claim(p, &head);
    if (!r)
        return;

    const float ms[] = {row->read_ms,     row->decode_ms, row->h2d_ms,          row->forward_ms,
                        row->backward_ms, row->update_ms, row->comm_exposed_ms, row->comm_hidden_ms,
                        row->wait_ms,     row->idle_ms};
    _Static_assert(sizeof ms == sizeof r->step_time.ms, "all phases of a step");
    r->kind = SW_RECORD_STEP_TIME;
    r->handle = row->worker;
    r->step = row->step;
    r->step_time.staleness = row->staleness;
    memcpy(r->step_time.ms, ms, sizeof ms);
    publish(p, head);
}

void sw_history_traffic(struct sw_history_producer *p, int link, int64_t step, int64_t bytes,
                        double ms)
{
    size_t head;
    struct sw_record *r = claim(p, &head);
    if (!r)
        return;

    r->kind = SW_RECORD_TRAFFIC;
    r->handle = link;
    r->step = step;
    r->traffic.bytes = bytes;
    r->traffic.ms = ms;
    publish(p, head);
}

size_t sw_ring_take(struct sw_history_producer *p, struct sw_record *out, size_t room)
{
    size_t tail = atomic_load_explicit(&p->tail, memory_order_relaxed);
    size_t head = atomic_load_explicit(&p->head, memory_order_acquire);
    size_t count = head - tail < room ? head - tail : room;

    for (size_t i = 0; i < count; i++)
        out[i] = p->records[(tail + i) % SW_RING_RECORDS];
    atomic_store_explicit(&p->tail, tail + count, memory_order_release);

    return count;
}
