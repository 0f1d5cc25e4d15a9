/* Work in parts, and sums over the parts in one order.
 *
 * The order is a binary tree over leaves 0 .. leaves-1: neighbours are added in pairs, the sums of
 * pairs in pairs, and so on; what has no neighbour yet waits, and is added from the right when all
 * are there. (((0+1)+(2+3))+4) is the tree over five. Whoever has some consecutive leaves can add
 * up the nodes of the tree that lie in them, and whoever has all nodes gets the sum of all leaves
 * in the same bits, however the leaves were dealt out. For two and three leaves it is the order of
 * the leaves.
 *
 * A sum is a program for a stack: push a term, add the two topmost so many times, push the next.
 * Pure arithmetic, any thread. */
#pragma once

#include <stdint.h>

enum { SW_TREE_LEAVES = 1024, SW_TREE_DEPTH = 11 /* terms on the stack, at most */ };

/* Part i of `total` in as equal parts as can be, the larger ones first: 50 over 3 is 17, 17, 16. */
static inline void sw_part(int64_t total, int parts, int i, int64_t *first, int64_t *count)
{
    int64_t base = total / parts, larger = total % parts;
    *first = base * i + (i < larger ? i : larger);
    *count = base + (i < larger ? 1 : 0);
}

/* Where the largest node of the tree ends that begins at leaf `from` and does not go beyond `to`
 * (from < to <= leaves). */
static inline int sw_tree_node_end(int leaves, int from, int to)
{
    int width = from ? from & -from : 1 << (SW_TREE_DEPTH - 1);
    /* What is left over at the right has one root, too. */
    if (to == leaves && (from == 0 || from == (leaves & -width)))
        return leaves;
    while (from + width > to)
        width /= 2;
    return from + width;
}

/* How many additions follow when the node [from, to) was pushed, behind all that is left of it. */
static inline int sw_tree_adds(int leaves, int from, int to)
{
    int left = to == leaves ? 1 : __builtin_popcount((unsigned)to);
    return __builtin_popcount((unsigned)from) + 1 - left;
}

/* out[0 .. count) becomes the sum, in that order, of the first `count` of each of rows
 * [leaves][room]. */
void sw_tree_sum(const double *rows, int leaves, int room, int count, double *out);
