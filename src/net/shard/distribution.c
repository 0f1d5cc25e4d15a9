/* The partitioner: chooses how every layer's output is distributed over the group, from layer types
 * and keys; shapes are not known yet. With one worker it only checks the keys. */
#include "net/shard/sharding.h"

#include "net/args.h"
#include <string.h>

/* Arguments of the pass. */
struct spreading {
    struct sw_net_sharding *s;
    const struct sw_net_graph *g;
    const struct sw_net_args *args;
    bool alone;
};

static const struct sw_net_shard *shard_of(const struct spreading *x,
                                           const struct sw_net_graph_node *node)
{
    return &x->s->node[node - x->g->node];
}

static const char *refusal(const struct spreading *x, const struct sw_net_graph_node *node,
                           enum sw_partition p)
{
    return sw_net_partition_refusal(x->s, x->g, (int)(node - x->g->node), p, x->args->workers);
}

/* The partition that the layer's key or the net-wide setting requests; *own: it is the layer's key.
 */
static enum sw_partition wanted(const struct spreading *x, const struct sw_net_graph_node *node,
                                bool *own)
{
    const struct sw_layer_conf *conf = node->section->common;
    *own = sw_section_is_set(node->section, "partition");
    return *own ? (enum sw_partition)conf->partition : x->args->partition;
}

/* Why a net-wide setting leaves a layer in rows whose columns are those of its sources, or NULL:
 * input data, and layers that cannot be split, may have fewer columns than there are workers. */
static const char *why_source_not(const struct spreading *x, const struct sw_net_graph_node *node,
                                  enum sw_partition p)
{
    bool by_columns =
        p == SW_PARTITION_INPUTS || (p == SW_PARTITION_COLUMNS && sw_net_node_reads_columns(node));

    for (int k = 0; k < node->src_count && by_columns && !shard_of(x, node)->joins; k++)
        if (x->s->node[node->src[k]].rows_only)
            return "its source cannot be split by columns";

    return NULL;
}

/* Does a layer have only as many columns as the data, or as a layer that cannot be split? */
static bool is_rows_only(const struct spreading *x, const struct sw_net_graph_node *node)
{
    const char *reason = refusal(x, node, SW_PARTITION_COLUMNS);
    bool any = false;

    if (reason && !node->type->keeps_columns)
        return true;
    if (node->type->split == SW_SPLIT_OUTPUTS || (shard_of(x, node)->joins && !reason))
        return false;

    for (int k = 0; k < node->src_count; k++)
        any = any || x->s->node[node->src[k]].rows_only;
    return any;
}

/* The distribution of a layer with a location. */
static struct sw_distribution spread_at(const struct spreading *x,
                                        const struct sw_net_graph_node *node)
{
    const struct sw_layer_conf *conf = node->section->common;
    const char *reason = refusal(x, node, SW_PARTITION_NONE), *type = node->type->base.name;

    if (sw_net_is_later_step(node) || sw_net_connects_steps(node))
        ; /* the first step reports it */
    else if (reason)
        sw_recipe_error(
            x->g->recipe, node->section, "location",
            "%s cannot be on one worker: %s; remove location, and every worker reads its own rows",
            type, reason);
    else if (sw_section_is_set(node->section, "partition") && conf->partition != SW_PARTITION_NONE)
        sw_recipe_error(x->g->recipe, node->section, "location",
                        "a layer with a location is not partitioned: remove its partition key");
    else if (conf->location >= x->args->workers && !x->alone)
        sw_recipe_error(x->g->recipe, node->section, "location",
                        "worker %lld of a group with %d workers, counted from 0: use a location "
                        "below %d, or cluster.workers_per_group = %lld",
                        (long long)conf->location, x->args->workers, x->args->workers,
                        (long long)conf->location + 1);

    return x->args->workers > 1
               ? (struct sw_distribution){.dist = SW_DIST_ONE, .at = (int)conf->location}
               : (struct sw_distribution){.dist = SW_DIST_ROWS};
}

static enum sw_dist dist_of(const struct spreading *x, const struct sw_net_graph_node *node)
{
    static const enum sw_dist dists[] = {[SW_PARTITION_ROWS] = SW_DIST_ROWS,
                                         [SW_PARTITION_COLUMNS] = SW_DIST_COLUMNS,
                                         [SW_PARTITION_INPUTS] = SW_DIST_SUMS,
                                         [SW_PARTITION_NONE] = SW_DIST_ONE};
    bool own;
    enum sw_partition p = wanted(x, node, &own);
    const struct sw_layer_type *type = node->type;

    if (sw_net_connects_steps(node) && p != SW_PARTITION_NONE)
        p = SW_PARTITION_ROWS;

    const char *reason = refusal(x, node, p);
    if (!reason && !own)
        reason = why_source_not(x, node, p);

    bool refused = reason != NULL;
    if (sw_net_connects_steps(node) || sw_net_is_later_step(node))
        ; /* the layer's first step reports it */
    else if (refused && own)
        sw_recipe_error(x->g->recipe, node->section, "partition",
                        "%s does not support this partition: %s; use 0%s, or remove the key",
                        type->base.name, reason,
                        refusal(x, node, SW_PARTITION_NONE) ? "" : " or none");
    else if (refused && x->args->workers > 1 && type->role != SW_ROLE_INPUT)
        sw_bytes_printf(&x->s->notes, "layer %s is split by rows: %s\n", node->home, reason);

    return refused || x->args->workers == 1 ? SW_DIST_ROWS : dists[p];
}

