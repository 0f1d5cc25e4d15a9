/* The memory plan of a net: offsets in the arena of everything that a step needs, and offsets in
 * host memory of offloaded activations. Made from an execution order; one owner.
 *
 * All memory of a step is in this plan, in the parameter table, or in queues and tables made at
 * setup: a step allocates nothing itself (oneDNN allocates a few small objects per call). */
#pragma once

#include "net/exec/branch_order.h"

enum { SW_NO_OFFSET = -1 };
enum {
    SW_NET_STEPS = 2
}; /* step scalars of a pass: for layers with the worker's rows, and with the group's */

/* Offsets of a node in the arena and, past its end, in the scratch; or SW_NO_OFFSET. */
struct sw_net_places {
    int64_t data, grad, saved, forward_scratch, backward_scratch, forward_sums, backward_sums;
    int64_t aside[SW_LAYER_SRCS], param_aside[SW_LAYER_PARAMS];
    /* For activations that are not SW_RESIDENT: the restored copy, and the offset in host memory.
     */
    int64_t data_again, saved_again, recompute_scratch, host_at;
    int last_use; /* the last op that reads an output or gradient in another worker's memory */
};

struct sw_net_memory {
    struct sw_net_places *node; /* owned */
    int64_t pairs_at, step_at;  /* offsets of the results' pairs and of the step scalars */
    size_t arena_bytes, scratch_bytes, offload_bytes;
    int *written_at; /* owned: of an offloaded root the first op that overwrites its first memory;
                        -1: none */
};

/* Allocates the plan of a net with that many nodes. Errors: SW_ERR_NOMEM. */
int sw_net_memory_init(struct sw_net_memory *m, int nodes, struct sw_err *err) SW_MUST_CHECK;
void sw_net_memory_fini(struct sw_net_memory *m); /* a zeroed one is accepted */

/* Plans the memory of a step with this execution order. order: of branches, or NULL;
 * separate_scratch: as in sw_net_args. Errors: SW_ERR_NOMEM. */
int sw_net_memory_plan(struct sw_net_memory *m, const struct sw_exec_order *s,
                       const struct sw_branch_order *order, bool separate_scratch,
                       struct sw_err *err) SW_MUST_CHECK;
