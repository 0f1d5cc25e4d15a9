/* Batch normalisation in pieces, between which sums may be added over workers: the sums of a pass,
 * then what is made of them. */
#ifndef SW_DEVICE_OPS_BATCH_NORM_H
#define SW_DEVICE_OPS_BATCH_NORM_H

#include "device/op.h"

/* Batch normalisation of a feature [N, C, ...]: a mean and a variance per channel, over all its
 * elements. Arrays without another type are [C] floats in device memory; an operation takes over
 * the struct itself, not what it points to. */
enum { SW_BATCH_NORM_PARTS = 16 };
struct sw_batch_norm {
    struct sw_desc desc; /* of x, y and their gradients */
    float eps, momentum;
    bool relu;     /* behind: y = max(0, y), and dy counts where y is above zero */
    double *sums;  /* [2 C + 1]: two sums per channel, and the elements that each is of */
    void *scratch; /* sw_batch_norm_scratch bytes */
    const float *scale, *bias;
    float *mean, *inv_std; /* of the batch */
    const float *running_mean, *running_variance;
    float *update_mean, *update_variance; /* the running ones where they are kept up, else NULL */
};
/* Of the parts of sums; and of all scratch, in which a factor per channel lies behind them. */
static inline size_t sw_batch_norm_parts(const struct sw_desc *d)
{
    return (size_t)(2 * SW_BATCH_NORM_PARTS * d->dim[1]) * sizeof(double);
}
static inline size_t sw_batch_norm_scratch(const struct sw_desc *d)
{
    return sw_batch_norm_parts(d) + (size_t)((d->dim[1] + 15) / 16 * 16) * sizeof(float);
}

struct sw_batch_norm_args {
    struct sw_batch_norm b;
    const float *x, *dy;
    float *y, *dx, *dscale, *dbias;
};
enum {
    SW_BATCH_NORM_SUMS,
    SW_BATCH_NORM_NORMALISE,
    SW_BATCH_NORM_AGAIN,
    SW_BATCH_NORM_RUNNING,
    SW_BATCH_NORM_SUMS_BACKWARD,
    SW_BATCH_NORM_BACKWARD,
    SW_BATCH_NORM_OPS
};
extern const struct sw_op sw_batch_norm_ops[SW_BATCH_NORM_OPS];

/* sums becomes, per channel, the sum of x and of x^2 over all N rows, then the elements per
 * channel. */
SW_MUST_CHECK static inline int sw_op_batch_norm_sums(struct sw_stream *s,
                                                      const struct sw_batch_norm *b, const float *x,
                                                      struct sw_err *err)
{
    const struct sw_batch_norm_args a = {.b = *b, .x = x};
    return sw_op_run(s, &sw_batch_norm_ops[SW_BATCH_NORM_SUMS], &a, err);
}
/* From these sums (or from those of several workers, added): mean and inv_std = 1 / sqrt(variance +
 * eps) of the batch with the biased variance; y = scale (x - mean) inv_std + bias; and where they
 * are given update = momentum update + (1 - momentum) batch, with the unbiased variance. y may be
 * x. Padding stays zero. */
SW_MUST_CHECK static inline int sw_op_batch_norm(struct sw_stream *s, const struct sw_batch_norm *b,
                                                 const float *x, float *y, struct sw_err *err)
{
    const struct sw_batch_norm_args a = {.b = *b, .x = x, .y = y};
    return sw_op_run(s, &sw_batch_norm_ops[SW_BATCH_NORM_NORMALISE], &a, err);
}
/* The same y once more, from the mean and inv_std that are there by now. Reads no sums. */
SW_MUST_CHECK static inline int sw_op_batch_norm_again(struct sw_stream *s,
                                                       const struct sw_batch_norm *b,
                                                       const float *x, float *y, struct sw_err *err)
{
    const struct sw_batch_norm_args a = {.b = *b, .x = x, .y = y};
    return sw_op_run(s, &sw_batch_norm_ops[SW_BATCH_NORM_AGAIN], &a, err);
}
/* y = scale (x - running_mean) / sqrt(running_variance + eps) + bias; y may be x. Reads no sums. */
SW_MUST_CHECK static inline int sw_op_batch_norm_running(struct sw_stream *s,
                                                         const struct sw_batch_norm *b,
                                                         const float *x, float *y,
                                                         struct sw_err *err)
{
    const struct sw_batch_norm_args a = {.b = *b, .x = x, .y = y};
    return sw_op_run(s, &sw_batch_norm_ops[SW_BATCH_NORM_RUNNING], &a, err);
}
/* sums becomes, per channel, the sum of dy and of dy (x - mean) inv_std, then the elements per
 * channel; dbias and dscale are these sums in float. */
SW_MUST_CHECK static inline int
sw_op_batch_norm_sums_backward(struct sw_stream *s, const struct sw_batch_norm *b, const float *x,
                               const float *dy, float *dscale, float *dbias, struct sw_err *err)
{
    const struct sw_batch_norm_args a = {
        .b = *b, .x = x, .dy = dy, .dscale = dscale, .dbias = dbias};
    return sw_op_run(s, &sw_batch_norm_ops[SW_BATCH_NORM_SUMS_BACKWARD], &a, err);
}
/* dx from these sums, through mean and variance too; dx may be dy. Padding stays zero. */
SW_MUST_CHECK static inline int sw_op_batch_norm_backward(struct sw_stream *s,
                                                          const struct sw_batch_norm *b,
                                                          const float *x, const float *dy,
                                                          float *dx, struct sw_err *err)
{
    const struct sw_batch_norm_args a = {.b = *b, .x = x, .dy = dy, .dx = dx};
    return sw_op_run(s, &sw_batch_norm_ops[SW_BATCH_NORM_BACKWARD], &a, err);
}

#endif
