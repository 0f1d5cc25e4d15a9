/* Activation functions and their gradients, over n storage elements. An output may be an input.
 * Formulas: kernels/cpu/activation.c. Padding may be included. */
#pragma once

#include "kernels/op.h"

enum sw_activation {
    SW_ACT_RELU,
    SW_ACT_LEAKY_RELU, /* alpha = negative slope */
    SW_ACT_SIGMOID,
    SW_ACT_TANH,
    SW_ACT_STANH, /* 1.7159047 tanh(0.66666667 x), LeCun et al., "Efficient BackProp" (1998) */
    SW_ACT_SOFTPLUS,
    SW_ACT_GELU, /* x Phi(x), by erf; Hendrycks and Gimpel 2016 */
    SW_ACT_COUNT
};

/* The factors of a tanh(b x). */
#define SW_STANH_A 1.7159047f
#define SW_STANH_B 0.66666667f

/* Sets the two constants of a function: its slope, or the factors of a tanh(b x). */
SW_BOTH void sw_activation_constants(enum sw_activation f, float alpha, float *a, float *b)
{
    *a = f == SW_ACT_TANH ? 1.0f : f == SW_ACT_STANH ? SW_STANH_A : alpha;
    *b = f == SW_ACT_TANH ? 1.0f : SW_STANH_B;
}

struct sw_activation_args {
    enum sw_activation function;
    float alpha;        /* of leaky_relu */
    enum sw_dtype type; /* of x and y */
    int64_t n;
    const void *x;
    void *y;
};
extern const struct sw_op sw_op_activate; /* y = f(x) */

/* Only gelu reads x, the others read y = f(x); the array that is not read may be NULL. */
struct sw_activation_gradient_args {
    enum sw_activation function;
    float alpha;
    enum sw_dtype type; /* of all four */
    int64_t n;
    const void *x, *y, *dy;
    void *dx;
};
extern const struct sw_op sw_op_activation_gradient; /* dx = dy f'(x) */
