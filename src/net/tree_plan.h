/* Where the gradients of a worker's parts go, and when they are added up. A worker has some leaves
 * of the tree (base/tree.h) over a batch; in lanes side by side it computes them one by one, each
 * into a buffer, and what it hands over are terms: the largest nodes in its share. A term has an
 * array of its own, which its first leaf writes to. The others take a slot of their lane's pool,
 * and only when none is left is what is there added up, as far as the tree allows. That needs
 * log2(leaves of a lane) slots, and adds several arrays in one go over memory.
 *
 * The plan is the same for every parameter. Frozen once made; any thread. */
#pragma once

#include "base/err.h"
#include "base/tree.h"

/* A node of the tree: leaves [from, to). Its sum lies where leaf `from` wrote to. */
struct sw_tree_node {
    int from, to;
};
/* Nodes that become one, before part `before` runs; after the last part: `before` is the count. */
struct sw_tree_merge {
    int before, first, count; /* of plan->node */
};

struct sw_tree_plan {
    int leaves, first, count; /* the parts are leaves [first, first + count) */
    int lanes;
    int slots; /* of every lane's pool */
    int *slot; /* owned [count]: of the lane's pool; -1: the term's array */
    int *term; /* owned [count]: in which term the part is */
    int terms;
    struct sw_tree_merge *merge; /* owned [merges], ascending in `before` */
    int merges;
    struct sw_tree_node *node; /* owned */
    int nodes;
};

/* Errors: SW_ERR_NOMEM. */
int sw_tree_plan_init(struct sw_tree_plan *p, int leaves, int first, int count, int lanes,
                      struct sw_err *err) SW_MUST_CHECK;
void sw_tree_plan_fini(struct sw_tree_plan *p); /* a zeroed one is accepted */
