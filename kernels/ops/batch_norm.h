/* Batch normalization of an activation [N, C, ...] with a mean and a variance per channel over all
 * its elements. Each pass consists of two operations, first the sums and then the result from the
 * sums, so that the sums may be reduced over workers in between. Formulas:
 * kernels/cpu/channels.c. */
#pragma once

#include "kernels/channels.h"
#include "kernels/op.h"

/* float arrays are [C]. Arrays that an operation does not use may be NULL. */
struct sw_batch_norm {
    struct sw_desc desc; /* of x, y and their gradients */
    float eps, momentum;
    bool relu;     /* fuse a relu: y = max(0, y), and dy is passed only where y > 0 */
    double *sums;  /* [2 C + 1]: two sums per channel, and the number of elements of each sum */
    void *scratch; /* sw_channel_scratch_bytes */
    const float *scale, *bias;
    float *mean, *inv_std; /* of the batch */
    const float *running_mean, *running_variance;
    float *update_mean, *update_variance; /* running statistics to update, or NULL */
};

struct sw_batch_norm_args {
    struct sw_batch_norm b;
    const void *x, *dy; /* of the type of desc, as y and dx */
    void *y, *dx;       /* y may be x, dx may be dy; padding stays zero */
    float *dscale, *dbias;
};

/* Sets sums to the sum of x and of x^2 per channel over all N rows, and the number of elements per
 * channel. */
extern const struct sw_op sw_op_batch_norm_sums;
/* From these sums, or those of several workers added: mean and inv_std = 1 / sqrt(variance + eps)
 * of the batch with the biased variance; y = scale (x - mean) inv_std + bias; and unless NULL,
 * update_mean and update_variance become momentum update + (1 - momentum) batch, with the unbiased
 * variance. */
extern const struct sw_op sw_op_batch_norm;
/* Recomputes the same y from the stored mean and inv_std. Reads no sums. */
extern const struct sw_op sw_op_batch_norm_again;
/* y = scale (x - running_mean) / sqrt(running_variance + eps) + bias. Reads no sums. */
extern const struct sw_op sw_op_batch_norm_running;
/* Sets sums to the sum of dy and of dy (x - mean) inv_std per channel, and the number of elements
 * per channel; dbias and dscale are these sums in float. */
extern const struct sw_op sw_op_batch_norm_sums_gradient;
/* Computes dx from these sums, including the gradient through mean and variance. */
extern const struct sw_op sw_op_batch_norm_gradient;
