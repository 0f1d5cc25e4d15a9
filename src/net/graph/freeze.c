/* Frozen parameters (job.freeze): no gradient, no update. A pattern names parameters, fc6.weight or
 * conv*, or a layer, fc6. Where nothing below a layer is trained and nothing of its own, backward
 * does not visit it at all. A layer that backward passes through has no gradients of its frozen
 * parameters to make: types that know this (skips_frozen) leave out that work when all of them are
 * frozen; else they are written aside and forgotten. A shared parameter is frozen where it is at
 * home. The parameter table has no slices and no updater state for a frozen parameter: every
 * version of it exists at once. */
#include "net/graph/graph.h"

#include <stdio.h>

bool sw_net_pattern_fits(const char *pattern, const char *layer, const char *param)
{
    char name[256];
    snprintf(name, sizeof name, "%s.%s", layer, param);
    return sw_str_match(pattern, name) || sw_str_match(pattern, layer);
}

bool sw_net_is_frozen_param(const struct sw_net_graph *g, const struct sw_net_graph_node *node,
                            const char *param)
{
    const struct sw_net_tie *share = sw_net_tie_of(node, param);
    const char *layer = share ? g->node[share->root].home : node->home;

    for (int i = 0; g->freeze && i < g->freeze->count; i++)
        if (sw_net_pattern_fits(g->freeze->items[i], layer, share ? share->root_param : param))
            return true;

    return false;
}

bool sw_net_may_train(const struct sw_net_graph *g, const struct sw_net_graph_node *node)
{
    const char *const *params = node->type->base.params;

    for (int k = 0; params && params[k]; k++)
        if (!sw_net_is_frozen_param(g, node, params[k]))
            return true;

    return false;
}
