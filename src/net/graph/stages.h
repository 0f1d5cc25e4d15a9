/* The passes that build a net's graph; net/graph/graph.c calls them in this order. Private to
 * net/graph/. Errors as sw_net_new. */
#pragma once

#include "net/graph/graph.h"

/* A layer of the recipe before it is unrolled. */
struct sw_net_graph_layer {
    const struct sw_section *section;
    int src_count, src[SW_LAYER_SRCS]; /* among the layers */
    enum sw_connection how[SW_LAYER_SRCS];
    int64_t steps; /* 0: not unrolled */
};

/* read.c: layers in topological order, ignoring connections to the previous time step; the caller
 * owns *layers. Adds errors to the recipe. */
int sw_net_read_layers(const struct sw_net_args *args, struct sw_net_graph_layer **layers,
                       int *count, struct sw_err *err) SW_MUST_CHECK;

/* unroll.c: makes one node per layer, or one per time step for unrolled layers. */
int sw_net_unroll(struct sw_net_graph *g, const struct sw_net_graph_layer *layers, int count,
                  const struct sw_net_args *args, struct sw_err *err) SW_MUST_CHECK;
/* Number of sources of time step `step`; use step 0 for a layer that is not unrolled. */
int sw_net_step_sources(const struct sw_net_graph_layer *l, int64_t step);

/* ties.c: finds tied parameters. */
int sw_net_find_ties(struct sw_net_graph *g, struct sw_err *err) SW_MUST_CHECK;

/* chains.c: finds the trained Boltzmann machines. */
int sw_net_find_chains(struct sw_net_graph *g, const struct sw_net_args *args,
                       struct sw_err *err) SW_MUST_CHECK;
