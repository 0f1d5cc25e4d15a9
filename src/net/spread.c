/* The partitioner: decides how every layer's output is spread over the group. Works on types and
 * keys; shapes come later. With one worker there is nothing to do but to check the keys. */
#include "net/net_private.h"

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

/* The same by the shape of the data that it reads, if it reads some. */
static const char *why_not_data(const struct sw_net *net, const struct sw_net_node *node)
{
    const struct sw_net_node *source = &net->nodes[node->src[0]];
    if (type_of(source)->role != SW_ROLE_INPUT)
        return NULL;
    const struct sw_desc *data = sw_net_find_field(net, sw_layer_input_field(&source->layer));
    return data ? type_of(node)->refuses_data(data) : NULL;
}

/* Does a layer of any net of the recipe borrow its parameters? They have one cut for all nets. */
static bool is_lent(const struct sw_net *net, const struct sw_net_node *node)
{
    for (const struct sw_section *s = sw_recipe_first(net->recipe, "layer"); s;
         s = sw_section_next(s)) {
        const struct sw_layer_type *type = (const struct sw_layer_type *)(const void *)s->type[0];
        const struct sw_strings *src = &((const struct sw_layer_conf *)s->common)->src;
        for (const struct sw_layer_borrow *b = type ? type->borrows : NULL; b && b->param; b++)
            if (b->sources == src->count && sw_str_eq(src->items[b->src], node->layer.home))
                return true;
    }
    return false;
}

/* Why the layer cannot be split by columns, or NULL. */
static const char *why_not(const struct sw_net *net, const struct sw_net_node *node)
{
    const struct sw_layer_type *type = type_of(node);
    if (node->is_shared)
        return shares_parameters;
    if (type->split == SW_SPLIT_NONE)
        return type->split_reason ? type->split_reason : "it has no rule for it";
    if (node->joins && node->known_columns == 0)
        return "nothing tells beforehand how many columns it has";
    if (node->joins && node->known_columns < net->workers)
        return "it has fewer columns than there are workers";
    if (type->energy && is_lent(net, node))
        return "a reconstruction or a metric needs its whole weight; leave those out, and ask eval";
    const char *reason =
        type->refuses_split ? type->refuses_split(node->layer.conf, net->workers) : NULL;
    return !reason && type->refuses_data ? why_not_data(net, node) : reason;
}

/* Does a layer that is split by columns read columns, too? */
static bool reads_columns(const struct sw_net_node *node)
{
    const struct sw_layer_type *type = type_of(node);
    return type->split == SW_SPLIT_ELEMENTWISE ||
           (type->groups && type->groups(node->layer.conf) > 1);
}

/* Why a net-wide setting leaves a layer whose columns are those of its sources in rows, or NULL:
 * the data and what reads all of its source in rows may have fewer columns than there are workers.
 */
static const char *why_source_not(const struct sw_net *net, const struct sw_net_node *node,
                                  enum sw_partition p)
{
    bool by_columns =
        p == SW_PARTITION_INPUTS || (p == SW_PARTITION_COLUMNS && reads_columns(node));
    for (int k = 0; k < node->layer.src_count && by_columns && !node->joins; k++)
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
    if (type_of(node)->split == SW_SPLIT_OUTPUTS || (node->joins && !why_not(net, node)))
        return false;
    for (int k = 0; k < node->layer.src_count; k++)
        any = any || net->nodes[node->src[k]].rows_only;
    return any;
}

/* Why its source cannot be split by columns for it, or NULL. */
static const char *why_not_inputs(const struct sw_net_node *node)
{
    const struct sw_layer_type *type = type_of(node);
    if (node->is_shared)
        return shares_parameters;
    if (!type->splits_inputs)
        return "no sum over parts of its inputs is its output";
    return type->refuses_inputs ? type->refuses_inputs(node->layer.conf) : NULL;
}

