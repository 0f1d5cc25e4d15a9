#include "net/exchange.h"
#include "net/net_private.h"

#include "base/os.h"

enum { TURNS = 4, ALIGN = 64, MOMENTS = 3 }; /* two turns for forward, two for backward */

struct sw_exchange {
    int workers, connections;
    struct sw_device *host; /* borrowed */
    char *memory;           /* owned; between devices */
    size_t bytes;
    size_t *at;  /* owned [connections][workers][workers][TURNS]: offsets */
    int64_t *ns; /* owned [workers][workers], atomic: of copies */
    /* Owned [connections][workers][workers][2: forward, backward], atomic: pieces so far. */
    uint64_t *sent, *taken;
    void **parts; /* owned [connections][workers][2]: written before pieces are marked as sent */
    /* Between devices, owned as what is in them: [connections][workers][TURNS][MOMENTS], and
     * [workers]. */
    struct sw_event **events;
    struct sw_stream **senders;
    struct sw_stream **streams; /* owned [workers], each borrowed: those that compute */
    struct sw_exchange_waits waits;
};

static size_t index_of(const struct sw_exchange *e, int connection, int from, int to, int turn)
{
    size_t i = (size_t)connection * (size_t)e->workers + (size_t)from;
    return (i * (size_t)e->workers + (size_t)to) * TURNS + (size_t)turn;
}

char *sw_exchange_stage(const struct sw_exchange *e, const struct sw_piece *p, int turn)
{
    return e->memory +
           e->at[index_of(e, p->connection, p->from, p->to, (p->backward ? 2 : 0) + turn)];
}

static size_t event_index(const struct sw_exchange *e, int connection, int worker, int turn)
{
    return (((size_t)connection * (size_t)e->workers + (size_t)worker) * TURNS + (size_t)turn) *
           MOMENTS;
}

struct sw_event *sw_exchange_event(const struct sw_exchange *e, int connection, int worker,
                                   bool backward, int turn, enum sw_exchange_moment moment)
{
    return e->events[event_index(e, connection, worker, (backward ? 2 : 0) + turn) + moment];
}

struct sw_stream *sw_exchange_sender(const struct sw_exchange *e, int worker)
{
    return e->senders[worker];
}

static void **part_of(const struct sw_exchange *e, int connection, int worker, bool backward)
{
    return &e->parts[((size_t)connection * (size_t)e->workers + (size_t)worker) * 2 + backward];
}

void sw_exchange_publish(const struct sw_exchange *e, int connection, int worker, bool backward,
                         void *part)
{
    __atomic_store_n(part_of(e, connection, worker, backward), part, __ATOMIC_RELAXED);
}

char *sw_exchange_part(const struct sw_exchange *e, int connection, int worker, bool backward)
{
    return __atomic_load_n(part_of(e, connection, worker, backward), __ATOMIC_RELAXED);
}

void sw_exchange_add_ns(const struct sw_exchange *e, int from, int to, int64_t ns)
{
    __atomic_add_fetch(&e->ns[from * e->workers + to], ns, __ATOMIC_RELAXED);
}

int64_t sw_exchange_ns(const struct sw_exchange *e, int from, int to)
{
    return __atomic_load_n(&e->ns[from * e->workers + to], __ATOMIC_RELAXED);
}

static size_t count_of(const struct sw_exchange *e, const struct sw_piece *p)
{
    size_t i = (size_t)p->connection * (size_t)e->workers + (size_t)p->from;
    return (i * (size_t)e->workers + (size_t)p->to) * 2 + (size_t)p->backward;
}

struct least {
    const uint64_t *count;
    uint64_t least;
};

static bool is_reached(const void *what)
{
    const struct least *l = what;
    return __atomic_load_n(l->count, __ATOMIC_ACQUIRE) >= l->least;
}

static int wait_for(const struct sw_exchange *e, int worker, const uint64_t *count, uint64_t least)
{
    struct least what = {count, least};
    return is_reached(&what) ? SW_OK : e->waits.wait(e->waits.user, worker, is_reached, &what);
}

bool sw_exchange_is_sent(const struct sw_exchange *e, const struct sw_piece *p, uint64_t times)
{
    return is_reached(&(struct least){&e->sent[count_of(e, p)], times});
}

bool sw_exchange_is_taken(const struct sw_exchange *e, const struct sw_piece *p, uint64_t times)
{
    return is_reached(&(struct least){&e->taken[count_of(e, p)], times});
}

