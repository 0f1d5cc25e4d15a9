/* The memory plan. Time is a line of moments: forward of layer i is moment i, its backward moment
 * 2 n - 1 - i. Every block of memory lives from its first writer to its last reader; blocks whose
 * lives do not meet may have the same place. Blocks are placed by size, largest first, each at the
 * lowest offset where nothing that lives at the same time lies (the greedy-by-size rule of
 * Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020).
 *
 * What lives for one call only may have memory of its own (scratch_apart), for which the same rule
 * holds. Layers of several phases keep theirs in the arena: between two of them other nets run.
 *
 * In place: an element-wise layer that is its source's only reader takes over the source's memory,
 * if neither the source nor the layer itself reads the old values in backward. A view, which writes
 * nothing, always does; what is overwritten behind one must then have no other reader either.
 *
 * Gradients: backward visits the last reader of an output first. It gives the gradient's first
 * term, in place of its own output's gradient where it can; the others add. */
#include "net/net_private.h"

#include "base/os.h"
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 4096 }; /* a page: neighbours never share a line, and large copies stay aligned */

struct block {
    size_t bytes;
    int first, last; /* moments, inclusive */
    int64_t *offset; /* where the answer goes */
    int64_t at;
    bool apart; /* in the scratch */
};

struct plan {
    struct sw_net *net;
    struct block *blocks;
    int count;
};

static int moment_backward(const struct sw_net *net, int i)
{
    return 2 * net->count - 1 - i;
}

static void add_block(struct plan *p, size_t bytes, int first, int last, int64_t *offset)
{
    *offset = SW_NO_OFFSET;
    if (bytes == 0)
        return;
    bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    p->blocks[p->count++] =
        (struct block){.bytes = bytes, .first = first, .last = last, .offset = offset};
}

/* Memory of node i's pass in one moment. */
static void add_scratch(struct plan *p, int i, size_t bytes, int moment, int64_t *offset)
{
    const struct sw_net *net = p->net;
    int before = p->count;
    add_block(p, bytes, moment, moment, offset);
    bool one = sw_net_phases(net, i, false) == 1 && sw_net_phases(net, i, true) == 1;
    if (p->count > before)
        p->blocks[before].apart = net->scratch_apart && one;
}

/* Bytes of the output that this worker has. */
static size_t output_bytes(const struct sw_net *net, const struct sw_net_node *node)
{
    bool elsewhere = node->dist == SW_DIST_ONE && net->worker != 0 && net->workers > 1;
    return elsewhere ? 0 : sw_desc_bytes(&node->layer.dst.desc);
}

static bool is_input(const struct sw_net_node *node)
{
    return node->layer.type->role == SW_ROLE_INPUT;
}

int sw_net_data_root(const struct sw_net *net, int i)
{
    while (net->nodes[i].in_place)
        i = net->nodes[i].src[0];
    return i;
}

bool sw_net_shares_grad(const struct sw_net *net, int i)
{
    int giver = net->nodes[i].first_giver;
    return giver >= 0 && net->nodes[giver].grad_in_place && net->nodes[giver].src[0] == i;
}

/* May node i write over its source? Its values may lie in memory that has more names: those of the
 * outputs of which it is a view, or which it is after a fused relu. */
static bool may_overwrite(const struct sw_net *net, int i)
{
    const struct sw_net_node *node = &net->nodes[i], *source;
    if (!node->layer.in_place || (node->has_backward && (node->layer.backward_reads_src & 1)))
        return false;
    do {
        source = &net->nodes[node->src[0]];
        bool read = source->has_backward && source->layer.backward_reads_dst;
        if (source->consumers != 1 || is_input(source) || read)
            return false;
        node = source;
    } while (source->in_place && (source->layer.view || source->fused));
    return true;
}

static void find_givers(struct sw_net *net)
{
    for (int i = 0; i < net->count; i++)
        net->nodes[i].first_giver = -1;
    for (int j = 0; j < net->count; j++) {
        const struct sw_net_node *giver = &net->nodes[j];
        for (int k = 0; k < giver->layer.src_count && giver->has_backward; k++)
            if (net->nodes[giver->src[k]].needs_grad)
                net->nodes[giver->src[k]].first_giver = j;
    }
}

