/* What every formula of this folder is: a function on one element, compiled by C for the CPU loop
 * and by nvcc for the CUDA kernel. It gets its constants (a struct of its own), the element, and
 * the gradient, summed, scaled and clipped, and returns the element as it is afterwards.
 *
 * An element with value, state and gradient zero stays zero: padding may be updated too. */
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
