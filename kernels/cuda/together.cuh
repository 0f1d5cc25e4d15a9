/* Kernels whose blocks run at the same time and wait for each other. A cooperative launch starts
 * only when all blocks fit the multiprocessors at once, whatever else uses the GPU: it waits, like
 * any kernel, for those that others occupy, and then no block waits for one that cannot start. Time
 * slicing stops and resumes all blocks. The driver refuses grids that never fit, e.g. with a share
 * of a GPU under MPS. */
#pragma once

#include "kernels/cuda/cuda.cuh"

/* Launches one kernel with one argument in blocks of SW_THREADS, each with `bytes` of shared
 * memory. Returns an enum cudaError. */
#ifndef SW_START_TOGETHER
#define SW_START_TOGETHER(kernel, blocks, bytes, launch, args)                                     \
    sw_start_together(kernel, blocks, bytes, launch, args)

template <typename A>
static int sw_start_together(void (*kernel)(A), unsigned blocks, size_t bytes,
                             const struct sw_cuda_launch *l, A args)
{
    const void *function = (const void *)kernel;
    void *list[] = {&args};

    cudaError_t e =
        cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (e == cudaSuccess)
        e = cudaLaunchCooperativeKernel(function, blocks, SW_THREADS, list, bytes, l->stream);
    return (int)e;
}
#endif

/* Declares the shared memory of such a launch, aligned for float4. */
#ifndef SW_SHARED_FLOATS
#define SW_SHARED_FLOATS(name)                                                                     \
    extern __shared__ float4 name##_fours[];                                                       \
    float *name = (float *)name##_fours
#endif

/* In a loop that waits for another block. */
#ifndef SW_PAUSE
#define SW_PAUSE() ((void)0)
#endif

/* Waits until `blocks` blocks have called this as often as the calling one, whose calls are counted
 * from 1 by `times`. What they wrote before is visible after it to reads that go past the L1 cache
 * (__ldcg). `met` is zero at the launch. */
static __device__ __forceinline__ void sw_meet(unsigned *met, unsigned blocks, unsigned times)
{
    __syncthreads();

    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(met, 1u);
        while (*(volatile unsigned *)met < blocks * times)
            SW_PAUSE();
        __threadfence();
    }

    __syncthreads();
}
