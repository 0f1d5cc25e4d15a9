#include "comm/channel.h"
#include "base/os.h"
#include <stdatomic.h>

/* Counters only: nothing else is read on the strength of their values, so relaxed order will do. */
struct sw_traffic_cell {
    atomic_uint_fast64_t messages, bytes;
};

static struct sw_traffic_cell *cell_of(const struct sw_channel *c, int from,
                                       enum sw_message_kind kind)
{
    return &c->cells[(size_t)from * SW_MSG_KINDS + kind];
}

int sw_channel_init(struct sw_channel *c, int senders, size_t capacity, struct sw_err *err)
{
    size_t cells = (size_t)senders * SW_MSG_KINDS;

    c->senders = senders;
    c->cells = sw_calloc(cells, sizeof *c->cells);
    if (!c->cells)
        return sw_err_nomem(err, "a channel's counters", cells * sizeof *c->cells);
    int rc = sw_queue_init(&c->queue, sizeof(struct sw_message), capacity, err);
    if (rc != SW_OK) {
        sw_free(c->cells);
        c->cells = NULL;
    }
    return rc;
}

void sw_channel_fini(struct sw_channel *c)
{
    if (!c->cells) /* never initialised, or that failed */
        return;
    sw_queue_fini(&c->queue);
    sw_free(c->cells);
    c->cells = NULL;
}

int sw_channel_send(struct sw_channel *c, const struct sw_message *m)
{
    int rc = sw_queue_push(&c->queue, m);
    if (rc != SW_OK)
        return rc;
    struct sw_traffic_cell *cell = cell_of(c, m->from, m->kind);
    atomic_fetch_add_explicit(&cell->messages, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&cell->bytes, (uint64_t)m->bytes, memory_order_relaxed);
    return SW_OK;
}

int sw_channel_receive(struct sw_channel *c, struct sw_message *m)
{
    return sw_queue_pop(&c->queue, m);
}

int sw_channel_try_receive(struct sw_channel *c, struct sw_message *m)
{
    return sw_queue_try_pop(&c->queue, m);
}

bool sw_channel_pending(const struct sw_channel *c)
{
    return sw_queue_pending(&c->queue);
}

void sw_channel_close(struct sw_channel *c)
{
    sw_queue_close(&c->queue);
}

void sw_channel_close_v(void *channel)
{
    sw_channel_close(channel);
}

struct sw_traffic sw_channel_traffic(const struct sw_channel *c, int from,
                                     enum sw_message_kind kind)
{
    struct sw_traffic_cell *cell = cell_of(c, from, kind);
    struct sw_traffic t = {
        .messages = atomic_load_explicit(&cell->messages, memory_order_relaxed),
        .bytes = atomic_load_explicit(&cell->bytes, memory_order_relaxed),
    };
    return t;
}

const char *sw_message_kind_name(enum sw_message_kind kind)
{
    static const char *const names[] = {"get",   "put",  "update", "value",
                                        "apply", "sync", "delta",  "stop"};
    return (unsigned)kind < SW_MSG_KINDS ? names[kind] : "unknown";
}
