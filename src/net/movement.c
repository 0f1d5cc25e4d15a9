/* Traffic of connections in a step, for reports and cost models. */
#include "net/layers/bridge.h"
#include "net/net_private.h"

static int64_t elements_of(const struct sw_net *net, const struct sw_net_connection *c,
                           bool backward, bool own)
{
    int64_t elements = 0;

    for (int j = 0; j < net->sharding.workers; j++)
        for (int k = 0; k < net->sharding.workers; k++)
            if (own || j != k)
                elements +=
                    (int64_t)(sw_connection_bytes(c, backward, net->sharding.workers, j, k) /
                              sw_dtype_bytes(c->type));

    return elements;
}

/* Passes per step: a connection within a Boltzmann machine runs in every turn of its chain; its
 * gradients need no exchange. */
static int64_t passes_of(const struct sw_net_shape *shape, bool back)
{
    return shape->chain_link ? shape->layer.chain.steps + !back : 1;
}

bool sw_net_movement(const struct sw_net *net, int i, struct sw_net_movement *m)
{
    const struct sw_net_shape *shape = &net->shapes.node[i];
    if (shape->layer.type != &sw_net_bridge_dst)
        return false;

    const struct sw_net_connection *c = sw_bridge_connection(&shape->layer);
    const struct sw_movement_cell *cell = sw_movement_cell(c->move.from, c->move.to);

    *m = (struct sw_net_movement){.operation = {cell->forward, NULL}};
    for (int back = 0; back < 1 + shape->has_backward; back++) {
        m->operation[back] = back ? cell->backward : cell->forward;
        m->moved[back] = passes_of(shape, back) * elements_of(net, c, back, false);
        m->counted[back] = passes_of(shape, back) * elements_of(net, c, back, true);
    }

    return true;
}

/* Bytes of one connection, forward and, if it has one, backward. */
static int64_t sent_bytes(const struct sw_net *net, const struct sw_net_shape *shape, int from,
                          int to)
{
    const struct sw_net_connection *c = sw_bridge_connection(&shape->layer);
    int64_t bytes = 0;

    for (int back = 0; back < 1 + shape->has_backward; back++)
        bytes += passes_of(shape, back) *
                 (int64_t)sw_connection_bytes(c, back, net->sharding.workers, from, to);

    return bytes;
}

int64_t sw_net_sent_bytes(const struct sw_net *net, int i, int from)
{
    const struct sw_net_shape *shape = &net->shapes.node[i];
    int64_t bytes = 0;

    for (int to = 0; to < net->sharding.workers && shape->layer.type == &sw_net_bridge_dst; to++)
        bytes += to == from ? 0 : sent_bytes(net, shape, from, to);
    return bytes;
}

int64_t sw_net_moved_bytes(const struct sw_net *net, int from, int to)
{
    int64_t bytes = 0;

    for (int i = 0; i < net->graph.count && from != to; i++)
        if (net->shapes.node[i].layer.type == &sw_net_bridge_dst)
            bytes += sent_bytes(net, &net->shapes.node[i], from, to);

    return bytes;
}
