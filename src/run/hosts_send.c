/* What a host sends to host 0: the lines of its history, which the history's writer hands over,
 * and, by a thread of its own, the states of its threads. On every host that thread also records
 * what went to the others; on host 0, how far the clocks of the others are off. */
#include "base/os.h"
#include "run/hosts_history_private.h"
#include <math.h>

enum { TICK_MS = 200, RECORD_TICKS = 10 /* of traffic and clocks */ };

static void lines_sent(void *user, int rc)
{
    struct sw_hosts_history *h = user;
    bool taken =
        __atomic_fetch_or(&h->lines, SW_HOSTS_LINES_SENT, __ATOMIC_ACQ_REL) & SW_HOSTS_LINES_TAKEN;

    if (taken || rc != SW_OK)
        sw_history_part_sent(SW_ACQUIRE(h->history), taken ? SW_OK : rc);
}

int sw_hosts_send_lines(void *user, const char *lines, size_t bytes, struct sw_err *err)
{
    static const struct sw_fabric_tag tag = {.kind = SW_HOSTS_LINES, .urgency = SW_HOSTS_URGENCY};
    struct sw_hosts_history *h = user;
    int rc;

    sw_mutex_lock(&h->fabric_lock);

    __atomic_store_n(&h->lines, 0, __ATOMIC_RELAXED);
    if (h->fabric)
        rc = sw_fabric_send(h->fabric, 0, &tag, lines, bytes, lines_sent, h, err);
    else if (h->over)
        rc = sw_err_set(err, SW_ERR_LOST, "the job has ended");
    else
        rc = sw_err_set(err, SW_ERR_BUSY, "between two stages");

    sw_mutex_unlock(&h->fabric_lock);
    return rc == SW_ERR_CANCELLED ? SW_ERR_BUSY : rc; /* this host leaves, perhaps for a stage */
}

bool sw_hosts_clock_offset(void *user, int64_t *offset_ns)
{
    struct sw_hosts_history *h = user;
    int64_t error_ns = -1;

    sw_mutex_lock(&h->fabric_lock);
    if (h->fabric)
        sw_fabric_clock(h->fabric, h->hosts->own, offset_ns, &error_ns);
    sw_mutex_unlock(&h->fabric_lock);
    return error_ns >= 0;
}

static void states_sent(void *user, int rc)
{
    struct sw_hosts_history *h = user;

    (void)rc; /* the next states follow soon */
    __atomic_store_n(&h->sending, false, __ATOMIC_RELEASE);
}

static void send_states(struct sw_hosts_history *h)
{
    static const struct sw_fabric_tag tag = {.kind = SW_HOSTS_STATES, .urgency = SW_HOSTS_URGENCY};
    const struct sw_hosts_peer *own = &h->peer[h->hosts->own];
    const int64_t now_ns = sw_os()->monotonic_ns();
    struct sw_err ignored; /* the loss of host 0 ends the job */

    if (SW_ACQUIRE(h->sending) || own->slots == 0)
        return;

    for (int i = 0; i < own->slots; i++) {
        struct sw_slot_state s;

        if (sw_snapshot_read_slot(h->snapshot, i, &s))
            sw_slot_write(&s, now_ns, h->own_states + (size_t)i * SW_SLOT_RECORD);
    }

    __atomic_store_n(&h->sending, true, __ATOMIC_RELAXED);
    if (sw_fabric_send(h->fabric, 0, &tag, h->own_states, (size_t)own->slots * SW_SLOT_RECORD,
                       states_sent, h, &ignored) != SW_OK)
        __atomic_store_n(&h->sending, false, __ATOMIC_RELAXED);
}

/* What went to other hosts since the last call. */
static void record_traffic(struct sw_hosts_history *h)
{
    const int64_t now_ns = sw_os()->monotonic_ns();
    const double ms = (double)(now_ns - h->recorded_ns) * 1e-6;
    struct sw_slot_state leader;

    if (!sw_snapshot_read_slot(h->snapshot, 0, &leader))
        return;

    for (int i = 0; i < h->hosts->count; i++) {
        struct sw_hosts_peer *p = &h->peer[i];
        if (sw_hosts_is_own(h, i))
            continue;

        uint64_t bytes = sw_fabric_traffic(h->fabric, i, -1).sent_bytes;
        if (bytes > p->recorded_bytes)
            sw_history_net(h->history, h->peer[h->hosts->own].name, p->name,
                           leader.done_step < 0 ? 0 : leader.done_step,
                           (int64_t)(bytes - p->recorded_bytes), ms);
        p->recorded_bytes = bytes;
    }

    h->recorded_ns = now_ns;
}

static void record_clocks(struct sw_hosts_history *h)
{
    for (int i = 1; i < h->hosts->count && h->hosts->own == 0; i++) {
        int64_t offset_ns, error_ns;

        sw_fabric_clock(h->fabric, i, &offset_ns, &error_ns);
        if (error_ns >= 0)
            sw_history_host(h->history,
                            &(struct sw_history_host){.number = i,
                                                      .clock_offset_ms = (double)offset_ns * 1e-6,
                                                      .clock_error_ms = (double)error_ns * 1e-6,
                                                      .joined_at = NAN,
                                                      .left_at = NAN});
    }
}

static bool rest(struct sw_hosts_history *h)
{
    const int64_t until_ns = sw_os()->monotonic_ns() + (int64_t)TICK_MS * 1000000;

    sw_mutex_lock(&h->lock);
    while (!h->stop && sw_cond_wait_until(&h->changed, &h->lock, until_ns))
        ;

    bool stop = h->stop;
    sw_mutex_unlock(&h->lock);
    return !stop;
}

static void main_loop(void *user)
{
    struct sw_hosts_history *h = user;

    for (int tick = 1; rest(h); tick++) {
        if (h->hosts->own != 0)
            send_states(h);
        if (tick % RECORD_TICKS == 0) {
            record_traffic(h);
            record_clocks(h);
        }
    }
}

int sw_hosts_start_thread(struct sw_hosts_history *h, struct sw_err *err)
{
    h->stop = false;
    h->recorded_ns = sw_os()->monotonic_ns();
    for (int i = 0; i < h->hosts->count; i++)
        h->peer[i].recorded_bytes = 0;

    return sw_thread_start(&h->thread, "hosts", main_loop, h, err);
}

void sw_hosts_end_thread(struct sw_hosts_history *h)
{
    if (!h->thread.running)
        return;

    sw_mutex_lock(&h->lock);
    h->stop = true;
    sw_cond_broadcast(&h->changed);
    sw_mutex_unlock(&h->lock);
    sw_thread_join(&h->thread);

    record_traffic(h);
    record_clocks(h);
}

void sw_hosts_finish_lines(struct sw_hosts_history *h, struct sw_history *history)
{
    static const struct sw_fabric_tag tag = {
        .kind = SW_HOSTS_LINES, .urgency = SW_HOSTS_URGENCY, .item = SW_HOSTS_ITEM_LAST};
    struct sw_err ignored; /* host 0 is lost */

    if (!sw_history_flush(history, SW_HOSTS_FLUSH_MS))
        sw_history_part_sent(history, SW_ERR_CANCELLED); /* to the spool */

    int rc = sw_fabric_send(h->fabric, 0, &tag, NULL, 0, NULL, NULL, &ignored);
    (void)rc;
}
