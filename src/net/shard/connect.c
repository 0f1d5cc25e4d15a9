/* Inserts a connection (a pair of bridges) wherever a reader needs its source in another
 * distribution, and orders the nodes. All workers of a group compute the same list of nodes.
 *
 * All readers that need a source in the same distribution share one connection. */
#include "net/shard/sharding.h"

#include "base/os.h"
#include <limits.h>
#include <stdio.h>

/* Every node may have one connection per distribution that readers need; a whole output may be
 * needed on several workers, columns in several groupings. */
struct insertion {
    const struct sw_net_graph *g; /* without connections */
    const struct sw_net_sharding *s;
    struct sw_net_graph_node *nodes; /* the new arrays */
    struct sw_net_shard *shards;
    int *moved;                     /* new index of each old node */
    struct sw_distribution *target; /* owned: all distributions that readers need, rows first */
    int targets;
    bool *needed;    /* [old nodes][targets] */
    int *connection; /* [old nodes][targets]: new index of its connection */
    int count;
};

static int target_index(const struct insertion *in, struct sw_distribution s)
{
    int target = 0;
    while (!sw_distribution_equal(in->target[target], s))
        target++;
    return target;
}

static void add_target(struct insertion *in, struct sw_distribution s)
{
    in->target[in->targets] = s; /* sentinel of the search */
    if (target_index(in, s) == in->targets)
        in->targets++;
}

/* The distribution from which a connection converts node i's output: rows if there is no direct
 * conversion. */
static struct sw_distribution start_of(const struct insertion *in, int i, struct sw_distribution to)
{
    struct sw_distribution from = in->s->node[i].distribution;
    return sw_movement_cell(from, to) ? from : (struct sw_distribution){.dist = SW_DIST_ROWS};
}

static void need(struct insertion *in, int i, struct sw_distribution to)
{
    struct sw_distribution from = in->s->node[i].distribution;
    if (sw_distribution_equal(from, to))
        return;

    in->needed[i * in->targets + target_index(in, to)] = true;
    if (!sw_distribution_equal(start_of(in, i, to), from))
        need(in, i, start_of(in, i, to));
}

/* Lists distributions in the order of the movement table: rows come first, because other
 * connections may start from them. */
static void find_targets(struct insertion *in)
{
    const struct sw_net_graph *g = in->g;

    for (int d = 0; d < SW_DIST_ONE; d++)
        add_target(in, (struct sw_distribution){.dist = (enum sw_dist)d});
    for (int w = 0; w < in->s->workers; w++)
        add_target(in, (struct sw_distribution){.dist = SW_DIST_ONE, .at = w});

    for (int i = 0; i < g->count; i++)
        for (int k = 0; k < g->node[i].src_count; k++)
            add_target(in, sw_net_source_distribution(in->s, g, i, k));
}

static int count_connections(struct insertion *in)
{
    const struct sw_net_graph *g = in->g;
    int count = 0;

    for (int i = 0; i < g->count; i++)
        for (int k = 0; k < g->node[i].src_count; k++)
            need(in, g->node[i].src[k], sw_net_source_distribution(in->s, g, i, k));

    for (int i = 0; i < g->count * in->targets; i++)
        count += in->needed[i];
    return count;
}

/* The node with node i's output in that distribution. */
static int place_of(const struct insertion *in, int i, struct sw_distribution want)
{
    return sw_distribution_equal(in->s->node[i].distribution, want)
               ? in->moved[i]
               : in->connection[i * in->targets + target_index(in, want)];
}

/* Adds one end of the connection that converts node i's output to this distribution. */
static int add_end(struct insertion *in, int i, int target, bool dst, struct sw_err *err)
{
    const struct sw_net_graph_node *old = &in->g->node[i];
    struct sw_distribution to = in->target[target], from = start_of(in, i, to);
    char number[48] = "";

    if (to.at > 0)
        snprintf(number, sizeof number, "%d", to.at);
    else if (to.groups > 0)
        snprintf(number, sizeof number, "/%lld", (long long)to.groups);
    else if (to.whole > 0)
        snprintf(number, sizeof number, "%+lld/%lld", (long long)to.first, (long long)to.whole);

    char *name = sw_format("%s%c%s%s", old->name, dst ? ':' : '>', sw_dist_name(to.dist), number);
    if (!name)
        return sw_err_nomem(err, "a connection's name", 0);

    in->nodes[in->count] =
        (struct sw_net_graph_node){.name = name,
                                   .home = old->home,
                                   .section = old->section,
                                   .type = dst ? &sw_net_bridge_dst : &sw_net_bridge_src,
                                   .owned_name = name,
                                   .src_count = 1,
                                   .src = {dst ? in->count - 1 : place_of(in, i, from)},
                                   .step = old->step,
                                   .steps = old->steps};
    in->shards[in->count] =
        (struct sw_net_shard){.distribution = dst ? to : from, .from = from, .to = to};
    in->connection[i * in->targets + target] = in->count++;

    return SW_OK;
}

