/* The shapes of a net, its third stage: every layer set up for this worker's rows and columns, with
 * plans, what backward does, and numbers for parameters, states and results. It reads the graph,
 * the sharding and the streams of branches; the executable net (net/net_private.h) binds the
 * pointers of the layers later and changes nothing else. One owner. */
#pragma once

#include "net/graph/branches.h"
#include "net/shard/sharding.h"

struct sw_net_shape {
    struct sw_layer layer;
    bool set_up;         /* its setup has begun, so that there may be something to tear down */
    bool absent;         /* another worker does it: nothing to run, hold or update here */
    bool handed;         /* of a bridge_dst: the output lies in another worker's memory */
    int64_t columns;     /* of the whole output, of which this may be a part */
    size_t output_bytes; /* of the output that this worker has */

    bool fuse_relu, fused; /* it applies the relu that reads it; it is such a relu */
    bool chain_link;       /* of a connection between the two sides of a Boltzmann machine */
    bool leads_to_loss;
    bool needs_grad; /* the output's gradient is needed */
    bool has_backward;

    int first_param;                  /* entry of its first parameter */
    bool frozen[SW_LAYER_PARAMS];     /* of its parameters */
    bool trains;                      /* one of them is not */
    bool adds_param[SW_LAYER_PARAMS]; /* backward cannot add to its gradient: aside, then added */
    bool gradient_written[SW_LAYER_PARAMS]; /* there is a layer whose backward writes it */
    enum sw_comm_way comm;                  /* how gradients are exchanged; never AUTO */

    int result, first_pair; /* which of the net's it is a part of, or -1; its pairs among all */
};

struct sw_net_shapes {
    const struct sw_net_graph *graph; /* borrowed, as the sharding */
    const struct sw_net_sharding *sharding;
    struct sw_net_shape *node; /* owned [graph->count] */
    int connections;
    struct sw_net_param *params; /* owned, with names */
    int param_count;
    struct sw_net_state *states; /* owned, with names */
    int state_count;
    int sum_count;                 /* most sums of a layer */
    struct sw_net_result *results; /* owned: the nodes that are losses or metrics */
    int result_count;
    int pair_count, shown_pairs; /* those of later steps stand behind what is shown */
    struct sw_buf comm_notes; /* what is exchanged otherwise than asked for net-wide, a line each */
};

/* The whole stage. branches: may be NULL; sharing: the shapes of args->sharing, or NULL. Errors as
 * sw_net_new; *s is to be freed in any event. */
int sw_net_shapes_init(struct sw_net_shapes *s, const struct sw_net_graph *graph,
                       const struct sw_net_sharding *sharding, const struct sw_branches *branches,
                       const struct sw_net_args *args, const struct sw_net_shapes *sharing,
                       struct sw_err *err) SW_MUST_CHECK;
void sw_net_shapes_fini(struct sw_net_shapes *s); /* a zeroed one is accepted */

/* The node of that name, or -1. */
int sw_net_shapes_find(const struct sw_net_shapes *s, const char *layer);

/* Phases of a pass. */
static inline int sw_net_layer_phases(const struct sw_layer *l, bool backward)
{
    int phases = backward ? l->phases.backward : l->phases.forward;
    return phases > 1 ? phases : 1;
}

/* Does the node run in the turns of a Gibbs chain? */
static inline bool sw_net_takes_turns(const struct sw_net_shapes *s, int i)
{
    return s->graph->node[i].chain || s->node[i].chain_link;
}

/* Does backward write a frozen parameter's gradient, which nobody wants? */
static inline bool sw_net_writes_aside(const struct sw_net_shape *shape, int param)
{
    bool left_out = shape->layer.type->skips_frozen && !shape->trains;
    return shape->has_backward && shape->frozen[param] && !left_out;
}

/* ---- Within net/shape/ ---- */

/* Is what the node answers a term of the loss? */
static inline bool sw_net_is_loss(const struct sw_net_graph_node *node)
{
    return node->type->role == SW_ROLE_LOSS || node->type->penalty || node->chain;
}

/* comm.c: how the gradients of node i are exchanged, once its sources are set up. Messages go to
 * the recipe, notes to the shapes; others: layers of types that have no factors, so far. */
enum sw_comm_way sw_net_find_comm(struct sw_net_shapes *s, const struct sw_net_args *args, int i,
                                  struct sw_buf *others);
/* All nodes are set up: the notes are complete. */
void sw_net_end_comm(struct sw_net_shapes *s, struct sw_buf *others);
/* What the layer's own key or the net-wide setting says, and whether it is the layer's own. */
enum sw_comm_way sw_net_wanted_comm(const struct sw_net_graph_node *node,
                                    const struct sw_net_args *args, bool *own);

/* shared.c: the layout that the node's parameter has from its root, or NULL. */
const struct sw_desc *sw_net_shared_layout(const struct sw_net_shapes *s, int i, const char *param);
/* After setup: do both sides have the parameter, in one shape? Errors: SW_ERR_INVALID. */
int sw_net_check_shares(const struct sw_net_shapes *s, int i, struct sw_err *err) SW_MUST_CHECK;
/* The entry of the parameter that the node's one is, or -1: its own. */
int sw_net_root_param(const struct sw_net_shapes *s, int i, const char *param);
/* Says who writes a shared gradient and who adds to it. */
void sw_net_order_writers(struct sw_net_shapes *s);

/* numbers.c: parameters, results and states, when all layers are set up. Errors: SW_ERR_NOMEM. */
int sw_net_number(struct sw_net_shapes *s, struct sw_err *err) SW_MUST_CHECK;
