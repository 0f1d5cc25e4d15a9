/* What every formula of this folder is: functions on scalars, one element at a time, compiled by C
 * for the CPU loop and by nvcc for the CUDA kernel. */
#ifndef SW_KERNELS_UPDATERS_FORMULA_H
#define SW_KERNELS_UPDATERS_FORMULA_H

#if defined(__CUDACC__)
#define SW_FORMULA static __host__ __device__ __forceinline__
#else
#define SW_FORMULA static inline
#endif

#endif
