/* The windows of pooling and of convolution as a matrix product, for kernels of every device. */
#pragma once

#include "kernels/both.h"
#include <stdint.h>

struct sw_kernel_windows {
    int64_t in_h, in_w, out_h, out_w; /* pixels */
    int64_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
};

/* The divisor of an average: the size of the window clipped to the padded plane (Caffe), clipped to
 * the plane (cuDNN's EXCLUDE_PADDING), or not clipped (INCLUDE_PADDING). */
enum sw_pool_divisor { SW_POOL_BY_PADDED, SW_POOL_BY_INSIDE, SW_POOL_BY_KERNEL };

/* The part of a window along one axis that is inside the input, and its length with padding. */
struct sw_window_part {
    int64_t from, to, padded;
};

SW_BOTH struct sw_window_part sw_window_of(int64_t out, int64_t kernel, int64_t stride, int64_t pad,
                                           int64_t in)
{
    int64_t start = out * stride - pad, end = start + kernel;

    if (end > in + pad)
        end = in + pad;

    struct sw_window_part w = {start > 0 ? start : 0, end < in ? end : in, end - start};
    return w;
}

/* The windows of output row or column o; dilation is not read. */
SW_BOTH struct sw_window_part sw_window_h(const struct sw_kernel_windows *w, int64_t o)
{
    return sw_window_of(o, w->kernel_h, w->stride_h, w->pad_h, w->in_h);
}
SW_BOTH struct sw_window_part sw_window_w(const struct sw_kernel_windows *w, int64_t o)
{
    return sw_window_of(o, w->kernel_w, w->stride_w, w->pad_w, w->in_w);
}

SW_BOTH int64_t sw_window_length(const struct sw_window_part *w, int64_t kernel,
                                 enum sw_pool_divisor by)
{
    return by == SW_POOL_BY_PADDED ? w->padded : by == SW_POOL_BY_INSIDE ? w->to - w->from : kernel;
}

/* The divisor of the average of a window. */
SW_BOTH float sw_window_divisor(const struct sw_kernel_windows *k, const struct sw_window_part *h,
                                const struct sw_window_part *w, enum sw_pool_divisor by)
{
    return (float)(sw_window_length(h, k->kernel_h, by) * sw_window_length(w, k->kernel_w, by));
}
