/* Shared by the files that implement the nets of microbatches: microbatches.c builds and runs them,
 * microbatches_memory.c lays out their memory. One owner: the worker; each lane runs a disjoint
 * range of microbatches. */
#pragma once

#include "net/microbatches.h"

struct sw_microbatch_net {
    struct sw_net *net; /* owned */
    int64_t row;
    size_t arena_at;
    float **gradient; /* owned [parameters]: the array that backward writes; NULL: none */
};

struct sw_lane {
    struct sw_stream *stream; /* owned if `alone`, else the worker's */
    int first, count;         /* range of microbatches */
    size_t scratch_at, pool_at;
};

struct sw_microbatches {
    struct sw_stream *stream; /* borrowed: the worker's */
    bool alone, training;
    struct sw_microbatch_net *microbatch; /* owned [count] */
    int count;
    struct sw_lane *lane; /* owned [lanes] */
    int lanes;
    struct sw_tree_plan plan;
    size_t slot_bytes; /* size of a pool slot: the gradients of one layer */
    size_t *pooled_at; /* owned [parameters]: offset in a slot */
    size_t *
        kept_at; /* owned [parameters]: offsets of gradients that outlive their layer's backward; */
    size_t kept_bytes; /* these have memory for every microbatch */
    size_t arena_bytes;
    sw_microbatches_sum *sum;
    sw_microbatches_queue_sum *queue_sum; /* NULL: sums go through the host */
    void *sum_user;
    void (*beat)(void *user);
    void *beat_user;
    double *sums; /* owned [count][sum_count]; NULL: the layers' own sums are used */
    /* The pass that the lanes run now. */
    int layer, phase, turn;
    bool backward;
};

static inline struct sw_net *sw_microbatches_first(const struct sw_microbatches *p)
{
    return p->microbatch[0].net;
}

/* True if another layer uses the parameter too, or other microbatches may run between two phases of
 * its backward. Such a gradient cannot be in the pool. */
bool sw_microbatches_keeps_gradient(const struct sw_net *net, int param);
/* Computes the offsets of gradients that are not yet reduced to partial sums. Errors: SW_ERR_NOMEM.
 */
int sw_microbatches_lay_out_gradients(struct sw_microbatches *p, struct sw_err *err) SW_MUST_CHECK;
/* Memory layout: arenas, then the lanes' scratch and pools, then the kept gradients. */
void sw_microbatches_lay_out(struct sw_microbatches *p);
