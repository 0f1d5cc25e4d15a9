/* What the plans of cuda share: rooms in scratch, and sides of a plan whose layout is not the one
 * that is computed with. Internal to device/cuda. */
#pragma once

#include "device/cuda/cuda_private.h"
#include "device/tune.h"

/* The form of the operands: floats as they are, floats rounded to 16-bit values, or 16-bit values
 * (of the precision of the device). */
enum sw_cuda_form { SW_CUDA_FLOATS, SW_CUDA_ROUNDED, SW_CUDA_HALVES };

/* A source, weight or gradient: its own layout, and the layout and form of the computation. If they
 * differ, there is a copy in scratch or in what forward saves for backward. */
struct sw_cuda_side {
    struct sw_desc given, used; /* `used` ignores its dtype */
    enum sw_cuda_form form;
    bool copied, saved;
    size_t offset; /* in scratch, or in what is saved */
};

/* Adds room to a plan's scratch; returns its offset in bytes. */
size_t sw_cuda_reserve(struct sw_plan *p, size_t bytes);
static inline void *sw_cuda_at(const struct sw_plan_args *a, size_t offset)
{
    return (char *)a->scratch + offset;
}

void sw_cuda_side_init(struct sw_plan *p, struct sw_cuda_side *side, const struct sw_desc *given,
                       const struct sw_desc *used);
/* The values as they are computed with: themselves, or a copy made now. Kernels may be started
 * behind it. */
int sw_cuda_side_in(struct sw_plan *p, const struct sw_cuda_side *side,
                    const struct sw_plan_args *a, const float *given, const float **used,
                    struct sw_err *err) SW_MUST_CHECK;
/* The same for factors of products, in any form. `there`: an earlier pass has left it. */
void sw_cuda_factor_init(struct sw_plan *p, struct sw_cuda_side *side, const struct sw_desc *given,
                         const struct sw_desc *used, enum sw_cuda_form form, bool saved);
int sw_cuda_factor_in(struct sw_plan *p, const struct sw_cuda_side *side,
                      const struct sw_plan_args *a, const float *given, bool cached,
                      const void **used, struct sw_err *err) SW_MUST_CHECK;
/* Where a product is to be written, floats or 16 bits; and bringing it to where it belongs. */
void *sw_cuda_product_out(const struct sw_cuda_side *side, const struct sw_plan_args *a,
                          float *given);
int sw_cuda_product_done(struct sw_plan *p, const struct sw_cuda_side *side,
                         const struct sw_plan_args *a, float *given,
                         struct sw_err *err) SW_MUST_CHECK;
/* Where to write the gradient of the side, and copying it to its destination. */
float *sw_cuda_side_out(const struct sw_cuda_side *side, const struct sw_plan_args *a,
                        float *given);
int sw_cuda_side_done(struct sw_plan *p, const struct sw_cuda_side *side,
                      const struct sw_plan_args *a, float *given, struct sw_err *err) SW_MUST_CHECK;

/* Plain, blocked channels and channels last stay what they are; any other layout becomes plain. */
struct sw_desc sw_cuda_known_layout(const struct sw_desc *d);
/* A layout of that kind, known to the kernels, with other dimensions. */
struct sw_desc sw_cuda_layout_like(const struct sw_desc *kind, const int64_t *dim);
/* [N, C, H, W] with neighbouring channels. */
struct sw_desc sw_cuda_channels_last(const int64_t *dim);

/* Converts the result of a kernel launch to an error of the device of the plan. */
int sw_cuda_plan_check(struct sw_plan *p, int status, struct sw_err *err) SW_MUST_CHECK;

/* A plan by choices (device/tune.h), whose keys say, beside shapes and layouts (`what`) and the
 * library with its version, which precision and model of GPU they are for. */
struct sw_cuda_tuned {
    const char *what, *library;
    void *user;
    int (*make)(void *user, const struct sw_tune_choice *choice, struct sw_plan_passes passes,
                struct sw_plan **out, struct sw_err *err);
    void (*list)(void *user, const struct sw_tune_choice *chosen, enum sw_tune_pass pass,
                 struct sw_tune_ways *out);
};
int sw_cuda_tuned_plan(struct sw_stream *s, struct sw_plan_passes passes,
                       const struct sw_cuda_tuned *t, struct sw_plan **out,
                       struct sw_err *err) SW_MUST_CHECK;

/* The makers of the table. */
int sw_cuda_convolution(struct sw_stream *s, const struct sw_desc *src,
                        const struct sw_conv_shape *shape, struct sw_plan_passes passes,
                        struct sw_plan **out, struct sw_err *err);
int sw_cuda_deconvolution(struct sw_stream *s, const struct sw_desc *src,
                          const struct sw_conv_shape *shape, struct sw_plan_passes passes,
                          struct sw_plan **out, struct sw_err *err);
int sw_cuda_pooling(struct sw_stream *s, const struct sw_desc *src,
                    const struct sw_pool_shape *shape, struct sw_plan_passes passes,
                    struct sw_plan **out, struct sw_err *err);
int sw_cuda_normalisation(struct sw_stream *s, const struct sw_desc *src,
                          const struct sw_lrn_shape *shape, struct sw_plan_passes passes,
                          struct sw_plan **out, struct sw_err *err);
int sw_cuda_inner_product(struct sw_stream *s, const struct sw_desc *src,
                          const struct sw_ip_shape *shape, struct sw_plan_passes passes,
                          struct sw_plan **out, struct sw_err *err);
int sw_cuda_plan_reorder(struct sw_stream *s, const struct sw_desc *from, const struct sw_desc *to,
                         struct sw_plan **out, struct sw_err *err);

/* plan_bridge.c: the cpu's convolution, for shapes that cuDNN does not take. A checked shape. */
int sw_cuda_bridge_convolution(struct sw_stream *s, const struct sw_desc *src,
                               const struct sw_conv_shape *shape, struct sw_plan_passes passes,
                               struct sw_plan **out, struct sw_err *err) SW_MUST_CHECK;
