/* SW_BOTH: an inline function that C and CUDA kernels have in common. */
#ifndef SW_KERNELS_BOTH_H
#define SW_KERNELS_BOTH_H

#ifdef __CUDACC__
#define SW_BOTH static __host__ __device__ __forceinline__
#else
#define SW_BOTH static inline
#endif

#endif