static int add_connection(struct insertion *in, int i, int target, struct sw_err *err)
{
    int rc = add_end(in, i, target, false, err);
    return rc == SW_OK ? add_end(in, i, target, true, err) : rc;
}

/* Copies the nodes in order, each followed by both ends of its connections. */
static int rebuild(struct insertion *in, struct sw_err *err)
{
    int rc = SW_OK;

    for (int i = 0; i < in->g->count && rc == SW_OK; i++) {
        struct sw_net_graph_node *node = &in->nodes[in->count];

        *node = in->g->node[i];

        in->shards[in->count] = in->s->node[i];
        for (int k = 0; k < node->src_count; k++)
            node->src[k] =
                place_of(in, in->g->node[i].src[k], sw_net_source_distribution(in->s, in->g, i, k));

        for (int k = 0; k < node->tie_count; k++)
            node->tie[k].root = in->moved[node->tie[k].root];

        in->moved[i] = in->count++;
        for (int target = 0; target < in->targets && rc == SW_OK; target++)
            if (in->needed[i * in->targets + target])
                rc = add_connection(in, i, target, err);
    }

    return rc;
}

/* ---- order ---- */

/* Layers are ordered by the largest number of connections on a path to them, then by their previous
 * order. A connection's source end follows the layer it sends, and its destination end precedes the
 * first layer that reads it: everything that can be computed without another worker comes before
 * what waits for one. So paths on different workers run in parallel, and a worker that has the
 * lower layers of several parts (of a batch, of a sequence) runs ahead while others compute the
 * upper layers of the earlier parts; backward runs in the opposite order. Of several connections
 * that start at one layer, the one that is read first comes first. */
struct order {
    const struct sw_net_graph *g;
    int *level;   /* owned [nodes]: most connections on a path to the node */
    int *ranking; /* owned [nodes]: the layers in the new order, without bridges */
    int *rank;    /* owned [nodes]: position in `ranking`; of a bridge that of its first reader */
    int *place;   /* owned [nodes]: the resulting index; -1: none yet */
    int layers, placed;
};

static bool is_dst(const struct sw_net_graph_node *node)
{
    return node->type == &sw_net_bridge_dst;
}

static void raise_level(struct order *o, int i, int to)
{
    o->level[i] = o->level[i] > to ? o->level[i] : to;
}

/* In the previous order sources come before their readers, and roots before layers that tie
 * parameters to them. */
static void find_levels(struct order *o)
{
    for (int i = 0; i < o->g->count; i++) {
        const struct sw_net_graph_node *node = &o->g->node[i];
        for (int k = 0; k < node->src_count; k++)
            raise_level(o, i, o->level[node->src[k]] + is_dst(node));
        for (int k = 0; k < node->tie_count; k++)
            raise_level(o, i, o->level[node->tie[k].root]);
    }
}

static void rank_layers(struct order *o)
{
    for (int level = 0, found = 0; found < o->g->count; level++)
        for (int i = 0; i < o->g->count; i++) {
            if (o->level[i] != level)
                continue;

            found++;
            if (sw_net_is_bridge(&o->g->node[i]))
                continue;

            o->rank[i] = o->layers;
            o->ranking[o->layers++] = i;
        }

    /* Bridges may read bridges, so go from the last to the first. */
    for (int i = o->g->count - 1; i >= 0; i--)
        for (int k = 0; k < o->g->node[i].src_count; k++) {
            int source = o->g->node[i].src[k];
            if (sw_net_is_bridge(&o->g->node[source]) && o->rank[i] < o->rank[source])
                o->rank[source] = o->rank[i];
        }
}

