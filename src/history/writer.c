/* The history writer: one thread per job. In: records from the producers' rings, cold rows from a
 * list, flush requests. Out: rows in the database or in the run's metrics.jsonl, flush answers, and
 * events about itself. It wakes every 200 ms, or when a ring is half full or a flush waits.
 * sw_history_stop_writer stops it after all producers: it then drains the rings, tries the database
 * for at most five seconds, spools the remaining rows, and ends. It never reports a fault: errors
 * of the database are logged and do not affect the job. */
#include "history/writer.h"
#include "base/os.h"
#include <poll.h>
#include <sys/eventfd.h>

enum { BUSY_TICK_MS = 50, LOCK_WAIT_MS = 50, LAST_WAIT_MS = 100 };

/* Makes room for n more records, up to the limit. Returns how many fit. */
static size_t grow(struct sw_history_backlog *b, size_t n)
{
    size_t want = b->count + n;

    if (want > SW_HISTORY_PENDING_MAX)
        want = SW_HISTORY_PENDING_MAX;

    if (want > b->capacity) {
        size_t capacity = want < 2 * SW_RING_RECORDS ? 2 * SW_RING_RECORDS : want + want / 2;
        struct sw_record *more = sw_realloc_array(b->records, capacity, sizeof *more);

        if (more) {
            b->records = more;
            b->capacity = capacity;
        }
    }

    size_t room =
        b->capacity < SW_HISTORY_PENDING_MAX ? b->capacity : (size_t)SW_HISTORY_PENDING_MAX;
    return room - b->count;
}

/* Empties a ring. Records that do not fit into the backlog are dropped, because a producer must not
 * be blocked. */
static void drain_ring(struct sw_history *h, struct sw_history_producer *p)
{
    struct sw_history_backlog *b = &h->backlog;
    struct sw_record dropped[16];
    size_t n, room = grow(b, SW_RING_RECORDS);

    b->count += sw_ring_take(p, b->records + b->count, room);
    if (b->count < SW_HISTORY_PENDING_MAX && room)
        return;

    while ((n = sw_ring_take(p, dropped, 16)))
        atomic_fetch_add_explicit(&h->counts.lost, n, memory_order_relaxed);
}

/* Moves the queued cold rows to the backlog. Called with the lock held. */
static void take_cold(struct sw_history_rows *rows, struct sw_history_rows *cold)
{
    if (rows->last)
        rows->last->next = cold->first;
    else
        rows->first = cold->first;

    if (cold->last)
        rows->last = cold->last;
    rows->count += cold->count;
    *cold = (struct sw_history_rows){0};
}

/* Takes all queued rows and records; returns the number of the newest flush that they cover. */
static uint64_t collect(struct sw_history *h)
{
    sw_mutex_lock(&h->lock);

    uint64_t flush = h->flush_wanted;
    struct sw_history_producer *producers = h->producers;
    take_cold(&h->backlog.rows, &h->cold);
    sw_mutex_unlock(&h->lock);
    for (struct sw_history_producer *p = producers; p; p = p->next)
        drain_ring(h, p);

    return flush;
}

static void answer_flush(struct sw_history *h, uint64_t flush)
{
    sw_mutex_lock(&h->lock);

    if (h->flush_done < flush) {
        h->flush_done = flush;
        sw_cond_broadcast(&h->flushed);
    }

    sw_mutex_unlock(&h->lock);
}

/* Reports the number of lost rows each time it has doubled. */
static void report_lost(struct sw_history *h)
{
    uint64_t lost = atomic_load_explicit(&h->counts.lost, memory_order_relaxed);
    if (lost < 2 * h->lost_reported || lost == h->lost_reported)
        return;

    h->lost_reported = lost;
    sw_history_event(h, SW_LOG_WARN, "history", "%llu rows lost so far", (unsigned long long)lost);
    sw_log_write(h->log, SW_LOG_WARN, "history", "%llu rows lost so far", (unsigned long long)lost);
}

/* One cycle of the writer; returns how many milliseconds to sleep. */
static int cycle(struct sw_history *h)
{
    report_lost(h);

    uint64_t flush = collect(h);
    bool stored = sw_history_store_pending(h, LOCK_WAIT_MS, false);
    if (stored)
        answer_flush(h, flush);
    if (h->merging || (stored && sw_history_merge_other(h)))
        return 0;

    return h->outage.busy_since_ns ? BUSY_TICK_MS : SW_HISTORY_TICK_MS;
}

/* Whether cold rows are queued. The writer itself adds events (merged, lost) while it stores rows.
 */
static bool has_cold(struct sw_history *h)
{
    sw_mutex_lock(&h->lock);
    bool some = h->cold.first != NULL;
    sw_mutex_unlock(&h->lock);
    return some;
}

static void drain_at_end(struct sw_history *h)
{
    int64_t until = sw_os()->monotonic_ns() + h->timeouts.setup_ms * 1000000ll;
    bool last = false, stored;

    do {
        uint64_t flush = collect(h);
        last = sw_os()->monotonic_ns() >= until;
        stored = sw_history_store_pending(h, LAST_WAIT_MS, last);
        if (stored)
            answer_flush(h, flush);
    } while ((!stored || has_cold(h)) && !last);
}

static void writer_main(void *arg)
{
    struct sw_history *h = arg;
    int sleep_ms = 0;

    while (!atomic_load_explicit(&h->stop, memory_order_acquire)) {
        struct pollfd wake = {.fd = h->wake_fd, .events = POLLIN};
        eventfd_t ignored;
        if (poll(&wake, 1, sleep_ms) > 0)
            eventfd_read(h->wake_fd, &ignored);
        sleep_ms = cycle(h);
    }

    drain_at_end(h);
    atomic_store_explicit(&h->alive, false, memory_order_release);
}

int sw_history_start_writer(struct sw_history *h, struct sw_err *err)
{
    atomic_store_explicit(&h->alive, true, memory_order_release);

    int code = sw_thread_start(&h->thread, "history", writer_main, h, err);
    if (code)
        atomic_store_explicit(&h->alive, false, memory_order_release);

    return code;
}

void sw_history_stop_writer(struct sw_history *h)
{
    atomic_store_explicit(&h->stop, true, memory_order_release);
    sw_history_wake(h);
    sw_thread_join(&h->thread);
}
