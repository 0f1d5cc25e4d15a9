/* Inserts a connection (a `reshard` node) wherever a reader wants its source spread in another way,
 * and orders the net. All workers of a group come to the same list of nodes. */
#include "net/net_private.h"

#include "base/os.h"
#include "base/str.h"

/* Every node may have one connection for each way of spreading that readers want; a whole output
 * may be wanted on several workers. */
struct insertion {
    struct sw_net_node *nodes; /* the new array */
    int *moved;                /* new place of each old node */
    int ways;
    bool *needed;    /* [old nodes][ways] */
    int *connection; /* [old nodes][ways]: new place of its connection */
    int count;
};

static int way_of(struct sw_spread s)
{
    return (int)s.dist + s.at;
}

static struct sw_spread spread_of_way(int way)
{
    return way < SW_DIST_ONE ? (struct sw_spread){.dist = (enum sw_dist)way}
                             : (struct sw_spread){SW_DIST_ONE, way - SW_DIST_ONE};
}

/* From where a connection takes node i's output: from rows, where there is no direct way. */
static struct sw_spread start_of(const struct sw_net *net, int i, struct sw_spread to)
{
    struct sw_spread from = net->nodes[i].spread;
    return sw_movement_cell(from, to) ? from : (struct sw_spread){.dist = SW_DIST_ROWS};
}

static void need(const struct sw_net *net, struct insertion *in, int i, struct sw_spread to)
{
    struct sw_spread from = net->nodes[i].spread;
    if (sw_spread_equal(from, to))
        return;
    in->needed[i * in->ways + way_of(to)] = true;
    if (!sw_spread_equal(start_of(net, i, to), from))
        need(net, in, i, start_of(net, i, to));
}

static int count_connections(const struct sw_net *net, struct insertion *in)
{
    int count = 0;
    for (int i = 0; i < net->count; i++)
        for (int k = 0; k < net->nodes[i].layer.src_count; k++)
            need(net, in, net->nodes[i].src[k], sw_net_source_spread(net, &net->nodes[i]));
    for (int i = 0; i < net->count * in->ways; i++)
        count += in->needed[i];
    return count;
}

/* Where node i's output is to be read in that way. */
static int place_of(const struct sw_net *net, const struct insertion *in, int i,
                    struct sw_spread want)
{
    return sw_spread_equal(net->nodes[i].spread, want)
               ? in->moved[i]
               : in->connection[i * in->ways + way_of(want)];
}

static int add_connection(const struct sw_net *net, struct insertion *in, int i, int way,
                          struct sw_err *err)
{
    struct sw_net_node *node = &in->nodes[in->count];
    const struct sw_net_node *old = &net->nodes[i];
    struct sw_spread to = spread_of_way(way);
    node->owned_name = to.at > 0
                           ? sw_format("%s:%s%d", old->layer.name, sw_dist_name(to.dist), to.at)
                           : sw_format("%s:%s", old->layer.name, sw_dist_name(to.dist));
    if (!node->owned_name)
        return sw_err_nomem(err, "a connection's name", 0);
    node->section = old->section;
    node->spread = to;
    node->from = start_of(net, i, to);
    node->layer = (struct sw_layer){
        .name = node->owned_name, .type = &sw_net_reshard, .index = in->count, .src_count = 1};
    node->src[0] = place_of(net, in, i, node->from);
    in->connection[i * in->ways + way] = in->count++;
    return SW_OK;
}

/* Copies the nodes in order, each followed by its connections. */
static int rebuild(struct sw_net *net, struct insertion *in, struct sw_err *err)
{
    int rc = SW_OK;
    for (int i = 0; i < net->count && rc == SW_OK; i++) {
        struct sw_net_node *node = &in->nodes[in->count];
        *node = net->nodes[i];
        for (int k = 0; k < node->layer.src_count; k++)
            node->src[k] = place_of(net, in, net->nodes[i].src[k], sw_net_source_spread(net, node));
        for (int k = 0; k < node->share_count; k++)
            node->share[k].root = in->moved[node->share[k].root];
        node->layer.index = in->count;
        in->moved[i] = in->count++;
        for (int way = 0; way < in->ways && rc == SW_OK; way++)
            if (in->needed[i * in->ways + way])
                rc = add_connection(net, in, i, way, err);
    }
    return rc;
}

