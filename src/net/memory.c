/* The memory plan. Time is the line of acts of the schedule (net/schedule.h). Every block of memory
 * lives from its first writer to its last reader; blocks whose lives do not meet may have the same
 * place. Blocks are placed by size, largest first, each at the lowest offset where nothing that
 * lives at the same time lies (the greedy-by-size rule of Pisarchyk and Lee, "Efficient Memory
 * Management for Deep Neural Net Inference", 2020). Where that takes more than what is alive at
 * once, the block that reaches furthest is placed first, and all others anew, a few times.
 *
 * Passes on streams of their own (net/branches.h) run at the same time as others: what they use
 * lives as long as all that may run beside them.
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
#include "net/memory.h"

#include "base/os.h"
#include "net/branches.h"
#include <stdlib.h>
#include <string.h>

enum {
    ALIGN = 4096, /* a page: neighbours never share a line, and large copies stay aligned */
    ORDERS = 24   /* in which blocks are placed, at most */
};

static void add_block(struct sw_blocks *b, size_t bytes, int first, int last, int64_t *offset)
{
    *offset = SW_NO_OFFSET;
    if (bytes == 0)
        return;
    bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    b->block[b->count] = (struct sw_block){
        .bytes = bytes, .first = first, .last = last, .number = b->count, .offset = offset};
    b->count++;
}

/* Passes on streams of their own run beside others: who is used in an act lives from the first to
 * the last of those. */
static int from(const struct sw_net *net, int act)
{
    return sw_branches_from(net->branches, act);
}

static int until(const struct sw_net *net, int act)
{
    return sw_branches_until(net->branches, act);
}

/* Memory for one act alone; `apart` where it may lie in the scratch. */
static void add_scratch(struct sw_blocks *b, const struct sw_net *net, bool apart, size_t bytes,
                        int act, int64_t *offset)
{
    int before = b->count;
    add_block(b, bytes, from(net, act), until(net, act), offset);
    if (b->count > before)
        b->block[before].apart = apart;
}

/* May what node i's passes need for themselves lie in the scratch? */
static bool keeps_apart(const struct sw_net *net, int i)
{
    return net->scratch_apart && sw_net_phases(net, i, false) == 1 &&
           sw_net_phases(net, i, true) == 1;
}

/* Bytes of the output that this worker has. */
static size_t output_bytes(const struct sw_net *net, const struct sw_net_node *node)
{
    return sw_net_is_elsewhere(net, node) ? 0 : sw_desc_bytes(&node->layer.dst.desc);
}

static bool is_input(const struct sw_net_node *node)
{
    return node->layer.type->role == SW_ROLE_INPUT;
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
        if (source->consumers != 1 || is_input(source) || source->handed || read)
            return false;
        node = source;
    } while (source->in_place && (source->layer.view || source->fused));
    return true;
}

