/* Common parts of the plans of cuda: buffers in scratch, and operands whose layout or form is not
 * that of the computation. Internal to device/cuda. */
#pragma once

#include "device/cuda/conv_layout.h"
#include "device/cuda/cuda_private.h"
#include "device/tune.h"

/* The form of an operand: floats, floats rounded to the 16-bit precision of the device, or 16-bit
 * values of that precision. */
enum sw_cuda_form { SW_CUDA_FLOATS, SW_CUDA_ROUNDED, SW_CUDA_HALVES };

/* An operand (source, weight, result or gradient): the layout and type of the caller (given), and
 * those of the computation (used). If they differ, there is a copy in scratch or in the memory that
 * forward saves for backward. */
struct sw_cuda_side {
    struct sw_desc given, used;
    bool rounded; /* floats, which the copy rounds to the 16-bit precision */
    bool copied, saved;
    size_t offset; /* in scratch or in saved memory */
};

/* Reserves `bytes` of a plan's scratch; returns their offset in bytes. */
size_t sw_cuda_reserve(struct sw_plan *p, size_t bytes);
static inline void *sw_cuda_at(const struct sw_plan_args *a, size_t offset)
{
    return (char *)a->scratch + offset;
}

/* The 16-bit type of the device's precision, and whether source and result of the request have no
 * other 16-bit type. */
enum sw_dtype sw_cuda_half_type(const struct sw_stream *s);
bool sw_cuda_reads_types(const struct sw_plan_request *q);

void sw_cuda_side_init(struct sw_plan *p, struct sw_cuda_side *side, const struct sw_desc *given,
                       const struct sw_desc *used);
/* As sw_cuda_side_init for an operand of a product, in a form that gives the type of `used`. Saved:
 * the copy is kept for backward. */
void sw_cuda_factor_init(struct sw_plan *p, struct sw_cuda_side *side, const struct sw_desc *given,
                         const struct sw_desc *used, enum sw_cuda_form form, bool saved);
/* Returns the operand as the computation reads it: the given one, or a copy, which it makes unless
 * an earlier pass has left it (cached). Also enters the device, so that kernels may be launched
 * afterwards. */
int sw_cuda_side_in(struct sw_plan *p, const struct sw_cuda_side *side,
                    const struct sw_plan_args *a, const void *given, bool cached, const void **used,
                    struct sw_err *err) SW_MUST_CHECK;
/* Returns where the operand is written; sw_cuda_side_done copies it to its destination. */
void *sw_cuda_side_out(const struct sw_cuda_side *side, const struct sw_plan_args *a, void *given);
int sw_cuda_side_done(struct sw_plan *p, const struct sw_cuda_side *side,
                      const struct sw_plan_args *a, void *given, struct sw_err *err) SW_MUST_CHECK;

/* Returns the layout itself if kernels support it (plain, blocked channels, channels last), else
 * the plain layout. */
struct sw_desc sw_cuda_known_layout(const struct sw_desc *d);
/* Returns a layout of the same kind and type, which kernels support, with other dimensions. */
struct sw_desc sw_cuda_layout_like(const struct sw_desc *kind, const int64_t *dim);

/* Copies a tensor to another layout, or to or from a 16-bit type. */
int sw_cuda_reorder_in_plan(struct sw_plan *p, const struct sw_desc *from, const void *src,
                            const struct sw_desc *to, void *dst, struct sw_err *err) SW_MUST_CHECK;

/* Converts the result of a kernel launch to an error of the device of the plan. */
int sw_cuda_plan_check(struct sw_plan *p, int status, struct sw_err *err) SW_MUST_CHECK;

/* Makes a plan with measured algorithms (device/tune.h). The key contains shapes and layouts
 * (`what`), the library with its version, the precision and the GPU model. */
struct sw_cuda_tuned {
    const char *what, *library;
    /* `user` is the request. */
    int (*make)(void *user, const struct sw_tune_choice *choice, struct sw_plan_passes passes,
                struct sw_plan **out, struct sw_err *err);
    void (*list)(void *user, const struct sw_tune_choice *chosen, enum sw_tune_pass pass,
                 struct sw_tune_candidates *out);
};
int sw_cuda_tuned_plan(const struct sw_plan_request *q, const struct sw_cuda_tuned *t,
                       struct sw_plan **out, struct sw_err *err) SW_MUST_CHECK;

/* The makers of the table, and in plan_bridge.c the convolution of the cpu device, for shapes that
 * cuDNN does not support. */
sw_plan_maker sw_cuda_convolution, sw_cuda_deconvolution, sw_cuda_pooling, sw_cuda_normalisation,
    sw_cuda_inner_product, sw_cuda_plan_reorder, sw_cuda_bridge_convolution;