/* Does the node's backward begin its source's gradient, and has it one itself, so that the former
 * may take the place of the latter? */
static bool begins_gradient(const struct sw_net *net, int i)
{
    const struct sw_net_node *node = &net->nodes[i];
    bool twice = false;
    for (int k = 1; k < node->layer.src_count; k++)
        twice = twice || node->src[k] == node->src[0];
    return node->first_giver >= 0 && !twice && net->nodes[node->src[0]].first_giver == i;
}

static void find_in_place(struct sw_net *net)
{
    for (int i = 0; i < net->count; i++) {
        struct sw_net_node *node = &net->nodes[i];
        const struct sw_layer *l = &node->layer;
        /* A fused relu has no values of its own: its source wrote them. */
        node->in_place = node->fused || (l->in_place && l->view) || may_overwrite(net, i);
        node->grad_in_place = l->in_place && begins_gradient(net, i);
    }
}

/* The last moment at which node i's output is read. */
static int last_read(const struct sw_net *net, int i)
{
    const struct sw_net_node *node = &net->nodes[i];
    int last = i;
    if (node->has_backward && node->layer.backward_reads_dst)
        last = moment_backward(net, i);
    for (int j = i + 1; j < net->count; j++) {
        const struct sw_net_node *reader = &net->nodes[j];
        for (int k = 0; k < reader->layer.src_count; k++) {
            if (reader->src[k] != i)
                continue;
            bool again = reader->has_backward && (reader->layer.backward_reads_src >> k & 1);
            int moment = again ? moment_backward(net, j) : j;
            last = moment > last ? moment : last;
        }
    }
    return last;
}

static void plan_data(struct plan *p)
{
    struct sw_net *net = p->net;
    for (int i = 0; i < net->count; i++) {
        struct sw_net_node *node = &net->nodes[i];
        node->data = SW_NO_OFFSET;
        /* Where the host reaches the device's memory an input is the batch itself. */
        if (node->in_place || (is_input(node) && net->stream->dev->host_memory))
            continue;
        int last = last_read(net, i);
        for (int j = i + 1; j < net->count; j++)
            if (sw_net_data_root(net, j) == i && last_read(net, j) > last)
                last = last_read(net, j);
        /* Batches are copied before the first layer runs, wherever in the order an input is. */
        add_block(p, output_bytes(net, node), is_input(node) ? 0 : i, last, &node->data);
    }
}

/* What node j does with its part of node i's gradient, its source k: the first giver writes it, the
 * others add to it, themselves or by a detour. */
static void plan_giving(struct plan *p, int i, int j, int k, bool first)
{
    struct sw_net_node *giver = &p->net->nodes[j];
    int now = moment_backward(p->net, j);
    if (first)
        return;
    if (giver->layer.can_add) {
        giver->layer.src_adds |= 1u << k;
    } else {
        giver->adds_grad[k] = true;
        add_scratch(p, j, output_bytes(p->net, &p->net->nodes[i]), now, &giver->aside[k]);
    }
}

static void plan_gradient(struct plan *p, int i)
{
    struct sw_net *net = p->net;
    struct sw_net_node *node = &net->nodes[i];
    bool first = true;
    for (int j = net->count - 1; j > i; j--) {
        const struct sw_net_node *giver = &net->nodes[j];
        for (int k = 0; k < giver->layer.src_count && giver->has_backward; k++) {
            if (giver->src[k] != i)
                continue;
            plan_giving(p, i, j, k, first);
            first = false;
        }
    }
    if (sw_net_shares_grad(net, i))
        return;
    int last = moment_backward(net, i);
    /* A chain of in-place gradients lives until its lowest layer has run. */
    for (int j = i; net->nodes[j].grad_in_place;) {
        j = net->nodes[j].src[0];
        last = moment_backward(net, j);
    }
    add_block(p, output_bytes(net, node), moment_backward(net, node->first_giver), last,
              &node->grad);
}

