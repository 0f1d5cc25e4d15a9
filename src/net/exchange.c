#include "net/exchange.h"
#include "net/net_private.h"

#include "base/os.h"

enum { TURNS = 4, ALIGN = 64 }; /* two for forward, two for backward */

struct sw_exchange {
    int workers, connections;
    struct sw_device *host; /* borrowed */
    char *memory;           /* owned */
    size_t bytes;
    size_t *at;  /* owned [connections][workers][workers][TURNS]: offsets */
    int64_t *ns; /* owned [workers][workers], atomic: of copies */
    /* Owned [connections][workers][workers][2: forward, backward], atomic: pieces so far. */
    uint64_t *sent, *taken;
    struct sw_exchange_waits waits;
};

static size_t index_of(const struct sw_exchange *e, int connection, int from, int to, int turn)
{
    size_t i = (size_t)connection * (size_t)e->workers + (size_t)from;
    return (i * (size_t)e->workers + (size_t)to) * TURNS + (size_t)turn;
}

char *sw_exchange_stage(const struct sw_exchange *e, int connection, int from, int to, int turn)
{
    return e->memory + e->at[index_of(e, connection, from, to, turn)];
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

int sw_exchange_wait_room(const struct sw_exchange *e, const struct sw_piece *p, uint64_t pass)
{
    return pass < 2 ? SW_OK : wait_for(e, p->from, &e->taken[count_of(e, p)], pass - 1);
}

int sw_exchange_wait_piece(const struct sw_exchange *e, const struct sw_piece *p, uint64_t pass)
{
    return wait_for(e, p->to, &e->sent[count_of(e, p)], pass + 1);
}

void sw_exchange_mark(const struct sw_exchange *e, const struct sw_piece *p, bool taken)
{
    __atomic_add_fetch(&(taken ? e->taken : e->sent)[count_of(e, p)], 1, __ATOMIC_RELEASE);
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
    int connection = 0;
    size_t total = 0;
    for (int i = 0; i < net->count; i++) {
        if (net->nodes[i].layer.type != &sw_net_reshard)
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
                        e->at[index_of(e, connection, j, k, turn)] = total;
                    total += (bytes + ALIGN - 1) / ALIGN * ALIGN;
                }
        connection++;
    }
    return total;
}

size_t sw_exchange_plan(const struct sw_net *net)
{
    struct sw_exchange e = {.workers = net->workers};
    return plan(&e, net);
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
    size_t pieces = index_of(e, e->connections, 0, 0, 0);
    void *memory = NULL;
    int rc = SW_OK;
    e->at = sw_calloc(pieces, sizeof *e->at);
    e->ns = sw_calloc((size_t)workers * (size_t)workers, sizeof *e->ns);
    e->sent = sw_calloc(pieces / 2, sizeof *e->sent);
    e->taken = sw_calloc(pieces / 2, sizeof *e->taken);
    if (!e->at || !e->ns || !e->sent || !e->taken)
        rc = sw_err_nomem(err, "the exchange of features", pieces * sizeof *e->at);
    if (rc == SW_OK) {
        e->bytes = plan(e, nets[0]);
        rc = sw_device_alloc(host, e->bytes, "features under way between workers", &memory, err);
        e->memory = memory;
        sw_device_name(nets[0]->stream->dev, memory, e->bytes, "features between workers");
    }
    if (rc != SW_OK) {
        sw_exchange_free(e);
        return rc;
    }
    for (int w = 0; w < workers; w++)
        nets[w]->exchange = e;
    *out = e;
    return SW_OK;
}

void sw_exchange_free(struct sw_exchange *e)
{
    if (!e)
        return;
    sw_device_free(e->host, e->memory, e->bytes);
    sw_free(e->at);
    sw_free(e->ns);
    sw_free(e->sent);
    sw_free(e->taken);
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

bool sw_net_movement(const struct sw_net *net, int i, struct sw_net_movement *m)
{
    const struct sw_net_node *node = &net->nodes[i];
    if (node->layer.type != &sw_net_reshard)
        return false;
    struct sw_net_connection c = sw_net_connection(&node->layer);
    const struct sw_movement_cell *cell = sw_movement_cell(c.from, c.to);
    *m = (struct sw_net_movement){.operation = {cell->forward, NULL}};
    for (int back = 0; back < 1 + node->has_backward; back++) {
        m->operation[back] = back ? cell->backward : cell->forward;
        m->moved[back] = values_of(net, &c, back, false);
        m->counted[back] = values_of(net, &c, back, true);
    }
    return true;
}

/* Of one connection, forward and, where it has one, backward. */
static int64_t sent_bytes(const struct sw_net *net, const struct sw_net_node *node, int from,
                          int to)
{
    struct sw_net_connection c = sw_net_connection(&node->layer);
    return (int64_t)(bytes_between(&c, false, net->workers, from, to) +
                     (node->has_backward ? bytes_between(&c, true, net->workers, from, to) : 0));
}

int64_t sw_net_sent_bytes(const struct sw_net *net, int i, int from)
{
    const struct sw_net_node *node = &net->nodes[i];
    int64_t bytes = 0;
    for (int to = 0; to < net->workers && node->layer.type == &sw_net_reshard; to++)
        bytes += to == from ? 0 : sent_bytes(net, node, from, to);
    return bytes;
}

int64_t sw_net_moved_bytes(const struct sw_net *net, int from, int to)
{
    int64_t bytes = 0;
    for (int i = 0; i < net->count && from != to; i++)
        if (net->nodes[i].layer.type == &sw_net_reshard)
            bytes += sent_bytes(net, &net->nodes[i], from, to);
    return bytes;
}
