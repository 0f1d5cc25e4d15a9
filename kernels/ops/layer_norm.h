/* Layer normalization of the rows of a plain matrix [rows, n]. Formulas:
 * kernels/cpu/layer_norm.c. */
#pragma once

#include "kernels/op.h"

struct sw_layer_norm_args {
    int64_t rows, n;
    float eps;
    const float *x, *scale, *bias;
    float *y;       /* may be x */
    float *moments; /* [rows, 2]: mean, 1 / standard deviation; for the gradients */
    const float *dy;
    float *dx; /* may be dy, and NULL */
    float *dscale, *dbias;
};
/* Forward reads x, scale and bias and writes y and moments; the gradient reads x, scale, moments
 * and dy and writes dx, dscale and dbias. */
extern const struct sw_op sw_op_layer_norm, sw_op_layer_norm_gradient;
