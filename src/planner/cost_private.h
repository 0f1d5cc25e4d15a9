/* Shared by the files of the additive cost: shares of workers. Pure functions. */
#pragma once

#include "net/net.h"
#include "planner/cost.h"
#include <math.h>

#define SW_FLOAT_BYTES ((double)sizeof(float))

/* The part of `total` that the worker with the largest part has. */
static inline double sw_cost_largest_part(double total, int parts)
{
    return total > 0 ? ceil(total / parts) / total : 1.0 / parts;
}

/* Seconds for `amount` at `rate` per second; an unknown rate takes no time. */
static inline double sw_cost_time(double amount, double rate)
{
    return rate > 0 ? amount / rate : 0;
}

/* Values that the sum of some gradients and an update read and write, per parameter. */
static inline double sw_cost_touched(const struct sw_cost_model *c, int gradients)
{
    return 3 + 2 * c->net->updater_slots + (gradients - 1);
}

/* Hosts of the workers. */
static inline int sw_cost_hosts(const struct sw_cost_model *c)
{
    int hosts = 0;
    for (int d = 0; d < c->workers; d++)
        hosts += d == 0 || c->machine->device[d].host != c->machine->device[d - 1].host;
    return hosts;
}

static inline int64_t sw_cost_group_rows(const struct sw_cost_model *c)
{
    const int64_t batch = c->net->batch, groups = c->is_async ? 1 : c->shape.groups;
    return (batch + groups - 1) / groups;
}

/* Bytes per second that a worker on a device moves with so many math threads, while `sharing`
 * workers compute in its memory. */
static inline double sw_cost_memory_rate(const struct sw_device_model *d, int threads, int sharing)
{
    const double share = d->bytes_per_s.value / (d->host_memory ? sharing : 1);
    const double own = d->thread_bytes_per_s * threads;

    return own > 0 && own < share ? own : share;
}

/* What is divided over the workers of a group: channels or neurons of the output, or of the source.
 */
static inline double sw_cost_units(const struct sw_net_model *net, const struct sw_layer_model *l,
                                   enum sw_partition p)
{
    const struct sw_layer_model *of =
        p == SW_PARTITION_INPUTS && l->source_count > 0 ? &net->layer[l->source[0]] : l;

    return of->units > 0 ? of->units : p == SW_PARTITION_INPUTS ? l->inputs : l->columns;
}

/* The share of a layer's work per row of the batch that one worker has. */
static inline double sw_cost_work(const struct sw_cost_model *c, const struct sw_layer_model *l,
                                  enum sw_partition p)
{
    return p == SW_PARTITION_COLUMNS || p == SW_PARTITION_INPUTS
               ? sw_cost_largest_part(sw_cost_units(c->net, l, p), c->shape.group_size)
               : 1;
}

/* Parameters of a layer that a worker has. */
static inline double sw_cost_owned(const struct sw_cost_model *c, const struct sw_layer_model *l,
                                   enum sw_partition p)
{
    return (double)l->params * sw_cost_work(c, l, p);
}
