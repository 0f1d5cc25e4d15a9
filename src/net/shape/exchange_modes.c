/* Exchange modes of fully-connected layers (parallel training, section 5): decides for each layer
 * whether workers exchange gradients or factors. Only layers in rows exchange anything. If a
 * layer's own key cannot be satisfied, that is an error; for the net-wide setting it is a note. */
#include "net/shape/shapes.h"

enum sw_exchange_mode sw_net_key_exchange_mode(const struct sw_net_graph_node *node,
                                               const struct sw_net_args *args, bool *own)
{
    const struct sw_layer_conf *conf = node->section->common;
    *own = sw_section_is_set(node->section, "comm");
    return *own ? (enum sw_exchange_mode)conf->comm : args->comm.mode;
}

static bool has_parameters(const struct sw_net_graph_node *node)
{
    return node->type->base.params && node->type->base.params[0];
}

static const char no_factors[] =
    "the gradient is not a product of factors, unlike that of an inner_product";

const char *sw_net_factors_refusal(const struct sw_net_shapes *s, int i, struct sw_layer_factors *f)
{
    const struct sw_net_graph_node *node = &s->graph->node[i];
    const struct sw_layer_type *type = node->type;
    const char *reason = type->refuses_factors ? type->refuses_factors(node->conf) : NULL;

    if (!type->factors_of)
        return no_factors;
    if (node->is_shared)
        return "it shares a parameter with another layer";
    if (reason)
        return reason;
    if (!sw_net_shard_is_in_rows(s->sharding, i))
        return "it is not split by rows, so its gradient has one owner";
    if (sw_net_is_frozen_param(s->graph, node, "weight"))
        return "its weight is frozen";

    return type->factors_of(node->conf, &s->node[node->src[0]].layer.dst.desc, f) ? NULL
                                                                                  : no_factors;
}

/* Counts the work of the layers below layer i: their computing overlaps with the exchange of layer
 * i, and their gradients share its links. */
static void count_below(const struct sw_net_shapes *s, int i, struct sw_net_exchange_layer *l)
{
    for (int j = 0; j < i; j++) {
        const struct sw_net_shape *below = &s->node[j];

        l->forward_flops_below += below->layer.flops_forward;

        l->backward_flops_below += below->has_backward ? below->layer.flops_backward : 0;
        for (int p = 0; p < below->layer.param_count && below->comm == SW_EXCHANGE_PS; p++)
            if (!sw_net_is_frozen_param(s->graph, &s->graph->node[j], below->layer.param[p].name))
                l->whole_below += sw_desc_count(&below->layer.param[p].layout);
    }
}

static enum sw_exchange_mode choose(const struct sw_net_shapes *s, const struct sw_net_args *args,
                                    int i, const struct sw_layer_factors *f)
{
    struct sw_net_exchange_layer l = {.name = s->graph->node[i].name,
                                      .rows = args->rows,
                                      .steps = f->rows / args->rows,
                                      .inputs = f->inputs,
                                      .outputs = f->outputs};

    count_below(s, i, &l);
    return args->comm.choose(args->comm.user, &l);
}

enum sw_exchange_mode sw_net_find_exchange_mode(struct sw_net_shapes *s,
                                                const struct sw_net_args *args, int i,
                                                struct sw_bytes *others)
{
    const struct sw_net_graph_node *node = &s->graph->node[i];
    bool own;
    enum sw_exchange_mode mode = sw_net_key_exchange_mode(node, args, &own);
    struct sw_layer_factors f;

    if (node->owned_name || mode == SW_EXCHANGE_PS || (!own && !has_parameters(node)))
        return SW_EXCHANGE_PS;

    const char *reason = sw_net_factors_refusal(s, i, &f);
    if (!reason && mode != SW_EXCHANGE_AUTO)
        reason = args->comm.refuses[mode];

    if (reason && own)
        sw_recipe_error(s->graph->recipe, node->section, "comm",
                        "%s cannot exchange factors: %s; use ps, or remove the key",
                        node->type->base.name, reason);

    if (args->comm.workers < 2 || !args->training)
        return SW_EXCHANGE_PS;

    if (reason == no_factors && !own)
        sw_bytes_printf(others, "%s%s", others->length ? ", " : "", node->name);
    else if (reason && !own)
        sw_bytes_printf(&s->comm_notes, "ps (whole gradients) for %s: %s\n", node->name, reason);

    if (reason)
        return SW_EXCHANGE_PS;

    return mode == SW_EXCHANGE_AUTO ? choose(s, args, i, &f) : mode;
}

void sw_net_end_exchange_modes(struct sw_net_shapes *s, struct sw_bytes *others)
{
    if (others->length > 0)
        sw_bytes_printf(&s->comm_notes, "ps (whole gradients) for %s: %s\n", sw_bytes_text(others),
                        no_factors);
    sw_bytes_fini(others);
}
