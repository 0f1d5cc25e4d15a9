/* The storage offsets of the indices of a tensor, for any layout, and transposes through shared
 * memory. */
#pragma once

#include "kernels/cuda/cuda.cuh"
#include "kernels/divide.h"

/* A box of fewer than 2^31 elements, with what divides the indices. Its dimensions are in the order
 * of the target's strides, so that adjacent threads write adjacent elements; those that are
 * adjacent in both tensors are one. */
struct sw_small_box {
    struct sw_cuda_box b;
    struct sw_divisor size[SW_MAX_DIMS], from[SW_MAX_DIMS][SW_MAX_BLOCKS],
        to[SW_MAX_DIMS][SW_MAX_BLOCKS];
};

/* sw_axis_offset with divisors. */
static __device__ __forceinline__ int64_t sw_small_offset(const struct sw_axis &a,
                                                          const struct sw_divisor *by,
                                                          uint32_t index)
{
    int64_t offset = 0;

    for (int i = 0; i < a.count - 1; i++)
        offset += sw_divide_off(&by[i], &index) * a.factor[i].stride;

    return a.count ? offset + index * a.factor[a.count - 1].stride : 0;
}

/* Sets the offsets of element i of a box in both tensors. */
static __device__ __forceinline__ void sw_box_offsets(const struct sw_small_box &s, int64_t i,
                                                      int64_t *from, int64_t *to)
{
    uint32_t rest = (uint32_t)i;

    *from = *to = 0;
    for (int d = s.b.from.ndim - 1; d >= 0; d--) {
        uint32_t index = sw_divide_off(&s.size[d], &rest);
        *from += sw_small_offset(s.b.from.axis[d], s.from[d], (uint32_t)s.b.from_at[d] + index);
        *to += sw_small_offset(s.b.to.axis[d], s.to[d], (uint32_t)s.b.to_at[d] + index);
    }
}

static __device__ inline void sw_box_offsets(const struct sw_cuda_box &b, int64_t i, int64_t *from,
                                             int64_t *to)
{
    *from = *to = 0;
    for (int d = b.from.ndim - 1; d >= 0; d--) {
        int64_t index = i % b.size[d];
        i /= b.size[d];
        *from += sw_axis_offset(&b.from.axis[d], b.from_at[d] + index);
        *to += sw_axis_offset(&b.to.axis[d], b.to_at[d] + index);
    }
}

static inline int64_t sw_box_count(const struct sw_cuda_box *b)
{
    int64_t n = 1;
    for (int d = 0; d < b->from.ndim; d++)
        n *= b->size[d];
    return n;
}

/* ---- On the host ---- */

/* Exchanges two dimensions. */
static inline void sw_box_swap(struct sw_cuda_box *b, int d, int e)
{
    const struct sw_cuda_box was = *b;

    b->from.axis[d] = was.from.axis[e], b->from.axis[e] = was.from.axis[d];
    b->to.axis[d] = was.to.axis[e], b->to.axis[e] = was.to.axis[d];
    b->size[d] = was.size[e], b->size[e] = was.size[d];
    b->from_at[d] = was.from_at[e], b->from_at[e] = was.from_at[d];
    b->to_at[d] = was.to_at[e], b->to_at[e] = was.to_at[d];
}

/* Is index i of dimension d stored like index i size[d + 1] of the next dimension? */
static inline bool sw_axis_goes_on(const struct sw_cuda_layout *l, const int64_t *size, int d)
{
    const struct sw_axis *outer = &l->axis[d], *inner = &l->axis[d + 1];

    return outer->count == 1 && inner->count == 1 &&
           outer->factor[0].stride == inner->factor[0].stride * size[d + 1];
}

