/* The reduction tree: a fixed order in which partial sums are added. The tree is binary over leaves
 * 0 .. leaves-1: neighbors are added in pairs, the sums of pairs in pairs, and so on; a node
 * without a neighbor waits and is added from the right at the end. (((0+1)+(2+3))+4) is the tree
 * over five leaves. A worker with consecutive leaves can reduce the nodes of the tree that lie
 * within them, and the total has the same bits for any distribution of the leaves. Two and three
 * leaves are added in their order.
 *
 * A reduction uses a stack: push a leaf, add the two topmost partial sums sw_tree_adds times, push
 * the next leaf. Pure arithmetic, any thread. */
#pragma once

#include <stdint.h>

enum { SW_TREE_LEAVES = 1024, SW_TREE_DEPTH = 11 /* partial sums on the stack, at most */ };

/* The range of part i if `total` is split as evenly as possible, the larger parts first: 50 over 3
 * is 17, 17, 16. */
static inline void sw_part(int64_t total, int parts, int i, int64_t *first, int64_t *count)
{
    int64_t base = total / parts, larger = total % parts;
    *first = base * i + (i < larger ? i : larger);
    *count = base + (i < larger ? 1 : 0);
}

/* The end of the largest node of the tree that begins at leaf `from` and does not exceed `to` (from
 * < to <= leaves). */
static inline int sw_tree_node_end(int leaves, int from, int to)
{
    int width = from ? from & -from : 1 << (SW_TREE_DEPTH - 1);
    /* The remainder at the right is also a node. */
    if (to == leaves && (from == 0 || from == (leaves & -width)))
        return leaves;

    while (from + width > to)
        width /= 2;
    return from + width;
}

/* The number of additions after the node [from, to) was pushed onto all nodes to its left. */
static inline int sw_tree_adds(int leaves, int from, int to)
{
    int left = to == leaves ? 1 : __builtin_popcount((unsigned)to);
    return __builtin_popcount((unsigned)from) + 1 - left;
}

/* out[0 .. count) = sum over the leaves, in the order of the tree, of rows [leaves][room]. */
void sw_tree_sum(const double *rows, int leaves, int room, int count, double *out);
