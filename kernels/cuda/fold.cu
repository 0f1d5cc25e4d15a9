/* Sums of several arrays in the order of base/tree.h: a program for a stack, which every thread
 * runs for its elements. */
#include "base/tree.h"
#include "kernels/cuda/cuda.cuh"

static __global__ void fold(struct sw_cuda_fold f)
{
    for (int64_t i = sw_first(); i < f.n; i += sw_stride()) {
        float stack[SW_TREE_DEPTH];
        int depth = 0;
        for (int t = 0; t < f.count; t++) {
            stack[depth++] = f.x[t][i];
            for (int a = f.adds[t]; a > 0; a--, depth--)
                stack[depth - 2] += stack[depth - 1];
        }
        f.y[i] = stack[0];
    }
}

int sw_cuda_fold(const struct sw_cuda_fold *f, const struct sw_cuda_launch *l)
{
    SW_START(fold, sw_blocks_for(f->n, l), SW_THREADS, l, *f);
    return (int)cudaGetLastError();
}
