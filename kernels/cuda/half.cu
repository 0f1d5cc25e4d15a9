/* Converts floats to 16 bits and back, and rounds floats to 16-bit values, in place or while
 * changing the layout. If the layouts are equal, a thread converts four adjacent elements with one
 * read and one write. */
#include "kernels/cuda/layout.cuh"
#include "kernels/half.h"

/* A conversion of elements. */
template <typename F, typename T, T convert(F)> struct conversion {
    typedef F from;
    typedef T to;
    static __device__ T of(F x)
    {
        return convert(x);
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

/* B: struct sw_small_box or struct sw_cuda_box. */
template <typename C, typename B>
static __global__ void convert_box(B b, int64_t n, const typename C::from *x, typename C::to *y)
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
    struct sw_small_box small;
    struct sw_tiles tiles;

    if (b && sw_tiles_of(b, &tiles))
        sw_start_transpose<C>(&tiles, false, x, y, l);
    else if (b && sw_small_box_of(b, &small))
        SW_START((convert_box<C, struct sw_small_box>), sw_blocks_for(n, l), SW_THREADS, l, small,
                 n, x, y);
    else if (b)
        SW_START((convert_box<C, struct sw_cuda_box>), sw_blocks_for(n, l), SW_THREADS, l, *b, n, x,
                 y);
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
        start<conversion<float, uint16_t, sw_bf16_of>>,
        start<conversion<float, uint16_t, sw_fp16_of>>,
        start<conversion<uint16_t, float, sw_bf16_value>>,
        start<conversion<uint16_t, float, sw_fp16_value>>,
        start<conversion<float, float, sw_round_bf16>>,
        start<conversion<float, float, sw_round_fp16>>};
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
