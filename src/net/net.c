#include "net/net_private.h"

#include "base/str.h"
#include "device/ops/elementwise.h"
#include <stdio.h>

int sw_net_layer_count(const struct sw_net *net)
{
    return net->count;
}

const struct sw_layer *sw_net_layer(const struct sw_net *net, int i)
{
    return &net->nodes[i].layer;
}

struct sw_layer *sw_net_output_layer(struct sw_net *net, int i)
{
    return &net->nodes[i].layer;
}

const struct sw_section *sw_net_section(const struct sw_net *net, int i)
{
    return net->nodes[i].section;
}

int sw_net_find(const struct sw_net *net, const char *layer)
{
    for (int i = 0; i < net->count; i++)
        if (sw_str_eq(net->nodes[i].layer.name, layer))
            return i;
    return -1;
}

bool sw_net_training(const struct sw_net *net)
{
    return net->training;
}

int64_t sw_net_rows(const struct sw_net *net)
{
    return net->rows;
}

bool sw_net_has_backward(const struct sw_net *net, int i)
{
    return net->nodes[i].has_backward;
}

bool sw_net_is_fused(const struct sw_net *net, int i)
{
    return net->nodes[i].fused;
}

bool sw_net_is_in_place(const struct sw_net *net, int i)
{
    return net->nodes[i].in_place;
}

const char *sw_net_spread_name(const struct sw_net *net, int i)
{
    return sw_dist_name(net->nodes[i].dist);
}

int sw_net_source(const struct sw_net *net, int i, int k)
{
    return k < net->nodes[i].layer.src_count ? net->nodes[i].src[k] : -1;
}

bool sw_net_is_absent(const struct sw_net *net, int i)
{
    return net->nodes[i].absent;
}

const char *sw_net_notes(const struct sw_net *net)
{
    return sw_buf_text(&net->notes);
}

size_t sw_net_arena_bytes(const struct sw_net *net)
{
    return net->arena_bytes;
}

size_t sw_net_scratch_bytes(const struct sw_net *net)
{
    return net->scratch_bytes;
}

int sw_net_param_count(const struct sw_net *net)
{
    return net->param_count;
}

const struct sw_net_param *sw_net_param(const struct sw_net *net, int p)
{
    return &net->params[p];
}

int sw_net_layer_params(const struct sw_net *net, int i, int *first)
{
    *first = net->nodes[i].first_param;
    return net->nodes[i].layer.param_count;
}

static void *at(const struct sw_net *net, int64_t offset)
{
    if (offset == SW_NO_OFFSET)
        return NULL;
    int64_t beyond = offset - (int64_t)net->arena_bytes;
    return beyond < 0 ? net->arena + offset : net->scratch + beyond;
}

static void bind_sources(struct sw_net *net, struct sw_net_node *node)
{
    struct sw_layer *l = &node->layer;
    for (int k = 0; k < l->src_count; k++) {
        struct sw_net_node *source = &net->nodes[node->src[k]];
        bool wanted = node->has_backward && source->needs_grad;
        l->src_grad[k] = !wanted              ? NULL
                         : node->adds_grad[k] ? at(net, node->aside[k])
                                              : source->layer.dst.grad;
    }
}

