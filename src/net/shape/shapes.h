/* The shapes of a net, its third stage: every layer is set up for this worker's rows and columns,
 * with its primitives and backward properties, and parameters, buffers and results are numbered. It
 * reads the graph, the sharding and the streams of branches; the executable net (net/net_private.h)
 * later binds the pointers of the layers and changes nothing else. One owner. */
#pragma once

#include "net/graph/branches.h"
#include "net/shard/sharding.h"

struct sw_net_shape {
    struct sw_layer layer;
    bool set_up;     /* its setup has begun, so it must be torn down */
    bool failed;     /* it or a layer that it depends on has an error */
    bool absent;     /* another worker runs it: this worker has nothing to run, hold or update */
    bool handed;     /* of a bridge_dst: the output is in another worker's memory */
    int64_t columns; /* of the whole output; this worker may have a shard */
    size_t output_bytes; /* of this worker's shard of the output */

    bool halves; /* its output may be stored in 16 bits: it and all its readers support them */
    bool fuse_relu,
        fused;       /* fuse_relu: it applies the relu that reads it; fused: it is such a relu */
    bool chain_link; /* it connects the two sides of a Boltzmann machine */
    bool leads_to_loss;
    bool needs_grad; /* the gradient of the output is needed */
    bool has_backward;

    int first_param;                  /* index of its first parameter */
    bool frozen[SW_LAYER_PARAMS];     /* per parameter */
    bool trains;                      /* some parameter is not frozen */
    bool adds_param[SW_LAYER_PARAMS]; /* backward cannot add to its gradient: it writes to temporary
                                         memory, then the net adds */
    bool gradient_written[SW_LAYER_PARAMS]; /* some layer's backward writes it */
    enum sw_exchange_mode comm;             /* exchange mode; never AUTO */

    int result, first_pair; /* index of the net's result that it belongs to, or -1; index of its
                               first pair */
};

struct sw_net_shapes {
    const struct sw_net_graph *graph; /* borrowed, as the sharding */
    const struct sw_net_sharding *sharding;
    struct sw_net_shape *node; /* owned [graph->count] */
    int connections;
    struct sw_net_param *params; /* owned, with names */
    int param_count;
    struct sw_net_buffer *states; /* owned, with names */
    int state_count;
    int sum_count;                 /* largest number of sums of a layer */
    struct sw_net_result *results; /* owned: the nodes that are losses or metrics */
    int result_count;
    int pair_count, shown_pairs; /* the pairs of later time steps come after the shown ones */
    struct sw_bytes comm_notes; /* layers that do not use the net-wide exchange mode, a line each */
};

/* Runs the whole stage. branches: may be NULL; sharing: the shapes of args->sharing, or NULL.
 * Errors as sw_net_new; *s must be freed in every case. */
int sw_net_shapes_init(struct sw_net_shapes *s, const struct sw_net_graph *graph,
                       const struct sw_net_sharding *sharding, const struct sw_branches *branches,
                       const struct sw_net_args *args, const struct sw_net_shapes *sharing,
                       struct sw_err *err) SW_MUST_CHECK;
void sw_net_shapes_fini(struct sw_net_shapes *s); /* a zeroed one is accepted */

/* The node of that name, or -1. */
int sw_net_shapes_find(const struct sw_net_shapes *s, const char *layer);

/* Number of phases of a pass. */
static inline int sw_net_layer_phases(const struct sw_layer *l, bool backward)
{
    int phases = backward ? l->phases.backward : l->phases.forward;
    return phases > 1 ? phases : 1;
}

/* Does the node run in each turn of a Gibbs chain? */
static inline bool sw_net_takes_turns(const struct sw_net_shapes *s, int i)
{
    return s->graph->node[i].chain || s->node[i].chain_link;
}

/* Does backward write the gradient of a frozen parameter, which is not used? */
static inline bool sw_net_writes_aside(const struct sw_net_shape *shape, int param)
{
    bool left_out = shape->layer.type->skips_frozen && !shape->trains;
    return shape->has_backward && shape->frozen[param] && !left_out;
}

/* ---- Within net/shape/ ---- */

/* Is the node's result a term of the loss? */
static inline bool sw_net_is_loss(const struct sw_net_graph_node *node)
{
    return node->type->role == SW_ROLE_LOSS || node->type->penalty || node->chain;
}

/* exchange_modes.c: chooses the exchange mode of node i, whose sources are set up. Errors go to the
 * recipe, notes to the shapes; others collects the names of layers whose types have no factors. */
enum sw_exchange_mode sw_net_find_exchange_mode(struct sw_net_shapes *s,
                                                const struct sw_net_args *args, int i,
                                                struct sw_bytes *others);
/* Why node i, whose sources are set up, has no factors to exchange, or NULL: it has, and *f gets
 * their numbers. */
const char *sw_net_factors_refusal(const struct sw_net_shapes *s, int i,
                                   struct sw_layer_factors *f);
/* After all nodes are set up: completes the notes. */
void sw_net_end_exchange_modes(struct sw_net_shapes *s, struct sw_bytes *others);
/* The mode that the layer's key or the net-wide setting requests; *own: it is the layer's key. */
enum sw_exchange_mode sw_net_key_exchange_mode(const struct sw_net_graph_node *node,
                                               const struct sw_net_args *args, bool *own);

/* tied.c: the layout that a tied parameter takes from its root, or NULL. */
const struct sw_desc *sw_net_shared_layout(const struct sw_net_shapes *s, int i, const char *param);
/* After setup: checks that both layers have the parameter, with one shape. Errors: SW_ERR_INVALID.
 */
int sw_net_check_ties(const struct sw_net_shapes *s, int i, struct sw_err *err) SW_MUST_CHECK;
/* Index of the parameter that the node's parameter is tied to, or -1: not tied. */
int sw_net_root_param(const struct sw_net_shapes *s, int i, const char *param);
/* Determines which layer writes a tied gradient and which layers add to it. */
void sw_net_order_writers(struct sw_net_shapes *s);

/* numbers.c: assigns indices to parameters, results and buffers, after all layers are set up.
 * Errors: SW_ERR_NOMEM. */
int sw_net_number(struct sw_net_shapes *s, struct sw_err *err) SW_MUST_CHECK;
