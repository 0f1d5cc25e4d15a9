/* The additive cost of a parallel plan: the sum over layers of computing, of the exchange of
 * parameters, and of the movement of activations, as if nothing overlapped (tech report, Algorithm
 * 2; parallel training, sections 4 and 5). It is what the exact search minimizes; the simulator
 * (planner/simulate.h) knows overlap and contention. Exchange modes are priced by
 * plan/exchange_cost.h, movements by the table of net/partition.h. Pure functions; any thread. */
#pragma once

#include "net/partition.h"
#include "planner/parallel_plan.h"

/* What a worker sends and receives per second, in each direction, while all others of its kind do
 * so too; bytes_per_s 0: they compute in one memory, and nothing is sent. */
struct sw_cost_link {
    double bytes_per_s, latency_s;
};

/* A net on a machine with one shape. Prepared once, then read only. */
struct sw_cost_model {
    const struct sw_net_model *net;         /* borrowed */
    const struct sw_machine_model *machine; /* borrowed */
    struct sw_plan_shape shape;
    int workers;                     /* of all groups */
    bool is_async;                   /* every group trains on batches of its own */
    struct sw_cost_link group;       /* between the workers of each group */
    struct sw_cost_link moves;       /* likewise of activations, by way of host memory */
    struct sw_cost_link all;         /* between all workers */
    struct sw_cost_link across;      /* between the workers of the same rank in all groups */
    struct sw_cost_link servers;     /* between each worker and its servers */
    struct sw_cost_link host;        /* between each worker and the memory of its host */
    bool devices_update;             /* see sw_cost_devices_update */
    const char *why_no_factors;      /* devices cannot exchange factors (sfb); NULL: they can */
    double flops_per_s, bytes_per_s; /* of the slowest worker; its share of a memory */
    double memory_bytes_per_s;       /* of a memory, for all workers in it */
};
void sw_cost_model_init(struct sw_cost_model *c, const struct sw_net_model *net,
                        const struct sw_machine_model *machine, const struct sw_plan_shape *shape);

/* Workers that compute in the memory of a device's worker, itself included. */
int sw_cost_together(const struct sw_cost_model *c, int device);

/* Seconds that device `d` takes for a layer's pass over `rows` rows of the batch and the share
 * `columns` (0 to 1] of its work per row, while `workers` workers compute in the same memory: from
 * its samples where it has some, else from flops and bytes. */
double sw_cost_pass(const struct sw_cost_model *c, int layer, int device, double rows,
                    double columns, int workers, bool backward);

/* Seconds that it takes to restore the layer's output for backward where it does not stay in
 * memory: another forward pass of the layer and of those in place on its output, or copies to the
 * host and back, as if they did not overlap. Arguments: as above. */
double sw_cost_restore(const struct sw_cost_model *c, int layer, enum sw_plan_residency residency,
                       int device, double rows, double columns, int workers);

/* Seconds that memory = fit adds to a step in which the slowest worker computes for compute_s, by
 * what a job says. Copies overlap with computing. */
double sw_cost_fit(const struct sw_cost_model *c, const struct sw_plan_fit *fit, double compute_s);

/* Seconds that a step of a kind takes beside its layers, as far as they were measured; with so many
 * connections by which activations move. */
double sw_cost_rest(const struct sw_cost_model *c, enum sw_step_kind kind, int moves);

/* Seconds of the update of a layer's parameters, by figures of the machine. */
double sw_cost_update(const struct sw_cost_model *c, int layer,
                      const struct sw_layer_choice *choice);
/* Seconds that servers in host memory, one per worker, were measured to take side by side for the
 * sum of so many gradients of a layer's parameters and their update; 0: not measured. */
double sw_cost_measured_update(const struct sw_cost_model *c, int layer, int gradients);

/* Do devices reduce whole gradients and update their own values (plan/copy_terms.h)? Otherwise
 * servers on hosts do. */
bool sw_cost_devices_update(const struct sw_cost_model *c);

/* Do the gradients of so many workers go to servers on hosts of their own, where the machine has
 * some? Without groups that train on their own, a single worker updates its parameters itself (tech
 * report, section 4.2), and hogwild has servers in the memory of its workers. */
bool sw_cost_uses_server_hosts(const struct sw_cost_model *c, int contributors,
                               enum sw_exchange_mode comm);