/* Why the layer cannot be whole on one worker, or NULL. */
static const char *why_not_one(const struct sw_net_node *node)
{
    enum sw_layer_role role = type_of(node)->role;
    return node->chain              ? "the Gibbs chain is one of rows"
           : role == SW_ROLE_INPUT  ? "every worker reads its rows of the data"
           : role == SW_ROLE_OUTPUT ? "every worker hands in its own rows"
                                    : NULL;
}

static const char *why_not_way(const struct sw_net *net, const struct sw_net_node *node,
                               enum sw_partition p)
{
    switch (p) {
    case SW_PARTITION_COLUMNS:
        return why_not(net, node);
    case SW_PARTITION_INPUTS:
        return why_not_inputs(node);
    case SW_PARTITION_NONE:
        return why_not_one(node);
    case SW_PARTITION_ROWS:
        break;
    }
    return NULL;
}

/* The spread of a layer that says where it is. */
static struct sw_spread spread_at(struct sw_net *net, const struct sw_net_node *node)
{
    const struct sw_layer_conf *conf = node->section->common;
    const char *reason = why_not_one(node), *type = type_of(node)->base.name;
    if (sw_net_is_later_step(node) || sw_net_connects_steps(node))
        ; /* the first step says it */
    else if (reason)
        sw_recipe_error(net->recipe, node->section, "location",
                        "%s cannot be on one worker: %s; leave location out, and it reads its rows "
                        "of what is elsewhere",
                        type, reason);
    else if (sw_section_is_set(node->section, "partition") && conf->partition != SW_PARTITION_NONE)
        sw_recipe_error(net->recipe, node->section, "location",
                        "a layer with a location is whole on that worker: leave its partition out");
    else if (conf->location >= net->workers && !net->alone)
        sw_recipe_error(net->recipe, node->section, "location",
                        "worker %lld of a group that has %d, counted from 0: say a location below "
                        "%d, or cluster.workers_per_group = %lld",
                        (long long)conf->location, net->workers, net->workers,
                        (long long)conf->location + 1);
    return net->workers > 1 ? (struct sw_spread){.dist = SW_DIST_ONE, .at = (int)conf->location}
                            : (struct sw_spread){.dist = SW_DIST_ROWS};
}

static enum sw_dist dist_of(struct sw_net *net, const struct sw_net_node *node)
{
    static const enum sw_dist dists[] = {[SW_PARTITION_ROWS] = SW_DIST_ROWS,
                                         [SW_PARTITION_COLUMNS] = SW_DIST_COLUMNS,
                                         [SW_PARTITION_INPUTS] = SW_DIST_SUMS,
                                         [SW_PARTITION_NONE] = SW_DIST_ONE};
    bool own;
    enum sw_partition p = wanted(net, node, &own);
    const struct sw_layer_type *type = type_of(node);
    if (sw_net_connects_steps(node) && p != SW_PARTITION_NONE)
        p = SW_PARTITION_ROWS;
    const char *reason = why_not_way(net, node, p);
    if (!reason && !own)
        reason = why_source_not(net, node, p);
    bool refused = reason != NULL;
    if (sw_net_connects_steps(node) || sw_net_is_later_step(node))
        ; /* the layer's first step says it */
    else if (refused && own)
        sw_recipe_error(net->recipe, node->section, "partition",
                        "%s cannot: %s; say 0%s, or leave it out", type->base.name, reason,
                        why_not_one(node) ? "" : " or none");
    else if (refused && net->workers > 1 && type->role != SW_ROLE_INPUT)
        sw_buf_printf(&net->notes, "layer %s is split by rows: %s\n", node->layer.home, reason);
    return refused || net->workers == 1 ? SW_DIST_ROWS : dists[p];
}

