/* Lists of parameters whose chunks (kernels/ops/update_control.h) the blocks of a kernel take. */
#pragma once

#include "kernels/cuda/cuda.cuh"
#include "kernels/ops/update_control.h"

/* Returns the parameter of chunk blockIdx.x to all threads of the block. */
static __device__ __forceinline__ int sw_find_param(const struct sw_update_numbers *numbers,
                                                    int params)
{
    __shared__ int found;

    for (int i = (int)threadIdx.x; i < params; i += (int)blockDim.x) {
        int64_t chunk = (int64_t)blockIdx.x - numbers[i].first_chunk;
        if (chunk >= 0 && chunk * SW_UPDATE_CHUNK < numbers[i].count)
            found = i; /* one thread */
    }

    __syncthreads();
    return found;
}
