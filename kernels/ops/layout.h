/* Operations on any layout.
 *
 * Parts of features along one dimension: what concat puts together and slice takes out. The two
 * descriptors have the same dimensions but for `axis`, of which `count` indices are copied, those
 * from from_at on to those from to_at on. Nothing else of dst is touched, but that padding behind
 * the last channel may become zero. Where both layouts are alike and the part is whole blocks it
 * goes in long runs of memory. */
#pragma once

#include "kernels/desc.h"
#include "kernels/op.h"

struct sw_part_args {
    struct sw_desc from, to; /* f32 */
    int axis;                /* 1 or more */
    bool add;                /* dst += src */
    int64_t from_at, to_at, count;
    const float *src;
    float *dst; /* no overlap */
};
extern const struct sw_op sw_op_part;

/* Zeroes the padding of x, after operations with f(0) != 0. */
struct sw_zero_padding_args {
    struct sw_desc desc;
    float *x;
};
extern const struct sw_op sw_op_clear_padding;
