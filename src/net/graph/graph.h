/* The graph of a net, its first stage: the layers of a recipe as nodes in topological order, with
 * their sources, their tied parameters, and the sides of Boltzmann machines. It uses layer types
 * and recipe keys only, not shapes, workers or memory. One owner; frozen once the sharding
 * (net/shard/sharding.h) has inserted its connections. */
#pragma once

#include "base/str.h"
#include "net/net.h"

/* A parameter that is tied to one of an earlier layer. */
struct sw_net_tie {
    const char *param; /* its name in this layer */
    int root;          /* node, earlier than this one */
    const char *root_param;
};

struct sw_net_graph_node {
    const char *name;
    const char *home; /* prefix of the names of parameters and buffers: the section's name */
    const struct sw_section *section;
    const struct sw_layer_type *type;
    const void *conf;
    char *owned_name; /* of a time step or a connection; else NULL */
    void *owned_conf; /* of a time step of a loss, with its share of the weight; else NULL */

    int src_count, src[SW_LAYER_SRCS]; /* nodes, earlier than this one */
    int readers;                       /* number of layers that read the output */

    int step, steps;  /* of an unrolled layer, or of a node that takes a step out of a sequence:
                         index and number of time steps; step -1: neither */
    const char *of;   /* of a node that takes a step: name of the layer that it reads */
    int64_t width;    /* width of the previous step that the first step reads, [rows, width]; of a
                         `front`: width of its output */
    bool keeps_state; /* of a `begin`: it may start from the state of the previous batch */
    bool joins_joins; /* of a `join`: its sources are joins too */

    struct sw_net_tie tie[SW_LAYER_PARAMS];
    int tie_count;
    bool is_shared;              /* one of its parameters is tied */
    bool chain;                  /* one layer of a trained Boltzmann machine */
    enum sw_machine_place place; /* with algorithm = cd: of a hidden layer in its machine */
};

struct sw_net_graph {
    struct sw_recipe *recipe;        /* borrowed: receives the messages */
    const struct sw_strings *freeze; /* borrowed: patterns of parameters that are not trained; or
                                        NULL */
    struct sw_net_graph_node *node;  /* owned, topological order */
    int count;
};

/* Runs the whole stage. Errors as sw_net_new; *g must be freed in every case. */
int sw_net_graph_init(struct sw_net_graph *g, const struct sw_net_args *args,
                      struct sw_err *err) SW_MUST_CHECK;
void sw_net_graph_fini(struct sw_net_graph *g); /* a zeroed one is accepted */

/* ---- nodes.c ---- */

/* A layer with only name, type and options set: the start of setup, and the argument of some
 * callbacks of types. */
struct sw_layer sw_net_graph_layer(const struct sw_net_graph *g, int i);
/* Moves node i to nodes[place[i]]; the graph takes ownership of nodes. */
void sw_net_graph_reorder(struct sw_net_graph *g, const int *place,
                          struct sw_net_graph_node *nodes);
/* Counts the readers. */
void sw_net_graph_link(struct sw_net_graph *g);
/* The tie of the node's parameter, or NULL. */
const struct sw_net_tie *sw_net_tie_of(const struct sw_net_graph_node *node, const char *param);

/* Is the node a later time step of an unrolled layer? Errors in its keys are reported by the first
 * step. */
static inline bool sw_net_is_later_step(const struct sw_net_graph_node *node)
{
    return node->step > 0;
}

/* ---- Nodes without a recipe section ---- */

/* Types that connect the time steps of an unrolled layer with other layers (net/layers/steps.c). */
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

/* Before setup: can the layer have a trained parameter? */
bool sw_net_may_train(const struct sw_net_graph *g, const struct sw_net_graph_node *node);
bool sw_net_is_frozen_param(const struct sw_net_graph *g, const struct sw_net_graph_node *node,
                            const char *param);
