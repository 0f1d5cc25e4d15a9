/* What other runs of this machine use, and which cores a run takes beside them. Pure, besides
 * reading an open registry; any thread. */
#pragma once

#include "base/str.h"
#include "machine/machine.h"
#include "machine/registry.h"

/* Runs on each core and GPU of a machine map, without the caller's. */
struct sw_usage {
    int runs[SW_MAX_CORES];        /* by hwloc logical number */
    uint64_t used_gpus;            /* bit i: GPU i of the map */
    int queued_cores, queued_gpus; /* what runs wait for that arrived before the caller's */
    int queued_runs;
};

/* own: the registration of the caller's run, or NULL. */
void sw_usage_read(const struct sw_machine *m, const struct sw_registry *registry,
                   const struct sw_registration *own, struct sw_usage *out);
/* The cores of the map that no run uses, and the number of such GPUs. */
struct sw_core_set sw_usage_free_cores(const struct sw_machine *m, const struct sw_usage *u);
int sw_usage_free_gpus(const struct sw_machine *m, const struct sw_usage *u);

/* Cores that a run asks for. */
struct sw_core_request {
    int cores;   /* exactly so many, as far as the map has them; 0: all that are free */
    int least;   /* with cores = 0: at least so many */
    int workers; /* that share them equally: they are chosen so that each worker can have its cores
                    inside one NUMA node */
};
/* Chooses cores of the map: free ones if there are enough, else also used ones, those with the
 * fewest runs first. With cores = 0 and no free core: all cores of the map. */
struct sw_core_set sw_usage_choose(const struct sw_machine *m, const struct sw_usage *u,
                                   const struct sw_core_request *request);
/* The cores from the set `from` for `count` in total: inside a NUMA node of node_mask where they
 * fit, else of few nodes. */
struct sw_core_set sw_usage_pick(const struct sw_machine *m, const struct sw_core_set *from,
                                 int count, uint64_t node_mask);

/* Appends who else uses these cores and GPUs: `cores 0-1 are used by run 12 "lenet" (pid 4711)`,
 * for several runs separated by "; ". Nothing if nobody does. gpus: bit i, GPU i of the map. */
void sw_usage_add_users(const struct sw_machine *m, const struct sw_registry *registry,
                        const struct sw_registration *own, const struct sw_core_set *cores,
                        uint64_t gpus, struct sw_bytes *out);
