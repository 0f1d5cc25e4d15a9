/* Transposed convolutions of every device, by a convolution plan with its passes swapped (Caffe's
 * DeconvolutionLayer):
 *
 *   forward            dst = convolution's backward data of src, + bias
 *   backward data      diff_src = convolution of diff_dst
 *   backward weights   diff_weight = convolution's, of diff_dst as its source and src as its
 *                      gradient
 *
 * The convolution plan has one layout for its output, which is the source here; a source with
 * another layout is copied. For the drivers' makers; a plan has one owner, the worker of the
 * stream. */
#pragma once

#include "device/plan.h"

/* What a device contributes. `room` is scratch of the size that its maker requests. */
struct sw_deconv_device {
    size_t alignment; /* of buffers in scratch */
    int (*reorder)(struct sw_plan *p, const struct sw_desc *from, const void *src,
                   const struct sw_desc *to, void *dst, struct sw_err *err);
    /* dst += bias, by channel; and diff_bias = the sums of diff_dst. */
    int (*add_bias)(struct sw_plan *p, const struct sw_plan_args *a, void *room,
                    struct sw_err *err);
    int (*bias_gradient)(struct sw_plan *p, const struct sw_plan_args *a, void *room,
                         struct sw_err *err);
};

/* Makes the plan of a request; image is the layout of its output. Errors: those of the
 * convolution. */
int sw_deconv_new(const struct sw_plan_request *q, const struct sw_desc *image,
                  const struct sw_deconv_device *device, size_t room_bytes, struct sw_plan **out,
                  struct sw_err *err) SW_MUST_CHECK;