/* Columns of the output as far as those of the sources tell them, and where these begin there. */
static int64_t columns_of(const struct sw_net *net, const struct sw_net_node *node, int64_t *begin)
{
    const struct sw_layer *l = &node->layer;
    int64_t src[SW_LAYER_SRCS];
    memset(begin, 0, SW_LAYER_SRCS * sizeof *begin);
    for (int k = 0; k < l->src_count; k++)
        src[k] = net->nodes[node->src[k]].known_columns;
    if (l->type->columns)
        return l->type->columns(l->conf, src, l->src_count, begin);
    if (l->type->role == SW_ROLE_INPUT) {
        const struct sw_desc *d = sw_net_find_field(net, sw_layer_input_field(l));
        return !d ? 0 : d->ndim > 1 ? d->dim[1] : 1;
    }
    return l->src_count > 0 && (l->type->split == SW_SPLIT_ELEMENTWISE || l->type->keeps_columns)
               ? src[0]
               : 0;
}

static void find_columns(const struct sw_net *net, struct sw_net_node *node)
{
    int64_t begin[SW_LAYER_SRCS];
    const struct sw_layer_type *type = type_of(node);
    node->known_columns = columns_of(net, node, begin);
    node->joins = type->joins && type->joins(node->layer.conf);
}

struct sw_spread sw_net_source_spread(const struct sw_net *net, const struct sw_net_node *node,
                                      int source)
{
    int64_t begin[SW_LAYER_SRCS];
    if (node->spread.dist == SW_DIST_COLUMNS && node->joins) {
        struct sw_spread part = {.dist = SW_DIST_COLUMNS, .whole = columns_of(net, node, begin)};
        part.first = begin[source];
        return part;
    }
    if (node->spread.dist == SW_DIST_COLUMNS && !reads_columns(node))
        return (struct sw_spread){.dist = SW_DIST_FULL};
    if (node->spread.dist == SW_DIST_SUMS)
        return (struct sw_spread){.dist = SW_DIST_COLUMNS};
    return node->spread;
}

/* The groups of columns that stay together: those of a layer whose channels have groups, unless
 * they line up with single columns anyway; else those of the first source. */
static int64_t groups_of(const struct sw_net *net, const struct sw_net_node *node)
{
    const struct sw_layer_type *type = type_of(node);
    if (type->split == SW_SPLIT_ELEMENTWISE)
        return node->joins ? 0 : net->nodes[node->src[0]].spread.groups;
    int64_t groups = type->groups ? type->groups(node->layer.conf) : 1;
    return groups > 1 && groups % net->workers ? groups : 0;
}

bool sw_net_is_elsewhere(const struct sw_net *net, const struct sw_net_node *node)
{
    return node->spread.dist == SW_DIST_ONE && node->spread.at != net->worker;
}

/* Layers that share a parameter are in rows, or all on one worker, who alone has it then. */
static void check_homes(struct sw_net *net, const struct sw_net_node *node)
{
    for (int k = 0; k < node->share_count; k++) {
        const struct sw_net_node *root = &net->nodes[node->share[k].root];
        bool located = sw_section_is_set(node->section, "location");
        if (sw_spread_equal(node->spread, root->spread))
            continue;
        sw_recipe_error(net->recipe, node->section, located ? "location" : NULL,
                        "it shares %s with layer %s, which is not where it is: give both the same "
                        "location, or leave them in rows",
                        node->share[k].param, root->layer.home);
    }
}

int sw_net_spread(struct sw_net *net, struct sw_err *err)
{
    for (int i = 0; i < net->count; i++) {
        struct sw_net_node *node = &net->nodes[i];
        find_columns(net, node);
        node->rows_only = is_rows_only(net, node);
        node->spread = sw_section_is_set(node->section, "location")
                           ? spread_at(net, node)
                           : (struct sw_spread){.dist = dist_of(net, node)};
        if (node->spread.dist == SW_DIST_COLUMNS)
            node->spread.groups = groups_of(net, node);
        node->from = node->spread;
        check_homes(net, node);
    }
    int rc = sw_recipe_verdict(net->recipe, err);
    return rc == SW_OK && net->workers > 1 ? sw_net_connect(net, err) : rc;
}