/* Do other workers read the node's gradient where it lies? */
static bool is_read_by_others(const struct sw_net *net, int i)
{
    return net->nodes[i].layer.type == &sw_net_bridge_dst && net->stream->dev->host_memory;
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
 * may take the place of the latter? Of the two ends of a connection the lower one's is nowhere, and
 * on the host others read the upper one's where it lies, so that it has a place of its own. */
static bool begins_gradient(const struct sw_net *net, int i)
{
    const struct sw_net_node *node = &net->nodes[i];
    bool twice = false;
    if (node->layer.type == &sw_net_bridge_src || is_read_by_others(net, node->src[0]))
        return false;
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

static bool is_only_giver(const struct sw_net *net, int i)
{
    int givers = 0;
    for (int j = 0; j < net->count; j++)
        for (int k = 0; k < net->nodes[j].layer.src_count && net->nodes[j].has_backward; k++)
            givers += net->nodes[j].src[k] == net->nodes[i].src[0];
    return givers == 1;
}

/* Where another worker has the whole gradient of an output in one place, nobody else gives one, who
 * would add to it there, and it is not to be written over, it is read there. */
static void find_handed_gradients(struct sw_net *net)
{
    for (int i = 0; i < net->count; i++) {
        struct sw_net_node *node = &net->nodes[i];
        if (node->layer.type != &sw_net_bridge_src || !node->has_backward)
            continue;
        const struct sw_net_node *source = &net->nodes[node->src[0]];
        node->grad_handed = sw_net_can_look_there(node) && source->first_giver == i &&
                            is_only_giver(net, i) && !source->grad_in_place;
        net->is_handed = net->is_handed || node->grad_handed;
    }
}

/* Which node owns each output's memory, and who else is in it, in the order of writing. */
static void find_roots(struct sw_net *net)
{
    for (int i = 0; i < net->count; i++) {
        struct sw_net_node *node = &net->nodes[i];
        node->root = node->in_place ? net->nodes[node->src[0]].root : i;
        node->next_in_place = node->last_reader = -1;
        for (int j = i - 1; j >= 0 && node->in_place; j--)
            if (net->nodes[j].root == node->root) {
                net->nodes[j].next_in_place = i;
                break;
            }
    }
    for (int i = 0; i < net->count && net->stream->dev->host_memory; i++)
        if (net->nodes[i].layer.type == &sw_net_bridge_src)
            net->nodes[net->nodes[i].root].published = true;
    for (int j = 0; j < net->count; j++)
        for (int k = 0; k < net->nodes[j].layer.src_count; k++) {
            int root = net->nodes[net->nodes[j].src[k]].root;
            if (root != net->nodes[j].root)
                net->nodes[root].last_reader = j;
        }
}

/* Who gives a part of a gradient that somebody else has begun, and cannot add, writes it aside. */
static void find_asides(struct sw_net *net)
{
    for (int i = 0; i < net->count; i++) {
        bool first = net->nodes[i].first_giver >= 0;
        for (int j = net->count - 1; j > i && net->nodes[i].first_giver >= 0; j--) {
            struct sw_net_node *giver = &net->nodes[j];
            for (int k = 0; k < giver->layer.src_count && giver->has_backward; k++) {
                if (giver->src[k] != i)
                    continue;
                if (!first && giver->layer.can_add)
                    giver->layer.src_adds |= 1u << k;
                giver->adds_grad[k] = !first && !giver->layer.can_add;
                first = false;
            }
        }
    }
}

/* ---- Blocks ---- */

int sw_blocks_init(struct sw_blocks *b, const struct sw_net *net, struct sw_err *err)
{
    size_t most = (size_t)net->count * (10 + SW_LAYER_SRCS + SW_LAYER_PARAMS) + 3;
    size_t lives = (size_t)net->count + 1;
    *b = (struct sw_blocks){.block = sw_calloc(most, sizeof *b->block),
                            .last_forward = sw_calloc(lives, sizeof *b->last_forward),
                            .last_backward = sw_calloc(lives, sizeof *b->last_backward)};
    if (b->block && b->last_forward && b->last_backward)
        return SW_OK;
    sw_blocks_fini(b);
    return sw_err_nomem(err, "the memory plan", most * sizeof *b->block);
}

void sw_blocks_fini(struct sw_blocks *b)
{
    sw_free(b->block);
    sw_free(b->last_forward);
    sw_free(b->last_backward);
    *b = (struct sw_blocks){0};
}

static void raise(int *to, int at)
{
    *to = *to > at ? *to : at;
}

/* Repeating a feature reads what its layers read. */
static void read_to_repeat(struct sw_blocks *b, const struct sw_net_schedule *s, int root)
{
    const struct sw_net *net = s->net;
    int at = s->back_at[root];
    for (int i = root; i >= 0; i = net->nodes[i].next_in_place)
        for (int k = 0; k < net->nodes[i].layer.src_count; k++)
            raise(&b->last_backward[net->nodes[net->nodes[i].src[k]].root], at);
}

/* Of every root the last act of forward, and the last one after it, that touches its memory. */
static void find_last_uses(struct sw_blocks *b, const struct sw_net_schedule *s)
{
    const struct sw_net *net = s->net;
    for (int i = 0; i < net->count; i++)
        b->last_forward[i] = b->last_backward[i] = -1;
    for (int j = 0; j < net->count; j++) {
        const struct sw_net_node *node = &net->nodes[j];
        raise(&b->last_forward[node->root], until(net, s->forward_at[j]));
        if (node->has_backward && node->layer.backward_reads_dst)
            raise(&b->last_backward[node->root], until(net, s->backward_at[j]));
        for (int k = 0; k < node->layer.src_count; k++) {
            int root = net->nodes[node->src[k]].root;
            raise(&b->last_forward[root], until(net, s->forward_at[j]));
            if (node->has_backward && (node->layer.backward_reads_src >> k & 1))
                raise(&b->last_backward[root], until(net, s->backward_at[j]));
        }
        if (node->root == j && node->life == SW_LIFE_REPEATED && s->back_at[j] >= 0)
            read_to_repeat(b, s, j);
    }
}

static void add_data(struct sw_blocks *b, const struct sw_net_schedule *s, struct sw_net *net)
{
    find_last_uses(b, s);
    for (int i = 0; i < net->count; i++) {
        struct sw_net_node *node = &net->nodes[i];
        node->data = node->data_again = SW_NO_OFFSET;
        /* Where the host reaches the device's memory an input is the batch itself. */
        if (node->in_place || (is_input(node) && net->stream->dev->host_memory))
            continue;
        /* Batches are copied before the first layer runs, wherever in the order an input is. */
        int first = is_input(node) || node->published ? 0 : from(net, s->forward_at[i]);
        int last = b->last_forward[i], back = s->back_at[i];
        raise(&last, s->away_until[i]);
        if (back < 0)
            raise(&last, b->last_backward[i]);
        node->last_use = last;
        if (node->published)
            last = s->count - 1; /* until others have read it, whenever that is */
        if (node->handed)
            continue;
        add_block(b, output_bytes(net, node), first, last, &node->data);
        if (back < 0)
            continue;
        last = back;
        raise(&last, b->last_backward[i]);
        add_block(b, output_bytes(net, node), back, last, &node->data_again);
    }
}

static void add_gradient(struct sw_blocks *b, const struct sw_net_schedule *s, struct sw_net *net,
                         int i)
{
    struct sw_net_node *node = &net->nodes[i];
    if (node->grad_handed)
        node->last_use = s->backward_at[node->src[0]];
    if (node->first_giver < 0 || sw_net_shares_grad(net, i) ||
        node->layer.type == &sw_net_bridge_src || net->nodes[node->first_giver].grad_handed)
        return;
    bool published = is_read_by_others(net, i);
    int j = i, last = until(net, s->backward_at[i]);
    int first = from(net, s->backward_at[node->first_giver]);
    if (published)
        first = 0;
    else if (sw_net_takes_turns(node)) /* its way down begins behind all forward passes */
        first = s->forward_at[i];
    /* A chain of in-place gradients lives until its lowest layer has run. */
    while (net->nodes[j].grad_in_place) {
        j = net->nodes[j].src[0];
        raise(&last, until(net, s->backward_at[j]));
    }
    /* Of a connection the lower end gives on what the upper one has. */
    if (net->nodes[j].layer.type == &sw_net_bridge_dst)
        last = s->backward_at[net->nodes[j].src[0]];
    add_block(b, output_bytes(net, node), first, published ? s->count - 1 : last, &node->grad);
}

static void add_gradients(struct sw_blocks *b, const struct sw_net_schedule *s, struct sw_net *net)
{
    for (int i = 0; i < net->count; i++) {
        struct sw_net_node *node = &net->nodes[i];
        int back = s->backward_at[i];
        node->grad = SW_NO_OFFSET;
        add_gradient(b, s, net, i);
        for (int k = 0; k < node->layer.src_count; k++)
            add_scratch(b, net, keeps_apart(net, i),
                        node->adds_grad[k] ? output_bytes(net, &net->nodes[node->src[k]]) : 0, back,
                        &node->aside[k]);
    }
}

/* Of a feature that is repeated a layer saves everything anew, unless it repeats from that. */
static void add_saved(struct sw_blocks *b, const struct sw_net_schedule *s, struct sw_net *net,
                      int i)
{
    struct sw_net_node *node = &net->nodes[i];
    const struct sw_layer *l = &node->layer;
    int now = s->forward_at[i];
    int last = until(net, node->has_backward ? s->backward_at[i] : now);
    int again = net->nodes[node->root].life == SW_LIFE_REPEATED ? s->back_at[node->root] : -1;
    if (again >= 0 && l->repeats_from_saved)
        raise(&last, again);
    bool twice = again >= 0 && !l->repeats_from_saved;
    add_block(b, l->saved_bytes, from(net, now), twice ? now : last, &node->saved);
    raise(&last, again);
    add_block(b, twice ? l->saved_bytes : 0, again, last, &node->saved_again);
}

/* One for all layers of a feature, which are repeated one after the other. */
static void add_repeat_scratch(struct sw_blocks *b, const struct sw_net_schedule *s,
                               struct sw_net *net, int root)
{
    size_t most = 0;
    for (int i = root; i >= 0; i = net->nodes[i].next_in_place)
        if (net->nodes[i].layer.scratch_bytes > most)
            most = net->nodes[i].layer.scratch_bytes;
    bool repeats = net->nodes[root].life == SW_LIFE_REPEATED && s->back_at[root] >= 0;
    add_scratch(b, net, net->scratch_apart, repeats ? most : 0, s->back_at[root],
                &net->nodes[root].repeat_scratch);
}

/* Passes of a Gibbs chain are no acts of their own: they run between the forward and the backward
 * passes. */
static void add_chain_scratch(struct sw_blocks *b, const struct sw_net_schedule *s,
                              struct sw_net_node *node)
{
    int i = node->layer.index, from = s->forward_at[i], to = s->backward_at[i];
    add_block(b, node->layer.scratch_bytes, from, to, &node->forward_scratch);
    add_block(b, node->layer.scratch_bytes, from, to, &node->backward_scratch);
}

static void add_private(struct sw_blocks *b, const struct sw_net_schedule *s, struct sw_net *net)
{
    for (int i = 0; i < net->count; i++) {
        struct sw_net_node *node = &net->nodes[i];
        const struct sw_layer *l = &node->layer;
        int now = s->forward_at[i], back = s->backward_at[i];
        size_t sums = (size_t)l->sum_count * sizeof(double);
        bool apart = keeps_apart(net, i);
        add_saved(b, s, net, i);
        node->repeat_scratch = SW_NO_OFFSET;
        if (node->root == i)
            add_repeat_scratch(b, s, net, i);
        if (sw_net_takes_turns(node) && !apart) {
            add_chain_scratch(b, s, node);
        } else {
            add_scratch(b, net, apart, l->scratch_bytes, now, &node->forward_scratch);
            add_scratch(b, net, apart, node->has_backward ? l->scratch_bytes : 0, back,
                        &node->backward_scratch);
        }
        add_block(b, sums, from(net, now), until(net, now), &node->forward_sums);
        add_block(b, node->has_backward ? sums : 0, from(net, back), until(net, back),
                  &node->backward_sums);
        for (int k = 0; k < l->param_count; k++)
            add_scratch(b, net, apart,
                        node->has_backward && (node->adds_param[k] || sw_net_writes_aside(node, k))
                            ? sw_desc_bytes(&l->param[k].layout)
                            : 0,
                        back, &node->param_aside[k]);
    }
}

void sw_blocks_find(struct sw_blocks *b, const struct sw_net_schedule *s, struct sw_net *net)
{
    int over = s->count - 1;
    b->count = 0;
    add_data(b, s, net);
    add_gradients(b, s, net);
    add_private(b, s, net);
    add_block(b, (size_t)net->pair_count * sizeof(struct sw_result), 0, over, &net->pairs_at);
    add_block(b, sizeof net->mail->step, 0, over, &net->step_at);
}

/* ---- Places ---- */

static int by_size(const void *a, const void *b)
{
    const struct sw_block *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->first != y->first ? x->first - y->first : x->number - y->number;
}

/* The lowest place for block b among those placed before it that live at the same time. */
static int64_t lowest_place(const struct sw_blocks *p, int b)
{
    const struct sw_block *new = &p->block[b];
    int64_t at = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < b; i++) {
            const struct sw_block *o = &p->block[i];
            bool meet = o->first <= new->last &&new->first <= o->last && o->apart == new->apart;
            if (meet && at < o->at + (int64_t)o->bytes && o->at < at + (int64_t) new->bytes) {
                at = o->at + (int64_t)o->bytes;
                moved = true;
            }
        }
    }
    return at;
}

