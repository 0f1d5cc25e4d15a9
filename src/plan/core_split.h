/* Splits cores into equal sets that do not cross NUMA nodes: the arithmetic of placement. Internal
 * to plan/. */
#pragma once

#include "machine/machine.h"

/* Free cores per NUMA node, and the split. */
struct sw_core_split {
    int nodes;
    int cores[SW_MAX_NODES]; /* free cores of each node */
    int sets[SW_MAX_NODES];  /* result: number of sets on each node */
    int size;                /* result: cores per set */
};

/* Counts the cores of the set by NUMA node; no sets are assigned yet. */
struct sw_core_split sw_core_split_of(const struct sw_machine *m, const struct sw_core_set *cores);
/* Finds the largest size, at most `limit`, with which `sets` sets fit, and distributes the sets
 * over the nodes. Returns false if there are fewer cores than sets. */
bool sw_core_split_fit(struct sw_core_split *s, int sets, int limit);
/* Removes the `count` lowest cores of the nodes in the mask from *cores and returns them. */
struct sw_core_set sw_core_split_take(const struct sw_machine *m, struct sw_core_set *cores,
                                      uint64_t node_mask, int count);
