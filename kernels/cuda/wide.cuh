/* Elements of activations, floats or 16 bits (kernels/half.h), and vectors of them. Kernels load
 * vectors of 16 bytes, compute with floats and round once when they store; elements after the last
 * vector, and arrays that are not aligned, go one by one. */
#pragma once

#include "kernels/cuda/cuda.cuh"
#include "kernels/half.h"

struct sw_bf16 {
    uint16_t bits;
};
struct sw_fp16 {
    uint16_t bits;
};

/* One instruction each, where kernels/half.h has ten or more; the host runtime for tests defines
 * them differently. */
#ifndef SW_FP16_OF
#define SW_FP16_OF(h, x) asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x))
#define SW_FP16_VALUE(x, h) asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h))
#endif

static __device__ __forceinline__ float sw_value(float x)
{
    return x;
}

static __device__ __forceinline__ float sw_value(struct sw_bf16 h)
{
    return sw_bf16_value(h.bits);
}

static __device__ __forceinline__ float sw_value(struct sw_fp16 h)
{
    float x;
    SW_FP16_VALUE(x, h.bits);
    return x;
}

static __device__ __forceinline__ void sw_round(float *to, float x)
{
    *to = x;
}

static __device__ __forceinline__ void sw_round(struct sw_bf16 *to, float x)
{
    to->bits = sw_bf16_of(x);
}

/* The instruction has one NaN, 0x7fff. */
static __device__ __forceinline__ void sw_round(struct sw_fp16 *to, float x)
{
    uint16_t h;
    SW_FP16_OF(h, x);
    to->bits = x != x ? (uint16_t)((sw_float_bits(x) >> 16 & 0x8000u) | 0x7e00u) : h;
}

/* Calls a function template for the type of an activation's elements. */
#define SW_BY_TYPE(type, function, ...)                                                            \
    ((type) == SW_F32    ? function<float>(__VA_ARGS__)                                            \
     : (type) == SW_BF16 ? function<struct sw_bf16>(__VA_ARGS__)                                   \
                         : function<struct sw_fp16>(__VA_ARGS__))

/* ---- Vectors ---- */

enum { SW_WIDE_BYTES = 16 };

/* The elements of a vector of 16 bytes. */
template <typename T> constexpr int sw_wide = SW_WIDE_BYTES / (int)sizeof(T);

template <typename T, int n>
struct alignas(n *(int)sizeof(T) < SW_WIDE_BYTES ? n * (int)sizeof(T)
                                                 : (int)SW_WIDE_BYTES) sw_vector {
    T v[n];
};

template <typename T, int n>
static __device__ __forceinline__ sw_vector<T, n> sw_vector_at(const void *x, int64_t at)
{
    return *(const sw_vector<T, n> *)((const T *)x + at);
}

template <typename T, int n>
static __device__ __forceinline__ void sw_load(const void *x, int64_t at, float *v)
{
    const sw_vector<T, n> in = sw_vector_at<T, n>(x, at);
    for (int i = 0; i < n; i++)
        v[i] = sw_value(in.v[i]);
}

/* The compiler stores the elements of a struct one by one. */
#ifndef SW_STORE_WIDE
#define SW_STORE_WIDE(to, word)                                                                    \
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(word[0]), "r"(word[1]), \
                 "r"(word[2]), "r"(word[3])                                                        \
                 : "memory")
#endif

template <typename T, int n>
static __device__ __forceinline__ void sw_store(void *y, int64_t at, const float *v)
{
    sw_vector<T, n> out, *to = (sw_vector<T, n> *)((T *)y + at);
    for (int i = 0; i < n; i++)
        sw_round(&out.v[i], v[i]);

    if constexpr (sizeof out == SW_WIDE_BYTES) {
        uint32_t word[4];
        memcpy(word, &out, sizeof out);
        SW_STORE_WIDE(to, word);
    } else {
        *to = out;
    }
}

template <int n> static __device__ __forceinline__ void sw_store_ints(int32_t *to, const int32_t *v)
{
    constexpr int each = SW_WIDE_BYTES / (int)sizeof *v;

    for (int i = 0; n % each == 0 && i < n; i += each) {
        uint32_t word[each];
        memcpy(word, v + i, sizeof word);
        SW_STORE_WIDE(to + i, word);
    }
    for (int i = 0; n % each != 0 && i < n; i++)
        to[i] = v[i];
}

static inline bool sw_is_wide(const void *x)
{
    return (uintptr_t)x % SW_WIDE_BYTES == 0;
}

/* Are all activations of an operation aligned for vectors? */
static inline bool sw_activations_are_wide(const struct sw_op *op, const void *args)
{
    struct sw_op_arrays list;

    sw_op_list(op, args, &list);
    for (int i = 0; i < list.count; i++) {
        const void *x = *(void *const *)((const char *)args + list.array[i].offset);
        if (list.array[i].type && !sw_is_wide(x))
            return false;
    }
    return true;
}

/* Calls E::at<T, n>(args, i) for the n elements at i. */
template <typename T, int n, typename E, typename A>
static __global__ void sw_each_vector(A args, int64_t count)
{
    const int64_t whole = count / n;

    SW_ROLLED
    for (int64_t i = sw_first(); i < whole; i += sw_stride())
        E::template at<T, n>(args, i * n);

    SW_ROLLED
    for (int64_t i = whole * n + sw_first(); n > 1 && i < count; i += sw_stride())
        E::template at<T, 1>(args, i);
}

template <typename T, typename E, typename A>
static int sw_start_vectors(E, const A &args, bool wide, const struct sw_cuda_launch *l)
{
    constexpr int n = sw_wide<T>;

    return wide ? SW_LAUNCH((sw_each_vector<T, n, E, A>), sw_blocks_for((args.n + n - 1) / n, l),
                            SW_THREADS, l, args, args.n)
                : SW_LAUNCH((sw_each_vector<T, 1, E, A>), sw_blocks_for(args.n, l), SW_THREADS, l,
                            args, args.n);
}

/* The launcher of an operation on activations of n elements. */
template <const struct sw_op &op, typename A, typename E>
static int sw_launch_vectors(const struct sw_cuda_launch *l, const void *args)
{
    const A *a = (const A *)args;
    return SW_BY_TYPE(a->type, sw_start_vectors, E(), *a, sw_activations_are_wide(&op, args), l);
}
