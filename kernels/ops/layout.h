/* Operations on any layout.
 *
 * sw_op_part copies a slice of an activation along one dimension, for concat and slice. The two
 * descriptors have the same dimensions except for `axis`, along which indices from_at .. from_at +
 * count - 1 are copied to to_at .. to_at + count - 1. The rest of dst does not change, except that
 * padding after the last channel may become zero. Between equal layouts, slices of whole blocks are
 * copied as long contiguous runs. */
#pragma once

#include "kernels/desc.h"
#include "kernels/op.h"

struct sw_part_args {
    struct sw_desc from, to; /* of one type, or one of f32 and the other one of 16 bits */
    int axis;                /* 1 or more */
    bool add;                /* dst += src */
    int64_t from_at, to_at, count;
    const void *src;
    void *dst; /* no overlap */
};
extern const struct sw_op sw_op_part;

/* Sets the padding of x to zero, for use after operations with f(0) != 0. */
struct sw_zero_padding_args {
    struct sw_desc desc;
    void *x;
};
extern const struct sw_op sw_op_clear_padding;
