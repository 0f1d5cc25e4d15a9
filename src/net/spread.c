/* The partitioner: decides how every layer's output is spread over the group, and inserts a
 * connection (a `reshard` node) wherever a reader wants its source spread another way. Works on
 * types and keys; shapes come later. With one worker there is nothing to do but to check the keys.
 */
#include "net/net_private.h"

#include "base/os.h"
#include "base/str.h"
#include <string.h>

static const struct sw_layer_type *type_of(const struct sw_net_node *n)
{
    return n->layer.type;
}

/* What the layer's own key or the net-wide setting says, and whether it is the layer's own. */
static enum sw_partition wanted(const struct sw_net *net, const struct sw_net_node *node, bool *own)
{
    const struct sw_layer_conf *conf = node->section->common;
    *own = sw_section_is_set(node->section, "partition");
    return *own ? (enum sw_partition)conf->partition : net->partition;
}

static const char shares_parameters[] = "it shares a parameter with another layer";

/* Why the layer cannot be split by columns, or NULL. */
static const char *why_not(const struct sw_net *net, const struct sw_net_node *node)
{
    const struct sw_layer_type *type = type_of(node);
    if (node->is_shared)
        return shares_parameters;
    if (type->split == SW_SPLIT_NONE)
        return type->split_reason ? type->split_reason : "it has no rule for it";
    return type->refuses_split ? type->refuses_split(node->layer.conf, net->workers) : NULL;
}

/* Why a net-wide setting leaves a layer whose columns are those of its sources in rows, or NULL:
 * the data and what reads all of its source in rows may have fewer columns than there are workers.
 */
static const char *why_source_not(const struct sw_net *net, const struct sw_net_node *node)
{
    for (int k = 0; k < node->layer.src_count && type_of(node)->split == SW_SPLIT_ELEMENTWISE; k++)
        if (net->nodes[node->src[k]].rows_only)
            return "what it reads cannot be split by columns";
    return NULL;
}

/* Does a layer have only as many columns as the data, or as a layer that cannot be split? */
static bool is_rows_only(const struct sw_net *net, const struct sw_net_node *node)
{
    bool any = false;
    if (why_not(net, node) && !type_of(node)->keeps_columns)
        return true;
    if (type_of(node)->split == SW_SPLIT_OUTPUTS)
        return false;
    for (int k = 0; k < node->layer.src_count; k++)
        any = any || net->nodes[node->src[k]].rows_only;
    return any;
}

/* Why the layer cannot be whole on one worker, or NULL. */
static const char *why_not_one(const struct sw_net_node *node)
{
    enum sw_layer_role role = type_of(node)->role;
    return node->is_shared          ? shares_parameters
           : role == SW_ROLE_NEURON ? NULL
           : role == SW_ROLE_INPUT  ? "every worker reads its rows of the data"
                                    : "every worker counts its own rows";
}

static enum sw_dist dist_of(struct sw_net *net, const struct sw_net_node *node)
{
    bool own;
    enum sw_partition p = wanted(net, node, &own);
    const struct sw_layer_type *type = type_of(node);
    const char *reason = p == SW_PARTITION_COLUMNS ? why_not(net, node)
                         : p == SW_PARTITION_NONE  ? why_not_one(node)
                                                   : NULL;
    if (!reason && !own && p == SW_PARTITION_COLUMNS)
        reason = why_source_not(net, node);
    bool refused = reason != NULL;
    if (refused && own)
        sw_recipe_error(net->recipe, node->section, "partition", "%s cannot: %s", type->base.name,
                        reason);
    else if (refused && net->workers > 1 && type->role != SW_ROLE_INPUT)
        sw_buf_printf(&net->notes, "layer %s is split by rows: %s\n", node->layer.name, reason);
    if (refused || p == SW_PARTITION_ROWS || net->workers == 1)
        return SW_DIST_ROWS;
    return p == SW_PARTITION_COLUMNS ? SW_DIST_COLUMNS : SW_DIST_ONE;
}

/* How a layer wants its sources spread. */
static enum sw_dist source_dist(const struct sw_net_node *node)
{
    if (node->dist == SW_DIST_COLUMNS && type_of(node)->split == SW_SPLIT_OUTPUTS)
        return SW_DIST_FULL;
    return node->dist;
}