/* Columns of the output, computed by the type from those of the sources; begin gets the first
 * column of each source. */
static int64_t columns_by_type(const struct sw_net_sharding *s, const struct sw_net_graph *g, int i,
                               int64_t *begin)
{
    const struct sw_net_graph_node *node = &g->node[i];
    int64_t src[SW_LAYER_SRCS];

    memset(begin, 0, SW_LAYER_SRCS * sizeof *begin);
    for (int k = 0; k < node->src_count; k++)
        src[k] = s->node[node->src[k]].known_columns;

    return node->type->columns(node->conf, src, node->src_count, begin);
}

/* Columns of the output if the sources or the data determine them; else 0. */
static int64_t columns_of(const struct spreading *x, int i)
{
    const struct sw_net_graph_node *node = &x->g->node[i];
    const struct sw_layer_type *type = node->type;
    int64_t begin[SW_LAYER_SRCS];

    if (type->columns)
        return columns_by_type(x->s, x->g, i, begin);

    if (type->role == SW_ROLE_INPUT) {
        const struct sw_layer l = sw_net_graph_layer(x->g, i);
        const struct sw_net_field *f = sw_net_args_field(x->args, sw_layer_input_field(&l));
        return !f ? 0 : f->desc.ndim > 1 ? f->desc.dim[1] : 1;
    }

    return node->src_count > 0 && (type->split == SW_SPLIT_ELEMENTWISE || type->keeps_columns)
               ? x->s->node[node->src[0]].known_columns
               : 0;
}

/* Why the shape of the data that the layer reads prevents a split by columns, or NULL. */
static const char *why_not_data(const struct spreading *x, const struct sw_net_graph_node *node)
{
    if (!node->type->refuses_data || node->src_count == 0 ||
        x->g->node[node->src[0]].type->role != SW_ROLE_INPUT)
        return NULL;

    const struct sw_layer l = sw_net_graph_layer(x->g, node->src[0]);
    const struct sw_net_field *data = sw_net_args_field(x->args, sw_layer_input_field(&l));
    return data ? node->type->refuses_data(&data->desc) : NULL;
}

static void find_columns(const struct spreading *x, int i)
{
    const struct sw_net_graph_node *node = &x->g->node[i];
    struct sw_net_shard *shard = &x->s->node[i];

    shard->known_columns = columns_of(x, i);
    shard->joins = node->type->joins && node->type->joins(node->conf);
    shard->refuses_data = why_not_data(x, node);
}

struct sw_distribution sw_net_source_distribution(const struct sw_net_sharding *s,
                                                  const struct sw_net_graph *g, int i, int source)
{
    int64_t begin[SW_LAYER_SRCS];
    const struct sw_net_shard *shard = &s->node[i];
    if (shard->distribution.dist == SW_DIST_COLUMNS && shard->joins) {
        struct sw_distribution part = {.dist = SW_DIST_COLUMNS,
                                       .whole = columns_by_type(s, g, i, begin)};
        part.first = begin[source];
        return part;
    }

    if (shard->distribution.dist == SW_DIST_COLUMNS && !sw_net_node_reads_columns(&g->node[i]))
        return (struct sw_distribution){.dist = SW_DIST_FULL};
    if (shard->distribution.dist == SW_DIST_SUMS)
        return (struct sw_distribution){.dist = SW_DIST_COLUMNS};

    return shard->distribution;
}

/* The groups of columns that stay together: those of a layer whose channels have groups, unless
 * they line up with single columns anyway; else those of the first source. */
static int64_t groups_of(const struct spreading *x, const struct sw_net_graph_node *node)
{
    const struct sw_layer_type *type = node->type;
    if (type->split == SW_SPLIT_ELEMENTWISE)
        return shard_of(x, node)->joins ? 0 : x->s->node[node->src[0]].distribution.groups;

    int64_t groups = type->groups ? type->groups(node->conf) : 1;
    return groups > 1 && groups % x->args->workers ? groups : 0;
}

/* Layers with a tied parameter must all be in rows, or all on one worker, which alone has the
 * parameter. */
static void check_homes(const struct spreading *x, const struct sw_net_graph_node *node)
{
    for (int k = 0; k < node->tie_count; k++) {
        const struct sw_net_graph_node *root = &x->g->node[node->tie[k].root];
        bool located = sw_section_is_set(node->section, "location");

        if (sw_distribution_equal(shard_of(x, node)->distribution, shard_of(x, root)->distribution))
            continue;

        sw_recipe_error(x->g->recipe, node->section, located ? "location" : NULL,
                        "it shares %s with layer %s, which is on another worker: give both the "
                        "same location, or split both by rows",
                        node->tie[k].param, root->home);
    }
}

int sw_net_spread(struct sw_net_sharding *s, struct sw_net_graph *g, const struct sw_net_args *args,
                  bool alone, struct sw_err *err)
{
    const struct spreading x = {s, g, args, alone};

    for (int i = 0; i < g->count; i++) {
        const struct sw_net_graph_node *node = &g->node[i];
        struct sw_net_shard *shard = &s->node[i];

        find_columns(&x, i);
        shard->rows_only = is_rows_only(&x, node);
        shard->distribution = sw_section_is_set(node->section, "location")
                                  ? spread_at(&x, node)
                                  : (struct sw_distribution){.dist = dist_of(&x, node)};
        if (shard->distribution.dist == SW_DIST_COLUMNS)
            shard->distribution.groups = groups_of(&x, node);
        shard->from = shard->distribution;
        check_homes(&x, node);
    }

    return sw_recipe_status(g->recipe, err);
}
