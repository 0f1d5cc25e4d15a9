/* Converts floats to 16 bits and back, and rounds floats to 16-bit values, in place or while
 * changing the layout. If the layouts are equal, a thread converts four adjacent elements with one
 * read and one write. */
#include "kernels/cuda/layout.cuh"
#include "kernels/half.h"

struct to_bf16 {
    typedef float from;
    typedef uint16_t to;
    static __device__ uint16_t of(float x)
    {
        return sw_bf16_of(x);
    }
};
struct to_fp16 {
    typedef float from;
    typedef uint16_t to;
    static __device__ uint16_t of(float x)
    {
        return sw_fp16_of(x);
    }
};
struct from_bf16 {
    typedef uint16_t from;
    typedef float to;
    static __device__ float of(uint16_t h)
    {
        return sw_bf16_value(h);
    }
};
struct from_fp16 {
    typedef uint16_t from;
    typedef float to;
    static __device__ float of(uint16_t h)
    {
        return sw_fp16_value(h);
    }
};
struct round_bf16 {
    typedef float from;
    typedef float to;
    static __device__ float of(float x)
    {
        return sw_round_bf16(x);
    }
};
struct round_fp16 {
    typedef float from;
    typedef float to;
    static __device__ float of(float x)
    {
        return sw_round_fp16(x);
    }
};

template <typename C>
static __global__ void convert(int64_t n, const typename C::from *x, typename C::to *y)
{
    for (int64_t i = sw_first(); i < n; i += sw_stride())
        y[i] = C::of(x[i]);
}

template <typename T> struct alignas(4 * sizeof(T)) four {
    T v[4];
};

/* n is a multiple of four, and both arrays are aligned for four elements. */
template <typename C>
static __global__ void convert_fours(int64_t n, const typename C::from *x, typename C::to *y)
{
    const four<typename C::from> *from = (const four<typename C::from> *)x;
    four<typename C::to> *to = (four<typename C::to> *)y;

    for (int64_t i = sw_first(); i < n / 4; i += sw_stride()) {
        four<typename C::from> a = from[i];
        four<typename C::to> b;
        for (int k = 0; k < 4; k++)
            b.v[k] = C::of(a.v[k]);
        to[i] = b;
    }
}

template <typename C> static bool in_fours(int64_t n, const void *x, const void *y)
{
    return n % 4 == 0 && (uintptr_t)x % sizeof(four<typename C::from>) == 0 &&
           (uintptr_t)y % sizeof(four<typename C::to>) == 0;
}

template <typename C>
static __global__ void convert_box(struct sw_cuda_box b, int64_t n, const typename C::from *x,
                                   typename C::to *y)
{
    for (int64_t i = sw_first(); i < n; i += sw_stride()) {
        int64_t from, to;
        sw_box_offsets(b, i, &from, &to);
        y[to] = C::of(x[from]);
    }
}

template <typename C>
static void start(const struct sw_cuda_box *b, int64_t n, const void *src, void *dst,
                  const struct sw_cuda_launch *l)
{
    const typename C::from *x = (const typename C::from *)src;
    typename C::to *y = (typename C::to *)dst;

    if (b)
        SW_START(convert_box<C>, sw_blocks_for(n, l), SW_THREADS, l, *b, n, x, y);
    else if (in_fours<C>(n, src, dst))
        SW_START(convert_fours<C>, sw_blocks_for(n / 4, l), SW_THREADS, l, n, x, y);
    else
        SW_START(convert<C>, sw_blocks_for(n, l), SW_THREADS, l, n, x, y);
}

static int run(enum sw_cuda_conversion c, const struct sw_cuda_box *b, int64_t n, const void *src,
               void *dst, const struct sw_cuda_launch *l)
{
    static void (*const starts[])(const struct sw_cuda_box *, int64_t, const void *, void *,
                                  const struct sw_cuda_launch *) = {
        start<to_bf16>,   start<to_fp16>,    start<from_bf16>,
        start<from_fp16>, start<round_bf16>, start<round_fp16>};
    if (n == 0)
        return (int)cudaSuccess;

    starts[c](b, n, src, dst, l);
    return (int)cudaGetLastError();
}

int sw_cuda_convert(enum sw_cuda_conversion c, int64_t n, const void *src, void *dst,
                    const struct sw_cuda_launch *l)
{
    return run(c, NULL, n, src, dst, l);
}

int sw_cuda_convert_box(enum sw_cuda_conversion c, const struct sw_cuda_box *b, const void *src,
                        void *dst, const struct sw_cuda_launch *l)
{
    return run(c, b, sw_box_count(b), src, dst, l);
}
