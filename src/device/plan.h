/* Plans: heavy operations prepared once (algorithm, layouts, workspace) and run every step.
 *
 * A maker gets the shapes and the layout of the source, and returns the layouts it chose for
 * weights and destination. A gradient has the layout of its blob or parameter. If a library needs
 * another layout (transposed weights in backward-data, plain features before a fully connected
 * layer), the plan reorders into scratch. It keeps no packed copy, since backward runs once per
 * version of a parameter and the copy would be refreshed just as often.
 *
 * Memory: a plan needs scratch_bytes (contents lost between calls) and saved_bytes (written by
 * forward, read by backward of the same step); the net's memory planner provides both in the arena.
 * Makers allocate, run functions do not. One owner: the worker of the stream. */
#pragma once

#include "device/device.h"
#include "kernels/window.h"

struct sw_plan;

/* What the passes of a plan need at run time. Pointers that a pass does not use may be NULL. */
struct sw_plan_args {
    const float *src, *weight, *bias;
    float *dst;
    const float *diff_dst;
    float *diff_src, *diff_weight, *diff_bias;
    void *saved, *scratch;
    /* Only backward_weights of this plan has used scratch since diff_dst was written, so the
     * converted diff_dst that it left in scratch can be reused. */
    bool diff_again;
};

struct sw_plan {
    const struct sw_plan_ops *ops;
    struct sw_stream *stream;              /* borrowed */
    struct sw_desc src, weight, bias, dst; /* weight and bias have ndim 0 if there are none */
    size_t saved_bytes, scratch_bytes;
    bool backward_reads_src, backward_reads_dst; /* backward_data or backward_weights */
    struct sw_plan *next;                        /* for its owner: list of the plans of one layer */
    char algorithm[64]; /* for `check -v` and the history: "jit_wino_4x3:avx512_core" */
};

struct sw_plan_ops {
    int (*forward)(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err);
    int (*backward_data)(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err);
    int (*backward_weights)(struct sw_plan *p, const struct sw_plan_args *a,
                            struct sw_err *err); /* or NULL */
    void (*free)(struct sw_plan *p);
};

/* Which passes will be run. In an evaluation net all three are false. */
struct sw_plan_passes {
    bool backward_data, backward_weights;
    bool training; /* forward keeps what backward needs */
};

/* Cross-correlation with zero padding, dim order [N, C, H, W]; weights logically [M, C/groups, Kh,
 * Kw]. Bottom and right padding follow from the output size, which is given. */
struct sw_conv_shape {
    int64_t outputs, groups, kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h,
        dilation_w;
    int64_t out_h, out_w;
    bool bias;
    bool fuse_relu; /* dst = max(0, .); backward gets the gradient before the relu */
    const struct sw_desc *weight_layout; /* NULL: the plan chooses; else the layout it must read */
};

/* A transposed convolution is described by the convolution of which it is the backward-data pass
 * (Dumoulin and Visin, "A guide to convolution arithmetic for deep learning", 2016, section 4): src
 * [N, C, H, W] is the output of that convolution, dst [N, outputs, out_h, out_w] its input, and
 * weights are logically [C, outputs/groups, Kh, Kw], as Caffe stores them. fuse_relu is ignored. */

struct sw_pool_shape {
    bool max;                     /* else average */
    enum sw_pool_divisor divisor; /* kernels/window.h */
    int64_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
    int64_t out_h, out_w; /* larger than floor rounding: windows are clipped at the border */
};

/* y_i = x_i (k + alpha/size sum x_j^2)^-beta over `size` neighbouring channels: Krizhevsky,
 * Sutskever, Hinton 2012, section 3.3, with Caffe's alpha/size. Within a channel the sum is over
 * the size x size pixels around i, zero outside the image, and alpha/size^2 its factor: Caffe's
 * WITHIN_CHANNEL, which pools squares with padding. */
struct sw_lrn_shape {
    bool within_channel;
    int64_t size;
    float alpha, beta, k;
};

/* dst [N, outputs] = src [N, features] weight^T + bias; a 4-D source is flattened in (C, H, W)
 * order. */
struct sw_ip_shape {
    int64_t outputs;
    bool bias, fuse_relu;
    const struct sw_desc *weight_layout; /* as for convolution; logically [outputs, features] */
    bool as_given; /* read weight_layout without a reorder if a library can, even if another
                      algorithm with a reorder of all weights is expected to be faster */
};

/* Creates a plan for a source with layout src. The caller owns *out (sw_plan_free). Errors:
 * SW_ERR_INVALID (shapes), SW_ERR_UNSUPPORTED, SW_ERR_NOMEM, SW_ERR_LIBRARY. */
struct sw_plan_makers {
    int (*convolution)(struct sw_stream *s, const struct sw_desc *src,
                       const struct sw_conv_shape *shape, struct sw_plan_passes passes,
                       struct sw_plan **out, struct sw_err *err);
    int (*deconvolution)(struct sw_stream *s, const struct sw_desc *src,
                         const struct sw_conv_shape *shape, struct sw_plan_passes passes,
                         struct sw_plan **out, struct sw_err *err);
    int (*pooling)(struct sw_stream *s, const struct sw_desc *src,
                   const struct sw_pool_shape *shape, struct sw_plan_passes passes,
                   struct sw_plan **out, struct sw_err *err);
    int (*lrn)(struct sw_stream *s, const struct sw_desc *src, const struct sw_lrn_shape *shape,
               struct sw_plan_passes passes, struct sw_plan **out, struct sw_err *err);
    int (*inner_product)(struct sw_stream *s, const struct sw_desc *src,
                         const struct sw_ip_shape *shape, struct sw_plan_passes passes,
                         struct sw_plan **out, struct sw_err *err);
    /* Copies values from one layout to another of the same logical shape: plan->src to plan->dst.
     */
    int (*reorder)(struct sw_stream *s, const struct sw_desc *from, const struct sw_desc *to,
                   struct sw_plan **out, struct sw_err *err);
};

SW_MUST_CHECK static inline int sw_plan_forward(struct sw_plan *p, const struct sw_plan_args *a,
                                                struct sw_err *err)
{
    return p->ops->forward(p, a, err);
}
SW_MUST_CHECK static inline int
sw_plan_backward_data(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    return p->ops->backward_data(p, a, err);
}
SW_MUST_CHECK static inline int
sw_plan_backward_weights(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    return p->ops->backward_weights(p, a, err);
}
/* For makers: reserves `bytes` of the plan's scratch and returns their offset in bytes, a multiple
 * of `alignment`. */
static inline size_t sw_plan_reserve(struct sw_plan *p, size_t bytes, size_t alignment)
{
    size_t offset = (p->scratch_bytes + alignment - 1) / alignment * alignment;
    p->scratch_bytes = offset + bytes;
    return offset;
}
static inline void sw_plan_free(struct sw_plan *p)
{
    if (p)
        p->ops->free(p);
}
