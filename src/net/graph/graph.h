/* The graph of a net, its first stage: the layers of a recipe as nodes in topological order, with
 * who reads whom, whose parameters are whose, and which are sides of Boltzmann machines. It knows
 * types and keys, and nothing of shapes, workers or memory. One owner; frozen once the sharding
 * (net/shard/sharding.h) has put its connections in. */
#pragma once

#include "base/str.h"
#include "net/net.h"

/* A parameter of a layer that is another one's. */
struct sw_net_share {
    const char *param; /* the layer's own name for it */
    int root;          /* node, earlier than this one */
    const char *root_param;
};

struct sw_net_graph_node {
    const char *name;
    const char *home; /* of parameters and state: the section's name */
    const struct sw_section *section;
    const struct sw_layer_type *type;
    const void *conf;
    char *owned_name; /* of a step or a connection; else NULL */
    void *owned_conf; /* of a step of a loss, whose weight is a part of it; else NULL */

    int src_count, src[SW_LAYER_SRCS]; /* nodes, earlier than this one */
    int readers;                       /* layers that read the output */

    int step, steps;  /* of an unrolled layer, or of what takes a step out of a sequence: which it
                         is, and how many there are; step -1: neither */
    const char *of;   /* of the latter: whose steps */
    int64_t width;    /* what the first step reads of the step before: [rows, width]; what a `front`
                         shows */
    bool carries;     /* of a `begin`: the batch before may have left it */
    bool joins_joins; /* of a `join`: its sources are such, too */

    struct sw_net_share share[SW_LAYER_PARAMS];
    int share_count;
    bool is_shared; /* a parameter of it has several users */
    bool chain;     /* one side of a Boltzmann machine that is trained */
};

struct sw_net_graph {
    struct sw_recipe *recipe;        /* borrowed: messages go there */
    const struct sw_strings *freeze; /* borrowed: patterns of parameters that are not trained; or
                                        NULL */
    struct sw_net_graph_node *node;  /* owned, topological order */
    int count;
};

/* The whole stage. Errors as sw_net_new; *g is to be freed in any event. */
int sw_net_graph_init(struct sw_net_graph *g, const struct sw_net_args *args,
                      struct sw_err *err) SW_MUST_CHECK;
void sw_net_graph_fini(struct sw_net_graph *g); /* a zeroed one is accepted */

/* ---- nodes.c ---- */

/* What a layer is called and of which type it is: the beginning of its life, and what some
 * questions about types take. */
struct sw_layer sw_net_graph_layer(const struct sw_net_graph *g, int i);
/* Moves node i to nodes[place[i]], which the graph takes over. */
void sw_net_graph_reorder(struct sw_net_graph *g, const int *place,
                          struct sw_net_graph_node *nodes);
/* Counts the readers. */
void sw_net_graph_link(struct sw_net_graph *g);
/* How the node shares its parameter, or NULL. */
const struct sw_net_share *sw_net_share_of(const struct sw_net_graph_node *node, const char *param);

/* Is the node a later step of an unrolled layer? What is wrong with its keys the first one says. */
static inline bool sw_net_is_later_step(const struct sw_net_graph_node *node)
{
    return node->step > 0;
}

/* ---- Nodes that no section asks for ---- */

/* What connects the steps of an unrolled layer with the rest (net/layers/steps.c). */
extern const struct sw_layer_type sw_net_step, sw_net_join, sw_net_begin, sw_net_end, sw_net_front;
static inline bool sw_net_connects_steps(const struct sw_net_graph_node *node)
{
    const struct sw_layer_type *type = node->type;
    return type == &sw_net_step || type == &sw_net_join || type == &sw_net_begin ||
           type == &sw_net_end || type == &sw_net_front;
}

/* The two ends of a connection between workers (net/layers/bridge.c). */
extern const struct sw_layer_type sw_net_bridge_src, sw_net_bridge_dst;
static inline bool sw_net_is_bridge(const struct sw_net_graph_node *node)
{
    return node->type == &sw_net_bridge_src || node->type == &sw_net_bridge_dst;
}

/* ---- freeze.c ---- */

/* Before setup, might the layer have a parameter that is trained? */
bool sw_net_may_train(const struct sw_net_graph *g, const struct sw_net_graph_node *node);
bool sw_net_is_frozen_param(const struct sw_net_graph *g, const struct sw_net_graph_node *node,
                            const char *param);
