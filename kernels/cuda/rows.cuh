/* Losses and metrics that are sums over rows: every block sums its rows in order, and a final block
 * adds the partial sums. */
#pragma once

#include "kernels/cuda/cuda.cuh"

/* Stores the sum and the weight of a block; all its threads have the same values. */
static __device__ __forceinline__ void sw_store_partial(double *part, double sum, double weight)
{
    if (threadIdx.x == 0) {
        part[2 * blockIdx.x] = sum;
        part[2 * blockIdx.x + 1] = weight;
    }
}

static __global__ void sw_add_row_partials(const double *part, unsigned parts, float weight,
                                        struct sw_result *result)
{
    __shared__ double room[SW_THREADS];

    double sum = 0, rows = 0;
    for (unsigned i = threadIdx.x; i < parts; i += blockDim.x) {
        sum += part[2 * i];
        rows += part[2 * i + 1];
    }

    sum = sw_block_sum(sum, room);
    rows = sw_block_sum(rows, room);

    if (threadIdx.x == 0) {
        result->sum = (double)weight * sum;
        result->weight = rows;
    }
}
