/* What the files of net/ share: graph.c (order, from the recipe), build.c (shapes, plans), memory.c
 * (lives and offsets), net.c (passes and questions). */
#ifndef SW_NET_NET_PRIVATE_H
#define SW_NET_NET_PRIVATE_H

#include "net/net.h"

enum { SW_NO_OFFSET = -1 };

/* A layer and what the net knows of it. */
struct sw_net_node {
    struct sw_layer layer;
    const struct sw_section *section;
    int src[SW_LAYER_SRCS]; /* node indices */
    int consumers;          /* layers that read the output */
    int only_consumer;      /* the one, when consumers == 1 */
    int gradient_givers;    /* consumers whose backward writes into the output's gradient */
    bool leads_to_loss;
    bool needs_grad; /* the output's gradient is needed */
    bool has_backward;
    bool fuse_relu, fused;
    bool in_place;                 /* output in the memory of src[0]'s output */
    bool grad_in_place;            /* src[0]'s gradient in the memory of the output's gradient */
    bool adds_grad[SW_LAYER_SRCS]; /* backward writes aside, then adds: not the first giver */
    int first_param;

    /* Offsets in the arena, or SW_NO_OFFSET. */
    int64_t data, grad, saved, forward_scratch, backward_scratch, aside[SW_LAYER_SRCS];
};

struct sw_net {
    struct sw_recipe *recipe; /* borrowed */
    struct sw_stream *stream; /* borrowed */
    bool training;
    int64_t rows;
    struct sw_net_node *nodes; /* owned, topological order */
    int count;
    struct sw_net_param *params; /* owned, with names */
    int param_count;
    int *results;              /* owned: nodes that are losses or metrics */
    struct sw_result *fetched; /* owned [result_count]: host copies */
    int result_count;
    int64_t results_at, step_at; /* offsets of the results' array and of the step */
    struct sw_step step;         /* the host's copy, alive until it has reached the device */
    size_t arena_bytes;
    char *arena; /* borrowed */
};

/* Nodes from the recipe's [layer] sections in topological order. Errors as sw_net_new. */
int sw_net_read_graph(struct sw_net *net, struct sw_err *err) SW_MUST_CHECK;
/* Gives every life an offset. Errors: SW_ERR_NOMEM. */
int sw_net_plan_memory(struct sw_net *net, struct sw_err *err) SW_MUST_CHECK;

#endif
