/* Creates the exchange of activations for the nets of a group's workers: staging memory, events,
 * streams. */
#include "net/layers/bridge.h"
#include "net/net_private.h"

#include "base/os.h"

enum { ALIGN = 64 };

/* Computes the offset of every piece (into e->at unless NULL) and returns the total bytes. The
 * result is the same for any worker's net. */
static size_t plan(const struct sw_transfer *e, const struct sw_net *net)
{
    size_t total = 0;

    for (int i = 0; i < net->graph.count && !net->args.stream->dev->host_memory; i++) {
        if (net->graph.node[i].type != &sw_net_bridge_dst)
            continue;

        const struct sw_net_shape *shape = &net->shapes.node[i];
        const struct sw_net_connection *c = sw_bridge_connection(&shape->layer);
        for (int j = 0; j < e->workers; j++)
            for (int k = 0; k < e->workers; k++)
                for (int turn = 0; turn < SW_TRANSFER_TURNS && j != k; turn++) {
                    bool backward = turn >= 2;
                    size_t bytes = backward && !shape->has_backward
                                       ? 0
                                       : sw_connection_bytes(c, backward, e->workers, j, k);

                    if (e->at)
                        e->at[sw_transfer_index(e, c->index, j, k, turn)] = total;
                    total += sw_aligned(bytes, ALIGN);
                }
    }

    return total;
}

size_t sw_transfer_plan(const struct sw_net *net)
{
    struct sw_transfer e = {.workers = net->sharding.workers};
    return plan(&e, net);
}

static int make_arrays(struct sw_transfer *e, struct sw_net *const *nets, struct sw_err *err)
{
    size_t pieces = sw_transfer_index(e, e->connections, 0, 0, 0);

    e->at = sw_calloc(pieces, sizeof *e->at);
    e->ns = sw_calloc((size_t)e->workers * (size_t)e->workers, sizeof *e->ns);
    e->sent = sw_calloc(pieces / 2, sizeof *e->sent);
    e->taken = sw_calloc(pieces / 2, sizeof *e->taken);
    e->parts = sw_calloc(pieces, sizeof *e->parts);

    e->streams = sw_calloc((size_t)e->workers, sizeof *e->streams);
    if (!e->at || !e->ns || !e->sent || !e->taken || !e->parts || !e->streams)
        return sw_err_nomem(err, "the exchange of activations", pieces * sizeof *e->at);

    for (int w = 0; w < e->workers; w++)
        e->streams[w] = nets[w]->args.stream;
    return SW_OK;
}

/* The device whose stream records event i. */
static struct sw_device *device_of(const struct sw_transfer *e, size_t i)
{
    return e->streams[i / SW_TRANSFER_MOMENTS / SW_TRANSFER_TURNS % (size_t)e->workers]->dev;
}

/* Allocates staging memory and the events that order its use. */
static int make_stages(struct sw_transfer *e, const struct sw_net *net, struct sw_err *err)
{
    size_t count = sw_transfer_event_index(e, e->connections, 0, 0);
    void *memory = NULL;

    e->bytes = plan(e, net);

    int rc =
        sw_device_alloc(e->host, e->bytes, "activations in transit between workers", &memory, err);
    if (rc != SW_OK)
        return rc;

    e->memory = memory;
    sw_device_pin(e->streams[0]->dev, memory, e->bytes); /* for all devices of the kind */
    sw_device_name(e->streams[0]->dev, memory, e->bytes, "activations between workers");
    e->events = sw_calloc(count, sizeof(void *));

    e->senders = sw_calloc((size_t)e->workers, sizeof(void *));
    if (!e->events || !e->senders)
        return sw_err_nomem(err, "the exchange of activations", count * sizeof(void *));

    for (size_t i = 0; i < count && rc == SW_OK; i++)
        rc = sw_event_new(device_of(e, i), &e->events[i], err);

    for (int w = 0; w < e->workers && rc == SW_OK; w++) {
        rc = sw_stream_new(e->streams[w]->dev, 1, &e->senders[w], err);
        if (rc == SW_OK)
            sw_stream_name(e->senders[w], "send");
    }

    return rc;
}

static void set_exchange(struct sw_net *net, struct sw_transfer *e)
{
    for (int i = 0; i < net->graph.count; i++) {
        struct sw_bridge *st = net->shapes.node[i].layer.state;
        if (sw_net_is_bridge(&net->graph.node[i]))
            st->exchange = e;
    }
}

int sw_transfer_new(struct sw_net *const *nets, int workers, struct sw_device *host,
                    const struct sw_transfer_waits *waits, struct sw_transfer **out,
                    struct sw_err *err)
{
    *out = NULL;
    if (nets[0]->shapes.connections == 0)
        return SW_OK;

    struct sw_transfer *e = sw_calloc(1, sizeof *e);
    if (!e)
        return sw_err_nomem(err, "the exchange of activations", sizeof *e);

    *e = (struct sw_transfer){.workers = workers,
                              .connections = nets[0]->shapes.connections,
                              .host = host,
                              .waits = *waits};

    int rc = make_arrays(e, nets, err);
    if (rc == SW_OK && !e->streams[0]->dev->host_memory)
        rc = make_stages(e, nets[0], err);
    if (rc != SW_OK) {
        sw_transfer_free(e);
        return rc;
    }

    for (int w = 0; w < workers; w++)
        set_exchange(nets[w], e);
    *out = e;

    return SW_OK;
}

/* After a fault there may be unfinished copies. */
static void drain(const struct sw_transfer *e)
{
    struct sw_err ignored;

    for (int i = 0; i < 2 * e->workers && e->senders; i++) {
        struct sw_stream *s = (i & 1 ? e->senders : e->streams)[i / 2];
        if (!s)
            continue;

        sw_stream_attach(s);
        if (sw_stream_wait(s, &ignored) != SW_OK)
            continue; /* the work was dropped, which is sufficient */
    }
}

void sw_transfer_free(struct sw_transfer *e)
{
    if (!e)
        return;

    drain(e);

    size_t events = e->events ? sw_transfer_event_index(e, e->connections, 0, 0) : 0;
    for (size_t i = 0; i < events; i++)
        sw_event_free(device_of(e, i), e->events[i]);
    for (int w = 0; w < e->workers && e->senders; w++)
        sw_stream_free(e->senders[w]);
    if (e->memory)
        sw_device_unpin(e->streams[0]->dev, e->memory, e->bytes);
    sw_device_free(e->host, e->memory, e->bytes);
    sw_free(e->at);
    sw_free(e->ns);
    sw_free(e->sent);
    sw_free(e->taken);
    sw_free(e->parts);
    sw_free(e->events);
    sw_free(e->senders);
    sw_free(e->streams);
    sw_free(e);
}

int64_t sw_transfer_ns(const struct sw_transfer *e, int from, int to)
{
    return __atomic_load_n(&e->ns[from * e->workers + to], __ATOMIC_RELAXED);
}
