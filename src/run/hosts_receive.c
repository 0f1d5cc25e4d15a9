/* What arrives from other hosts: on host 0 their rows and the states of their threads, on the
 * others its answer that rows were taken. By threads of the fabric, for one host one at a time. */
#include "base/os.h"
#include "run/hosts_history_private.h"
#include <math.h>
#include <stdio.h>

static int refuse(const struct sw_fabric_tag *tag, size_t bytes, struct sw_err *err)
{
    return sw_err_set(err, SW_ERR_INVALID, "it sent %zu bytes of %s, which nobody waits for", bytes,
                      tag->kind == SW_HOSTS_LINES ? "history" : "states of threads");
}

static int place(void *user, int from, const struct sw_fabric_tag *tag, size_t bytes, void **to,
                 struct sw_err *err)
{
    struct sw_hosts_history *h = user;
    struct sw_hosts_peer *p = &h->peer[from];

    if (tag->urgency != SW_HOSTS_URGENCY || !SW_ACQUIRE(h->history))
        return refuse(tag, bytes, err);

    /* Host 0 has taken lines. */
    if (h->hosts->own != 0)
        return from == 0 && tag->kind == SW_HOSTS_LINES && bytes == 0 ? SW_OK
                                                                      : refuse(tag, bytes, err);

    if (tag->kind == SW_HOSTS_LINES && tag->item == SW_HOSTS_ITEM_LAST && bytes == 0)
        return SW_OK;
    if (tag->kind == SW_HOSTS_LINES && tag->item == SW_HOSTS_ITEM_LINES && bytes > 0 &&
        bytes <= SW_HISTORY_CHUNK) {
        *to = p->lines;
        return SW_OK;
    }

    if (tag->kind == SW_HOSTS_STATES && bytes == (size_t)p->slots * SW_SLOT_RECORD) {
        *to = p->states;
        return SW_OK;
    }

    return refuse(tag, bytes, err);
}

static void forward_event(void *user, enum sw_log_level level, const char *source, const char *text)
{
    struct sw_hosts_history *h = user;
    struct sw_events *e = SW_ACQUIRE(h->events);

    if (e)
        sw_events_forward(e, level, source, text);
}

/* Tells the sender that the lines are queued here. */
static void confirm_lines(struct sw_hosts_history *h, int to)
{
    static const struct sw_fabric_tag tag = {.kind = SW_HOSTS_LINES, .urgency = SW_HOSTS_URGENCY};
    struct sw_fabric *fabric = SW_ACQUIRE(h->fabric); /* it calls, so it is not freed yet */
    struct sw_err ignored;                            /* that host is lost */

    if (fabric) {
        int rc = sw_fabric_send(fabric, to, &tag, NULL, 0, NULL, NULL, &ignored);
        (void)rc;
    }
}

static int take_lines(struct sw_hosts_history *h, int from, const char *lines, size_t bytes,
                      struct sw_err *err)
{
    const struct sw_hosts_peer *p = &h->peer[from];
    const struct sw_history_source source = {.host = p->name,
                                             .number = from,
                                             .first_worker = p->first_worker,
                                             .workers = p->workers,
                                             .last_step = h->last_step,
                                             .event = forward_event,
                                             .user = h};

    int rc = sw_history_take(SW_ACQUIRE(h->history), &source, lines, bytes, err);
    if (rc == SW_OK)
        confirm_lines(h, from);
    return rc;
}

void sw_hosts_name_slot(struct sw_slot *slot, const struct sw_hosts_peer *p, const char *thread)
{
    char name[SW_SNAPSHOT_NAME + SW_HISTORY_HOST_NAME];

    snprintf(name, sizeof name, "%s/%s", p->name, thread);
    sw_slot_set_name(slot, name);
}

static void show_states(struct sw_hosts_history *h, int from)
{
    struct sw_snapshot *s = SW_ACQUIRE(h->snapshot);
    const struct sw_hosts_peer *p = &h->peer[from];
    const int64_t now_ns = sw_os()->monotonic_ns();

    for (int i = 0; s && i < p->slots; i++) {
        struct sw_slot *slot = sw_snapshot_slot(s, p->first_slot + i);
        struct sw_slot_state state;

        sw_slot_read(p->states + (size_t)i * SW_SLOT_RECORD, now_ns, &state);
        sw_hosts_name_slot(slot, p, state.name);
        sw_slot_mirror(slot, &state);
    }
}

/* A chunk is over when it was sent and host 0 has taken it. */
static void lines_taken(struct sw_hosts_history *h)
{
    if (__atomic_fetch_or(&h->lines, SW_HOSTS_LINES_TAKEN, __ATOMIC_ACQ_REL) & SW_HOSTS_LINES_SENT)
        sw_history_part_sent(SW_ACQUIRE(h->history), SW_OK);
}

static void note_finished(struct sw_hosts_history *h, int host)
{
    sw_mutex_lock(&h->lock);
    h->finished |= (uint64_t)1 << host;
    sw_cond_broadcast(&h->changed);
    sw_mutex_unlock(&h->lock);
}

static int arrived(void *user, int from, const struct sw_fabric_tag *tag, void *data, size_t bytes,
                   struct sw_err *err)
{
    struct sw_hosts_history *h = user;

    if (h->hosts->own != 0)
        lines_taken(h);
    else if (tag->kind == SW_HOSTS_LINES && tag->item == SW_HOSTS_ITEM_LAST)
        note_finished(h, from);
    else if (tag->kind == SW_HOSTS_LINES)
        return take_lines(h, from, data, bytes, err);
    else
        show_states(h, from);
    return SW_OK;
}

/* Of a loss host 0 tells the history; of that of host 0 all others tell their spools. */
static void lost(void *user, int host, const struct sw_err *why)
{
    struct sw_hosts_history *h = user;
    struct sw_history *history = SW_ACQUIRE(h->history);

    __atomic_fetch_or(&h->lost, (uint64_t)1 << host, __ATOMIC_RELAXED);
    note_finished(h, host);
    if (!SW_ACQUIRE(h->begun) || (h->hosts->own != 0 && host != 0))
        return;

    if (h->hosts->own != 0)
        sw_history_part_gone(history);
    sw_history_host(history, &(struct sw_history_host){.number = host,
                                                       .name = h->peer[host].name,
                                                       .clock_offset_ms = NAN,
                                                       .clock_error_ms = NAN,
                                                       .joined_at = NAN,
                                                       .left_at = sw_os()->unix_time(),
                                                       .why = why->text});
}

struct sw_fabric_sink sw_hosts_receive_sink(struct sw_hosts_history *h)
{
    return (struct sw_fabric_sink){.place = place, .arrived = arrived, .lost = lost, .user = h};
}
