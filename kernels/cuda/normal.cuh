/* Normal samples from random words. */
#pragma once

#include "kernels/cuda/cuda.cuh"

/* Converts two words to two normal samples (Box and Muller; kernels/cpu/draw.h). */
static __device__ __forceinline__ void sw_normal(const uint32_t *word, float *normal)
{
    float sine, cosine;
    float radius = sqrtf(-2.0f * logf((float)((word[0] >> 8) + 1) * 5.9604644775390625e-8f));

    sincospif(2.0f * sw_philox_uniform(word[1]), &sine, &cosine);
    normal[0] = radius * sine;
    normal[1] = radius * cosine;
}
