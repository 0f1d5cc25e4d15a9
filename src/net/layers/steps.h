/* Layers that connect the steps of an unrolled net with the rest of it; their types are declared
 * with the graph. */
#pragma once

#include "net/graph/graph.h"

/* Sets up a layer that connects steps, with so many rows. Errors as of setup. */
int sw_net_steps_setup(const struct sw_net_graph_node *node, struct sw_layer *l, int64_t rows,
                       struct sw_err *err) SW_MUST_CHECK;
/* Where an `end` leaves the last step. */
void sw_net_end_bind(struct sw_layer *l, float *next);
