/* How one dimension of a descriptor maps to storage. The offset of an element is the sum of one
 * term per dimension, and each term is a mixed-radix number of the index in that dimension. So an
 * axis is a short list of factors (extent, stride), innermost first, in which adjacent contiguous
 * factors are merged: two layouts are equal exactly if their axes are equal. Used by desc.c,
 * desc_copy.c and devices that convert layouts themselves; plain values, any thread. */
#pragma once

#include "kernels/both.h"
#include "kernels/desc.h"

struct sw_factor {
    int64_t extent, stride;
};

struct sw_axis {
    int64_t dim;
    int count; /* number of factors; 0: every index has offset 0 */
    struct sw_factor factor[SW_MAX_BLOCKS + 1];
};

/* Returns the axis of dimension `dim` of a layout. */
#ifdef __cplusplus
extern "C"
#endif
    struct sw_axis
    sw_axis_of(const struct sw_desc *d, int dim);

/* Returns the term of an index in the offset. The outermost factor takes the remaining index, so
 * its extent is not used. */
SW_BOTH int64_t sw_axis_offset(const struct sw_axis *a, int64_t index)
{
    int64_t offset = 0;

    for (int i = 0; i < a->count - 1; i++) {
        offset += index % a->factor[i].extent * a->factor[i].stride;
        index /= a->factor[i].extent;
    }

    return a->count ? offset + index * a->factor[a->count - 1].stride : 0;
}
