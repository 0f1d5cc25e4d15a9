/* Frozen parameters (job.freeze): no gradient, no update. A pattern names parameters, fc6.weight or
 * conv*, or a layer, fc6. Where nothing below a layer is trained and nothing of its own, backward
 * does not visit it at all. A layer that backward passes through has no gradients of its frozen
 * parameters to make: types that know this (skips_frozen) leave out that work when all of them are
 * frozen; else they are written aside and forgotten. A shared parameter is frozen where it is at
 * home. */
#include "net/net_private.h"

#include "base/str.h"
#include <stdio.h>

bool sw_net_pattern_fits(const char *pattern, const char *layer, const char *param)
{
    char name[256];
    snprintf(name, sizeof name, "%s.%s", layer, param);
    return sw_str_match(pattern, name) || sw_str_match(pattern, layer);
}

bool sw_net_is_frozen_param(const struct sw_net *net, const struct sw_net_node *node,
                            const char *param)
{
    const struct sw_net_share *share = sw_net_share_of(node, param);
    const char *layer = share ? net->nodes[share->root].layer.home : node->layer.home;
    for (int i = 0; net->freeze && i < net->freeze->count; i++)
        if (sw_net_pattern_fits(net->freeze->items[i], layer, share ? share->root_param : param))
            return true;
    return false;
}

bool sw_net_may_train(const struct sw_net *net, const struct sw_net_node *node)
{
    const char *const *params = node->layer.type->base.params;
    for (int k = 0; params && params[k]; k++)
        if (!sw_net_is_frozen_param(net, node, params[k]))
            return true;
    return false;
}

void sw_net_settle_frozen(const struct sw_net *net, struct sw_net_node *node)
{
    const struct sw_layer *l = &node->layer;
    node->trains = false;
    for (int k = 0; k < l->param_count; k++) {
        node->frozen[k] = sw_net_is_frozen_param(net, node, l->param[k].name);
        node->trains = node->trains || !node->frozen[k];
    }
}

bool sw_net_writes_aside(const struct sw_net_node *node, int param)
{
    bool left_out = node->layer.type->skips_frozen && !node->trains;
    return node->has_backward && node->frozen[param] && !left_out;
}