/* Makes dimensions d and d + 1 one. */
static inline void sw_box_merge(struct sw_cuda_box *b, int d)
{
    const int64_t inner = b->size[d + 1];

    b->from_at[d] = b->from_at[d] * inner + b->from_at[d + 1];
    b->to_at[d] = b->to_at[d] * inner + b->to_at[d + 1];
    b->size[d] *= inner;
    b->from.axis[d] = b->from.axis[d + 1];
    b->to.axis[d] = b->to.axis[d + 1];

    for (int k = d + 1; k + 1 < b->from.ndim; k++)
        sw_box_swap(b, k, k + 1);
    b->from.ndim = --b->to.ndim;
}

/* Orders the dimensions by the strides of the target, the smallest last, and merges them. */
static inline void sw_box_simplify(struct sw_cuda_box *b)
{
    int64_t stride[SW_MAX_DIMS];

    for (int d = 0; d < b->to.ndim; d++) {
        stride[d] = b->to.axis[d].count ? b->to.axis[d].factor[0].stride : INT64_MAX;
        for (int k = d; k > 0 && stride[k] > stride[k - 1]; k--) {
            const int64_t larger = stride[k];
            stride[k] = stride[k - 1];
            stride[k - 1] = larger;
            sw_box_swap(b, k, k - 1);
        }
    }

    for (int d = b->from.ndim - 2; d >= 0; d--)
        if (sw_axis_goes_on(&b->from, b->size, d) && sw_axis_goes_on(&b->to, b->size, d))
            sw_box_merge(b, d);
}

static inline void sw_divisors_of(const struct sw_axis *a, struct sw_divisor *out)
{
    for (int i = 0; i < a->count - 1; i++)
        out[i] = sw_divisor_of(a->factor[i].extent);
}

/* Returns false if an index may be 2^31 or more. */
static inline bool sw_small_box_as(const struct sw_cuda_box *b, struct sw_small_box *out)
{
    bool small = sw_box_count(b) <= INT32_MAX;

    *out = {};
    out->b = *b;
    for (int d = 0; small && d < b->from.ndim; d++) {
        small = b->from_at[d] + b->size[d] <= INT32_MAX && b->to_at[d] + b->size[d] <= INT32_MAX;
        out->size[d] = sw_divisor_of(b->size[d]);
        sw_divisors_of(&b->from.axis[d], out->from[d]);
        sw_divisors_of(&b->to.axis[d], out->to[d]);
    }

    return small;
}

static inline bool sw_small_box_of(const struct sw_cuda_box *b, struct sw_small_box *out)
{
    struct sw_cuda_box simple = *b;

    sw_box_simplify(&simple);
    return sw_small_box_as(&simple, out);
}

/* ---- Transposes ---- */

enum { SW_TILE = 32, SW_TILE_LEAST = 16 }; /* the least size for which tiles are worth it */

/* A small box whose next to last dimension is contiguous in the source, and whose last one in the
 * target. */
struct sw_tiles {
    struct sw_small_box s;
    struct sw_divisor from_tiles, to_tiles; /* tiles along these dimensions */
    int64_t count;
};

static inline bool sw_is_contiguous(const struct sw_axis *a)
{
    return a->count > 0 && a->factor[0].stride == 1;
}

static inline int64_t sw_tiles_along(const struct sw_cuda_box *b, int d)
{
    return (b->size[d] + SW_TILE - 1) / SW_TILE;
}

/* Returns false if a transpose in tiles is not possible or not worth it. */
static inline bool sw_tiles_of(const struct sw_cuda_box *box, struct sw_tiles *out)
{
    struct sw_cuda_box b = *box;
    int from = 0;

    sw_box_simplify(&b);
    const int to = b.to.ndim - 1, beside = to - 1;
    while (from < to && !sw_is_contiguous(&b.from.axis[from]))
        from++;
    if (from >= to || !sw_is_contiguous(&b.to.axis[to]) || b.size[from] < SW_TILE_LEAST ||
        b.size[to] < SW_TILE_LEAST)
        return false;

    if (from != beside)
        sw_box_swap(&b, from, beside);

    const int64_t along_from = sw_tiles_along(&b, beside), along_to = sw_tiles_along(&b, to);
    out->from_tiles = sw_divisor_of(along_from);
    out->to_tiles = sw_divisor_of(along_to);
    out->count = along_from * along_to;
    for (int d = 0; d < beside; d++)
        out->count *= b.size[d];

    return sw_small_box_as(&b, &out->s) && out->count <= INT32_MAX;
}

