/* Searches the best parallel plans of a net on a machine: over shapes (groups, workers in each,
 * frameworks), and in each shape over partition, location and exchange mode of every layer, within
 * the memory of every device.
 *
 * For one shape, dynamic programming over the layers in topological order: a state is the
 * distributions of the outputs that later layers still read (the open layers) with the memory used
 * so far, and of two states with the same distributions the one that is neither faster nor smaller
 * is dropped (as the ten best are wanted: the one that is not among ten). That is exact for the
 * additive cost (planner/cost.h) while no more than SW_SEARCH_STATES states survive, as in nets
 * with a few open layers; beyond, the best SW_SEARCH_STATES go on (a beam), and the result says so.
 */
#pragma once

#include "planner/cost.h"

enum { SW_SEARCH_STATES = 4096, SW_SEARCH_BEST = 10 };

/* What the user has decided: a field that is not set is searched. */
struct sw_search_limits {
    int groups, group_size;           /* 0: any */
    int fewest_workers, most_workers; /* 0: one, as many as the machine has devices */
    int servers;                      /* of the server group; 0: those of the framework */
    enum sw_framework framework;      /* AUTO: any synchronous one */
    enum sw_consistency consistency;  /* AUTO: that of the framework */
    int64_t staleness;                /* -1: not given */
    /* By layer; NULL: free. -1: not set for that layer. */
    const int *partition, *location, *comm;
    enum sw_exchange_mode net_comm; /* of layers without comm; AUTO: free */
    int64_t budget_bytes; /* of memory = fit; 0: the memory of the machine; -1: everything stays */
    bool any_memory;      /* plans that need more than there is are found, too */
};

struct sw_search_result {
    struct sw_parallel_plan *plan; /* owned [count], best additive cost first, all different */
    int count;
    /* The best plan found in every shape that has one, most workers first: overlap, which the
     * simulator knows, may put them in another order. Owned [shapes]. */
    struct sw_parallel_plan *of_shape;
    int shapes;
    /* In the shapes that were searched, with layers that are whole on one of the first
     * SW_SEARCH_PLACES workers, no plan has a lower additive cost than the first one; and of plans
     * in which all activations stay in memory none has a lower one than these in `plan`. */
    bool is_exact;
    int skipped_shapes; /* numbers of groups and workers that were not searched */
    int most_open;      /* open layers at once */
    char nearest[256];  /* count 0: why nothing is possible, and the nearest plan that is */
};

/* Errors: SW_ERR_NOMEM; SW_ERR_INVALID (the limits contradict the net or the machine), with the
 * reason and the nearest possible plan. Free with sw_search_fini in every case. */
int sw_search(const struct sw_net_model *net, const struct sw_machine_model *machine,
              const struct sw_search_limits *limits, struct sw_search_result *out,
              struct sw_err *err) SW_MUST_CHECK;
void sw_search_fini(struct sw_search_result *r); /* a zeroed one is accepted */
