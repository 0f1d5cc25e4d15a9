/* Sharing cores out in equal parts that do not cross NUMA nodes: the arithmetic of placement.
 * Internal to plan/. */
#pragma once

#include "machine/machine.h"

/* What each node still has. Filled from a set of free cores. */
struct sw_share {
    int nodes;
    int cores[SW_MAX_NODES]; /* free ones of each node */
    int units[SW_MAX_NODES]; /* result: how many units live on each node */
    int size;                /* result: cores of one unit */
};

/* The cores of the set by NUMA node, none of them given away. */
struct sw_share sw_share_of(const struct sw_machine *m, const struct sw_core_set *cores);
/* Finds the largest size, at most `limit`, with which `units` parts fit, and spreads them over the
 * nodes. False when there are fewer cores than units. */
bool sw_share_fit(struct sw_share *s, int units, int limit);
/* Takes the `count` lowest cores of the nodes in the mask out of *cores. */
struct sw_core_set sw_share_take(const struct sw_machine *m, struct sw_core_set *cores,
                                 uint64_t node_mask, int count);
