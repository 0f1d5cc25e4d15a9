/* The storage offsets of the indices of a tensor, for any layout. */
#pragma once

#include "kernels/cuda/cuda.cuh"

/* Sets the offsets of element i of a box in both tensors. */
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
