/* SW_BOTH: an inline function that C and CUDA kernels have in common. */
#pragma once

#ifdef __CUDACC__
#define SW_BOTH static __host__ __device__ __forceinline__
#else
#define SW_BOTH static inline
#endif