/* Places all in their order; returns the bytes of the arena, and which block reaches so far in it.
 */
static size_t place_in_order(struct sw_blocks *b, int *top, size_t *scratch_bytes)
{
    size_t most[2] = {0, 0}; /* of the arena, of the scratch */
    *top = 0;
    for (int i = 0; i < b->count; i++) {
        struct sw_block *block = &b->block[i];
        block->at = lowest_place(b, i);
        size_t end = (size_t)block->at + block->bytes;
        if (end <= most[block->apart])
            continue;
        most[block->apart] = end;
        *top = block->apart ? *top : i;
    }
    *scratch_bytes = most[1];
    return most[0];
}

/* The scratch begins where the arena ends. */
static void take_places(struct sw_blocks *b, size_t arena_bytes)
{
    for (int i = 0; i < b->count; i++)
        *b->block[i].offset = b->block[i].at + (b->block[i].apart ? (int64_t)arena_bytes : 0);
}

static void move_to_front(struct sw_blocks *b, int i)
{
    struct sw_block block = b->block[i];
    memmove(&b->block[1], &b->block[0], (size_t)i * sizeof block);
    b->block[0] = block;
}

/* What is alive at once is the least that the arena can take: blocks that start at an act are
 * looked at, since a peak begins with one. */
static size_t most_alive(const struct sw_blocks *b)
{
    size_t most = 0;
    for (int i = 0; i < b->count; i++) {
        size_t live = 0;
        for (int j = 0; j < b->count; j++)
            if (!b->block[j].apart && b->block[j].first <= b->block[i].first &&
                b->block[i].first <= b->block[j].last)
                live += b->block[j].bytes;
        most = live > most ? live : most;
    }
    return most;
}

