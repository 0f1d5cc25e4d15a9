/* The additive cost of a parallel plan: the sum over layers of computing, of the exchange of
 * parameters, and of the movement of activations, as if nothing overlapped (tech report, Algorithm
 * 2; parallel training, sections 4 and 5). It is what the exact search minimizes; the simulator
 * (planner/simulate.h) knows overlap and contention. Exchange modes are priced by
 * plan/exchange_cost.h, movements by the table of net/partition.h. Pure functions; any thread. */
#pragma once

#include "net/partition.h"
#include "planner/parallel_plan.h"

/* A net on a machine with one shape. Prepared once, then read only. */
struct sw_cost_model {
    const struct sw_net_model *net;         /* borrowed */
    const struct sw_machine_model *machine; /* borrowed */
    struct sw_plan_shape shape;
    double group_bytes_per_s,
        group_latency_s;                   /* of the slowest path inside a group, when all workers
                                              of the group send at once; 0: shared memory */
    double all_bytes_per_s, all_latency_s; /* the same between all workers of an update group */
};
void sw_cost_model_init(struct sw_cost_model *c, const struct sw_net_model *net,
                        const struct sw_machine_model *machine, const struct sw_plan_shape *shape);

/* Seconds that device `d` takes for a layer's pass over `rows` rows of the batch and the share
 * `columns` (0 to 1] of its work per row, while `workers` workers compute in the same memory: from
 * its samples where it has some, else from flops and bytes. */
double sw_cost_pass(const struct sw_cost_model *c, int layer, int device, double rows,
                    double columns, int workers, bool backward);

/* The distribution of a layer's output under a choice, and the one in which it reads its sources.
 */
struct sw_distribution sw_cost_output(const struct sw_cost_model *c, int layer,
                                      const struct sw_layer_choice *choice);
struct sw_distribution sw_cost_input(const struct sw_cost_model *c, int layer,
                                     const struct sw_layer_choice *choice);
/* Is there a connection from that output to that input? (Partial sums, for example, cannot be read
 * as they are.) */
bool sw_cost_connects(struct sw_distribution from, struct sw_distribution to);

/* Cost of a layer alone, without its sources; and of moving source's output to `layer` and, if it
 * has one, the gradient back: seconds, and floats that leave a worker. */
struct sw_layer_cost sw_cost_layer(const struct sw_cost_model *c, int layer,
                                   const struct sw_layer_choice *choice);
double sw_cost_move(const struct sw_cost_model *c, int source, struct sw_distribution from,
                    struct sw_distribution to, double *floats);

/* Bytes that worker `rank` of a group holds for a layer: parameters, gradients, updater state,
 * output and its gradient, saved values. An estimate without reuse of memory: at least what is
 * needed. */
int64_t sw_cost_bytes(const struct sw_cost_model *c, int layer,
                      const struct sw_layer_choice *choice, int rank);

/* The additive cost of a whole plan, with the cost of each layer in costs [layers] unless NULL, and
 * the bytes of each worker in p->device_bytes. INFINITY: a connection is missing. */
double sw_cost_plan(const struct sw_cost_model *c, struct sw_parallel_plan *p,
                    struct sw_layer_cost *costs);
