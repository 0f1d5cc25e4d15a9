/* The sharding of a net, its second stage: how every layer's output is spread over the workers of
 * the group. It reads the graph alone, and puts a connection (a pair of bridges) into it wherever a
 * reader wants its source spread in another way. All workers of a group come to the same nodes. One
 * owner; frozen once made.
 *
 * What a layer that is split by columns reads: an element-wise one the same columns of its source,
 * one of type SW_SPLIT_OUTPUTS the full source, one whose output is in sums its columns of the
 * source. Channels in groups whose number the workers do not divide are split by whole groups
 * (struct sw_spread, groups). A concat or slice reads of each source what belongs to its own
 * columns, which may be nothing (whole, first). Layers that share a parameter are in rows, or whole
 * on the same worker. Training and evaluation nets are split alike. */
#pragma once

#include "net/graph/graph.h"
#include "net/partition.h"

struct sw_net_shard {
    struct sw_spread spread;   /* how the output is spread */
    struct sw_spread from, to; /* of a bridge: how its source is, and how it is wanted */
    int64_t known_columns;     /* of the whole output, as far as it is known before setup; 0: it is
                                  not */
    bool joins;                /* its columns are not those of its sources one for one */
    bool rows_only;            /* what its columns come from cannot be split by them */
};

struct sw_net_sharding {
    int workers, worker;       /* size of the group and rank in it */
    struct sw_net_shard *node; /* owned, of the graph's nodes */
    struct sw_buf notes;       /* what was decided otherwise than asked for net-wide, a line each */
};

/* The whole stage. alone: nobody asked for a group, so that locations say nothing. Errors as
 * sw_net_new; *s is to be freed in any event. */
int sw_net_sharding_init(struct sw_net_sharding *s, struct sw_net_graph *g,
                         const struct sw_net_args *args, bool alone,
                         struct sw_err *err) SW_MUST_CHECK;
void sw_net_sharding_fini(struct sw_net_sharding *s); /* a zeroed one is accepted */

/* Has every worker its own rows of node i's output? */
static inline bool sw_net_shard_is_in_rows(const struct sw_net_sharding *s, int i)
{
    return s->node[i].spread.dist == SW_DIST_ROWS;
}

/* Is the output whole on another worker? */
static inline bool sw_net_shard_is_elsewhere(const struct sw_net_sharding *s, int i)
{
    return s->node[i].spread.dist == SW_DIST_ONE && s->node[i].spread.at != s->worker;
}

/* ---- Within net/shard/ ---- */

/* spread.c: decides the spreads, without connections. Errors as sw_net_new. */
int sw_net_spread(struct sw_net_sharding *s, struct sw_net_graph *g, const struct sw_net_args *args,
                  bool alone, struct sw_err *err) SW_MUST_CHECK;
/* How node i wants a source spread. */
struct sw_spread sw_net_source_spread(const struct sw_net_sharding *s, const struct sw_net_graph *g,
                                      int i, int source);
/* connect.c: inserts connections, and orders the nodes for them. Errors: SW_ERR_NOMEM. */
int sw_net_connect(struct sw_net_sharding *s, struct sw_net_graph *g,
                   struct sw_err *err) SW_MUST_CHECK;