/* The terms of index i of dimension d in the offsets. */
static __device__ __forceinline__ int64_t sw_from_term(const struct sw_small_box &s, int d,
                                                       uint32_t i)
{
    return sw_small_offset(s.b.from.axis[d], s.from[d], (uint32_t)s.b.from_at[d] + i);
}

static __device__ __forceinline__ int64_t sw_to_term(const struct sw_small_box &s, int d,
                                                     uint32_t i)
{
    return sw_small_offset(s.b.to.axis[d], s.to[d], (uint32_t)s.b.to_at[d] + i);
}

/* Copies a box, tile by tile: a warp reads a line of adjacent elements, and writes one. C converts
 * an element. All loads of a thread are under way before it uses the first. */
template <typename C>
static __global__ void sw_transpose(struct sw_tiles k, bool add, const typename C::from *src,
                                    typename C::to *dst)
{
    __shared__ typename C::to tile[SW_TILE][SW_TILE + 1]; /* no two lines begin in one bank */

    const int lines = SW_THREADS / SW_TILE, each = SW_TILE / lines;
    const struct sw_small_box &s = k.s;
    const int t = s.b.from.ndim - 1, f = t - 1;
    const uint32_t lane = threadIdx.x % SW_TILE, line = threadIdx.x / SW_TILE;
    for (int64_t i = blockIdx.x; i < k.count; i += gridDim.x) {
        uint32_t rest = (uint32_t)i;
        const uint32_t t0 = sw_divide_off(&k.to_tiles, &rest) * SW_TILE;
        const uint32_t f0 = sw_divide_off(&k.from_tiles, &rest) * SW_TILE;
        const int64_t f_left = s.b.size[f] - f0, t_left = s.b.size[t] - t0;
        int64_t from = 0, to = 0, at[each];
        typename C::from read[each];
        typename C::to old[each];

        for (int d = f - 1; d >= 0; d--) {
            const uint32_t index = sw_divide_off(&s.size[d], &rest);
            from += sw_from_term(s, d, index);
            to += sw_to_term(s, d, index);
        }

        from += sw_from_term(s, f, f0 + lane);
        for (int j = 0; j < each; j++)
            at[j] = from + sw_from_term(s, t, t0 + line + j * lines);
        for (int j = 0; j < each; j++)
            if (lane < f_left && line + j * lines < t_left)
                read[j] = src[at[j]];
        for (int j = 0; j < each; j++)
            if (lane < f_left && line + j * lines < t_left)
                tile[line + j * lines][lane] = C::of(read[j]);

        __syncthreads();

        to += sw_to_term(s, t, t0 + lane);
        for (int j = 0; j < each; j++)
            at[j] = to + sw_to_term(s, f, f0 + line + j * lines);
        for (int j = 0; j < each; j++)
            if (add && lane < t_left && line + j * lines < f_left)
                old[j] = dst[at[j]];
        for (int j = 0; j < each; j++)
            if (lane < t_left && line + j * lines < f_left) {
                const typename C::to now = tile[lane][line + j * lines];
                dst[at[j]] = add ? (typename C::to)(now + old[j]) : now;
            }

        __syncthreads();
    }
}

template <typename C>
static void sw_start_transpose(const struct sw_tiles *k, bool add, const typename C::from *src,
                               typename C::to *dst, const struct sw_cuda_launch *l)
{
    SW_START(sw_transpose<C>, sw_blocks_of(k->count, (int64_t)l->processors * 32), SW_THREADS, l,
             *k, add, src, dst);
}
