/* Sums of absolute and squared errors, of targets and of their squares: one block per column, or
 * one for all columns, whose threads divide the values. */
#include "kernels/cuda/cuda.cuh"
#include "kernels/ops/target_error.h"

static __global__ void sum_errors(struct sw_target_error_args a)
{
    __shared__ double room[SW_THREADS];

    const int64_t valid = sw_op_valid_rows(a.step, a.rows), groups = sw_target_error_groups(&a);
    const int64_t count = a.by_column ? valid : valid * a.columns;
    const int64_t step = a.by_column ? a.columns : 1;
    for (int64_t g = blockIdx.x; g < groups; g += gridDim.x) {
        double absolute = 0, squared = 0, targets = 0, squares = 0;

        for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
            double t = (double)a.target[g + i * step], d = (double)a.x[g + i * step] - t;

            absolute += fabs(d);
            squared += d * d;
            targets += t;
            squares += t * t;
        }

        absolute = sw_block_sum(absolute, room);
        squared = sw_block_sum(squared, room);
        targets = sw_block_sum(targets, room);
        squares = sw_block_sum(squares, room);

        if (threadIdx.x == 0) {
            struct sw_result *pairs = a.pairs + SW_ERROR_PAIRS * g;

            pairs[SW_ERROR_ABSOLUTE].sum = absolute;
            pairs[SW_ERROR_SQUARED].sum = squared;
            pairs[SW_ERROR_ABSOLUTE].weight = pairs[SW_ERROR_SQUARED].weight = (double)count;
            pairs[SW_ERROR_TARGET].sum = targets;
            pairs[SW_ERROR_TARGET].weight = squares;
        }
    }
}

static int launch(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_target_error_args *a = (const struct sw_target_error_args *)args;
    const int64_t values = a->by_column ? a->rows : a->rows * a->columns;

    return SW_LAUNCH(sum_errors, sw_blocks_of(sw_target_error_groups(a), 65535),
                     sw_threads_for(values), l, *a);
}

SW_CUDA_KERNELS(target_error) = {{{&sw_op_target_error, launch, NULL}, {}}};
