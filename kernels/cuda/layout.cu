/* Copies a box of one tensor to the same box of another or adds it, for any layouts, and zeroes
 * padding. */
#include "kernels/cuda/layout.cuh"
#include "kernels/cuda/wide.cuh"
#include "kernels/ops/layout.h"

/* No conversion (sw_transpose). */
template <typename T> struct same {
    typedef T from;
    typedef T to;
    static __device__ T of(T x)
    {
        return x;
    }
};

/* 16 bytes of adjacent elements. */
template <typename T> struct alignas(16) pack {
    static const int count = 16 / (int)sizeof(T);
    T v[count];
};

template <typename T> static __device__ __forceinline__ T sum(T a, T b)
{
    return (T)(a + b);
}

template <typename T> static __device__ __forceinline__ pack<T> sum(pack<T> a, const pack<T> &b)
{
    for (int i = 0; i < pack<T>::count; i++)
        a.v[i] = (T)(a.v[i] + b.v[i]);
    return a;
}

/* B: struct sw_small_box or struct sw_cuda_box. */
template <typename T, typename B>
static __global__ void copy_box(B b, bool add, int64_t n, const T *src, T *dst)
{
    for (int64_t i = sw_first(); i < n; i += sw_stride()) {
        int64_t from, to;
        sw_box_offsets(b, i, &from, &to);
        dst[to] = add ? sum(src[from], dst[to]) : src[from];
    }
}

/* The box in units of `by` adjacent elements; false if these are not adjacent in both tensors. */
static bool pack_box(const struct sw_cuda_box *box, int by, struct sw_cuda_box *out)
{
    *out = *box;
    sw_box_simplify(out);

    const int last = out->to.ndim - 1;
    if (last < 0 || out->size[last] % by || out->from_at[last] % by || out->to_at[last] % by)
        return false;

    for (int d = 0; d <= last; d++) {
        struct sw_axis *const axes[] = {&out->from.axis[d], &out->to.axis[d]};

        for (struct sw_axis *a : axes) {
            if (d == last && (a->count != 1 || a->factor[0].stride != 1))
                return false;

            for (int i = 0; i < a->count && d < last; i++) {
                if (a->factor[i].stride % by)
                    return false;
                a->factor[i].stride /= by;
            }
        }
    }

    out->size[last] /= by;
    out->from_at[last] /= by;
    out->to_at[last] /= by;

    return true;
}

template <typename T>
static int copy_small(const struct sw_small_box *b, const void *src, void *dst,
                      const struct sw_cuda_launch *l)
{
    const int64_t n = sw_box_count(&b->b);
    return SW_LAUNCH((copy_box<T, struct sw_small_box>), sw_blocks_for(n, l), SW_THREADS, l, *b,
                     b->b.add, n, (const T *)src, (T *)dst);
}

/* Where elements are adjacent along one dimension of both tensors, they are copied 16 bytes at a
 * time; where they are along two different ones, in tiles. */
template <typename T>
static int copy_as(const struct sw_cuda_box *b, const void *src, void *dst,
                   const struct sw_cuda_launch *l)
{
    const bool aligned = ((uintptr_t)src | (uintptr_t)dst) % sizeof(pack<T>) == 0;
    const int64_t n = sw_box_count(b);
    struct sw_cuda_box packed;
    struct sw_small_box small;
    struct sw_tiles tiles;

    if (aligned && pack_box(b, pack<T>::count, &packed) && sw_small_box_of(&packed, &small))
        return copy_small<pack<T>>(&small, src, dst, l);

    if (sw_tiles_of(b, &tiles)) {
        sw_start_transpose<same<T>>(&tiles, b->add, (const T *)src, (T *)dst, l);
        return (int)cudaGetLastError();
    }

    if (sw_small_box_of(b, &small))
        return copy_small<T>(&small, src, dst, l);
    return SW_LAUNCH((copy_box<T, struct sw_cuda_box>), sw_blocks_for(n, l), SW_THREADS, l, *b,
                     b->add, n, (const T *)src, (T *)dst);
}

static int copy(const struct sw_cuda_box *b, const void *src, void *dst,
                const struct sw_cuda_launch *l)
{
    if (sw_box_count(b) == 0)
        return (int)cudaSuccess;

    return b->element_bytes == 1   ? copy_as<uint8_t>(b, src, dst, l)
           : b->element_bytes == 2 ? copy_as<uint16_t>(b, src, dst, l)
           : b->add                ? copy_as<float>(b, src, dst, l)
                                   : copy_as<uint32_t>(b, src, dst, l);
}

/* ---- Whole tensors ---- */

static struct sw_cuda_layout layout_of(const struct sw_desc *d)
{
    struct sw_cuda_layout l = {};

    l.ndim = d->ndim;
    for (int i = 0; i < d->ndim; i++)
        l.axis[i] = sw_axis_of(d, i);

    return l;
}

/* Sets padding that no kernel visits to zero. */
static int clear(const struct sw_desc *d, void *to, const struct sw_cuda_launch *l)
{
    return sw_desc_storage(d) == sw_desc_count(d)
               ? (int)cudaSuccess
               : (int)cudaMemsetAsync(to, 0, sw_desc_bytes(d), l->stream);
}

static struct sw_cuda_box whole(const struct sw_desc *from, const struct sw_desc *to)
{
    struct sw_cuda_box b = {};

    b.from = layout_of(from);
    b.to = layout_of(to);
    b.element_bytes = (int)sw_dtype_bytes(from->dtype);
    for (int i = 0; i < from->ndim; i++)
        b.size[i] = from->dim[i];

