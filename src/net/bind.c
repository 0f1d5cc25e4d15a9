/* Binds the pointers of a net's layers: arena memory, parameters, buffers, recurrent state, data
 * fields, step scalars. */
#include "base/os.h"
#include "device/op.h"
#include "kernels/ops/pixels.h"
#include "net/layers/bridge.h"
#include "net/layers/steps.h"
#include "net/net_private.h"

#include <stdio.h>

/* ---- The arena ---- */

static void bind_outputs(struct sw_net *net)
{
    for (int i = 0; i < net->graph.count; i++) {
        struct sw_layer *l = &net->shapes.node[i].layer;
        bool batch = l->type->role == SW_ROLE_INPUT && net->args.stream->dev->host_memory;

        if (!batch)
            l->dst.data = net->aliases.node[i].in_place ? l->src[0]->data
                                                        : sw_net_at(net, net->memory.node[i].data);

        l->saved = sw_net_at(net, net->memory.node[i].saved);
    }
}

static void bind_results(struct sw_net *net)
{
    struct sw_result *pairs = sw_net_at(net, net->memory.pairs_at);
    for (int i = 0; i < net->graph.count; i++)
        if (net->shapes.node[i].result >= 0)
            net->shapes.node[i].layer.result = &pairs[net->shapes.node[i].first_pair];
}

/* From the top layer down, because a gradient may share the memory of its reader's gradient. */
static void bind_gradients(struct sw_net *net)
{
    for (int i = net->graph.count - 1; i >= 0; i--) {
        int writer = net->aliases.node[i].first_writer;
        net->shapes.node[i].layer.dst.grad = sw_net_shares_grad(&net->aliases, i)
                                                 ? net->shapes.node[writer].layer.dst.grad
                                                 : sw_net_at(net, net->memory.node[i].grad);
    }
}

static void bind_sources(struct sw_net *net, int i)
{
    struct sw_net_shape *shape = &net->shapes.node[i];
    const struct sw_net_alias *alias = &net->aliases.node[i];

    for (int k = 0; k < shape->layer.src_count; k++) {
        const struct sw_net_shape *source = &net->shapes.node[net->graph.node[i].src[k]];
        bool wanted = shape->has_backward && source->needs_grad;

        shape->layer.src_grad[k] = !wanted ? NULL
                                   : alias->adds_grad[k]
                                       ? sw_net_at(net, net->memory.node[i].aside[k])
                                       : source->layer.dst.grad;
    }

    shape->layer.adds.src = alias->src_adds;
    if (alias->grad_handed)
        sw_bridge_read_gradient_in_place(&shape->layer);
}

/* Names the blocks of the arena for messages of the device: "conv1 (activation)". */
static void name_memory(const struct sw_net *net)
{
    struct sw_device *dev = net->args.stream->dev;

    for (int i = 0; i < net->graph.count && !dev->host_memory; i++) {
        const struct sw_net_places *places = &net->memory.node[i];
        const struct sw_layer *l = &net->shapes.node[i].layer;
        size_t bytes = sw_desc_bytes(&l->dst.desc), scratch = l->scratch_bytes;

        const struct {
            void *at;
            size_t bytes;
            const char *what;
        } parts[] = {{sw_net_at(net, places->data), bytes, "activation"},
                     {sw_net_at(net, places->data_again), bytes, "activation"},
                     {sw_net_at(net, places->grad), bytes, "gradient"},
                     {l->saved, l->saved_bytes, "saved"},
                     {sw_net_at(net, places->saved_again), l->saved_bytes, "saved"},
                     {sw_net_at(net, places->forward_scratch), scratch, "scratch"},
                     {sw_net_at(net, places->backward_scratch), scratch, "scratch"},
                     {sw_net_at(net, places->recompute_scratch), scratch, "scratch"}};

        for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
            char text[128];
            snprintf(text, sizeof text, "%s (%s)", l->name, parts[p].what);
            sw_device_name(dev, parts[p].at, parts[p].bytes, text);
        }
    }
}

void sw_net_bind(struct sw_net *net, void *arena, void *scratch)
{
    net->arena = arena;
    net->scratch = scratch;
    bind_outputs(net);
    bind_results(net);
    bind_gradients(net);
    for (int i = 0; i < net->graph.count; i++)
        bind_sources(net, i);
    name_memory(net);
}

void sw_net_bind_offload(struct sw_net *net, void *memory)
{
    if (net->offload)
        sw_offload_bind(net->offload, memory);
}

/* ---- Parameters, buffers and recurrent state ---- */

