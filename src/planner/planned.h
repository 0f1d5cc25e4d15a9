/* The plan that a user gets: the fastest of those that the search found, by simulation, among those
 * that fit the memory; with the costs and the runner-up of every layer, and what was rejected. One
 * owner. */
#pragma once

#include "planner/search.h"
#include "planner/simulate.h"

enum { SW_PLANNED_ALTERNATIVES = 32 };
/* Plans of which one is slower by a smaller share are as fast as each other. */
#define SW_PLANNED_EQUAL 1e-3

/* A plan that was considered and is slower than the chosen one. */
struct sw_planned_alternative {
    char what[160]; /* "all layers by rows, whole gradients" */
    bool varies;    /* the chosen shape, where only some layers differ */
    struct sw_plan_shape shape;
    double step_s;
};

struct sw_planned {
    const struct sw_net_model *net;         /* borrowed */
    const struct sw_machine_model *machine; /* borrowed */
    struct sw_parallel_plan best;           /* owned; simulated */
    struct sw_layer_cost *costs;            /* owned [layers]: of the best plan, without overlap */
    struct sw_simulation simulation;        /* owned; of the best plan: waits and busy links */
    /* Per layer: of the plans that differ in this layer alone the one with the lowest sum of costs,
     * and how much longer its step is, as simulated (with more than 16 workers only for the closest
     * ones, else by the sums of costs); INFINITY: there is none. Owned [layers]. */
    struct sw_layer_choice *runner_up;
    double *runner_up_s;
    double one_worker_s; /* a step of one worker on the first device */
    bool is_exact;
    int most_open;
    int skipped_shapes;      /* numbers of groups and workers that were not searched */
    bool rows_between_hosts; /* layers are split by rows because the workers are on several hosts */
    struct sw_planned_alternative alternative[SW_PLANNED_ALTERNATIVES]; /* the fastest first */
    int alternatives;
    int as_fast; /* other plans that are as fast, which are no alternatives */
};

struct sw_planned_args {
    const struct sw_net_model *net;
    /* The machine, once for every number of workers on its cores that is to be considered. The
     * first one has the fewest. */
    struct sw_machine_model *const *machine;
    int machines;
    const struct sw_search_limits *limits;
    int hosts;     /* that must all have workers; 0: any number of them */
    int simulated; /* plans of each search that are simulated; 0: all */
    bool no_overlap;
    double bandwidth; /* most bytes per second that a host sends; 0: no limit */
    /* Sets p->device_bytes to what a job with this plan takes on that machine, and p->fit, but not
     * its seconds, to what it says of memory = fit. NULL: the estimates of the search stay. */
    int (*measure)(void *user, const struct sw_machine_model *machine, struct sw_parallel_plan *p,
                   struct sw_err *err);
    void *user;
};

/* Searches, simulates the best plans that were found, picks the fastest of those that fit the
 * memory, and changes single layers of it as long as the simulation then is faster. args is
 * borrowed for the life of out; free with sw_planned_fini in every case. Errors: SW_ERR_NOMEM;
 * SW_ERR_INVALID with the reason and the nearest possible plan. */
int sw_planned_make(const struct sw_planned_args *args, struct sw_planned *out,
                    struct sw_err *err) SW_MUST_CHECK;
/* The same without costs and waits of layers, runners-up, alternatives and the time of one
 * worker. */
int sw_planned_find(const struct sw_planned_args *args, struct sw_planned *out,
                    struct sw_err *err) SW_MUST_CHECK;
void sw_planned_fini(struct sw_planned *p); /* a zeroed one is accepted */

/* Arguments that simulate a plan as sw_planned_make does. */
struct sw_simulation_args sw_planned_simulation(const struct sw_planned_args *args,
                                                const struct sw_machine_model *machine,
                                                const struct sw_parallel_plan *p);
/* Seconds of a step of one worker on the first device of the first machine: with a single server or
 * with one on each core for servers, whichever is faster. Errors: those of sw_simulate. */
int sw_planned_one_worker(const struct sw_planned_args *args, double *seconds,
                          struct sw_err *err) SW_MUST_CHECK;

/* How much faster a step is than that of one worker, per sample. */
double sw_planned_speed_up(const struct sw_planned *p);
/* Samples that a step of all groups trains. */
int64_t sw_planned_samples(const struct sw_net_model *net, const struct sw_plan_shape *shape);

/* Part of a step in which a link upwards of a hub, or that of pair p as hub_count + p, is busy in
 * its busier direction; busy: of a simulation. */
double sw_planned_busy(const double *busy, int hub);

/* Hosts that have workers of the best plan. */
int sw_planned_hosts(const struct sw_planned *p);

/* Does the layer exchange a gradient under this plan, so that its choice of `comm` means
 * something? */
bool sw_planned_exchanges(const struct sw_net_model *net, const struct sw_parallel_plan *p,
                          int layer);
/* "0", "1in", "none on worker 2" or "0, sfb", into out; returns out. */
const char *sw_planned_choice_text(const struct sw_net_model *net, int layer,
                                   const struct sw_layer_choice *c, char out[64]);
/* "1 group of 4 workers", "8 groups of 2 workers", "1 group of 1 worker with 2 threads". */
const char *sw_planned_shape_text(const struct sw_plan_shape *s, char out[96]);
