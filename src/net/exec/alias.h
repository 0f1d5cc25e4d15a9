/* Aliases: which outputs and which gradients of a net lie in one memory, who begins a gradient, and
 * who adds to it how. Found from the graph and the shapes, before anything is known of order or
 * places.
 *
 * In place: an element-wise layer that is its source's only reader takes over the source's memory,
 * if neither the source nor the layer itself reads the old values in backward. A view, which writes
 * nothing, always does; what is overwritten behind one must then have no other reader either.
 *
 * Gradients: backward visits the last reader of an output first. It gives the gradient's first
 * term, in place of its own output's gradient where it can; the others add.
 *
 * Frozen once made; any thread may read it. */
#pragma once

#include "net/shape/shapes.h"

struct sw_net_alias {
    bool in_place;     /* the output lies in the memory of source 0's output */
    int root;          /* whose memory that is in the end; the node itself, when not in place */
    int next_in_place; /* the next node in the same memory, or -1 */
    int last_reader;   /* of a root: the last other layer that reads one of these outputs in
                          forward, or -1 */
    bool published;    /* of a root: other workers read it where it lies */

    int first_writer;   /* the reader whose backward is the first to give a gradient, or -1 */
    bool grad_in_place; /* source 0's gradient lies in the memory of the output's gradient */
    bool grad_handed;   /* of a bridge_src: its source's gradient lies in another worker's memory */
    uint32_t src_adds;  /* bit k: backward itself adds to source k's gradient */
    bool adds_grad[SW_LAYER_SRCS]; /* backward cannot add: it writes aside, then the net adds */
};

struct sw_net_aliases {
    const struct sw_net_graph *graph; /* borrowed, as the shapes */
    const struct sw_net_shapes *shapes;
    bool host_memory;          /* workers reach each other's memory */
    bool is_handed;            /* some output or gradient lies in another worker's memory */
    struct sw_net_alias *node; /* owned [graph->count] */
};

/* Errors: SW_ERR_NOMEM. */
int sw_net_aliases_init(struct sw_net_aliases *a, const struct sw_net_graph *graph,
                        const struct sw_net_shapes *shapes, bool host_memory,
                        struct sw_err *err) SW_MUST_CHECK;
void sw_net_aliases_fini(struct sw_net_aliases *a); /* a zeroed one is accepted */

/* Is node i's gradient in the memory of that of its first writer's output? */
static inline bool sw_net_shares_grad(const struct sw_net_aliases *a, int i)
{
    int writer = a->node[i].first_writer;
    return writer >= 0 && a->node[writer].grad_in_place && a->graph->node[writer].src[0] == i;
}

/* Do other workers read the node's gradient where it lies? */
static inline bool sw_net_publishes_grad(const struct sw_net_aliases *a, int i)
{
    return a->shapes->node[i].layer.type == &sw_net_bridge_dst && a->host_memory;
}