    return b;
}

int sw_cuda_reorder_as(const struct sw_cuda_launch *l, enum sw_cuda_conversion c,
                       const struct sw_desc *from, const void *src, const struct sw_desc *to,
                       void *dst)
{
    struct sw_desc same = sw_desc_as(from, to->dtype);
    if (sw_desc_equal(&same, to))
        return sw_cuda_convert(c, sw_desc_storage(to), src, dst, l);

    struct sw_cuda_box b = whole(from, to);
    int answer = clear(to, dst, l);
    return answer ? answer : sw_cuda_convert_box(c, &b, src, dst, l);
}

/* One of the types is f32, the other one has 16 bits. */
static enum sw_cuda_conversion conversion(enum sw_dtype from, enum sw_dtype to)
{
    return to == SW_BF16     ? SW_CUDA_TO_BF16
           : to == SW_F16    ? SW_CUDA_TO_FP16
           : from == SW_BF16 ? SW_CUDA_FROM_BF16
                             : SW_CUDA_FROM_FP16;
}

int sw_cuda_reorder(const struct sw_cuda_launch *l, const struct sw_desc *from, const void *src,
                    const struct sw_desc *to, void *dst)
{
    if (from->dtype != to->dtype)
        return sw_cuda_reorder_as(l, conversion(from->dtype, to->dtype), from, src, to, dst);
    if (sw_desc_equal(from, to))
        return (int)cudaMemcpyAsync(dst, src, sw_desc_bytes(to), cudaMemcpyDefault, l->stream);

    struct sw_cuda_box b = whole(from, to);
    int answer = clear(to, dst, l);
    return answer ? answer : copy(&b, src, dst, l);
}

/* ---- Slices and padding ---- */

/* dst += src, of 16 bits or of two types. */
template <typename D, typename S, typename B>
static __global__ void add_box(B b, int64_t n, const S *src, D *dst)
{
    SW_ROLLED
    for (int64_t i = sw_first(); i < n; i += sw_stride()) {
        int64_t from, to;
        sw_box_offsets(b, i, &from, &to);
        sw_round(dst + to, sw_value(dst[to]) + sw_value(src[from]));
    }
}

template <typename D, typename S>
static int add_to(const struct sw_cuda_box *b, const S *src, void *dst,
                  const struct sw_cuda_launch *l)
{
    const int64_t n = sw_box_count(b);
    struct sw_small_box small;
    if (sw_small_box_of(b, &small))
        return SW_LAUNCH((add_box<D, S, struct sw_small_box>), sw_blocks_for(n, l), SW_THREADS, l,
                         small, n, src, (D *)dst);

    return SW_LAUNCH((add_box<D, S, struct sw_cuda_box>), sw_blocks_for(n, l), SW_THREADS, l, *b, n,
                     src, (D *)dst);
}

template <typename S>
static int add_from(const struct sw_cuda_box *b, const struct sw_part_args *a,
                    const struct sw_cuda_launch *l)
{
    return SW_BY_TYPE(a->to.dtype, add_to, b, (const S *)a->src, a->dst, l);
}

static int launch_part(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_part_args *a = (const struct sw_part_args *)args;
    struct sw_cuda_box b = whole(&a->from, &a->to);

    b.add = a->add;
    b.size[a->axis] = a->count;
    b.from_at[a->axis] = a->from_at;
    b.to_at[a->axis] = a->to_at;

    const bool same = a->from.dtype == a->to.dtype;
    if (sw_box_count(&b) == 0 || (same && !(a->add && sw_dtype_is_half(a->to.dtype))))
        return copy(&b, a->src, a->dst, l);
    if (a->add)
        return SW_BY_TYPE(a->from.dtype, add_from, &b, a, l);

    return sw_cuda_convert_box(conversion(a->from.dtype, a->to.dtype), &b, a->src, a->dst, l);
}

/* Zero has the same bits in all types: T has their size. */
template <typename T>
static __global__ void zero_padding(struct sw_desc d, struct sw_cuda_layout at, int64_t n, T *x)
{
    for (int64_t i = sw_first(); i < n; i += sw_stride()) {
        int64_t offset = 0, rest = i;
        bool outside = false;

        for (int k = at.ndim - 1; k >= 0; k--) {
            int64_t index = rest % d.padded[k];
            rest /= d.padded[k];
            outside = outside || index >= d.dim[k];
            offset += sw_axis_offset(&at.axis[k], index);
        }

        if (outside)
            x[offset] = 0;
    }
}

static int launch_zero_padding(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_zero_padding_args *a = (const struct sw_zero_padding_args *)args;
    const struct sw_desc *d = &a->desc;
    int64_t n = 1, here = 1;

    for (int i = 0; i < d->ndim; i++) {
        n *= d->padded[i];
        here *= d->dim[i];
    }

    if (n == here)
        return (int)cudaSuccess;

    return sw_dtype_is_half(d->dtype)
               ? SW_LAUNCH(zero_padding<uint16_t>, sw_blocks_for(n, l), SW_THREADS, l, *d,
                           layout_of(d), n, (uint16_t *)a->x)
               : SW_LAUNCH(zero_padding<uint32_t>, sw_blocks_for(n, l), SW_THREADS, l, *d,
                           layout_of(d), n, (uint32_t *)a->x);
}

SW_CUDA_KERNELS(layout) = {
    {{&sw_op_part, launch_part, NULL}, {&sw_op_clear_padding, launch_zero_padding, NULL}, {}}};
