/* Batch normalisation of an activation [N, C, ...] with a mean and a variance per channel over all
 * its elements. It is split into operations, between which sums may be added over workers: first
 * the sums of a pass, then the result from the sums. Formulas: kernels/cpu/channels.c. */
#pragma once

#include "kernels/channels.h"
#include "kernels/op.h"

/* Arrays without another type are [C] floats. What an operation does not use may be NULL. */
struct sw_batch_norm {
    struct sw_desc desc; /* of x, y and their gradients */
    float eps, momentum;
    bool relu;     /* a following relu: y = max(0, y), and dy counts where y is above zero */
    double *sums;  /* [2 C + 1]: two sums per channel, and the elements that each is of */
    void *scratch; /* sw_channel_scratch_bytes */
    const float *scale, *bias;
    float *mean, *inv_std; /* of the batch */
    const float *running_mean, *running_variance;
    float *update_mean, *update_variance; /* running statistics to update, or NULL */
};

struct sw_batch_norm_args {
    struct sw_batch_norm b;
    const float *x, *dy;
    float *y, *dx, *dscale, *dbias; /* y may be x, dx may be dy; padding stays zero */
};

/* sums becomes, per channel, the sum of x and of x^2 over all N rows, then the elements per
 * channel. */
extern const struct sw_op sw_op_batch_norm_sums;
/* From these sums (or from those of several workers, added): mean and inv_std = 1 / sqrt(variance +
 * eps) of the batch with the biased variance; y = scale (x - mean) inv_std + bias; and where they
 * are given update = momentum update + (1 - momentum) batch, with the unbiased variance. */
extern const struct sw_op sw_op_batch_norm;
/* Computes the same y again from the stored mean and inv_std. Reads no sums. */
extern const struct sw_op sw_op_batch_norm_again;
/* y = scale (x - running_mean) / sqrt(running_variance + eps) + bias. Reads no sums. */
extern const struct sw_op sw_op_batch_norm_running;
/* sums becomes, per channel, the sum of dy and of dy (x - mean) inv_std, then the elements per
 * channel; dbias and dscale are these sums in float. */
extern const struct sw_op sw_op_batch_norm_sums_gradient;
/* dx from these sums, through mean and variance too. */
extern const struct sw_op sw_op_batch_norm_gradient;
