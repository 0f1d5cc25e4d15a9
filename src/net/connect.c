/* Inserts a connection (a pair of bridges) wherever a reader wants its source spread in another
 * way, and orders the net. All workers of a group come to the same list of nodes. */
#include "net/net_private.h"

#include "base/os.h"
#include <limits.h>
#include <stdio.h>

/* Every node may have one connection for each way of spreading that readers want; a whole output
 * may be wanted on several workers, columns in several groups. */
struct insertion {
    struct sw_net_node *nodes; /* the new array */
    int *moved;                /* new place of each old node */
    struct sw_spread *way;     /* owned: all that anybody wants, rows first */
    int ways;
    bool *needed;    /* [old nodes][ways] */
    int *connection; /* [old nodes][ways]: new place of its connection */
    int count;
};

static int way_of(const struct insertion *in, struct sw_spread s)
{
    int way = 0;
    while (!sw_spread_equal(in->way[way], s))
        way++;
    return way;
}

static void add_way(struct insertion *in, struct sw_spread s)
{
    in->way[in->ways] = s; /* the search ends here at the latest */
    if (way_of(in, s) == in->ways)
        in->ways++;
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
    in->needed[i * in->ways + way_of(in, to)] = true;
    if (!sw_spread_equal(start_of(net, i, to), from))
        need(net, in, i, start_of(net, i, to));
}

/* In the order of the movement table; connections start from rows where there is no other way, so
 * that these come first. */
static void find_ways(const struct sw_net *net, struct insertion *in)
{
    for (int d = 0; d < SW_DIST_ONE; d++)
        add_way(in, (struct sw_spread){.dist = (enum sw_dist)d});
    for (int w = 0; w < net->workers; w++)
        add_way(in, (struct sw_spread){.dist = SW_DIST_ONE, .at = w});
    for (int i = 0; i < net->count; i++)
        for (int k = 0; k < net->nodes[i].layer.src_count; k++)
            add_way(in, sw_net_source_spread(net, &net->nodes[i], k));
}

static int count_connections(const struct sw_net *net, struct insertion *in)
{
    int count = 0;
    for (int i = 0; i < net->count; i++)
        for (int k = 0; k < net->nodes[i].layer.src_count; k++)
            need(net, in, net->nodes[i].src[k], sw_net_source_spread(net, &net->nodes[i], k));
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
               : in->connection[i * in->ways + way_of(in, want)];
}

/* One end of the connection of node i's output that is wanted in this way. */
static int add_end(const struct sw_net *net, struct insertion *in, int i, int way, bool dst,
                   struct sw_err *err)
{
    struct sw_net_node *node = &in->nodes[in->count];
    const struct sw_net_node *old = &net->nodes[i];
    struct sw_spread to = in->way[way], from = start_of(net, i, to);
    char number[48] = "";
    if (to.at > 0)
        snprintf(number, sizeof number, "%d", to.at);
    else if (to.groups > 0)
        snprintf(number, sizeof number, "/%lld", (long long)to.groups);
    else if (to.whole > 0)
        snprintf(number, sizeof number, "%+lld/%lld", (long long)to.first, (long long)to.whole);
    node->owned_name =
        sw_format("%s%c%s%s", old->layer.name, dst ? ':' : '>', sw_dist_name(to.dist), number);
    if (!node->owned_name)
        return sw_err_nomem(err, "a connection's name", 0);
    node->section = old->section;
    node->step = old->step;
    node->steps = old->steps;
    node->spread = dst ? to : from;
    node->from = from;
    node->to = to;
    node->layer = (struct sw_layer){.name = node->owned_name,
                                    .home = old->layer.home,
                                    .type = dst ? &sw_net_bridge_dst : &sw_net_bridge_src,
                                    .index = in->count,
                                    .src_count = 1};
    node->src[0] = dst ? in->count - 1 : place_of(net, in, i, from);
    in->connection[i * in->ways + way] = in->count++;
    return SW_OK;
}

static int add_connection(const struct sw_net *net, struct insertion *in, int i, int way,
                          struct sw_err *err)
{
    int rc = add_end(net, in, i, way, false, err);
    return rc == SW_OK ? add_end(net, in, i, way, true, err) : rc;
}

