/* Factors of products in the device's precision, and products of a warp on tensor cores. Every
 * factor that is rounded to 16 bits is a value of tf32 as well, so all precisions but fp32 use the
 * same instruction. */
#pragma once

#include "kernels/cuda/cuda.cuh"
#include "kernels/half.h"

static __device__ __forceinline__ float sw_rounded(float x, enum sw_precision p)
{
    return p == SW_PRECISION_FP32   ? x
           : p == SW_PRECISION_TF32 ? sw_round_tf32(x)
           : p == SW_PRECISION_BF16 ? sw_round_bf16(x)
                                    : sw_round_fp16(x);
}

/* Does the current GPU multiply factors of this precision on tensor cores? */
static inline bool sw_on_tensor_cores(enum sw_precision p)
{
    int gpu, major;

    return p != SW_PRECISION_FP32 && cudaGetDevice(&gpu) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, gpu) == cudaSuccess &&
           major >= 8;
}

/* c += a b of a warp on tensor cores: 16 rows, 8 columns, k = 8, factors rounded to tf32. For
 * g = lane / 4 and t = lane % 4, a contains (row, k) = (g, t), (g + 8, t), (g, t + 4), (g + 8, t +
 * 4); b (k, column) = (t, g), (t + 4, g); c (g, 2 t), (g, 2 t + 1), (g + 8, 2 t), (g + 8, 2 t + 1)
 * (PTX ISA, mma.m16n8k8). */
#ifndef SW_MULTIPLY_FRAGMENTS
#define SW_MULTIPLY_FRAGMENTS(c, a, b) sw_multiply_fragments(c, a, b)

static __device__ __forceinline__ void sw_multiply_fragments(float c[4], const float a[4],
                                                             const float b[2])
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800 /* callers never use it on older GPUs */
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(__float_as_int(a[0])), "r"(__float_as_int(a[1])), "r"(__float_as_int(a[2])),
          "r"(__float_as_int(a[3])), "r"(__float_as_int(b[0])), "r"(__float_as_int(b[1])));
#endif
}
#endif
