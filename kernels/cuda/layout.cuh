/* The storage offsets of the indices of a tensor, for any layout. */
#pragma once

#include "kernels/cuda/cuda.cuh"
#include "kernels/divide.h"

/* A box of fewer than 2^31 elements, with what divides the indices. */
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

static inline void sw_divisors_of(const struct sw_axis *a, struct sw_divisor *out)
{
    for (int i = 0; i < a->count - 1; i++)
        out[i] = sw_divisor_of(a->factor[i].extent);
}

/* Returns false if an index may be 2^31 or more. */
static inline bool sw_small_box_of(const struct sw_cuda_box *b, struct sw_small_box *out)
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
