/* The memory plan. Time is the index of ops in the execution order (net/exec/order.h). Every block
 * of memory lives from its first writer to its last reader; blocks with disjoint lifetimes may
 * overlap. Blocks are placed by size, largest first, each at the lowest offset that is free during
 * its lifetime (the greedy-by-size rule of Pisarchyk and Lee, "Efficient Memory Management for Deep
 * Neural Net Inference", 2020). If that needs more than the peak of live bytes, the block with the
 * highest end is placed first and all others again, a few times.
 *
 * Passes on branches (net/graph/branches.h) run concurrently with others: their blocks live as long
 * as any pass that may run concurrently.
 *
 * Blocks used during one call only may be in separate memory (separate_scratch), with the same
 * placement rule. Layers with several phases have theirs in the arena, because other nets run
 * between two phases. */
#include "net/memory/blocks.h"

#include "base/os.h"
#include <stdlib.h>
#include <string.h>

enum {
    ALIGN = 4096, /* a page: neighbours never share a line, and large copies stay aligned */
    ORDERS = 24   /* placement orders to try, at most */
};

size_t sw_block_bytes(size_t bytes)
{
    return sw_aligned(bytes, ALIGN);
}

int sw_blocks_init(struct sw_blocks *b, const struct sw_net_aliases *aliases,
                   const struct sw_branch_order *order, bool separate_scratch, struct sw_err *err)
{
    size_t n = (size_t)aliases->graph->count;
    size_t most = n * (10 + SW_LAYER_SRCS + SW_LAYER_PARAMS) + 3, roots = n + 1;

    *b = (struct sw_blocks){.aliases = aliases,
                            .order = order,
                            .separate_scratch = separate_scratch,
                            .block = sw_calloc(most, sizeof *b->block),
                            .last_forward = sw_calloc(roots, sizeof *b->last_forward),
                            .last_backward = sw_calloc(roots, sizeof *b->last_backward)};
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

/* ---- Lifetimes ---- */

static void add_block(struct sw_blocks *b, size_t bytes, int first, int last, int64_t *offset)
{
    *offset = SW_NO_OFFSET;
    if (bytes == 0)
        return;

    b->block[b->count] = (struct sw_block){.bytes = sw_block_bytes(bytes),
                                           .first = first,
                                           .last = last,
                                           .number = b->count,
                                           .offset = offset};
    b->count++;
}

/* First and last op that may run concurrently with an op: lifetimes extend over them. */
static int from(const struct sw_blocks *b, int op)
{
    return b->order && op >= 0 ? b->order->from[op] : op;
}

static int until(const struct sw_blocks *b, int op)
{
    return b->order && op >= 0 ? b->order->until[op] : op;
}

/* Adds a block for one op only; in_scratch: it may be in the scratch. */
static void add_scratch(struct sw_blocks *b, bool in_scratch, size_t bytes, int op, int64_t *offset)
{
    int before = b->count;
    add_block(b, bytes, from(b, op), until(b, op), offset);
    if (b->count > before)
        b->block[before].in_scratch = in_scratch;
}

/* May the working memory of node i's passes be in the scratch? */
static bool may_use_scratch(const struct sw_blocks *b, int i)
{
    const struct sw_layer *l = &b->aliases->shapes->node[i].layer;
    return b->separate_scratch && sw_net_layer_phases(l, false) == 1 &&
           sw_net_layer_phases(l, true) == 1;
}

static void raise(int *to, int at)
{
    *to = *to > at ? *to : at;
}

/* Recomputing an activation reads the sources of its layers. */
static void read_to_recompute(struct sw_blocks *b, const struct sw_exec_order *s, int root)
{
    const struct sw_net_aliases *a = b->aliases;
    int at = s->node[root].back_at;

    for (int i = root; i >= 0; i = a->node[i].next_in_place)
        for (int k = 0; k < a->graph->node[i].src_count; k++)
            raise(&b->last_backward[a->node[a->graph->node[i].src[k]].root], at);
}

/* For every root: the last op of forward and the last op of backward that use its memory. */
static void find_last_uses(struct sw_blocks *b, const struct sw_exec_order *s)
{
    const struct sw_net_aliases *a = b->aliases;

    for (int i = 0; i < a->graph->count; i++)
        b->last_forward[i] = b->last_backward[i] = -1;

    for (int j = 0; j < a->graph->count; j++) {
        const struct sw_net_shape *shape = &a->shapes->node[j];
        const struct sw_layer *l = &shape->layer;
        int own = a->node[j].root;

        raise(&b->last_forward[own], until(b, s->node[j].forward_at));
        if (shape->has_backward && l->backward_reads_dst)
            raise(&b->last_backward[own], until(b, s->node[j].backward_at));

        for (int k = 0; k < l->src_count; k++) {
            int root = a->node[a->graph->node[j].src[k]].root;
            raise(&b->last_forward[root], until(b, s->node[j].forward_at));
            if (shape->has_backward && (l->backward_reads_src >> k & 1))
                raise(&b->last_backward[root], until(b, s->node[j].backward_at));
        }

        if (own == j && s->residency[j] == SW_RECOMPUTED && s->node[j].back_at >= 0)
            read_to_recompute(b, s, j);
    }
}

static void add_data(struct sw_blocks *b, const struct sw_exec_order *s, struct sw_net_memory *m)
{
    const struct sw_net_aliases *a = b->aliases;

    find_last_uses(b, s);

    for (int i = 0; i < a->graph->count; i++) {
        const struct sw_net_shape *shape = &a->shapes->node[i];
        const struct sw_net_alias *alias = &a->node[i];
        struct sw_net_places *places = &m->node[i];
        bool input = shape->layer.type->role == SW_ROLE_INPUT;

        places->data = places->data_again = SW_NO_OFFSET;

        /* In host memory an input layer's output is the batch itself. */
        if (alias->in_place || (input && a->host_memory))
            continue;

        /* Batches are copied before the first layer runs, whatever the position of the input layer.
         */
        int first = input || alias->published ? 0 : from(b, s->node[i].forward_at);
        int last = b->last_forward[i], back = s->node[i].back_at;
        raise(&last, s->node[i].offloaded_until);
        if (back < 0)
            raise(&last, b->last_backward[i]);
        places->last_use = last;
        if (alias->published)
            last = s->count - 1; /* other workers may read it at any time */
        if (shape->handed)
            continue;

        add_block(b, shape->output_bytes, first, last, &places->data);
        if (back < 0)
            continue;

        last = back;
        raise(&last, b->last_backward[i]);
        add_block(b, shape->output_bytes, back, last, &places->data_again);
    }
}

static void add_gradient(struct sw_blocks *b, const struct sw_exec_order *s,
                         struct sw_net_memory *m, int i)
{
    const struct sw_net_aliases *a = b->aliases;
    const struct sw_net_graph *g = a->graph;
    const struct sw_net_alias *alias = &a->node[i];

    if (alias->grad_handed)
        m->node[i].last_use = s->node[g->node[i].src[0]].backward_at;
    if (alias->first_writer < 0 || sw_net_shares_grad(a, i) ||
        g->node[i].type == &sw_net_bridge_src || a->node[alias->first_writer].grad_handed)
        return;

    bool published = sw_net_publishes_grad(a, i);
    int j = i, last = until(b, s->node[i].backward_at);
    int first = from(b, s->node[alias->first_writer].backward_at);
    if (published)
        first = 0;
    else if (sw_net_takes_turns(a->shapes,
                                i)) /* backward passes of a chain start after all forward passes */
        first = s->node[i].forward_at;

    /* A chain of in-place gradients lives until its lowest layer has run. */
    while (a->node[j].grad_in_place) {
        j = g->node[j].src[0];
        raise(&last, until(b, s->node[j].backward_at));
    }

    /* A bridge_src passes on the gradient of its bridge_dst. */
    if (g->node[j].type == &sw_net_bridge_dst)
        last = s->node[g->node[j].src[0]].backward_at;
    add_block(b, a->shapes->node[i].output_bytes, first, published ? s->count - 1 : last,
              &m->node[i].grad);
}

static void add_gradients(struct sw_blocks *b, const struct sw_exec_order *s,
                          struct sw_net_memory *m)
{
    const struct sw_net_aliases *a = b->aliases;

    for (int i = 0; i < a->graph->count; i++) {
        int back = s->node[i].backward_at;

        m->node[i].grad = SW_NO_OFFSET;
        add_gradient(b, s, m, i);

        for (int k = 0; k < a->graph->node[i].src_count; k++)
            add_scratch(b, may_use_scratch(b, i),
                        a->node[i].adds_grad[k]
                            ? a->shapes->node[a->graph->node[i].src[k]].output_bytes
                            : 0,
                        back, &m->node[i].aside[k]);
    }
}

/* A layer whose activation is recomputed saves its data again, unless it recomputes from the saved
 * data. */
static void add_saved(struct sw_blocks *b, const struct sw_exec_order *s, struct sw_net_memory *m,
                      int i)
{
    const struct sw_net_shape *shape = &b->aliases->shapes->node[i];
    const struct sw_layer *l = &shape->layer;
    int now = s->node[i].forward_at, root = b->aliases->node[i].root;
    int last = until(b, shape->has_backward ? s->node[i].backward_at : now);
    int again = s->residency[root] == SW_RECOMPUTED ? s->node[root].back_at : -1;

    if (again >= 0 && l->recomputes_from_saved)
        raise(&last, again);

    bool twice = again >= 0 && !l->recomputes_from_saved;
    add_block(b, l->saved_bytes, from(b, now), twice ? now : last, &m->node[i].saved);
    raise(&last, again);
    add_block(b, twice ? l->saved_bytes : 0, again, last, &m->node[i].saved_again);
}

/* One scratch block for all layers that share an activation, which are recomputed one after the
 * other. */
static void add_recompute_scratch(struct sw_blocks *b, const struct sw_exec_order *s,
                                  struct sw_net_memory *m, int root)
{
    const struct sw_net_aliases *a = b->aliases;
    size_t most = 0;

    for (int i = root; i >= 0; i = a->node[i].next_in_place)
        if (a->shapes->node[i].layer.scratch_bytes > most)
            most = a->shapes->node[i].layer.scratch_bytes;

    bool recomputes = s->residency[root] == SW_RECOMPUTED && s->node[root].back_at >= 0;
    add_scratch(b, b->separate_scratch, recomputes ? most : 0, s->node[root].back_at,
                &m->node[root].recompute_scratch);
}

/* Passes of a Gibbs chain are no ops of their own: they run between the forward and the backward
 * passes. */
static void add_chain_scratch(struct sw_blocks *b, const struct sw_exec_order *s,
                              struct sw_net_memory *m, int i)
{
    size_t bytes = b->aliases->shapes->node[i].layer.scratch_bytes;
    add_block(b, bytes, s->node[i].forward_at, s->node[i].backward_at, &m->node[i].forward_scratch);
    add_block(b, bytes, s->node[i].forward_at, s->node[i].backward_at,
              &m->node[i].backward_scratch);
}

static void add_param_asides(struct sw_blocks *b, struct sw_net_memory *m, int i, bool in_scratch,
                             int back)
{
    const struct sw_net_shape *shape = &b->aliases->shapes->node[i];

    for (int k = 0; k < shape->layer.param_count; k++) {
        bool aside = shape->has_backward && (shape->adds_param[k] || sw_net_writes_aside(shape, k));
        add_scratch(b, in_scratch, aside ? sw_desc_bytes(&shape->layer.param[k].layout) : 0, back,
                    &m->node[i].param_aside[k]);
    }
}

/* What the passes of node i need for themselves. */
static void add_private(struct sw_blocks *b, const struct sw_exec_order *s, struct sw_net_memory *m,
                        int i)
{
    const struct sw_net_shape *shape = &b->aliases->shapes->node[i];
    const struct sw_layer *l = &shape->layer;
    struct sw_net_places *places = &m->node[i];
    int now = s->node[i].forward_at, back = s->node[i].backward_at;
    size_t sums = (size_t)l->phases.sums * sizeof(double);
    bool in_scratch = may_use_scratch(b, i);

    add_saved(b, s, m, i);
    places->recompute_scratch = SW_NO_OFFSET;
    if (b->aliases->node[i].root == i)
        add_recompute_scratch(b, s, m, i);

    if (sw_net_takes_turns(b->aliases->shapes, i) && !in_scratch) {
        add_chain_scratch(b, s, m, i);
    } else {
        add_scratch(b, in_scratch, l->scratch_bytes, now, &places->forward_scratch);
        add_scratch(b, in_scratch, shape->has_backward ? l->scratch_bytes : 0, back,
                    &places->backward_scratch);
    }

    add_block(b, sums, from(b, now), until(b, now), &places->forward_sums);
    add_block(b, shape->has_backward ? sums : 0, from(b, back), until(b, back),
              &places->backward_sums);
    add_param_asides(b, m, i, in_scratch, back);
}

void sw_blocks_find(struct sw_blocks *b, const struct sw_exec_order *s, struct sw_net_memory *m)
{
    int over = s->count - 1;

    b->count = 0;
    add_data(b, s, m);
    add_gradients(b, s, m);
    for (int i = 0; i < b->aliases->graph->count; i++)
        add_private(b, s, m, i);
    add_block(b, (size_t)b->aliases->shapes->pair_count * sizeof(struct sw_result), 0, over,
              &m->pairs_at);
    add_block(b, SW_NET_STEPS * sizeof(struct sw_step), 0, over, &m->step_at);
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
            bool overlap =
                o->first <= new->last &&new->first <= o->last && o->in_scratch == new->in_scratch;

            if (overlap && at < o->at + (int64_t)o->bytes && o->at < at + (int64_t) new->bytes) {
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
        if (end <= most[block->in_scratch])
            continue;

        most[block->in_scratch] = end;
        *top = block->in_scratch ? *top : i;
    }

    *scratch_bytes = most[1];
    return most[0];
}

/* Offsets in the scratch begin at the end of the arena. */
static void take_places(struct sw_blocks *b, size_t arena_bytes)
{
    for (int i = 0; i < b->count; i++)
        *b->block[i].offset = b->block[i].at + (b->block[i].in_scratch ? (int64_t)arena_bytes : 0);
}

static void move_to_front(struct sw_blocks *b, int i)
{
    struct sw_block block = b->block[i];
    memmove(&b->block[1], &b->block[0], (size_t)i * sizeof block);
    b->block[0] = block;
}

/* The peak of live bytes, a lower bound of the arena size. A peak begins where a block begins, so
 * only these ops are evaluated. */
static size_t most_alive(const struct sw_blocks *b)
{
    size_t most = 0;

    for (int i = 0; i < b->count; i++) {
        size_t live = 0;

        for (int j = 0; j < b->count; j++)
            if (!b->block[j].in_scratch && b->block[j].first <= b->block[i].first &&
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