/* Copies the nodes in order, each followed by both ends of its connections. */
static int rebuild(struct sw_net *net, struct insertion *in, struct sw_err *err)
{
    int rc = SW_OK;
    for (int i = 0; i < net->count && rc == SW_OK; i++) {
        struct sw_net_node *node = &in->nodes[in->count];
        *node = net->nodes[i];
        for (int k = 0; k < node->layer.src_count; k++)
            node->src[k] = place_of(net, in, net->nodes[i].src[k],
                                    sw_net_source_spread(net, &net->nodes[i], k));
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

void sw_net_link(struct sw_net *net)
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

/* Layers stand in the order of how many connections lead to them at most, then in their own. A
 * connection's lower end stands right behind what it sends, and its upper end before the first
 * layer that reads it: everything that can be computed without another worker comes before what
 * waits for one. So paths on different workers run side by side, and a worker that has the lower
 * layers of several parts (of a batch, of a sequence) is ahead with them while others do the upper
 * ones of those that came first; backward goes the same way in the opposite direction. Of several
 * connections that begin at one layer that comes first which is read first. */
struct order {
    const struct sw_net *net;
    int *level;   /* owned [nodes]: connections on the longest way there */
    int *ranking; /* owned [nodes]: the layers in their order, without bridges */
    int *rank;    /* owned [nodes]: place in that; of a bridge that of its first reader */
    int *place;   /* owned [nodes]: the answer; -1: none yet */
    int layers, placed;
};

static bool is_dst(const struct sw_net_node *node)
{
    return node->layer.type == &sw_net_bridge_dst;
}

static void raise_level(struct order *o, int i, int to)
{
    o->level[i] = o->level[i] > to ? o->level[i] : to;
}

/* Sources come before their readers in the nodes' order so far, and who shares a parameter behind
 * the layer where it is at home. */
static void find_levels(struct order *o)
{
    for (int i = 0; i < o->net->count; i++) {
        const struct sw_net_node *node = &o->net->nodes[i];
        for (int k = 0; k < node->layer.src_count; k++)
            raise_level(o, i, o->level[node->src[k]] + is_dst(node));
        for (int k = 0; k < node->share_count; k++)
            raise_level(o, i, o->level[node->share[k].root]);
    }
}

static void rank_layers(struct order *o)
{
    for (int level = 0, found = 0; found < o->net->count; level++)
        for (int i = 0; i < o->net->count; i++) {
            if (o->level[i] != level)
                continue;
            found++;
            if (sw_net_is_bridge(&o->net->nodes[i]))
                continue;
            o->rank[i] = o->layers;
            o->ranking[o->layers++] = i;
        }
    /* Bridges may follow on one another, from the last to the first. */
    for (int i = o->net->count - 1; i >= 0; i--)
        for (int k = 0; k < o->net->nodes[i].layer.src_count; k++) {
            int source = o->net->nodes[i].src[k];
            if (sw_net_is_bridge(&o->net->nodes[source]) && o->rank[i] < o->rank[source])
                o->rank[source] = o->rank[i];
        }
}

/* A node, and behind it the lower ends of its connections. */
static void place_node(struct order *o, int i)
{
    o->place[i] = o->placed++;
    for (int next = -1;; o->place[next] = o->placed++, next = -1) {
        for (int j = i + 1; j < o->net->count; j++) {
            const struct sw_net_node *node = &o->net->nodes[j];
            if (node->layer.type == &sw_net_bridge_src && node->src[0] == i && o->place[j] < 0 &&
                (next < 0 || o->rank[j] < o->rank[next]))
                next = j;
        }
        if (next < 0)
            return;
    }
}

/* The upper ends of connections that node i reads, and of those before them. */
static void place_sources(struct order *o, int i)
{
    const struct sw_net_node *node = &o->net->nodes[i];
    for (int k = 0; k < node->layer.src_count; k++) {
        int dst = node->src[k];
        if (!is_dst(&o->net->nodes[dst]) || o->place[dst] >= 0)
            continue;
        place_sources(o, o->net->nodes[dst].src[0]);
        place_node(o, dst);
    }
}

void sw_net_take_places(struct sw_net *net, const int *place, struct sw_net_node *nodes)
{
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
}

static int order(struct sw_net *net, struct sw_err *err)
{
    size_t n = (size_t)net->count;
    int *memory = sw_calloc(4 * n, sizeof *memory);
    struct sw_net_node *nodes = sw_calloc(n, sizeof *nodes);
    if (!memory || !nodes) {
        sw_free(memory);
        sw_free(nodes);
        return sw_err_nomem(err, "connections", n * sizeof *nodes);
    }
    struct order o = {net, memory, memory + n, memory + 2 * n, memory + 3 * n, 0, 0};
    for (size_t i = 0; i < n; i++) {
        o.place[i] = -1;
        o.rank[i] = INT_MAX;
    }
    find_levels(&o);
    rank_layers(&o);
    for (int i = 0; i < o.layers; i++) {
        place_sources(&o, o.ranking[i]);
        place_node(&o, o.ranking[i]);
    }
    sw_net_take_places(net, o.place, nodes);
    sw_free(memory);
    return SW_OK;
}

int sw_net_connect(struct sw_net *net, struct sw_err *err)
{
    size_t n = (size_t)net->count + 1, ways = SW_DISTS + (size_t)net->workers + 1;
    for (int i = 0; i < net->count; i++)
        ways += (size_t)net->nodes[i].layer.src_count;
    struct insertion in = {.way = sw_calloc(ways, sizeof *in.way)};
    if (!in.way)
        return sw_err_nomem(err, "connections", ways * sizeof *in.way);
    find_ways(net, &in);
    ways = (size_t)in.ways;
    in.needed = sw_calloc(n * ways, sizeof(bool));
    in.moved = sw_calloc(n, sizeof(int));
    in.connection = sw_calloc(n * ways, sizeof(int));
    int rc = in.needed && in.moved && in.connection ? SW_OK : sw_err_nomem(err, "connections", n);
    int more = rc == SW_OK ? count_connections(net, &in) : 0;
    if (more > 0) {
        in.nodes = sw_calloc(n + 2 * (size_t)more, sizeof *in.nodes);
        rc = in.nodes ? rebuild(net, &in, err) : sw_err_nomem(err, "connections", n);
        if (in.nodes) {
            sw_free(net->nodes);
            net->nodes = in.nodes;
            net->count = in.count;
        }
        if (rc == SW_OK)
            rc = order(net, err);
        sw_net_link(net);
    }
    sw_free(in.way);
    sw_free(in.needed);
    sw_free(in.moved);
    sw_free(in.connection);
    return rc;
}
