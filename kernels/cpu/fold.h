/* Sums of several arrays in the order of the reduction tree (base/tree.h), one piece at a time, so
 * that intermediate sums stay in the cache. Any thread. */
#pragma once

#include "base/tree.h"

/* The inputs of a sum: adjacent nodes of the tree. All borrowed. */
struct sw_fold_inputs {
    const float *const *in; /* [count] */
    const int *ends; /* [count]: number of leaves up to the end of each node, counted from the start
                        of the first; NULL: each is one leaf */
    int count;
};

enum { SW_FOLD_PIECE = 4096, SW_FOLD_ROOM = (SW_TREE_DEPTH - 2) * SW_FOLD_PIECE };

/* Sums elements [from, from + n), n at most SW_FOLD_PIECE. The result is in `out` (which may be
 * in[0] + from), or, for a single input, it is that input. room: [SW_FOLD_ROOM]. */
const float *sw_kernel_fold_piece(const struct sw_fold_inputs *f, int64_t from, int64_t n,
                                  float *out, float *room);

/* out[0 .. n) becomes the sum; out may be in[0]. The same bits for every number of threads. */
void sw_kernel_fold(int threads, const struct sw_fold_inputs *f, float *out, int64_t n);
