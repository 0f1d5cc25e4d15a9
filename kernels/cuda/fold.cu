/* Sums of several arrays in the order of base/tree.h: every thread runs a stack program for its
 * elements. */
#include "base/tree.h"
#include "kernels/cuda/cuda.cuh"
#include "kernels/ops/fold.h"

/* adds[t] additions follow after input t is pushed. */
struct program {
    int adds[SW_FOLD_INPUTS];
};

static __global__ void fold(struct sw_fold_args f, struct program p)
{
    for (int64_t i = sw_first(); i < f.n; i += sw_stride()) {
        float stack[SW_TREE_DEPTH];
        int depth = 0;

        for (int t = 0; t < f.count; t++) {
            stack[depth++] = f.x[t][i];
            for (int a = p.adds[t]; a > 0; a--, depth--)
                stack[depth - 2] += stack[depth - 1];
        }

        f.y[i] = stack[0];
    }
}

static int launch_fold(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_fold_args *a = (const struct sw_fold_args *)args;
    struct program p = {};

    for (int t = 0, begin = 0; t < a->count; begin = a->ends[t++])
        p.adds[t] = sw_tree_adds(a->ends[a->count - 1], begin, a->ends[t]);
    return SW_LAUNCH(fold, sw_blocks_for(a->n, l), SW_THREADS, l, *a, p);
}

SW_CUDA_KERNELS(fold) = {{{&sw_op_fold, launch_fold, NULL}, {}}};
