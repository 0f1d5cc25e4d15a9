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
    const void
        *src; /* src, dst and their gradients: elements of the type in the plan's src or dst */
    const float *weight, *bias;
    void *dst;
    const void *diff_dst;
    void *diff_src;
    float *diff_weight, *diff_bias;
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

static inline struct sw_kernel_windows sw_pool_windows(const struct sw_desc *src,
                                                       const struct sw_pool_shape *p)
{
    return (struct sw_kernel_windows){src->dim[2], src->dim[3], p->out_h,    p->out_w,
                                      p->kernel_h, p->kernel_w, p->stride_h, p->stride_w,
                                      p->pad_h,    p->pad_w,    1,           1};
}

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

enum sw_plan_kind {
    SW_PLAN_CONVOLUTION,
    SW_PLAN_DECONVOLUTION,
    SW_PLAN_POOLING,
    SW_PLAN_LRN,
    SW_PLAN_INNER_PRODUCT,
    SW_PLAN_REORDER,
    SW_PLAN_KINDS
};

/* What a plan is made for: a source with layout src, and the shape of the kind. All borrowed during
 * the call. */
struct sw_plan_request {
    enum sw_plan_kind kind;
    struct sw_stream *stream;
    const struct sw_desc *src;
    enum sw_dtype dst_type; /* SW_F32, SW_BF16 or SW_F16; a reorder's is that of shape.to */
    struct sw_plan_passes passes;
    union {
        const struct sw_conv_shape *conv; /* of deconvolutions, too */
        const struct sw_pool_shape *pool;
        const struct sw_lrn_shape *lrn;
        const struct sw_ip_shape *ip;
        const struct sw_desc *to; /* copies values to another layout of the same logical shape:
                                     plan->src to plan->dst; also from f32 to 16 bits and back */
    } shape;
};

/* Makes a plan for a checked request. The caller owns *out (sw_plan_free). A maker of `halves` also
 * gets requests with 16-bit types, and SW_ERR_UNSUPPORTED from it, as the lack of one, means that
 * floats are converted around an fp32 plan (device/converted.h). */
typedef int sw_plan_maker(const struct sw_plan_request *q, struct sw_plan **out,
                          struct sw_err *err);
struct sw_plan_makers {
    sw_plan_maker *make[SW_PLAN_KINDS];
    bool halves[SW_PLAN_KINDS];
};

/* plan.c. Checks the request and makes a plan, which the caller owns, on the device of the stream.
 * Errors: SW_ERR_INVALID (shapes: naming value and limit), SW_ERR_UNSUPPORTED, SW_ERR_NOMEM,
 * SW_ERR_LIBRARY. */
sw_plan_maker sw_plan_new SW_MUST_CHECK;
const char *sw_plan_kind_name(enum sw_plan_kind kind); /* "inner_product" */

/* The arrays of a plan in the order of struct sw_plan_args, and their bytes. */
enum sw_plan_array {
    SW_PLAN_SRC,
    SW_PLAN_WEIGHT,
    SW_PLAN_BIAS,
    SW_PLAN_DST,
    SW_PLAN_DIFF_DST,
    SW_PLAN_DIFF_SRC,
    SW_PLAN_DIFF_WEIGHT,
    SW_PLAN_DIFF_BIAS,
    SW_PLAN_SAVED,
    SW_PLAN_SCRATCH,
    SW_PLAN_ARRAYS
};
void sw_plan_bytes(const struct sw_plan *p, size_t bytes[SW_PLAN_ARRAYS]);
/* Lists the arrays of the arguments, and makes arguments of a list. */
void sw_plan_list(const struct sw_plan_args *a, void *array[SW_PLAN_ARRAYS]);
struct sw_plan_args sw_plan_args_of(void *const array[SW_PLAN_ARRAYS]);

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
/* Whether the layout is the transpose of a plain matrix, and not plain itself; NULL: no. */
bool sw_plan_is_transposed(const struct sw_desc *layout);
static inline void sw_plan_free(struct sw_plan *p)
{
    if (p)
        p->ops->free(p);
}
