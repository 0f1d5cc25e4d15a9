/* Combines up to sixteen arrays of one layout element by element, and computes the gradient of
 * each; a relu may be fused. Formulas: kernels/cpu/eltwise.c. Padding is included, and zeros stay
 * zero. */
#pragma once

#include "kernels/op.h"

enum { SW_ELTWISE_SRCS = 16 };

enum sw_eltwise { SW_ELTWISE_SUM, SW_ELTWISE_PRODUCT, SW_ELTWISE_MAX };

struct sw_eltwise_args {
    enum sw_eltwise kind;
    int count; /* 2 or more */
    bool relu;
    int64_t n;                     /* storage elements */
    float factor[SW_ELTWISE_SRCS]; /* coefficients of a sum */
    enum sw_dtype type;            /* of x and y */
    const void *x[SW_ELTWISE_SRCS];
    void *y; /* may be x[0] */
};
extern const struct sw_op sw_op_eltwise;

struct sw_eltwise_sum_gradient_args {
    int count;
    uint32_t adds; /* bit i: adds to dx[i] instead of overwriting it */
    int64_t n;
    float factor[SW_ELTWISE_SRCS];
    enum sw_dtype type; /* of all arrays */
    const void *y;      /* output of a fused relu, else NULL */
    const void *dy;
    void *dx[SW_ELTWISE_SRCS]; /* one may be dy; NULL: no gradient needed */
};
extern const struct sw_op sw_op_eltwise_sum_gradient;

/* The gradient of source `of` of a product or maximum. The gradient of a maximum goes to the first
 * of equal values. */
struct sw_eltwise_gradient_args {
    enum sw_eltwise kind;
    int count, of;
    bool add;
    int64_t n;
    enum sw_dtype type; /* of all arrays */
    const void *x[SW_ELTWISE_SRCS];
    const void *y; /* output of a fused relu, else NULL */
    const void *dy;
    void *dx; /* may be dy */
};
extern const struct sw_op sw_op_eltwise_gradient;
