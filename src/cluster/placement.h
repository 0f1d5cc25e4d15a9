/* Placement: which cores every worker and server runs on, and why. Workers get equal, whole,
 * disjoint core sets, inside one NUMA node where they fit; a bound server shares its worker's
 * cores, unbound ones get the cores left over, and where none is left share a worker's. Pure
 * function of machine and shape, so that it can be planned for a machine that is not here. Frozen
 * once made. */
#ifndef SW_CLUSTER_PLACEMENT_H
#define SW_CLUSTER_PLACEMENT_H

#include "cluster/machine.h"

/* How many units there are: the counts of [cluster], each at least 1. */
struct sw_cluster_shape {
    int worker_groups, workers_per_group;
    int server_groups, servers_per_group;
    bool bind_servers; /* server i lives with worker i (modulo the workers) */
};

struct sw_placement_row {
    char unit[24];      /* worker0.1, server0.0: group, index inside it */
    char device[16];    /* cpu */
    int numa;           /* hwloc logical number of the (first) node */
    uint64_t node_mask; /* bit i: index in machine->nodes */
    struct sw_core_set cores;
    int threads;      /* math threads: at most one per core */
    char reason[192]; /* a sentence */
};

struct sw_placement {
    int worker_count, server_count;
    struct sw_placement_row *rows; /* owned; workers first, then servers */
    struct sw_core_set spare;      /* cores that nobody owns */
    bool oversubscribed;           /* workers share cores, as asked */
};

/* Errors: SW_ERR_INVALID when the workers need more computing threads than there are and
 * oversubscribe is false (the message says how many would fit), SW_ERR_NOMEM. */
int sw_placement_new(const struct sw_machine *m, const struct sw_cluster_shape *shape,
                     bool oversubscribe, struct sw_placement **out,
                     struct sw_err *err) SW_MUST_CHECK;
void sw_placement_free(struct sw_placement *p); /* NULL is accepted */

/* group counts from 0, index inside the group. */
const struct sw_placement_row *sw_placement_worker(const struct sw_placement *p,
                                                   const struct sw_cluster_shape *shape, int group,
                                                   int index);
const struct sw_placement_row *sw_placement_server(const struct sw_placement *p,
                                                   const struct sw_cluster_shape *shape, int group,
                                                   int index);
/* Where helper threads of a row run (prefetch): spare cores of its nodes, else its own cores. */
struct sw_core_set sw_placement_helper_cores(const struct sw_placement *p,
                                             const struct sw_machine *m,
                                             const struct sw_placement_row *row);

#endif
