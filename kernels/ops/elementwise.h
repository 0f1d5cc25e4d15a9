/* Element-wise operations on arrays of n storage elements. Padding may be included. */
#pragma once

#include "kernels/op.h"

struct sw_add_args {
    enum sw_dtype type; /* of x and y */
    int64_t n;
    void *y;
    const void *x;
};
extern const struct sw_op sw_op_add_to; /* y += x */

struct sw_combine_args {
    int64_t n;
    float alpha, beta;
    const float *x;
    float *y;
};
extern const struct sw_op sw_op_combine; /* y = alpha x + beta y; y is not read where beta is 0 */

struct sw_multiply_args {
    int64_t n;
    const float *a, *b;
    float *y;
};
extern const struct sw_op sw_op_multiply; /* y = a b; y may be a or b */

struct sw_floats_args {
    int64_t n;
    const int32_t *x;
    float *y;
};
extern const struct sw_op sw_op_to_floats; /* y = x; integers beyond 2^24 are rounded */
