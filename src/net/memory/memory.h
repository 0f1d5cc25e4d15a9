/* The memory plan of a net: where in the arena everything lies that a step needs, and where
 * features lie in host memory that are copied there. Made from an execution order; one owner.
 *
 * Everything that a step needs is here, in the parameter table, or in queues made at setup: a step
 * allocates nothing of ours (oneDNN allocates a few small objects per call). */
#pragma once

#include "net/exec/branch_order.h"

enum { SW_NO_OFFSET = -1 };
enum { SW_NET_STEPS = 2 }; /* of a pass: for layers that see the worker's rows, and the group's */

/* Of a node: offsets in the arena and, behind its end, in the scratch; or SW_NO_OFFSET. */
struct sw_net_places {
    int64_t data, grad, saved, forward_scratch, backward_scratch, forward_sums, backward_sums;
    int64_t aside[SW_LAYER_SRCS], param_aside[SW_LAYER_PARAMS];
    /* For what is not SW_RESIDENT all the time: the second place, and that in host memory. */
    int64_t data_again, saved_again, recompute_scratch, host_at;
    int last_use; /* the last op that reads an output or gradient in another worker's memory */
};

struct sw_net_memory {
    struct sw_net_places *node; /* owned */
    int64_t pairs_at, step_at;  /* offsets of the results' pairs and of the step */
    size_t arena_bytes, scratch_bytes, swap_bytes;
    int *written_at; /* owned: of a root that is copied to the host the first op that writes where
                        it lay; -1: none */
};

/* Errors: SW_ERR_NOMEM. */
int sw_net_memory_init(struct sw_net_memory *m, int nodes, struct sw_err *err) SW_MUST_CHECK;
void sw_net_memory_fini(struct sw_net_memory *m); /* a zeroed one is accepted */

/* Gives everything in a step of this execution order its place. order: of branches, or NULL;
 * separate_scratch: as in sw_net_args. Errors: SW_ERR_NOMEM. */
int sw_net_memory_plan(struct sw_net_memory *m, const struct sw_exec_order *s,
                       const struct sw_branch_order *order, bool separate_scratch,
                       struct sw_err *err) SW_MUST_CHECK;
