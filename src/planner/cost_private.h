/* Shared by the files of the additive cost: shares of workers. Pure functions. */
#pragma once

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

static inline int64_t sw_cost_group_rows(const struct sw_cost_model *c)
{
    const int64_t batch = c->net->batch, groups = c->is_async ? 1 : c->shape.groups;
    return (batch + groups - 1) / groups;
}

/* The share of a layer's work per row of the batch that one worker has. */
static inline double sw_cost_work(const struct sw_cost_model *c, const struct sw_layer_model *l,
                                  enum sw_partition p)
{
    const int size = c->shape.group_size;
    return p == SW_PARTITION_COLUMNS  ? sw_cost_largest_part(l->columns, size)
           : p == SW_PARTITION_INPUTS ? sw_cost_largest_part(l->inputs, size)
                                      : 1;
}

/* Parameters of a layer that a worker has. */
static inline double sw_cost_owned(const struct sw_cost_model *c, const struct sw_layer_model *l,
                                   enum sw_partition p)
{
    return (double)l->params * sw_cost_work(c, l, p);
}
