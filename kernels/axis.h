/* How one dimension of a descriptor maps to storage. The offset of an element is a sum of one term
 * per dimension, and each term is a mixed-radix number of the index in that dimension. So an axis
 * is a short list of factors (extent, stride), innermost first, in which neighbours that continue
 * each other are one: two layouts mean the same exactly when their axes are equal. For desc.c,
 * desc_copy.c and devices that copy layouts themselves; plain values, any thread. */
#pragma once

#include "kernels/both.h"
#include "kernels/desc.h"

struct sw_factor {
    int64_t extent, stride;
};

struct sw_axis {
    int64_t dim;
    int count; /* 0: every index has offset 0 */
    struct sw_factor factor[SW_MAX_BLOCKS + 1];
};

/* The axis of dimension `dim` of a layout. */
#ifdef __cplusplus
extern "C"
#endif
    struct sw_axis
    sw_axis_of(const struct sw_desc *d, int dim);

/* The term of an index in the offset. The outermost factor takes what remains, so its extent is not
 * used. */
SW_BOTH int64_t sw_axis_offset(const struct sw_axis *a, int64_t index)
{
    int64_t offset = 0;
    for (int i = 0; i < a->count - 1; i++) {
        offset += index % a->factor[i].extent * a->factor[i].stride;
        index /= a->factor[i].extent;
    }
    return a->count ? offset + index * a->factor[a->count - 1].stride : 0;
}