/* Pointers to sources and numbers of readers, after the array has moved. */
static void link_again(struct sw_net *net)
{
    for (int i = 0; i < net->count; i++)
        net->nodes[i].consumers = 0;
    for (int i = 0; i < net->count; i++) {
        struct sw_net_node *node = &net->nodes[i];
        for (int k = 0; k < node->layer.src_count; k++) {
            struct sw_net_node *source = &net->nodes[node->src[k]];
            node->layer.src[k] = &source->layer.dst;
            source->consumers++;
        }
    }
}

/* ---- order ---- */

/* Are the node's sources placed, and the homes of parameters that it shares? */
static bool is_ready(const struct sw_net_node *node, const int *place)
{
    for (int k = 0; k < node->layer.src_count; k++)
        if (place[node->src[k]] < 0)
            return false;
    for (int k = 0; k < node->share_count; k++)
        if (place[node->share[k].root] < 0)
            return false;
    return true;
}

/* Places what is ready, in order: all that compute, or all connections. */
static int place_ready(const struct sw_net *net, int *place, int count, bool connections)
{
    for (int i = 0; i < net->count; i++) {
        const struct sw_net_node *node = &net->nodes[i];
        if (place[i] < 0 && (node->layer.type == &sw_net_reshard) == connections &&
            is_ready(node, place))
            place[i] = count++;
    }
    return count;
}

/* Connections are put where everything that can be computed before has been, so that paths on
 * different workers run side by side: their workers send all they begin with, then compute, and
 * wait for one another only where the paths come together; in backward likewise. */
static int order(struct sw_net *net, struct sw_err *err)
{
    size_t n = (size_t)net->count;
    int *place = sw_calloc(n, sizeof *place);
    struct sw_net_node *nodes = sw_calloc(n, sizeof *nodes);
    if (!place || !nodes) {
        sw_free(place);
        sw_free(nodes);
        return sw_err_nomem(err, "connections", n * sizeof *nodes);
    }
    for (size_t i = 0; i < n; i++)
        place[i] = -1;
    for (int count = 0, turn = 0; count < net->count; turn++)
        count = place_ready(net, place, count, turn & 1);
    for (int i = 0; i < net->count; i++) {
        struct sw_net_node *node = &nodes[place[i]];
        *node = net->nodes[i];
        node->layer.index = place[i];
        for (int k = 0; k < node->layer.src_count; k++)
            node->src[k] = place[node->src[k]];
        for (int k = 0; k < node->share_count; k++)
            node->share[k].root = place[node->share[k].root];
    }
    sw_free(net->nodes);
    net->nodes = nodes;
    sw_free(place);
    return SW_OK;
}

int sw_net_connect(struct sw_net *net, struct sw_err *err)
{
    size_t n = (size_t)net->count + 1, ways = SW_DISTS + (size_t)net->workers - 1;
    struct insertion in = {.ways = (int)ways,
                           .needed = sw_calloc(n * ways, sizeof(bool)),
                           .moved = sw_calloc(n, sizeof(int)),
                           .connection = sw_calloc(n * ways, sizeof(int))};
    int rc = in.needed && in.moved && in.connection ? SW_OK : sw_err_nomem(err, "connections", n);
    int more = rc == SW_OK ? count_connections(net, &in) : 0;
    if (more > 0) {
        in.nodes = sw_calloc(n + (size_t)more, sizeof *in.nodes);
        rc = in.nodes ? rebuild(net, &in, err) : sw_err_nomem(err, "connections", n);
        if (in.nodes) {
            sw_free(net->nodes);
            net->nodes = in.nodes;
            net->count = in.count;
        }
        if (rc == SW_OK)
            rc = order(net, err);
        link_again(net);
    }
    sw_free(in.needed);
    sw_free(in.moved);
    sw_free(in.connection);
    return rc;
}
