/* How the gradients of fully-connected layers come together (parallel training, section 5): says
 * for each layer whether workers give gradients or factors. Only layers in rows have something to
 * exchange. What a layer itself asks for and cannot have is an error, what is asked for net-wide a
 * note. */
#include "net/net_private.h"

/* What the layer's own key or the net-wide setting says, and whether it is the layer's own. */
static enum sw_comm_way wanted(const struct sw_net *net, const struct sw_net_node *node, bool *own)
{
    const struct sw_layer_conf *conf = node->section->common;
    *own = sw_section_is_set(node->section, "comm");
    return *own ? (enum sw_comm_way)conf->comm : net->comm.way;
}

static bool has_parameters(const struct sw_net_node *node)
{
    return node->layer.type->base.params && node->layer.type->base.params[0];
}

static const char no_factors[] = "no product of factors, as that of an inner_product is";

/* Why the layer has no factors to exchange, with what to do about it, or NULL. */
static const char *why_not(const struct sw_net *net, const struct sw_net_node *node,
                           struct sw_layer_factors *f)
{
    const struct sw_layer_type *type = node->layer.type;
    const char *reason = type->refuses_factors ? type->refuses_factors(node->layer.conf) : NULL;
    if (!type->factors_of)
        return no_factors;
    if (node->is_shared)
        return "it shares a parameter with another layer";
    if (reason)
        return reason;
    if (node->spread.dist != SW_DIST_ROWS)
        return "it is not split by rows, so that its gradient has one owner";
    if (sw_net_is_frozen_param(net, node, "weight"))
        return "its weight is frozen";
    return type->factors_of(node->layer.conf, &net->nodes[node->src[0]].layer.dst.desc, f)
               ? NULL
               : no_factors;
}

/* What computes while this layer's parameters are on their way, and shares the links with them: the
 * layers below. */
static void count_below(const struct sw_net *net, const struct sw_net_node *node,
                        struct sw_net_comm_layer *l)
{
    for (const struct sw_net_node *n = net->nodes; n < node; n++) {
        l->forward_flops_below += n->layer.flops_forward;
        l->backward_flops_below += n->has_backward ? n->layer.flops_backward : 0;
        for (int p = 0; p < n->layer.param_count && n->comm == SW_COMM_PS; p++)
            if (!sw_net_is_frozen_param(net, n, n->layer.param[p].name))
                l->whole_below += sw_desc_count(&n->layer.param[p].layout);
    }
}

static enum sw_comm_way choose(const struct sw_net *net, const struct sw_net_node *node,
                               const struct sw_layer_factors *f)
{
    struct sw_net_comm_layer l = {.name = node->layer.name,
                                  .steps = f->rows / net->rows,
                                  .inputs = f->inputs,
                                  .outputs = f->outputs};
    count_below(net, node, &l);
    return net->comm.choose(net->comm.user, &l);
}

void sw_net_find_comm(struct sw_net *net, struct sw_net_node *node)
{
    bool own;
    enum sw_comm_way way = wanted(net, node, &own);
    struct sw_layer_factors f;
    node->comm = SW_COMM_PS;
    if (!node->section || node->owned_name || way == SW_COMM_PS || (!own && !has_parameters(node)))
        return;
    const char *reason = why_not(net, node, &f);
    if (!reason && way != SW_COMM_AUTO)
        reason = net->comm.refuses[way];
    if (reason && own)
        sw_recipe_error(net->recipe, node->section, "comm",
                        "%s cannot: %s; say ps, or leave it out", node->layer.type->base.name,
                        reason);
    if (net->comm.workers < 2 || !net->training)
        return;
    if (reason == no_factors && !own)
        sw_buf_printf(&net->comm_others, "%s%s", net->comm_others.length ? ", " : "",
                      node->layer.name);
    else if (reason && !own)
        sw_buf_printf(&net->comm_notes, "whole gradients of %s: %s\n", node->layer.name, reason);
    if (!reason)
        node->comm = way == SW_COMM_AUTO ? choose(net, node, &f) : way;
}

void sw_net_end_comm(struct sw_net *net)
{
    if (net->comm_others.length > 0)
        sw_buf_printf(&net->comm_notes, "whole gradients of %s: %s\n",
                      sw_buf_text(&net->comm_others), no_factors);
    sw_buf_fini(&net->comm_others);
}

enum sw_comm_way sw_net_comm_way(const struct sw_net *net, int i)
{
    return net->nodes[i].comm;
}

enum sw_comm_way sw_net_comm_asked(const struct sw_net *net, int i)
{
    bool own;
    return net->nodes[i].owned_name ? SW_COMM_PS : wanted(net, &net->nodes[i], &own);
}

const char *sw_net_comm_notes(const struct sw_net *net)
{
    return sw_buf_text(&net->comm_notes);
}

void sw_net_bind_factors(struct sw_net *net, int i, float *x, float *dy)
{
    net->nodes[i].layer.factors.x = x;
    net->nodes[i].layer.factors.dy = dy;
}
