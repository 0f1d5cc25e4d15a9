/* Layouts of convolutions on GPUs. Values, any thread. Internal to device/cuda. */
#pragma once

#include "device/plan.h"
#include "kernels/precision.h"

/* Returns the channels-last (NHWC) layout of [N, C, H, W]. */
struct sw_desc sw_cuda_channels_last(const int64_t *dim);
/* Tensor cores read channels last, and with plain arrays an engine for them transposes these in its
 * workspace. fp32, for which the plain engines are the fast ones, computes with plain arrays. */
bool sw_cuda_conv_prefers_last(enum sw_precision precision);

/* The arrays of a convolution of a source with those dimensions, plain or channels last; filters
 * are channels-last, too. */
struct sw_cuda_conv_layouts {
    struct sw_desc src, weight, dst;
};
struct sw_cuda_conv_layouts sw_cuda_conv_lay_out(bool last, const int64_t *src_dim,
                                                 const struct sw_conv_shape *s);