/* Places a node, and after it the source ends of its connections. */
static void place_node(struct order *o, int i)
{
    o->place[i] = o->placed++;
    for (int next = -1;; o->place[next] = o->placed++, next = -1) {
        for (int j = i + 1; j < o->g->count; j++) {
            const struct sw_net_graph_node *node = &o->g->node[j];
            if (node->type == &sw_net_bridge_src && node->src[0] == i && o->place[j] < 0 &&
                (next < 0 || o->rank[j] < o->rank[next]))
                next = j;
        }

        if (next < 0)
            return;
    }
}

/* Places the destination ends of connections that node i reads, and of those before them. */
static void place_sources(struct order *o, int i)
{
    const struct sw_net_graph_node *node = &o->g->node[i];

    for (int k = 0; k < node->src_count; k++) {
        int dst = node->src[k];
        if (!is_dst(&o->g->node[dst]) || o->place[dst] >= 0)
            continue;

        place_sources(o, o->g->node[dst].src[0]);
        place_node(o, dst);
    }
}

static int order(struct sw_net_sharding *s, struct sw_net_graph *g, struct sw_err *err)
{
    size_t n = (size_t)g->count;
    int *memory = sw_calloc(4 * n, sizeof *memory);
    struct sw_net_graph_node *nodes = sw_calloc(n, sizeof *nodes);
    struct sw_net_shard *shards = sw_calloc(n, sizeof *shards);
    if (!memory || !nodes || !shards) {
        sw_free(memory);
        sw_free(nodes);
        sw_free(shards);
        return sw_err_nomem(err, "connections", n * sizeof *nodes);
    }

    struct order o = {g, memory, memory + n, memory + 2 * n, memory + 3 * n, 0, 0};
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

    for (size_t i = 0; i < n; i++)
        shards[o.place[i]] = s->node[i];
    sw_free(s->node);
    s->node = shards;
    sw_net_graph_reorder(g, o.place, nodes);
    sw_free(memory);

    return SW_OK;
}

/* Builds the new arrays and gives them to graph and sharding, which keep their old ones on errors.
 */
static int insert(struct insertion *in, struct sw_net_sharding *s, struct sw_net_graph *g, int more,
                  struct sw_err *err)
{
    size_t n = (size_t)g->count + 1 + 2 * (size_t)more;

    in->nodes = sw_calloc(n, sizeof *in->nodes);
    in->shards = sw_calloc(n, sizeof *in->shards);

    int rc = in->nodes && in->shards ? rebuild(in, err) : sw_err_nomem(err, "connections", n);
    if (rc != SW_OK) {
        for (int i = 0; i < in->count; i++)
            if (sw_net_is_bridge(&in->nodes[i]))
                sw_free(in->nodes[i].owned_name);

        sw_free(in->nodes);
        sw_free(in->shards);
        return rc;
    }

    sw_free(g->node);
    sw_free(s->node);
    g->node = in->nodes;
    g->count = in->count;
    s->node = in->shards;

    return order(s, g, err);
}

int sw_net_connect(struct sw_net_sharding *s, struct sw_net_graph *g, struct sw_err *err)
{
    size_t n = (size_t)g->count + 1, targets = SW_DISTS + (size_t)s->workers + 1;

    for (int i = 0; i < g->count; i++)
        targets += (size_t)g->node[i].src_count;

    struct insertion in = {.g = g, .s = s, .target = sw_calloc(targets, sizeof *in.target)};
    if (!in.target)
        return sw_err_nomem(err, "connections", targets * sizeof *in.target);

    find_targets(&in);
    targets = (size_t)in.targets;
    in.needed = sw_calloc(n * targets, sizeof(bool));
    in.moved = sw_calloc(n, sizeof(int));
    in.connection = sw_calloc(n * targets, sizeof(int));

    int rc = in.needed && in.moved && in.connection ? SW_OK : sw_err_nomem(err, "connections", n);
    int more = rc == SW_OK ? count_connections(&in) : 0;
    if (more > 0)
        rc = insert(&in, s, g, more, err);
    if (rc == SW_OK && more > 0)
        sw_net_graph_link(g);
    sw_free(in.target);
    sw_free(in.needed);
    sw_free(in.moved);
    sw_free(in.connection);

    return rc;
}
