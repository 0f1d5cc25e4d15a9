/* Nodes of a net's graph: what can be asked of them, how they are moved and freed. */
#include "net/graph/graph.h"

#include "base/hash.h"
#include "base/os.h"

struct sw_layer sw_net_graph_layer(const struct sw_net_graph *g, int i)
{
    const struct sw_net_graph_node *node = &g->node[i];

    return (struct sw_layer){.name = node->name,
                             .home = node->home,
                             .type = node->type,
                             .conf = node->conf,
                             .id = sw_hash_name(node->name),
                             .src_count = node->src_count};
}

void sw_net_graph_reorder(struct sw_net_graph *g, const int *place, struct sw_net_graph_node *nodes)
{
    for (int i = 0; i < g->count; i++) {
        struct sw_net_graph_node *node = &nodes[place[i]];

        *node = g->node[i];
        for (int k = 0; k < node->src_count; k++)
            node->src[k] = place[node->src[k]];
        for (int k = 0; k < node->tie_count; k++)
            node->tie[k].root = place[node->tie[k].root];
    }

    sw_free(g->node);
    g->node = nodes;
}

void sw_net_graph_link(struct sw_net_graph *g)
{
    for (int i = 0; i < g->count; i++)
        g->node[i].readers = 0;

    for (int i = 0; i < g->count; i++)
        for (int k = 0; k < g->node[i].src_count; k++)
            g->node[g->node[i].src[k]].readers++;
}

const struct sw_net_tie *sw_net_tie_of(const struct sw_net_graph_node *node, const char *param)
{
    for (int s = 0; s < node->tie_count; s++)
        if (sw_str_eq(node->tie[s].param, param))
            return &node->tie[s];
    return NULL;
}

void sw_net_graph_fini(struct sw_net_graph *g)
{
    for (int i = 0; i < g->count && g->node; i++) {
        sw_free(g->node[i].owned_name);
        sw_free(g->node[i].owned_conf);
    }

    sw_free(g->node);
    *g = (struct sw_net_graph){0};
}