/* ---- inserting ---- */

struct insertion {
    struct sw_net_node *nodes; /* the new array */
    int *moved;                /* new place of each old node */
    int *connection;           /* [old nodes][SW_DISTS]: new place of its connection, or -1 */
    int count;
};

static int count_connections(const struct sw_net *net, bool (*needed)[SW_DISTS])
{
    int count = 0;
    for (int i = 0; i < net->count; i++)
        for (int k = 0; k < net->nodes[i].layer.src_count; k++) {
            int src = net->nodes[i].src[k];
            enum sw_dist want = source_dist(&net->nodes[i]);
            if (net->nodes[src].dist == want || needed[src][want])
                continue;
            needed[src][want] = true;
            count++;
        }
    return count;
}

static int add_connection(struct insertion *in, const struct sw_net_node *old, int src,
                          enum sw_dist to, struct sw_err *err)
{
    struct sw_net_node *node = &in->nodes[in->count];
    node->owned_name = sw_format("%s:%s", old->layer.name, sw_dist_name(to));
    if (!node->owned_name)
        return sw_err_nomem(err, "a connection's name", 0);
    node->section = old->section;
    node->dist = to;
    node->from = old->dist;
    node->layer = (struct sw_layer){
        .name = node->owned_name, .type = &sw_net_reshard, .index = in->count, .src_count = 1};
    node->src[0] = in->moved[src];
    in->connection[src * SW_DISTS + (int)to] = in->count++;
    return SW_OK;
}

/* Copies the nodes in order, each followed by its connections. */
static int rebuild(struct sw_net *net, struct insertion *in, bool (*needed)[SW_DISTS],
                   struct sw_err *err)
{
    int rc = SW_OK;
    for (int i = 0; i < net->count && rc == SW_OK; i++) {
        struct sw_net_node *node = &in->nodes[in->count];
        *node = net->nodes[i];
        for (int k = 0; k < node->layer.src_count; k++) {
            int src = net->nodes[i].src[k];
            enum sw_dist want = source_dist(node);
            node->src[k] = net->nodes[src].dist == want
                               ? in->moved[src]
                               : in->connection[src * SW_DISTS + (int)want];
        }
        for (int k = 0; k < node->share_count; k++)
            node->share[k].root = in->moved[node->share[k].root];
        node->layer.index = in->count;
        in->moved[i] = in->count++;
        for (int d = 0; d < SW_DISTS && rc == SW_OK; d++)
            if (needed[i][d])
                rc = add_connection(in, &net->nodes[i], i, (enum sw_dist)d, err);
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

static int insert(struct sw_net *net, struct sw_err *err)
{
    size_t n = (size_t)net->count + 1;
    bool(*needed)[SW_DISTS] = sw_calloc(n, sizeof *needed);
    struct insertion in = {.moved = sw_calloc(n, sizeof(int)),
                           .connection = sw_calloc(n * SW_DISTS, sizeof(int))};
    int rc = needed && in.moved && in.connection ? SW_OK : sw_err_nomem(err, "connections", n);
    int more = rc == SW_OK ? count_connections(net, needed) : 0;
    if (more > 0) {
        in.nodes = sw_calloc(n + (size_t)more, sizeof *in.nodes);
        rc = in.nodes ? rebuild(net, &in, needed, err) : sw_err_nomem(err, "connections", n);
        if (in.nodes) {
            sw_free(net->nodes);
            net->nodes = in.nodes;
            net->count = in.count;
            link_again(net);
        }
    }
    sw_free(needed);
    sw_free(in.moved);
    sw_free(in.connection);
    return rc;
}

int sw_net_spread(struct sw_net *net, struct sw_err *err)
{
    for (int i = 0; i < net->count; i++) {
        struct sw_net_node *node = &net->nodes[i];
        node->rows_only = is_rows_only(net, node);
        node->dist = node->from = dist_of(net, node);
    }
    int rc = sw_recipe_verdict(net->recipe, err);
    return rc == SW_OK && net->workers > 1 ? insert(net, err) : rc;
}
