/* Placement: which cores every worker and server runs on, which GPU a worker has, and why.
 *
 * Workers on CPUs get equal, whole, disjoint core sets, as large as they can be inside one NUMA
 * node; where there are several nodes for each worker, whole nodes. Equal, because a synchronous
 * step waits for the slowest. Workers on GPUs sit on the node nearest their GPU, and the GPUs of a
 * group are close to one another. A bound server shares the cores of a worker that talks to it;
 * unbound ones get the cores left over, and where none is left share a worker's. Threads that
 * compute nothing also run on spare cores, or on any of the job's cores if none is spare. A CPU
 * quota limits the workers' threads.
 *
 * A pure function of machine and shape, so it can also be planned for another machine. Made once
 * and frozen; any thread reads it.
 *
 * Memory follows the placement: a worker's batches and its arena are bound to the worker's nodes
 * (an arena that spans nodes lies where its threads touch it first), gradients to their worker's,
 * values and updater state slice by slice to their server's (exchange/table/memory.c). Binding is a
 * preference: when a node is full, pages go to other nodes instead of ending the process. */
#pragma once

#include "device/driver.h"
#include "machine/machine.h"

/* Number of workers and servers, the devices of workers, and whether servers share the cores of
 * workers. */
struct sw_cluster_shape {
    int worker_groups, workers_per_group; /* each at least 1 */
    int server_groups, servers_per_group; /* each at least 1 */
    int threads_per_worker; /* math threads of workers on cores; 0: as many as there are cores */
    bool bind_servers;
    bool server_group_each_host; /* of asynchronous groups on several hosts; else host 0 has all */
    /* Driver of the workers' devices; NULL: workers compute on cores. A device that is not on the
     * bus is near no NUMA node, so its worker is placed as if it computed on cores. */
    const struct sw_driver *driver;
    int device_workers; /* number of workers on such devices, the first ones; the others are on
                           CPUs; 0: all */
    /* Devices on the bus: the GPU of each worker, by number in the machine map; several workers may
     * share one. gpu_count 0: each worker gets a separate GPU. */
    int gpus[SW_DEVICE_REQUEST_MOST];
    int gpu_count;
    uint64_t used_gpus; /* bit i: other runs use GPU i, so it is chosen only if too few others
                           exist */
};

/* The server group that serves a worker group. */
int sw_cluster_server_group(const struct sw_cluster_shape *shape, int worker_group);

struct sw_placement_row {
    char role[32];   /* worker0.1, server0.0: group and rank in it */
    char device[32]; /* cpu, sim:0, cuda:0 */
    int gpu;         /* number in the machine map; -1: none */
    int numa;        /* hwloc logical number of the (first) node; -1: memory of none is allowed */
    uint64_t node_mask;       /* bit i: index in machine->nodes */
    struct sw_core_set cores; /* sw_core_set_text writes them "0-1" or "0,2" */
    int threads;              /* math threads, at most one per core */
    char reason[192];         /* a sentence without a full stop */
};

/* Threads that compute nothing: the main thread, and the history's writer. */
enum sw_placement_helper { SW_PLACE_MAIN, SW_PLACE_HISTORY, SW_PLACE_HELPERS };

struct sw_placement {
    int worker_count, server_count; /* in all groups */
    int row_count;                  /* workers, servers and helpers */
    struct sw_placement_row *rows; /* owned; all workers, then all servers, by group and index, then
                                      the helpers */
    struct sw_core_set spare;      /* cores not used by a worker or server */
    int most_threads;              /* math threads of a worker on cores, if limited; else 0 */
    bool oversubscribed;           /* more workers than computing threads, as requested */
};

/* Assigns devices and cores to all workers and servers. Errors: SW_ERR_INVALID (a count below 1;
 * more workers than the machine has computing threads and no oversubscribe; more than it has GPUs;
 * fewer cores than threads_per_worker asks for, and no oversubscribe), SW_ERR_NOMEM. Free with
 * sw_placement_free. */
int sw_placement_new(const struct sw_machine *m, const struct sw_cluster_shape *shape,
                     bool oversubscribe, struct sw_placement **out,
                     struct sw_err *err) SW_MUST_CHECK;
void sw_placement_free(struct sw_placement *p); /* NULL is accepted */

/* Rows by global rank. */
const struct sw_placement_row *sw_placement_worker(const struct sw_placement *p, int rank);
const struct sw_placement_row *sw_placement_server(const struct sw_placement *p, int rank);
const struct sw_placement_row *sw_placement_helper(const struct sw_placement *p,
                                                   enum sw_placement_helper which);
/* Cores for helper threads of a worker or server (prefetch): spare cores of its nodes, else other
 * spare cores, else its own. */
struct sw_core_set sw_placement_helper_cores(const struct sw_placement *p,
                                             const struct sw_machine *m,
                                             const struct sw_placement_row *row);