/* What messages of the device call the arena's parts: "conv1 (feature)". */
static void name_memory(const struct sw_net *net)
{
    struct sw_device *dev = net->stream->dev;
    for (int i = 0; i < net->count && !dev->host_memory; i++) {
        const struct sw_net_node *node = &net->nodes[i];
        const struct sw_layer *l = &node->layer;
        size_t bytes = sw_desc_bytes(&l->dst.desc), scratch = l->scratch_bytes;
        const struct {
            void *at;
            size_t bytes;
            const char *what;
        } parts[] = {{at(net, node->data), bytes, "feature"},
                     {at(net, node->grad), bytes, "gradient"},
                     {l->saved, l->saved_bytes, "saved"},
                     {at(net, node->forward_scratch), scratch, "scratch"},
                     {at(net, node->backward_scratch), scratch, "scratch"}};
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
    for (int i = 0; i < net->count; i++) {
        struct sw_net_node *node = &net->nodes[i];
        struct sw_feature *dst = &node->layer.dst;
        bool batch = node->layer.type->role == SW_ROLE_INPUT && net->stream->dev->host_memory;
        if (!batch)
            dst->data =
                node->in_place ? net->nodes[node->src[0]].layer.dst.data : at(net, node->data);
        node->layer.saved = at(net, node->saved);
    }
    struct sw_result *pairs = at(net, net->pairs_at);
    for (int r = 0; r < net->result_count; r++)
        net->nodes[net->results[r].layer].layer.result = &pairs[net->results[r].first];
    /* Downwards, because a gradient may lie in that of its reader. */
    for (int i = net->count - 1; i >= 0; i--) {
        struct sw_net_node *node = &net->nodes[i];
        node->layer.dst.grad = sw_net_shares_grad(net, i)
                                   ? net->nodes[node->first_giver].layer.dst.grad
                                   : at(net, node->grad);
    }
    for (int i = 0; i < net->count; i++)
        bind_sources(net, &net->nodes[i]);
    name_memory(net);
}

void sw_net_bind_param(struct sw_net *net, int p, const float *value, float *gradient)
{
    const struct sw_net_param *param = &net->params[p];
    struct sw_layer_param *lp = &net->nodes[param->layer].layer.param[param->index];
    struct sw_net_node *node = &net->nodes[param->layer];
    lp->value = value;
    lp->grad = gradient;
    node->gradient[param->index] = gradient;
    if (net->training && (param->frozen || (gradient && node->adds_param[param->index])))
        lp->grad = at(net, node->param_aside[param->index]);
}

/* The batch's memory, for the input and for views of it. */
static void use_batch(struct sw_net *net, int input, void *data)
{
    for (int i = input; i < net->count; i++)
        if (sw_net_data_root(net, i) == input)
            net->nodes[i].layer.dst.data = data;
}

int sw_net_set_field(struct sw_net *net, const char *field, void *data, struct sw_err *err)
{
    int rc = SW_OK;
    for (int i = 0; i < net->count && rc == SW_OK; i++) {
        struct sw_layer *l = &net->nodes[i].layer;
        if (l->type->role != SW_ROLE_INPUT || !sw_str_eq(sw_layer_input_field(l), field))
            continue;
        if (net->stream->dev->host_memory)
            use_batch(net, i, data);
        else
            rc = sw_copy(net->stream, l->dst.data, data, sw_desc_bytes(&l->dst.desc), err);
    }
    return rc;
}

int sw_net_set_step(struct sw_net *net, const struct sw_step *step, struct sw_err *err)
{
    net->step = *step;
    return sw_copy(net->stream, at(net, net->step_at), &net->step, sizeof net->step, err);
}

int sw_net_state_count(const struct sw_net *net)
{
    return net->state_count;
}

const struct sw_net_state *sw_net_state(const struct sw_net *net, int s)
{
    return &net->states[s];
}

void sw_net_bind_state(struct sw_net *net, int s, const float *value, float *update)
{
    const struct sw_net_state *state = &net->states[s];
    struct sw_layer_state *ls = &net->nodes[state->layer].layer.keeps[state->index];
    ls->value = value;
    ls->update = update;
}

int sw_net_sum_count(const struct sw_net *net)
{
    return net->sum_count;
}

int sw_net_phases(const struct sw_net *net, int i, bool backward)
{
    const struct sw_layer *l = &net->nodes[i].layer;
    int phases = backward ? l->backward_phases : l->forward_phases;
    return phases > 1 ? phases : 1;
}

double *sw_net_sums(const struct sw_net *net, int i, int *count)
{
    const struct sw_layer *l = &net->nodes[i].layer;
    *count = l->sum_count;
    return *count > 0 ? l->sums : NULL;
}

/* What backward wrote aside goes to what others gave before. */
static int add_asides(struct sw_net *net, struct sw_net_node *node, struct sw_err *err)
{
    struct sw_layer *l = &node->layer;
    int rc = SW_OK;
    for (int k = 0; k < l->src_count && rc == SW_OK; k++)
        /* A connection also runs where its source is not: there it has sent everything away. */
        if (node->adds_grad[k] && !net->nodes[node->src[k]].absent)
            rc = sw_op_add(net->stream, net->nodes[node->src[k]].layer.dst.grad, l->src_grad[k],
                           sw_desc_storage(&l->src[k]->desc), err);
    for (int k = 0; k < l->param_count && rc == SW_OK; k++)
        if (node->adds_param[k])
            rc = sw_op_add(net->stream, node->gradient[k], l->param[k].grad,
                           sw_desc_storage(&l->param[k].layout), err);
    return rc;
}

/* What a layer that is elsewhere adds to the group's losses: nothing, and not what other nets have
 * left in the arena. */
static int clear_results(struct sw_net *net, const struct sw_layer *l, struct sw_err *err)
{
    size_t pairs = l->pair_count > 0 ? (size_t)l->pair_count : 1;
    return l->result ? sw_fill_zero(net->stream, l->result, pairs * sizeof *l->result, err) : SW_OK;
}

int sw_net_run_phase(struct sw_net *net, int i, bool backward, int phase, struct sw_err *err)
{
    struct sw_net_node *node = &net->nodes[i];
    struct sw_layer *l = &node->layer;
    struct sw_pass pass = {.stream = net->stream,
                           .step = at(net, net->step_at),
                           .training = backward || net->training,
                           .phase = phase};
    if (node->absent)
        return backward ? SW_OK : clear_results(net, l, err);
    l->scratch = at(net, backward ? node->backward_scratch : node->forward_scratch);
    l->sums = at(net, backward ? node->backward_sums : node->forward_sums);
    int rc = backward ? l->type->backward(l, &pass, err) : l->type->forward(l, &pass, err);
    if (rc == SW_OK && backward && phase + 1 == sw_net_phases(net, i, true))
        rc = add_asides(net, node, err);
    return rc == SW_OK ? rc : sw_err_prefix(err, rc, "layer %s", l->name);
}

static int run_phases(struct sw_net *net, int i, bool backward, struct sw_err *err)
{
    int rc = SW_OK;
    for (int p = 0; p < sw_net_phases(net, i, backward) && rc == SW_OK; p++)
        rc = sw_net_run_phase(net, i, backward, p, err);
    return rc;
}

int sw_net_forward(struct sw_net *net, int i, struct sw_err *err)
{
    return run_phases(net, i, false, err);
}

int sw_net_backward(struct sw_net *net, int i, struct sw_err *err)
{
    return run_phases(net, i, true, err);
}

int sw_net_fetch(struct sw_net *net, struct sw_err *err)
{
    size_t bytes = (size_t)net->pair_count * sizeof *net->fetched;
    return bytes ? sw_copy(net->stream, net->fetched, at(net, net->pairs_at), bytes, err) : SW_OK;
}

int sw_net_result_count(const struct sw_net *net)
{
    return net->result_count;
}

struct sw_net_result sw_net_result(const struct sw_net *net, int r)
{
    return net->results[r];
}

int sw_net_pair_count(const struct sw_net *net)
{
    return net->pair_count;
}

const struct sw_result *sw_net_pairs(const struct sw_net *net)
{
    return net->fetched;
}
