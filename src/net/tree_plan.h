/* Where the gradients of a worker's microbatches are written, and when they are reduced. A worker
 * has some leaves of the reduction tree (base/tree.h) over a batch and computes them one by one in
 * parallel lanes, each into a gradient buffer. It contributes partial sums: the largest subtrees
 * that contain only its leaves. Every partial sum has its own array, which its first leaf writes.
 * The other leaves use a slot of their lane's pool; when no slot is free, the pool is reduced as
 * far as the tree allows. This needs log2(leaves of a lane) slots, and adds several arrays in one
 * pass over memory.
 *
 * The plan is the same for every parameter. Frozen once made; any thread. */
#pragma once

#include "base/err.h"
#include "base/tree.h"

/* A node of the tree: leaves [from, to). Its sum is in the buffer of leaf `from`. */
struct sw_tree_node {
    int from, to;
};
/* Nodes that are reduced to one before microbatch `before` runs; `before` is the count for merges
 * after the last one. */
struct sw_tree_merge {
    int before, first, count; /* of plan->node */
};

struct sw_tree_plan {
    int leaves, first, count; /* the microbatches are leaves [first, first + count) */
    int lanes;
    int slots;    /* slots of every lane's pool */
    int *slot;    /* owned [count]: slot of the lane's pool; -1: the array of the partial sum */
    int *partial; /* owned [count]: index of the partial sum that contains the microbatch */
    int partials;
    struct sw_tree_merge *merge; /* owned [merges], ascending in `before` */
    int merges;
    struct sw_tree_node *node; /* owned */
    int nodes;
};

/* Plans the sums of leaves [first, first + count) in `lanes` lanes. Errors: SW_ERR_NOMEM. */
int sw_tree_plan_init(struct sw_tree_plan *p, int leaves, int first, int count, int lanes,
                      struct sw_err *err) SW_MUST_CHECK;
void sw_tree_plan_fini(struct sw_tree_plan *p); /* a zeroed one is accepted */
