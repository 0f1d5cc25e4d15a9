/* Copies a matrix into a block of a larger one. */
#include "kernels/cuda/cuda.cuh"
#include "kernels/ops/set_block.h"

static __device__ void set(const struct sw_set_block_args &a, int64_t r, int64_t c)
{
    a.y[r * a.width + c] = a.x[a.transposed ? c * a.rows + r : r * a.columns + c];
}

static int launch_set_block(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_set_block_args *a = (const struct sw_set_block_args *)args;
    return sw_start_rows<struct sw_set_block_args, set>(*a, a->rows, a->columns, l);
}

SW_CUDA_KERNELS(set_block) = {{{&sw_op_set_block, launch_set_block, NULL}, {}}};
