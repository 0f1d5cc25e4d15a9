/* How the layers of a net could be partitioned over the workers of a group, and how their gradients
 * could be exchanged: what the partitioner would answer to the keys of a layer. The net is one of a
 * single worker; the questions are about any number of workers. Pure; any thread. */
#pragma once

#include "net/net.h"

/* Why layer i cannot have the partition over `workers` workers, whatever the other layers have; or
 * NULL: it can. Time steps of an unrolled layer, and the layers between them, are split by rows. */
const char *sw_net_refuses_partition(const struct sw_net *net, int i, enum sw_partition p,
                                     int workers);
/* Is it a time step of an unrolled layer, or one of the layers between steps and others? Several of
 * these have the same section. */
bool sw_net_is_unrolled(const struct sw_net *net, int i);
/* Partitioned by columns, does it read the same columns of its sources, and not all of them? */
bool sw_net_reads_columns(const struct sw_net *net, int i);
/* Are these the columns that stand beside each other in its output, or some of its source's? */
bool sw_net_joins_columns(const struct sw_net *net, int i);
/* Columns of its output that are not split further: channels, or neurons; 0: it has none. */
int64_t sw_net_columns(const struct sw_net *net, int i);
/* Could its output, which backward reads, be recomputed or offloaded until then (memory = fit)? Of
 * outputs that share memory the first one answers for all. */
struct sw_net_restorable {
    bool by_recomputing, by_offloading; /* the latter on a device with a memory of its own */
};
struct sw_net_restorable sw_net_restorable(const struct sw_net *net, int i);
/* Why the gradient of layer i has no factors that workers could exchange, or NULL: it has, and *f
 * gets their numbers for the rows of the net. */
const char *sw_net_refuses_factors(const struct sw_net *net, int i, struct sw_layer_factors *f);
