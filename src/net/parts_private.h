/* What the files of parts share: parts.c makes and runs them, parts_memory.c says where everything
 * lies. One owner: the worker; lanes run parts of their own. */
#pragma once

#include "net/parts.h"

struct sw_part_net {
    struct sw_net *net; /* owned */
    int64_t row;
    size_t arena_at;
    float **gradient; /* owned [parameters]: where backward writes; NULL: nowhere */
};

struct sw_lane {
    struct sw_stream *stream; /* owned where parts are alone, else the worker's */
    int first, count;         /* of the parts */
    size_t scratch_at, pool_at;
};

struct sw_parts {
    struct sw_stream *stream; /* borrowed: the worker's */
    bool alone, training;
    struct sw_part_net *part; /* owned [count] */
    int count;
    struct sw_lane *lane; /* owned [lanes] */
    int lanes;
    struct sw_tree_plan plan;
    size_t slot_bytes; /* of the pools: the gradients of one layer */
    size_t *pooled_at; /* owned [parameters]: place in a slot */
    size_t *kept_at;   /* owned [parameters]: of gradients that outlive their layer's backward, */
    size_t kept_bytes; /* a place for every part */
    size_t arena_bytes;
    sw_parts_sum *sum;
    void *sum_user;
    void (*beat)(void *user);
    void *beat_user;
    double *sums; /* owned [count][sum_count]; NULL: the layers' own are used */
    /* What the lanes do just now. */
    int layer, phase, turn;
    bool backward;
};

static inline struct sw_net *sw_parts_first(const struct sw_parts *p)
{
    return p->part[0].net;
}

/* Does another layer use the parameter too, or may other parts run between two phases of its
 * backward? Then its gradient cannot lie in the pool. */
bool sw_parts_keeps(const struct sw_net *net, int param);
/* Places of gradients that are no terms yet. Errors: SW_ERR_NOMEM. */
int sw_parts_lay_out_gradients(struct sw_parts *p, struct sw_err *err) SW_MUST_CHECK;
/* Arenas, then what the lanes have, then the gradients that are kept. */
void sw_parts_lay_out(struct sw_parts *p);