int sw_exchange_wait_sent(const struct sw_exchange *e, const struct sw_piece *p, uint64_t times)
{
    return wait_for(e, p->to, &e->sent[count_of(e, p)], times);
}

int sw_exchange_wait_taken(const struct sw_exchange *e, const struct sw_piece *p, uint64_t times)
{
    return wait_for(e, p->from, &e->taken[count_of(e, p)], times);
}

void sw_exchange_mark(const struct sw_exchange *e, const struct sw_piece *p, bool taken)
{
    __atomic_add_fetch(&(taken ? e->taken : e->sent)[count_of(e, p)], 1, __ATOMIC_RELEASE);
}

void sw_exchange_tell(const struct sw_exchange *e)
{
    e->waits.tell(e->waits.user);
}

static size_t bytes_between(const struct sw_net_connection *c, bool backward, int workers, int from,
                            int to)
{
    struct sw_rect r =
        sw_movement(c->from, c->to, backward, c->rows, c->columns, workers, from, to);
    return sw_rect_is_empty(&r) ? 0 : (size_t)(r.rows * r.columns) * c->column_bytes;
}

/* Gives every piece its place (in e->at, unless it is NULL) and returns the bytes of all. The
 * shapes are the same seen from any worker. */
static size_t plan(const struct sw_exchange *e, const struct sw_net *net)
{
    size_t total = 0;
    for (int i = 0; i < net->count && !net->stream->dev->host_memory; i++) {
        if (net->nodes[i].layer.type != &sw_net_bridge_dst)
            continue;
        struct sw_net_connection c = sw_net_connection(&net->nodes[i].layer);
        for (int j = 0; j < e->workers; j++)
            for (int k = 0; k < e->workers; k++)
                for (int turn = 0; turn < TURNS && j != k; turn++) {
                    bool backward = turn >= 2;
                    size_t bytes = backward && !net->nodes[i].has_backward
                                       ? 0
                                       : bytes_between(&c, backward, e->workers, j, k);
                    if (e->at)
                        e->at[index_of(e, c.index, j, k, turn)] = total;
                    total += (bytes + ALIGN - 1) / ALIGN * ALIGN;
                }
    }
    return total;
}

size_t sw_exchange_plan(const struct sw_net *net)
{
    struct sw_exchange e = {.workers = net->workers};
    return plan(&e, net);
}

static int make_arrays(struct sw_exchange *e, struct sw_net *const *nets, struct sw_err *err)
{
    size_t pieces = index_of(e, e->connections, 0, 0, 0);
    e->at = sw_calloc(pieces, sizeof *e->at);
    e->ns = sw_calloc((size_t)e->workers * (size_t)e->workers, sizeof *e->ns);
    e->sent = sw_calloc(pieces / 2, sizeof *e->sent);
    e->taken = sw_calloc(pieces / 2, sizeof *e->taken);
    e->parts = sw_calloc(pieces, sizeof *e->parts);
    e->streams = sw_calloc((size_t)e->workers, sizeof *e->streams);
    if (!e->at || !e->ns || !e->sent || !e->taken || !e->parts || !e->streams)
        return sw_err_nomem(err, "the exchange of features", pieces * sizeof *e->at);
    for (int w = 0; w < e->workers; w++)
        e->streams[w] = nets[w]->stream;
    return SW_OK;
}

/* Whose stream records event i. */
static struct sw_device *device_of(const struct sw_exchange *e, size_t i)
{
    return e->streams[i / MOMENTS / TURNS % (size_t)e->workers]->dev;
}

/* Staging memory, and events to order what happens with it. */
static int make_stages(struct sw_exchange *e, const struct sw_net *net, struct sw_err *err)
{
    size_t count = event_index(e, e->connections, 0, 0);
    void *memory = NULL;
    e->bytes = plan(e, net);
    int rc = sw_device_alloc(e->host, e->bytes, "features under way between workers", &memory, err);
    if (rc != SW_OK)
        return rc;
    e->memory = memory;
    sw_device_pin(e->streams[0]->dev, memory, e->bytes); /* for all devices of the kind */
    sw_device_name(e->streams[0]->dev, memory, e->bytes, "features between workers");
    e->events = sw_calloc(count, sizeof(void *));
    e->senders = sw_calloc((size_t)e->workers, sizeof(void *));
    if (!e->events || !e->senders)
        return sw_err_nomem(err, "the exchange of features", count * sizeof(void *));
    for (size_t i = 0; i < count && rc == SW_OK; i++)
        rc = sw_event_new(device_of(e, i), &e->events[i], err);
    for (int w = 0; w < e->workers && rc == SW_OK; w++) {
        rc = sw_stream_new(e->streams[w]->dev, 1, &e->senders[w], err);
        if (rc == SW_OK)
            sw_stream_name(e->senders[w], "send");
    }
    return rc;
}

