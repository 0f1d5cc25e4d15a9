/* The steps in which a net's graph is made (net/graph/graph.c calls them in this order). Private to
 * net/graph/. Errors as sw_net_new. */
#pragma once

#include "net/graph/graph.h"

/* A layer of the recipe before it is unrolled. */
struct sw_net_graph_layer {
    const struct sw_section *section;
    int src_count, src[SW_LAYER_SRCS]; /* among the layers */
    enum sw_connection how[SW_LAYER_SRCS];
    int64_t steps; /* 0: it is not unrolled */
};

/* read.c: layers in topological order, but for what reads the step before; owned by the caller.
 * Adds what is wrong to the recipe. */
int sw_net_read_layers(const struct sw_net_args *args, struct sw_net_graph_layer **layers,
                       int *count, struct sw_err *err) SW_MUST_CHECK;

/* unroll.c: nodes of layers, with one for every step of those that are unrolled. */
int sw_net_unroll(struct sw_net_graph *g, const struct sw_net_graph_layer *layers, int count,
                  const struct sw_net_args *args, struct sw_err *err) SW_MUST_CHECK;
/* How many sources step `step` has; of a layer that is not unrolled, step 0. */
int sw_net_step_sources(const struct sw_net_graph_layer *l, int64_t step);

/* share.c: finds who shares whose parameters. */
int sw_net_find_shares(struct sw_net_graph *g, struct sw_err *err) SW_MUST_CHECK;

/* chains.c: finds the Boltzmann machines that are trained. */
int sw_net_find_chains(struct sw_net_graph *g, const struct sw_net_args *args,
                       struct sw_err *err) SW_MUST_CHECK;
