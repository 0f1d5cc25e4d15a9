/* Up to sixteen arrays of one layout combined element by element, and the gradients of each; a relu
 * behind may be part of it. Formulas: kernels/cpu/eltwise.c. Padding is computed with, and zeros
 * stay zero. */
#pragma once

#include "kernels/op.h"

enum { SW_ELTWISE_SRCS = 16 };

enum sw_eltwise { SW_ELTWISE_SUM, SW_ELTWISE_PRODUCT, SW_ELTWISE_MAX };

struct sw_eltwise_args {
    enum sw_eltwise kind;
    int count; /* 2 or more */
    bool relu;
    int64_t n;                     /* storage elements */
    float factor[SW_ELTWISE_SRCS]; /* of sums */
    const float *x[SW_ELTWISE_SRCS];
    float *y; /* may be x[0] */
};
extern const struct sw_op sw_op_eltwise;

struct sw_eltwise_sum_gradient_args {
    int count;
    uint32_t adds; /* bit i: dx[i] is added to */
    int64_t n;
    float factor[SW_ELTWISE_SRCS];
    const float *y; /* after a relu, else NULL */
    const float *dy;
    float *dx[SW_ELTWISE_SRCS]; /* one may be dy; NULL: not wanted */
};
extern const struct sw_op sw_op_eltwise_sum_gradient;

/* The gradient of one source of a product or maximum. A maximum's goes to the first of equals. */
struct sw_eltwise_gradient_args {
    enum sw_eltwise kind;
    int count, of;
    bool add;
    int64_t n;
    const float *x[SW_ELTWISE_SRCS];
    const float *y; /* after a relu, else NULL */
    const float *dy;
    float *dx; /* may be dy */
};
extern const struct sw_op sw_op_eltwise_gradient;
