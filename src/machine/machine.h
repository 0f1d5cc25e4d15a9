/* The machine map: packages, NUMA nodes, cores, caches, and the PCIe tree with GPUs and network
 * cards (machine/io.h), as hwloc sees them, minus what this process may not use (cgroup cpuset,
 * taskset, CUDA_VISIBLE_DEVICES). Hardware that is not allowed is not in the map. Core and node
 * numbers are hwloc's logical ones (`lstopo` writes them L#). A map is made once and frozen; any
 * thread reads it. This room is the only one that includes hwloc. */
#pragma once

#include "base/err.h"
#include "machine/core_set.h"
#include "machine/io.h"
#include <stdbool.h>
#include <stdint.h>

enum { SW_MAX_NODES = 64 };

struct sw_core {
    int number;  /* hwloc logical number */
    int package; /* hwloc logical number; 0 if the machine has no packages */
    int node;    /* index in nodes */
    int pus;     /* hardware threads of the core that this process may use */
};

/* A NUMA node with at least one allowed core. Cores whose memory this process may not use have an
 * entry of number -1 for each package, without memory. */
struct sw_numa_node {
    int number;    /* hwloc logical number */
    int os_number; /* as in /sys/devices/system/node */
    int package;   /* of its first core */
    int64_t memory_bytes;
    struct sw_core_set cores;
};

/* A cache of level 2 or higher. */
struct sw_cache {
    int level;
    int64_t bytes;
    struct sw_core_set cores; /* cores of the map that share it */
};

struct hwloc_topology;
struct hwloc_bitmap_s;

struct sw_machine {
    char host[64];
    char cpu_model[96];         /* "" when unknown */
    bool here;                  /* the map is of this machine: threads and memory can be bound */
    int package_count;          /* of those with an allowed core */
    int node_count, core_count; /* of the arrays */
    int pu_count;               /* allowed hardware threads */
    int hidden_pus;             /* hardware threads that this process may not use */
    struct sw_numa_node *nodes; /* owned; ascending numbers, -1 last */
    struct sw_core *cores;      /* owned; ascending numbers */
    struct sw_cache *caches;    /* owned; by level from 3 down, then by cores */
    int cache_count;
    struct sw_io *io; /* owned; parents come first */
    int io_count;
    int *gpus; /* owned [gpu_count]: indices in io */
    int gpu_count;
    int hidden_gpus;                 /* by CUDA_VISIBLE_DEVICES */
    double *nvlinks;                 /* owned [gpu_count][gpu_count]; NULL: unknown */
    int64_t memory_bytes;            /* of all allowed nodes */
    double cpu_quota;                /* CPUs that cgroups grant over time; 0: no limit */
    struct hwloc_topology *topology; /* owned; for machine/ only */
    struct hwloc_bitmap_s *allowed;  /* owned; for machine/ only */
    int core_depth; /* hwloc's depth of cores (of hardware threads if it has no cores) */
    int owners;     /* atomic: reference count */
};

/* Maps this machine for this process; call it before any thread is bound. Free with
 * sw_machine_free. Errors: SW_ERR_NOMEM, SW_ERR_LIBRARY, SW_ERR_UNSUPPORTED (more cores or nodes
 * than SW_MAX_*). */
int sw_machine_here(struct sw_machine **out, struct sw_err *err) SW_MUST_CHECK;
/* Maps another machine: source is a file written by `lstopo machine.xml`, or a synthetic
 * description such as "numa:4 core:6 pu:2". Errors: SW_ERR_NOTFOUND, SW_ERR_FORMAT and the above.
 */
int sw_machine_from(const char *source, struct sw_machine **out, struct sw_err *err) SW_MUST_CHECK;
/* Adds a reference and returns m. Maps are shared, since reading a large machine takes longer than
 * a short job. */
struct sw_machine *sw_machine_share(struct sw_machine *m);
void sw_machine_free(struct sw_machine *m); /* drops a reference; NULL is accepted */
/* Removes all other cores, and NUMA nodes that have none left, as if this process were not allowed
 * to use them; keep has at least one core of the map. Only before the map is shared. */
void sw_machine_restrict(struct sw_machine *m, const struct sw_core_set *keep);
/* Writes "hwloc 2.9.0" to out; returns out. */
const char *sw_machine_library(char *out, size_t bytes);

/* All cores of the map, and those of the nodes whose bits (by index in nodes) are set. */
struct sw_core_set sw_machine_cores(const struct sw_machine *m);
struct sw_core_set sw_machine_node_cores(const struct sw_machine *m, uint64_t node_mask);
/* The core with that logical number, or NULL. */
const struct sw_core *sw_machine_core(const struct sw_machine *m, int number);
/* The number of threads that may compute at the same time: one per core, and no more than the CPU
 * quota; at least 1. */
int sw_machine_threads(const struct sw_machine *m);
