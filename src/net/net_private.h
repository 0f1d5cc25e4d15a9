/* The executable net: the results of its build stages, and the memory that its owner binds. The
 * stages, in the order in which sw_net_new makes them, each from those before it:
 *
 *     graph      net/graph    layers and steps in order, shared parameters, machines
 *     sharding   net/shard    how outputs are spread over the group; connections
 *     branches   net/graph    which layers have streams of their own
 *     shapes     net/shape    layers set up: shapes, plans, parameters, what backward does
 *     aliases    net/exec     which outputs and gradients share their memory
 *     execution order   net/exec     everything a step does, in order; then the waits of branches
 *     memory     net/memory   where everything lies
 *
 * With a budget (fit.c) execution order and memory are planned again. Then pointers are bound
 * (bind.c), and passes run (pass.c, offload.c); net.c has the accessors. */
#pragma once

#include "net/memory/memory.h"
#include "net/shape/shapes.h"

struct sw_offload;

struct sw_net {
    struct sw_net_args
        args; /* with defaults filled in; fields that are borrowed for the call only are NULL */
    struct sw_net_graph graph;
    struct sw_net_sharding sharding;
    struct sw_branches *branches; /* owned; NULL: all passes are queued on args.stream */
    struct sw_net_shapes shapes;
    struct sw_net_aliases aliases;
    struct sw_exec_order exec;
    struct sw_branch_order *order; /* owned; NULL without branches */
    struct sw_net_memory memory;
    size_t kept_bytes; /* arena size without a budget */

    /* Owned host memory: staging buffers of the step scalars (to the device) and the results (from
     * it), for the newest step and the one before, which take turns. */
    struct sw_net_staging {
        struct sw_step step[2][SW_NET_STEPS];
        struct sw_result fetched[]; /* [2][pair_count]: copies of the results' pairs */
    } * staging;
    int staging_turn;           /* of the newest step: 0 or 1 */
    struct sw_offload *offload; /* owned; NULL: nothing is offloaded */
    char *arena, *scratch;      /* borrowed */
    float **gradient;           /* owned [params]: the bound gradient arrays */
    int chain_turn;             /* turn of the running pass */
};

/* Address of an offset: offsets past the end of the arena are in the scratch memory. */
static inline void *sw_net_at(const struct sw_net *net, int64_t offset)
{
    if (offset == SW_NO_OFFSET)
        return NULL;
    int64_t beyond = offset - (int64_t)net->memory.arena_bytes;
    return beyond < 0 ? net->arena + offset : net->scratch + beyond;
}

/* Sets the memory of node i's output and of all nodes that alias it, for this pass. */
static inline void sw_net_use_memory(struct sw_net *net, int i, void *data)
{
    for (int j = i; j < net->graph.count; j++)
        if (net->aliases.node[j].root == i)
            net->shapes.node[j].layer.dst.data = data;
}

/* build.c: plans execution order, branch order and memory for net->exec.residency. Must not be
 * called after sw_net_bind. Errors: SW_ERR_NOMEM, those of the device. */
int sw_net_plan_step(struct sw_net *net, const struct sw_device_throughput *rates,
                     struct sw_err *err) SW_MUST_CHECK;

/* offload.c: streams and events for offloaded activations. Errors: those of the device. */
int sw_offload_new(const struct sw_net *net, struct sw_offload **out,
                   struct sw_err *err) SW_MUST_CHECK;
void sw_offload_free(struct sw_offload *s); /* NULL is accepted */
void sw_offload_bind(struct sw_offload *s, void *memory);
/* Runs an op that copies or waits for a copy. */
int sw_offload_run(struct sw_net *net, const struct sw_exec_op *op,
                   struct sw_err *err) SW_MUST_CHECK;
