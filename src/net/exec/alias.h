/* Aliases: which outputs and which gradients of a net share memory, which layer writes a gradient
 * first, and how the others add to it. Computed from the graph and the shapes, before execution
 * order and memory offsets exist.
 *
 * In place: an element-wise layer that is its source's only reader takes over the source's memory,
 * if neither the source nor the layer itself reads the old values in backward. A view, which writes
 * nothing, is always in place; a layer that overwrites its source through views must also be the
 * only reader of what the views alias.
 *
 * Gradients: backward visits the last reader of an output first. That reader writes the gradient,
 * in the memory of its own output's gradient if possible; the other readers add to it.
 *
 * Frozen once made; any thread may read it. */
#pragma once

#include "net/shape/shapes.h"

struct sw_net_alias {
    bool in_place;     /* the output shares the memory of source 0's output */
    int root;          /* the node that owns the memory; the node itself when not in place */
    int next_in_place; /* the next node in the same memory, or -1 */
    int last_reader;   /* of a root: the last other layer that reads one of these outputs in
                          forward, or -1 */
    bool published;    /* of a root: other workers read it in place */

    int first_writer;   /* the reader whose backward writes the gradient first, or -1 */
    bool grad_in_place; /* source 0's gradient shares the memory of the output's gradient */
    bool grad_handed;   /* of a bridge_src: its source's gradient is in another worker's memory */
    uint32_t src_adds;  /* bit k: backward itself adds to source k's gradient */
    bool adds_grad[SW_LAYER_SRCS]; /* backward cannot add: it writes to temporary memory, then the
                                      net adds */
};

struct sw_net_aliases {
    const struct sw_net_graph *graph; /* borrowed, as the shapes */
    const struct sw_net_shapes *shapes;
    bool host_memory;          /* workers can access each other's memory */
    bool is_handed;            /* some output or gradient is in another worker's memory */
    struct sw_net_alias *node; /* owned [graph->count] */
};

/* Finds which outputs and gradients share memory. Errors: SW_ERR_NOMEM. */
int sw_net_aliases_init(struct sw_net_aliases *a, const struct sw_net_graph *graph,
                        const struct sw_net_shapes *shapes, bool host_memory,
                        struct sw_err *err) SW_MUST_CHECK;
void sw_net_aliases_fini(struct sw_net_aliases *a); /* a zeroed one is accepted */

/* Does node i's gradient share the memory of the output gradient of its first writer? */
static inline bool sw_net_shares_grad(const struct sw_net_aliases *a, int i)
{
    int writer = a->node[i].first_writer;
    return writer >= 0 && a->node[writer].grad_in_place && a->graph->node[writer].src[0] == i;
}

/* Do other workers read the node's gradient in place? */
static inline bool sw_net_publishes_grad(const struct sw_net_aliases *a, int i)
{
    return a->shapes->node[i].layer.type == &sw_net_bridge_dst && a->host_memory;
}
