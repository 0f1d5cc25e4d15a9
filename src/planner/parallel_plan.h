/* A parallel plan: the shape of the job, how every layer is partitioned and its gradient exchanged,
 * and what that is predicted to cost. */
#pragma once

#include "base/exchange_mode.h"
#include "plan/conf.h"
#include "planner/machine_model.h"
#include "planner/net_model.h"

/* Worker r of group g computes on device g * group_size + r of the machine model. */
struct sw_plan_shape {
    enum sw_framework framework;     /* never AUTO */
    enum sw_consistency consistency; /* never AUTO */
    int64_t staleness;               /* -1: no bound */
    int groups, group_size;          /* worker groups, and workers in each */
    int servers;                     /* of the one server group */
    int threads; /* math threads of each worker on cores, fewer than it has cores; 0: all */
};

/* Where a layer's output is between its last use in forward and its first one in backward, with
 * memory = fit. A run chooses that itself, to meet the budget: this is what the search expects. */
enum sw_plan_residency { SW_PLAN_KEPT, SW_PLAN_RECOMPUTED, SW_PLAN_OFFLOADED };
extern const char *const sw_plan_residency_names[]; /* "kept", "recomputed", "offloaded" */

struct sw_layer_choice {
    enum sw_partition partition;
    int location;               /* the worker of the group, with SW_PARTITION_NONE; else 0 */
    enum sw_exchange_mode comm; /* never AUTO; PS where nothing is exchanged */
    enum sw_plan_residency residency;
};

/* What memory = fit costs a step. */
struct sw_plan_fit {
    int64_t budget_bytes;      /* of each device, or of a host; 0: all activations stay in memory */
    int recomputed, offloaded; /* outputs: of layers, as the search expects; of all workers, as a
                                  job says */
    bool is_exact;             /* a job was opened with the plan and says: */
    double flops, bytes;       /* operations and memory traffic of recomputing, of all workers, */
    double copied_bytes;       /* and copies in each direction */
    double seconds;            /* that it adds to a step, in time.step_s */
};

/* Predicted time of a layer in a step, without overlap: of the slowest worker. */
struct sw_layer_cost {
    double compute_s;     /* forward and backward, and restoring its output (memory = fit) */
    double params_s;      /* exchange of gradients and values, and the update */
    double activations_s; /* movements from its sources to it, and of gradients back */
    double moved_params, moved_activations; /* floats that leave a worker, of all workers */
};

/* What the whole step takes. */
struct sw_plan_time {
    double step_s;
    double compute_s, params_s, activations_s; /* of step_s, on the critical worker */
    double rest_s;                             /* likewise, beside all layers */
    double wait_s;                             /* for other workers */
};

struct sw_parallel_plan {
    struct sw_plan_shape shape;
    struct sw_layer_choice *choice; /* owned, one per layer of the net model */
    int layers;
    double additive_s;        /* sum of all costs of layers: what the search minimizes */
    struct sw_plan_time time; /* by the simulator; step_s 0: not simulated */
    struct sw_plan_fit fit;
    int64_t *device_bytes; /* owned, one per worker: memory that it needs */
    int workers;           /* groups * group_size */
};

bool sw_plan_shape_equal(const struct sw_plan_shape *a, const struct sw_plan_shape *b);

/* Allocates the arrays. Errors: SW_ERR_NOMEM. */
int sw_parallel_plan_init(struct sw_parallel_plan *p, const struct sw_plan_shape *shape, int layers,
                          struct sw_err *err) SW_MUST_CHECK;
int sw_parallel_plan_copy(struct sw_parallel_plan *to, const struct sw_parallel_plan *from,
                          struct sw_err *err) SW_MUST_CHECK;
void sw_parallel_plan_fini(struct sw_parallel_plan *p); /* a zeroed one is accepted */
/* Do both partition and exchange all layers alike, and keep them in memory, with the same shape? */
bool sw_parallel_plan_equal(const struct sw_parallel_plan *a, const struct sw_parallel_plan *b);