int sw_exchange_new(struct sw_net *const *nets, int workers, struct sw_device *host,
                    const struct sw_exchange_waits *waits, struct sw_exchange **out,
                    struct sw_err *err)
{
    *out = NULL;
    if (nets[0]->connections == 0)
        return SW_OK;
    struct sw_exchange *e = sw_calloc(1, sizeof *e);
    if (!e)
        return sw_err_nomem(err, "the exchange of features", sizeof *e);
    *e = (struct sw_exchange){
        .workers = workers, .connections = nets[0]->connections, .host = host, .waits = *waits};
    int rc = make_arrays(e, nets, err);
    if (rc == SW_OK && !e->streams[0]->dev->host_memory)
        rc = make_stages(e, nets[0], err);
    if (rc != SW_OK) {
        sw_exchange_free(e);
        return rc;
    }
    for (int w = 0; w < workers; w++)
        nets[w]->exchange = e;
    *out = e;
    return SW_OK;
}

/* After a fault copies may be under way that nobody has waited for. */
static void drain(const struct sw_exchange *e)
{
    struct sw_err ignored;
    for (int i = 0; i < 2 * e->workers && e->senders; i++) {
        struct sw_stream *s = (i & 1 ? e->senders : e->streams)[i / 2];
        if (!s)
            continue;
        sw_stream_attach(s);
        if (sw_stream_wait(s, &ignored) != SW_OK)
            continue; /* dropped, which will do */
    }
}

void sw_exchange_free(struct sw_exchange *e)
{
    if (!e)
        return;
    drain(e);
    size_t events = e->events ? event_index(e, e->connections, 0, 0) : 0;
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

static int64_t values_of(const struct sw_net *net, const struct sw_net_connection *c, bool backward,
                         bool own)
{
    int64_t values = 0;
    for (int j = 0; j < net->workers; j++)
        for (int k = 0; k < net->workers; k++)
            if (own || j != k)
                values += (int64_t)(bytes_between(c, backward, net->workers, j, k) / sizeof(float));
    return values;
}

/* Passes of a step: a connection within a Boltzmann machine takes part in every turn of its chain,
 * and the gradients are made of what each worker has. */
static int64_t passes_of(const struct sw_net_node *node, bool back)
{
    return node->chain_link ? node->layer.chain_steps + !back : 1;
}

bool sw_net_movement(const struct sw_net *net, int i, struct sw_net_movement *m)
{
    const struct sw_net_node *node = &net->nodes[i];
    if (node->layer.type != &sw_net_bridge_dst)
        return false;
    struct sw_net_connection c = sw_net_connection(&node->layer);
    const struct sw_movement_cell *cell = sw_movement_cell(c.from, c.to);
    *m = (struct sw_net_movement){.operation = {cell->forward, NULL}};
    for (int back = 0; back < 1 + node->has_backward; back++) {
        m->operation[back] = back ? cell->backward : cell->forward;
        m->moved[back] = passes_of(node, back) * values_of(net, &c, back, false);
        m->counted[back] = passes_of(node, back) * values_of(net, &c, back, true);
    }
    return true;
}

/* Of one connection, forward and, where it has one, backward. */
static int64_t sent_bytes(const struct sw_net *net, const struct sw_net_node *node, int from,
                          int to)
{
    struct sw_net_connection c = sw_net_connection(&node->layer);
    int64_t bytes = 0;
    for (int back = 0; back < 1 + node->has_backward; back++)
        bytes += passes_of(node, back) * (int64_t)bytes_between(&c, back, net->workers, from, to);
    return bytes;
}

int64_t sw_net_sent_bytes(const struct sw_net *net, int i, int from)
{
    const struct sw_net_node *node = &net->nodes[i];
    int64_t bytes = 0;
    for (int to = 0; to < net->workers && node->layer.type == &sw_net_bridge_dst; to++)
        bytes += to == from ? 0 : sent_bytes(net, node, from, to);
    return bytes;
}

int64_t sw_net_moved_bytes(const struct sw_net *net, int from, int to)
{
    int64_t bytes = 0;
    for (int i = 0; i < net->count && from != to; i++)
        if (net->nodes[i].layer.type == &sw_net_bridge_dst)
            bytes += sent_bytes(net, &net->nodes[i], from, to);
    return bytes;
}
