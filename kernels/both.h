/* SW_BOTH marks an inline function for both C and CUDA: __host__ __device__ under nvcc. */
#pragma once

#ifdef __CUDACC__
#define SW_BOTH static __host__ __device__ __forceinline__
#else
#define SW_BOTH static inline
#endif
