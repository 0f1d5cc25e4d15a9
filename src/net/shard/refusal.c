/* Which partitions a layer can have, from its type, its keys and its columns, for any number of
 * workers. */
#include "net/shard/sharding.h"

static const char shares_parameters[] = "it shares a parameter with another layer";

/* Does a layer of any net of the recipe use its parameters? Their partition is the same in all
 * nets. */
static bool is_lent(const struct sw_net_graph *g, const struct sw_net_graph_node *node)
{
    for (const struct sw_section *s = sw_recipe_first(g->recipe, "layer"); s;
         s = sw_section_next(s)) {
        const struct sw_layer_type *type = (const struct sw_layer_type *)(const void *)s->type[0];
        const struct sw_strings *src = &((const struct sw_layer_conf *)s->common)->src;
        const int sources = type ? sw_layer_own_sources(type, s->conf[0], src->count) : 0;
        for (const struct sw_layer_borrow *b = type ? type->borrows : NULL; b && b->param; b++)
            if (b->sources == sources && sw_str_eq(src->items[b->src], node->home))
                return true;
    }

    return false;
}

static const char *why_not_columns(const struct sw_net_shard *shard, const struct sw_net_graph *g,
                                   const struct sw_net_graph_node *node, int workers)
{
    const struct sw_layer_type *type = node->type;

    if (node->place != SW_MACHINE_ALONE)
        return "the layers of a deep Boltzmann machine read both neighbors, which are in rows";
    if (node->is_shared)
        return shares_parameters;
    if (type->split == SW_SPLIT_NONE)
        return type->split_reason ? type->split_reason : "its type has no rule for this partition";
    if (shard->joins && shard->known_columns == 0)
        return "its number of columns is not known before setup";
    if (shard->joins && shard->known_columns < workers)
        return "it has fewer columns than there are workers";
    if (type->energy && is_lent(g, node))
        return "a reconstruction or a metric needs its whole weight; remove those layers, and use "
               "eval";

    const char *reason = type->refuses_split ? type->refuses_split(node->conf, workers) : NULL;
    return reason ? reason : shard->refuses_data;
}

/* Why its source cannot be split by columns for it. */
static const char *why_not_inputs(const struct sw_net_graph_node *node)
{
    const struct sw_layer_type *type = node->type;

    if (node->is_shared)
        return shares_parameters;
    if (!type->splits_inputs)
        return "its output is not a sum over parts of its inputs";

    return type->refuses_inputs ? type->refuses_inputs(node->conf) : NULL;
}

static const char *why_not_one(const struct sw_net_graph_node *node)
{
    enum sw_layer_role role = node->type->role;

    return node->chain              ? "a Gibbs chain runs over rows"
           : role == SW_ROLE_INPUT  ? "every worker reads its rows of the data"
           : role == SW_ROLE_OUTPUT ? "every worker writes its own rows"
                                    : NULL;
}

const char *sw_net_partition_refusal(const struct sw_net_sharding *s, const struct sw_net_graph *g,
                                     int i, enum sw_partition p, int workers)
{
    const struct sw_net_graph_node *node = &g->node[i];

    switch (p) {
    case SW_PARTITION_COLUMNS:
        return why_not_columns(&s->node[i], g, node, workers);
    case SW_PARTITION_INPUTS:
        return why_not_inputs(node);
    case SW_PARTITION_NONE:
        return why_not_one(node);
    case SW_PARTITION_ROWS:
        break;
    }

    return NULL;
}

bool sw_net_node_reads_columns(const struct sw_net_graph_node *node)
{
    const struct sw_layer_type *type = node->type;
    return type->split == SW_SPLIT_ELEMENTWISE || (type->groups && type->groups(node->conf) > 1);
}