size_t sw_blocks_place(struct sw_blocks *b, size_t *scratch_bytes)
{
    size_t least = SIZE_MAX, bound = most_alive(b);
    int top = 0;
    qsort(b->block, (size_t)b->count, sizeof *b->block, by_size);
    for (int i = 0; i < ORDERS && least > bound; i++) {
        size_t scratch, bytes = place_in_order(b, &top, &scratch);
        if (bytes < least) {
            least = bytes;
            *scratch_bytes = scratch;
            take_places(b, bytes);
        }
        move_to_front(b, top);
    }
    return least;
}

/* The first act that writes where the feature lay before it was copied to the host; -1: none. */
static int first_write_over(const struct sw_blocks *b, const struct sw_net_node *root)
{
    const struct sw_block *mine = NULL;
    int first = -1;
    for (int i = 0; i < b->count; i++)
        if (b->block[i].offset == &root->data)
            mine = &b->block[i];
    for (int i = 0; i < b->count && mine; i++) {
        const struct sw_block *o = &b->block[i];
        bool meet = *mine->offset < *o->offset + (int64_t)o->bytes &&
                    *o->offset < *mine->offset + (int64_t)mine->bytes;
        if (meet && o->first > mine->last && (first < 0 || o->first < first))
            first = o->first;
    }
    return first;
}

