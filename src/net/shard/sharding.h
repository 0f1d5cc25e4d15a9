/* The sharding of a net, its second stage: how every layer's output is distributed over the workers
 * of the group. It reads only the graph, and inserts a connection (a pair of bridges) wherever a
 * reader needs its source in another distribution. All workers of a group compute the same list of
 * nodes. One owner; frozen once made.
 *
 * A layer that is split by columns reads: if element-wise, the same columns of its source; with
 * SW_SPLIT_OUTPUTS, the full source; if its output is in sums, its columns of the source. Channels
 * in groups are split by whole groups if the number of groups is not a multiple of the workers
 * (struct sw_distribution, groups). A concat or slice reads from each source the part that belongs
 * to its own columns, which may be empty (whole, first). Layers with tied parameters are in rows,
 * or whole on the same worker. Training and evaluation nets are split alike. */
#pragma once

#include "net/graph/graph.h"
#include "net/partition.h"

struct sw_net_shard {
    struct sw_distribution distribution; /* distribution of the output */
    struct sw_distribution from,
        to;                   /* of a bridge: distribution of its source, and the one it produces */
    int64_t known_columns;    /* of the whole output, if known before setup; else 0 */
    bool joins;               /* its columns do not correspond one to one to those of its sources */
    const char *refuses_data; /* why the data that the layer reads prevent columns; NULL: nothing */
    bool rows_only;           /* the layers that its columns come from cannot be split by columns */
};

struct sw_net_sharding {
    int workers, worker;       /* size of the group and rank in it */
    struct sw_net_shard *node; /* owned, one per node of the graph */
    struct sw_bytes notes;     /* layers that do not follow the net-wide setting, a line each */
};

/* Runs the whole stage. alone: no group was requested, so locations are ignored. Errors as
 * sw_net_new; *s must be freed in every case. */
int sw_net_sharding_init(struct sw_net_sharding *s, struct sw_net_graph *g,
                         const struct sw_net_args *args, bool alone,
                         struct sw_err *err) SW_MUST_CHECK;
void sw_net_sharding_fini(struct sw_net_sharding *s); /* a zeroed one is accepted */

/* Is node i's output split by rows? */
static inline bool sw_net_shard_is_in_rows(const struct sw_net_sharding *s, int i)
{
    return s->node[i].distribution.dist == SW_DIST_ROWS;
}

/* Is the whole output on another worker? */
static inline bool sw_net_shard_is_elsewhere(const struct sw_net_sharding *s, int i)
{
    return s->node[i].distribution.dist == SW_DIST_ONE && s->node[i].distribution.at != s->worker;
}

/* ---- Within net/shard/ ---- */

/* distribution.c: chooses the distributions, without connections. Errors as sw_net_new. */
int sw_net_spread(struct sw_net_sharding *s, struct sw_net_graph *g, const struct sw_net_args *args,
                  bool alone, struct sw_err *err) SW_MUST_CHECK;
/* refusal.c: why node i cannot have the partition over `workers` workers, or NULL. Not for the
 * nodes of connections. Tied layers have the same distribution, which is not checked here. */
const char *sw_net_partition_refusal(const struct sw_net_sharding *s, const struct sw_net_graph *g,
                                     int i, enum sw_partition p, int workers);
/* Does a layer that is split by columns also read columns? */
bool sw_net_node_reads_columns(const struct sw_net_graph_node *node);
/* The distribution in which node i reads a source. */
struct sw_distribution sw_net_source_distribution(const struct sw_net_sharding *s,
                                                  const struct sw_net_graph *g, int i, int source);
/* connect.c: inserts connections and reorders the nodes for them. Errors: SW_ERR_NOMEM. */
int sw_net_connect(struct sw_net_sharding *s, struct sw_net_graph *g,
                   struct sw_err *err) SW_MUST_CHECK;
