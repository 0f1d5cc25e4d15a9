/* The input positions of the elements of a window along one axis. Shared by im2col and pooling. */
#pragma once

#include "kernels/cpu/kernel.h"
#include "kernels/cpu/kernels.h"

/* Returns the output columns ow for which input column ow stride_w + shift is inside the image. */
static inline struct sw_range sw_columns_inside(const struct sw_kernel_windows *w, int64_t shift)
{
    int64_t from = shift < 0 ? (-shift + w->stride_w - 1) / w->stride_w : 0;
    int64_t to = shift < w->in_w ? (w->in_w - shift + w->stride_w - 1) / w->stride_w : 0;
    struct sw_range r = {from < w->out_w ? from : w->out_w, to < w->out_w ? to : w->out_w};

    if (r.to < r.from)
        r.to = r.from;
    return r;
}