/* Whoever writes there waits for the copy; and the copies' places in host memory. */
static void settle_copies(struct sw_net_schedule *s, const struct sw_blocks *b, struct sw_net *net)
{
    net->swap_bytes = 0;
    for (int i = 0; i < net->count; i++) {
        struct sw_net_node *node = &net->nodes[i];
        bool swapped = s->away_until[i] >= 0;
        s->in_before[i] = swapped ? first_write_over(b, node) : -1;
        node->host_at = swapped ? (int64_t)net->swap_bytes : SW_NO_OFFSET;
        net->swap_bytes += swapped ? (output_bytes(net, node) + ALIGN - 1) / ALIGN * ALIGN : 0;
    }
    sw_net_schedule_add_waits(s, s->in_before);
}

int sw_net_place_memory(struct sw_net *net, const struct sw_net_rates *rates, struct sw_err *err)
{
    struct sw_blocks b;
    int rc = sw_blocks_init(&b, net, err);
    if (rc != SW_OK)
        return rc;
    sw_net_schedule_make(net->schedule, rates);
    if (net->branches)
        rc = sw_branches_order(net->branches, err);
    if (rc == SW_OK) {
        sw_blocks_find(&b, net->schedule, net);
        net->arena_bytes = sw_blocks_place(&b, &net->scratch_bytes);
        settle_copies(net->schedule, &b, net);
    }
    sw_blocks_fini(&b);
    return rc;
}

int sw_net_plan_memory(struct sw_net *net, struct sw_err *err)
{
    net->schedule = sw_calloc(1, sizeof *net->schedule);
    if (!net->schedule)
        return sw_err_nomem(err, "the schedule of a step", sizeof *net->schedule);
    find_givers(net);
    find_in_place(net);
    find_handed_gradients(net);
    find_roots(net);
    find_asides(net);
    int rc = sw_net_schedule_init(net->schedule, net, err);
    if (rc == SW_OK)
        rc = sw_net_place_memory(net, &(struct sw_net_rates){0}, err);
    net->kept_bytes = net->arena_bytes;
    return rc;
}
