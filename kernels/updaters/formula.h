/* The type of the formulas in this folder: a function of one element, compiled by C for the CPU
 * loop and by nvcc for the CUDA kernel. Its arguments are the constants (a struct of the formula),
 * the element, and the gradient, summed, scaled and clipped; it returns the updated element.
 *
 * An element whose value, state and gradient are zero stays zero, so padding may be updated too. */
#pragma once

#include <math.h>

#if defined(__CUDACC__)
#define SW_FORMULA static __host__ __device__ __forceinline__
#elif defined(__GNUC__)
#define SW_FORMULA static inline __attribute__((always_inline))
#else
#define SW_FORMULA static inline
#endif

/* One element of a parameter: its value and its state, in the order of the updater's slots. */
struct sw_element {
    float w, s0, s1;
};

typedef struct sw_element sw_formula(const void *constants, struct sw_element c, float g);
