/* Layers that connect the time steps of unrolled layers with the rest of the net; their types are
 * declared in net/graph/graph.h. */
#pragma once

#include "net/graph/graph.h"

/* Sets up a layer that connects steps, with `rows` rows. Errors as for layer setup. */
int sw_net_steps_setup(const struct sw_net_graph_node *node, struct sw_layer *l, int64_t rows,
                       struct sw_err *err) SW_MUST_CHECK;
/* Sets the memory to which an `end` copies the last step. */
void sw_net_end_bind(struct sw_layer *l, float *next);