static void plan_gradients(struct plan *p)
{
    struct sw_net *net = p->net;
    for (int i = 0; i < net->count; i++) {
        struct sw_net_node *node = &net->nodes[i];
        node->grad = SW_NO_OFFSET;
        for (int k = 0; k < node->layer.src_count; k++)
            node->aside[k] = SW_NO_OFFSET;
    }
    for (int i = 0; i < net->count; i++)
        if (net->nodes[i].first_giver >= 0)
            plan_gradient(p, i);
}

static void plan_private(struct plan *p)
{
    struct sw_net *net = p->net;
    for (int i = 0; i < net->count; i++) {
        struct sw_net_node *node = &net->nodes[i];
        const struct sw_layer *l = &node->layer;
        int back = moment_backward(net, i);
        add_block(p, l->saved_bytes, i, node->has_backward ? back : i, &node->saved);
        add_scratch(p, i, l->scratch_bytes, i, &node->forward_scratch);
        add_scratch(p, i, node->has_backward ? l->scratch_bytes : 0, back, &node->backward_scratch);
        for (int k = 0; k < l->param_count; k++)
            add_scratch(p, i,
                        node->adds_param[k] || sw_net_writes_aside(node, k)
                            ? sw_desc_bytes(&l->param[k].layout)
                            : 0,
                        back, &node->param_aside[k]);
    }
}

static void plan_sums(struct plan *p)
{
    struct sw_net *net = p->net;
    for (int i = 0; i < net->count; i++) {
        struct sw_net_node *node = &net->nodes[i];
        size_t bytes = (size_t)node->layer.sum_count * sizeof(double);
        int back = moment_backward(net, i);
        add_block(p, bytes, i, i, &node->forward_sums);
        add_block(p, node->has_backward ? bytes : 0, back, back, &node->backward_sums);
    }
}

static int by_size(const void *a, const void *b)
{
    const struct block *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->first != y->first ? x->first - y->first
                                : (x->offset > y->offset) - (x->offset < y->offset);
}

/* The lowest place for block b among those placed before it that live at the same time. */
static int64_t lowest_place(const struct plan *p, int b)
{
    const struct block *new = &p->blocks[b];
    int64_t at = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < b; i++) {
            const struct block *o = &p->blocks[i];
            bool meet =
                o->first <= new->last &&new->first <= o->last && o->apart == new->apart;
            if (meet && at < o->at + (int64_t)o->bytes && o->at < at + (int64_t) new->bytes) {
                at = o->at + (int64_t)o->bytes;
                moved = true;
            }
        }
    }
    return at;
}

int sw_net_plan_memory(struct sw_net *net, struct sw_err *err)
{
    struct plan p = {.net = net};
    size_t most = (size_t)net->count * (7 + SW_LAYER_SRCS + SW_LAYER_PARAMS) + 3;
    p.blocks = sw_calloc(most, sizeof *p.blocks);
    if (!p.blocks)
        return sw_err_nomem(err, "the memory plan", most * sizeof *p.blocks);
    find_givers(net);
    find_in_place(net);
    plan_data(&p);
    plan_gradients(&p);
    plan_private(&p);
    plan_sums(&p);
    int over = moment_backward(net, 0);
    add_block(&p, (size_t)net->pair_count * sizeof(struct sw_result), 0, over, &net->pairs_at);
    add_block(&p, sizeof net->step, 0, over, &net->step_at);
    qsort(p.blocks, (size_t)p.count, sizeof *p.blocks, by_size);
    net->arena_bytes = net->scratch_bytes = 0;
    for (int b = 0; b < p.count; b++) {
        struct block *block = &p.blocks[b];
        size_t *bytes = block->apart ? &net->scratch_bytes : &net->arena_bytes;
        block->at = lowest_place(&p, b);
        size_t end = (size_t)block->at + block->bytes;
        *bytes = end > *bytes ? end : *bytes;
    }
    for (int b = 0; b < p.count; b++)
        *p.blocks[b].offset =
            p.blocks[b].at + (p.blocks[b].apart ? (int64_t)net->arena_bytes : 0);
    sw_free(p.blocks);
    return SW_OK;
}
