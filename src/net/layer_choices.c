/* Questions of a planner, answered by the rules of the stages that build a net. */
#include "net/layer_choices.h"

#include "net/net_private.h"

/* The connection says how many they are. */
static const char few_source_columns[] = "its source has fewer columns than there are workers";

/* Why the sources of a layer cannot be split by columns for it, or NULL. */
static const char *why_not_sources(const struct sw_net *net, int i, enum sw_partition p,
                                   int workers)
{
    const struct sw_net_graph_node *node = &net->graph.node[i];
    const struct sw_distribution columns = {.dist = SW_DIST_COLUMNS};

    if (p == SW_PARTITION_NONE || net->sharding.node[i].joins ||
        (p == SW_PARTITION_COLUMNS && !sw_net_node_reads_columns(node)))
        return NULL;

    for (int k = 0; k < node->src_count; k++)
        if (!sw_distribution_suits(columns, net->shapes.node[node->src[k]].columns, workers))
            return few_source_columns;
    return NULL;
}

bool sw_net_is_unrolled(const struct sw_net *net, int i)
{
    const struct sw_net_graph_node *node = &net->graph.node[i];
    return node->step >= 0 || node->owned_name || sw_net_connects_steps(node);
}

const char *sw_net_refuses_partition(const struct sw_net *net, int i, enum sw_partition p,
                                     int workers)
{
    const char *reason = sw_net_partition_refusal(&net->sharding, &net->graph, i, p, workers);

    if (p == SW_PARTITION_ROWS || reason)
        return reason;
    if (sw_net_is_unrolled(net, i))
        return "time steps of a layer are split by rows";

    if (p == SW_PARTITION_NONE && net->graph.node[i].is_shared)
        return "it shares a parameter with another layer";

    return why_not_sources(net, i, p, workers);
}

bool sw_net_reads_columns(const struct sw_net *net, int i)
{
    return sw_net_node_reads_columns(&net->graph.node[i]);
}

bool sw_net_joins_columns(const struct sw_net *net, int i)
{
    return net->sharding.node[i].joins;
}

int64_t sw_net_columns(const struct sw_net *net, int i)
{
    return net->shapes.node[i].columns;
}

struct sw_net_restorable sw_net_restorable(const struct sw_net *net, int i)
{
    const struct sw_device_throughput any = {1, 1, 1};
    const bool read = net->aliases.node[i].root == i && !net->shapes.node[i].absent &&
                      sw_net_read_in_backward(&net->aliases, i);

    return (struct sw_net_restorable){
        .by_recomputing = read && sw_net_can_recompute(&net->aliases, i),
        .by_offloading = read && sw_net_can_offload(&net->aliases, i, &any)};
}

const char *sw_net_refuses_factors(const struct sw_net *net, int i, struct sw_layer_factors *f)
{
    return sw_net_is_unrolled(net, i) ? "time steps of a layer exchange whole gradients"
                                      : sw_net_factors_refusal(&net->shapes, i, f);
}
