/* Counts the labels that are not ignored, in one block. */
#include "kernels/cuda/cuda.cuh"
#include "kernels/ops/label_count.h"

static __global__ void count_labels(struct sw_label_count_args a)
{
    __shared__ double room[SW_THREADS];

    const int64_t valid = sw_labels_valid_rows(&a.labels, a.step, a.rows);
    const int64_t ignored = sw_labels_ignored(&a.labels);
    double mine = 0;
    for (int64_t r = threadIdx.x; r < valid; r += blockDim.x)
        mine += a.labels.label[r] != ignored ? 1 : 0;

    double sum = sw_block_sum(mine, room);
    if (threadIdx.x == 0)
        *a.count = sum;
}

static int launch_count(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_label_count_args *a = (const struct sw_label_count_args *)args;
    return SW_LAUNCH(count_labels, 1, SW_THREADS, l, *a);
}

SW_CUDA_KERNELS(label_count) = {{{&sw_op_label_count, launch_count, NULL}, {}}};
