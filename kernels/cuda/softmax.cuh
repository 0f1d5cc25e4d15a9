/* The exponentials of a row. */
#pragma once

#include "kernels/cuda/cuda.cuh"
#include <math_constants.h>

/* Sets y = exp(x - m) with m = max x, for a row of n elements; returns the sum to all threads of
 * the block. y may be x. */
static __device__ __forceinline__ double sw_block_exp(const float *x, int64_t n, float *y, float *m,
                                                      float *most, double *room)
{
    double sum = 0;

    *m = -CUDART_INF_F;
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
        *m = x[i] > *m ? x[i] : *m;
    *m = sw_block_max(*m, most);

    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
        float e = expf(x[i] - *m);
        y[i] = e;
        sum += (double)e;
    }

    return sw_block_sum(sum, room);
}