/* Update groups that exchange with each other: of devices, asynchronous groups have the same
 * servers or get the factors of all others; synchronous workers are one. */
int sw_cost_connected_groups(const struct sw_cost_model *c);
/* Workers that exchange the gradients of a layer in rows: of all connected groups. */
int sw_cost_connected(const struct sw_cost_model *c);
/* Does each worker get the factors of a layer in rows from all workers, and make all updates? */
bool sw_cost_spreads_factors(const struct sw_cost_model *c, enum sw_exchange_mode comm);
/* Would a device store more factors of other groups than `auto` of a job allows? */
bool sw_cost_factors_take_too_much(const struct sw_cost_model *c, int layer);

/* The rows of a batch that the worker with the most of them has. */
int64_t sw_cost_rows(const struct sw_cost_model *c);

/* The distribution of a layer's output under a choice, and the one in which it reads its source
 * number k. */
struct sw_distribution sw_cost_output(const struct sw_cost_model *c,
                                      const struct sw_layer_choice *choice);
struct sw_distribution sw_cost_input(const struct sw_cost_model *c, int layer, int k,
                                     const struct sw_layer_choice *choice);

/* An output is converted directly where the table of net/partition.h has a connection, else by way
 * of rows. All readers that need the same distribution share one connection, which the first of
 * them pays. Returns the distribution from which the connection to `to` starts: `from`, or rows. */
struct sw_distribution sw_cost_start(struct sw_distribution from, struct sw_distribution to);

/* The cost of a layer alone, without its sources. */
struct sw_layer_cost sw_cost_layer(const struct sw_cost_model *c, int layer,
                                   const struct sw_layer_choice *choice);
/* Elements that leave a worker for others of its group, all of these together, when the output of
 * `source` moves by a direct connection, which exists. */
double sw_cost_moved(const struct sw_cost_model *c, int source, struct sw_distribution from,
                     struct sw_distribution to);
/* One direct connection of the output of `source`: seconds, there and, if it has a gradient, back;
 * *floats (unless NULL) gets the floats that leave a worker. INFINITY: there is no such connection.
 */
double sw_cost_move(const struct sw_cost_model *c, int source, struct sw_distribution from,
                    struct sw_distribution to, double *floats);

/* The connections that layer `reader` of a plan is the first to need of its source number k, in the
 * order of their execution: out[i] goes from out[i].from to out[i].to. Returns their number, 0 to
 * 2. */
struct sw_cost_connection {
    struct sw_distribution from, to;
};
int sw_cost_connections(const struct sw_cost_model *c, const struct sw_parallel_plan *p, int reader,
                        int k, struct sw_cost_connection out[2]);

/* The cost of a layer of a plan, with these connections. */
struct sw_layer_cost sw_cost_layer_in(const struct sw_cost_model *c,
                                      const struct sw_parallel_plan *p, int layer);

/* The cost of a layer of a plan and of all layers whose cost its choice changes: its readers, and
 * the other readers of its sources. */
double sw_cost_around(const struct sw_cost_model *c, const struct sw_parallel_plan *p, int layer);

/* Bytes that worker `rank` of a group holds for a layer: parameters, gradients, updater state,
 * output and its gradient, saved values, whole copies of distributed sources, gathered factors;
 * without what is restored. An estimate: memory that passes use again is counted as in a job of one
 * worker. */
int64_t sw_cost_bytes(const struct sw_cost_model *c, int layer,
                      const struct sw_layer_choice *choice, int rank);

/* The additive cost of a whole plan, with the cost of each layer in costs [layers] unless NULL, and
 * the bytes of each worker in p->device_bytes. */
double sw_cost_plan(const struct sw_cost_model *c, struct sw_parallel_plan *p,
                    struct sw_layer_cost *costs);
/* The memory of the worker of a plan that has least, or `budget` if that is above 0 and smaller; 0:
 * no limit is known. */
int64_t sw_cost_budget(const struct sw_cost_model *c, const struct sw_parallel_plan *p,
                       int64_t budget);
/* The first worker whose memory does not hold what p->device_bytes says, all workers in one memory
 * together; -1: all fit. */
int sw_cost_overfull(const struct sw_cost_model *c, const struct sw_parallel_plan *p);
