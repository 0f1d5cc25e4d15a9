/* The machine map: packages, NUMA nodes, cores and caches as hwloc sees them, minus what this
 * process may not use (cgroup cpuset, taskset). What is not allowed is not seen. Core numbers are
 * hwloc's logical ones (`lstopo` calls them L#). A map is made once and frozen; any thread reads
 * it. This floor is the only one that includes hwloc. */
#ifndef SW_CLUSTER_MACHINE_H
#define SW_CLUSTER_MACHINE_H

#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SW_MAX_CORES = 1024, SW_MAX_NODES = 64 };

/* A set of cores: a plain value, zero is empty. */
struct sw_core_set {
    uint64_t bits[SW_MAX_CORES / 64];
};

void sw_core_set_add(struct sw_core_set *s, int core);
bool sw_core_set_has(const struct sw_core_set *s, int core);
int sw_core_set_count(const struct sw_core_set *s);
bool sw_core_set_overlaps(const struct sw_core_set *a, const struct sw_core_set *b);
int sw_core_set_next(const struct sw_core_set *s, int after); /* first: after = -1; none: -1 */
/* "0-1", "0,2", "" into out; cut off with "..." when it does not fit. Returns out. */
const char *sw_core_set_text(const struct sw_core_set *s, char *out, size_t bytes);

struct sw_core {
    int number;  /* hwloc logical number */
    int package; /* hwloc logical numbers */
    int node;    /* index in nodes */
    int pus;     /* hardware threads that this process may use */
};

struct sw_node {
    int number;    /* hwloc logical number */
    int os_number; /* as in /sys/devices/system/node */
    int64_t memory_bytes;
    struct sw_core_set cores;
};

struct hwloc_topology;

struct sw_machine {
    char host[64];
    char cpu_model[96]; /* "" when unknown */
    bool here;          /* this very machine: threads and memory can be bound */
    int package_count, node_count, core_count, pu_count; /* allowed ones */
    struct sw_node *nodes; /* owned; nodes without an allowed core are left out */
    struct sw_core *cores; /* owned; ascending numbers */
    int64_t memory_bytes;
    int64_t l2_bytes, l3_bytes;      /* of one cache; 0 when unknown */
    int hidden_cores;                /* cores of the machine that this process may not use */
    double cpu_quota;                /* CPUs that the cgroup grants over time; 0: no limit */
    struct hwloc_topology *topology; /* owned; for cluster/ only */
};

/* Maps this machine. Free with sw_machine_free. Errors: SW_ERR_NOMEM, SW_ERR_LIBRARY,
 * SW_ERR_UNSUPPORTED (more cores or nodes than SW_MAX_*). */
int sw_machine_here(struct sw_machine **out, struct sw_err *err) SW_MUST_CHECK;
/* Maps another machine: source is a file written by `lstopo machine.xml`, or a synthetic
 * description such as "numa:4 core:6 pu:2". Errors: SW_ERR_NOTFOUND, SW_ERR_FORMAT and the above.
 */
int sw_machine_from(const char *source, struct sw_machine **out, struct sw_err *err) SW_MUST_CHECK;
void sw_machine_free(struct sw_machine *m); /* NULL is accepted */

/* All cores of the map. */
struct sw_core_set sw_machine_cores(const struct sw_machine *m);
/* Threads that may compute at the same time: one per core, and no more than the quota (at least 1).
 */
int sw_machine_threads(const struct sw_machine *m);

#endif
