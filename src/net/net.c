#include "net/branches.h"

#include "base/str.h"
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

int sw_net_step_at(const struct sw_net *net, int i, int *steps)
{
    *steps = net->nodes[i].steps;
    return net->nodes[i].step;
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
    return sw_dist_name(net->nodes[i].spread.dist);
}

int sw_net_source(const struct sw_net *net, int i, int k)
{
    return k < net->nodes[i].layer.src_count ? net->nodes[i].src[k] : -1;
}

bool sw_net_holds(const struct sw_net *net, int i)
{
    return !sw_net_is_elsewhere(net, &net->nodes[i]);
}

bool sw_net_is_absent(const struct sw_net *net, int i)
{
    return net->nodes[i].absent;
}

bool sw_net_is_handed(const struct sw_net *net, int i)
{
    return net->nodes[i].handed;
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

static void bind_sources(struct sw_net *net, struct sw_net_node *node)
{
    struct sw_layer *l = &node->layer;
    for (int k = 0; k < l->src_count; k++) {
        struct sw_net_node *source = &net->nodes[node->src[k]];
        bool wanted = node->has_backward && source->needs_grad;
        l->src_grad[k] = !wanted              ? NULL
                         : node->adds_grad[k] ? sw_net_at(net, node->aside[k])
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
        } parts[] = {{sw_net_at(net, node->data), bytes, "feature"},
                     {sw_net_at(net, node->data_again), bytes, "feature"},
                     {sw_net_at(net, node->grad), bytes, "gradient"},
                     {l->saved, l->saved_bytes, "saved"},
                     {sw_net_at(net, node->saved_again), l->saved_bytes, "saved"},
                     {sw_net_at(net, node->forward_scratch), scratch, "scratch"},
                     {sw_net_at(net, node->backward_scratch), scratch, "scratch"},
                     {sw_net_at(net, node->repeat_scratch), scratch, "scratch"}};
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
            dst->data = node->in_place ? net->nodes[node->src[0]].layer.dst.data
                                       : sw_net_at(net, node->data);
        node->layer.saved = sw_net_at(net, node->saved);
    }
    struct sw_result *pairs = sw_net_at(net, net->pairs_at);
    for (int i = 0; i < net->count; i++)
        if (net->nodes[i].result >= 0)
            net->nodes[i].layer.result = &pairs[net->nodes[i].first_pair];
    /* Downwards, because a gradient may lie in that of its reader. */
    for (int i = net->count - 1; i >= 0; i--) {
        struct sw_net_node *node = &net->nodes[i];
        node->layer.dst.grad = sw_net_shares_grad(net, i)
                                   ? net->nodes[node->first_giver].layer.dst.grad
                                   : sw_net_at(net, node->grad);
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
        lp->grad = sw_net_at(net, node->param_aside[param->index]);
}

void sw_net_bind_swap(struct sw_net *net, void *memory)
{
    if (net->swap)
        sw_swap_bind(net->swap, memory);
}

void sw_net_use_memory(struct sw_net *net, int i, void *data)
{
    for (int j = i; j < net->count; j++)
        if (net->nodes[j].root == i)
            net->nodes[j].layer.dst.data = data;
}

int sw_net_set_field(struct sw_net *net, const char *field, void *data, struct sw_err *err)
{
    int rc = SW_OK;
    for (int i = 0; i < net->count && rc == SW_OK; i++) {
        struct sw_layer *l = &net->nodes[i].layer;
        if (l->type->role != SW_ROLE_INPUT || !sw_str_eq(sw_layer_input_field(l), field))
            continue;
        if (net->stream->dev->host_memory)
            sw_net_use_memory(net, i, data); /* the batch's */
        else
            rc = sw_copy(net->stream, l->dst.data, data, sw_desc_bytes(&l->dst.desc), err);
    }
    return rc;
}

int sw_net_set_step(struct sw_net *net, const struct sw_step *step, struct sw_err *err)
{
    struct sw_step *own = net->mail->step;
    own[0] = own[1] = *step;
    own[1].first_row = step->group_row;
    own[1].valid_rows = step->batch_valid_rows;
    return sw_copy(net->stream, sw_net_at(net, net->step_at), own, sizeof net->mail->step, err);
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

static size_t carry_bytes(const struct sw_layer *l, int k)
{
    const int64_t n = l->dst.desc.dim[0] * l->carry[k].width;
    return ((size_t)n * sizeof(float) + 63) / 64 * 64;
}

size_t sw_net_mail_bytes(const struct sw_net *net)
{
    return sizeof *net->mail + (size_t)net->pair_count * sizeof *net->mail->fetched;
}

size_t sw_net_carry_bytes(const struct sw_net *net)
{
    size_t bytes = 0;
    for (int i = 0; i < net->count; i++)
        for (int k = 0; k < net->nodes[i].layer.carry_count; k++)
            bytes += carry_bytes(&net->nodes[i].layer, k);
    return bytes;
}

void sw_net_bind_carries(struct sw_net *net, void *memory)
{
    char *at = memory;
    for (int i = 0; i < net->count; i++) {
        struct sw_layer *l = &net->nodes[i].layer;
        for (int k = 0; k < l->carry_count; at += carry_bytes(l, k++))
            l->carry[k].value = (float *)(void *)at;
    }
    for (int i = 0; i < net->count; i++) {
        const struct sw_net_node *node = &net->nodes[i];
        if (node->layer.type == &sw_net_end && !node->absent)
            sw_net_end_bind(&net->nodes[i].layer, net->nodes[node->src[1]].layer.carry[0].value);
    }
}

int sw_net_sum_count(const struct sw_net *net)
{
    return net->sum_count;
}

bool sw_net_is_in_rows(const struct sw_net *net, int i)
{
    return net->nodes[i].spread.dist == SW_DIST_ROWS;
}

bool sw_net_has_whole_batch(const struct sw_net *net, int i)
{
    return !sw_net_is_in_rows(net, i) && net->group_rows == net->batch_rows;
}

int sw_net_stream_count(const struct sw_net *net)
{
    return sw_branches_count(net->branches);
}

void sw_net_settle(struct sw_net *net)
{
    sw_branches_settle(net->branches);
}

int sw_net_phases(const struct sw_net *net, int i, bool backward)
{
    const struct sw_layer *l = &net->nodes[i].layer;
    int phases = backward ? l->backward_phases : l->forward_phases;
    return phases > 1 ? phases : 1;
}

bool sw_net_moves(const struct sw_net *net, int i)
{
    const struct sw_layer_type *type = net->nodes[i].layer.type;
    return type == &sw_net_bridge_src || type == &sw_net_bridge_dst;
}

double *sw_net_sums(const struct sw_net *net, int i, int *count)
{
    const struct sw_layer *l = &net->nodes[i].layer;
    *count = l->sum_count;
    return *count > 0 ? l->sums : NULL;
}

int sw_net_fetch(struct sw_net *net, struct sw_err *err)
{
    size_t bytes = (size_t)net->pair_count * sizeof *net->mail->fetched;
    return bytes
               ? sw_copy(net->stream, net->mail->fetched, sw_net_at(net, net->pairs_at), bytes, err)
               : SW_OK;
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
    return net->shown_pairs;
}

/* A step of a loss has a part of its weight. */
void sw_net_add_pairs(const struct sw_net *net, struct sw_result *to)
{
    const struct sw_result *pairs = sw_net_pairs(net);
    for (int i = 0; i < net->count; i++) {
        const struct sw_net_node *node = &net->nodes[i];
        const struct sw_net_result *r = node->result < 0 ? NULL : &net->results[node->result];
        for (int k = 0; r && k < r->count; k++) {
            to[r->first + k].sum +=
                pairs[node->first_pair + k].sum * (r->loss && node->steps > 1 ? node->steps : 1);
            to[r->first + k].weight += pairs[node->first_pair + k].weight;
        }
    }
}

const struct sw_result *sw_net_pairs(const struct sw_net *net)
{
    return net->mail->fetched;
}
