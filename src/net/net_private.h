/* A net as it runs: the results of its stages, and what its owner binds. The stages, in the order
 * in which sw_net_new makes them, each from those before it:
 *
 *     graph      net/graph    layers and steps in order, shared parameters, machines
 *     sharding   net/shard    how outputs are spread over the group; connections
 *     branches   net/graph    which layers have streams of their own
 *     shapes     net/shape    layers set up: shapes, plans, parameters, what backward does
 *     aliases    net/exec     which outputs and gradients share their memory
 *     execution order   net/exec     everything a step does, in order; then the waits of branches
 *     memory     net/memory   where everything lies
 *
 * A budget (fit.c) makes execution order and memory again. Then pointers are bound (bind.c), and
 * passes run (pass.c, swap.c); net.c answers questions. */
#pragma once

#include "net/memory/memory.h"
#include "net/shape/shapes.h"

struct sw_swap;

struct sw_net {
    struct sw_net_args
        args; /* with defaults filled in; what is borrowed for the call alone: NULL */
    struct sw_net_graph graph;
    struct sw_net_sharding sharding;
    struct sw_branches *branches; /* owned; NULL: all passes are queued on args.stream */
    struct sw_net_shapes shapes;
    struct sw_net_aliases aliases;
    struct sw_exec_order exec;
    struct sw_branch_order *order; /* owned; NULL without branches */
    struct sw_net_memory memory;
    size_t kept_bytes; /* the arena without a budget */

    /* Owned host memory that goes to the device and comes from there. */
    struct sw_net_mail {
        struct sw_step step[SW_NET_STEPS];
        struct sw_result fetched[]; /* [pair_count]: copies of the results' pairs */
    } * mail;
    struct sw_swap *swap;  /* owned; NULL: nothing is swapped */
    char *arena, *scratch; /* borrowed */
    float **gradient;      /* owned [params]: where they are added, as bound */
    int chain_turn;        /* of the pass that runs */
};

/* What lies at an offset of the arena and, behind its end, of the scratch. */
static inline void *sw_net_at(const struct sw_net *net, int64_t offset)
{
    if (offset == SW_NO_OFFSET)
        return NULL;
    int64_t beyond = offset - (int64_t)net->memory.arena_bytes;
    return beyond < 0 ? net->arena + offset : net->scratch + beyond;
}

/* The memory of node i's output and of all that lie in it, for this pass. */
static inline void sw_net_use_memory(struct sw_net *net, int i, void *data)
{
    for (int j = i; j < net->graph.count; j++)
        if (net->aliases.node[j].root == i)
            net->shapes.node[j].layer.dst.data = data;
}

/* build.c: execution order, order of branches and memory for the residency that the execution order
 * has; not after sw_net_bind. Errors: SW_ERR_NOMEM, those of the device. */
int sw_net_plan_step(struct sw_net *net, const struct sw_net_rates *rates,
                     struct sw_err *err) SW_MUST_CHECK;

/* swap.c: streams and events for what is swapped. Errors: those of the device. */
int sw_swap_new(const struct sw_net *net, struct sw_swap **out, struct sw_err *err) SW_MUST_CHECK;
void sw_swap_free(struct sw_swap *s); /* NULL is accepted */
void sw_swap_bind(struct sw_swap *s, void *memory);
/* An op that copies, or waits for a copy. */
int sw_swap_run(struct sw_net *net, const struct sw_exec_op *op, struct sw_err *err) SW_MUST_CHECK;
