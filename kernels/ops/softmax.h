/* Softmax along one dimension of a plain array, viewed as [rows, classes, places]. */
#pragma once

#include "kernels/op.h"

/* Sets y = softmax(x), y may be x; or dx from y and dy, dx may be dy. Formulas:
 * kernels/cpu/softmax.c. */
struct sw_softmax_args {
    int64_t rows, classes, places;
    const float *x, *dy;
    float *y, *dx; /* the gradient reads y */
};
extern const struct sw_op sw_op_softmax, sw_op_softmax_gradient;