void sw_net_bind_param(struct sw_net *net, int p, const float *value, float *gradient)
{
    const struct sw_net_param *param = &net->shapes.params[p];
    struct sw_net_shape *shape = &net->shapes.node[param->layer];
    struct sw_layer_param *lp = &shape->layer.param[param->index];

    lp->value = value;
    lp->grad = gradient;
    net->gradient[p] = gradient;
    if (net->args.training && (param->frozen || (gradient && shape->adds_param[param->index])))
        lp->grad = sw_net_at(net, net->memory.node[param->layer].param_aside[param->index]);
}

bool sw_net_lists_rows(const struct sw_net *net, int p)
{
    const struct sw_net_param *param = &net->shapes.params[p];
    const struct sw_net_shape *shape = &net->shapes.node[param->layer];
    bool alone = param->root < 0 && !shape->adds_param[param->index];

    for (int q = 0; q < net->shapes.param_count; q++)
        alone = alone && net->shapes.params[q].root != p;
    return alone && !param->frozen && shape->layer.param[param->index].lists_rows;
}

void sw_net_bind_row_list(struct sw_net *net, int p, struct sw_row_list *listed)
{
    const struct sw_net_param *param = &net->shapes.params[p];
    net->shapes.node[param->layer].layer.param[param->index].listed = listed;
}

void sw_net_bind_factors(struct sw_net *net, int i, float *x, float *dy)
{
    net->shapes.node[i].layer.factors.x = x;
    net->shapes.node[i].layer.factors.dy = dy;
}

void sw_net_bind_buffer(struct sw_net *net, int s, const float *value, float *update)
{
    const struct sw_net_buffer *state = &net->shapes.states[s];
    struct sw_layer_buffer *ls = &net->shapes.node[state->layer].layer.keeps[state->index];
    ls->value = value;
    ls->update = update;
}

static size_t recurrent_bytes(const struct sw_layer *l, int k)
{
    const int64_t n = l->dst.desc.dim[0] * l->recurrent[k].width;
    return sw_aligned((size_t)n * sizeof(float), 64);
}

size_t sw_net_recurrent_state_bytes(const struct sw_net *net)
{
    size_t bytes = 0;

    for (int i = 0; i < net->graph.count; i++)
        for (int k = 0; k < net->shapes.node[i].layer.recurrent_count; k++)
            bytes += recurrent_bytes(&net->shapes.node[i].layer, k);

    return bytes;
}

void sw_net_bind_recurrent_state(struct sw_net *net, void *memory)
{
    char *at = memory;

    for (int i = 0; i < net->graph.count; i++) {
        struct sw_layer *l = &net->shapes.node[i].layer;
        for (int k = 0; k < l->recurrent_count; at += recurrent_bytes(l, k++))
            l->recurrent[k].value = (float *)(void *)at;
    }

    for (int i = 0; i < net->graph.count; i++) {
        struct sw_net_shape *shape = &net->shapes.node[i];
        int begin = net->graph.node[i].src[1];
        if (shape->layer.type == &sw_net_end && !shape->absent)
            sw_net_end_bind(&shape->layer, net->shapes.node[begin].layer.recurrent[0].value);
    }
}

/* ---- Inputs of a pass ---- */

int sw_net_set_field(struct sw_net *net, const char *field, void *data, struct sw_err *err)
{
    int rc = SW_OK;

    for (int i = 0; i < net->graph.count && rc == SW_OK; i++) {
        struct sw_layer *l = &net->shapes.node[i].layer;
        if (l->type->role != SW_ROLE_INPUT || !sw_str_eq(sw_layer_input_field(l), field))
            continue;

        if (net->args.stream->dev->host_memory)
            sw_net_use_memory(net, i, data); /* the batch's memory */
        else
            rc = sw_copy(net->args.stream, l->dst.data, data, sw_desc_bytes(&l->dst.desc), err);
    }

    return rc;
}

int sw_net_set_pixels(struct sw_net *net, const char *field, const struct sw_pixels_args *how,
                      struct sw_err *err)
{
    int rc = SW_OK;

    for (int i = 0; i < net->graph.count && rc == SW_OK; i++) {
        struct sw_layer *l = &net->shapes.node[i].layer;
        if (l->type->role != SW_ROLE_INPUT || !sw_str_eq(sw_layer_input_field(l), field))
            continue;

        struct sw_pixels_args own = *how;
        own.rows = l->dst.desc.dim[0];
        own.y = l->dst.data;
        rc = sw_op_run(net->args.stream, &sw_op_pixels, &own, err);
    }

    return rc;
}

int sw_net_set_step(struct sw_net *net, const struct sw_step *step, struct sw_err *err)
{
    net->staging_turn ^= 1;

    struct sw_step *own = net->staging->step[net->staging_turn];

    own[0] = own[1] = *step;
    own[1].first_row = step->group_row;
    own[1].valid_rows = step->batch_valid_rows;

    return sw_copy(net->args.stream, sw_net_at(net, net->memory.step_at), own,
                   sizeof net->staging->step[0], err);
}
