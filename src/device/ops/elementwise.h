/* Element-wise operations over storage: adding, activation functions, and setting padding to zero.
 * Where nothing else is said an output may be an input, and padding may be computed with. */
#ifndef SW_DEVICE_OPS_ELEMENTWISE_H
#define SW_DEVICE_OPS_ELEMENTWISE_H

#include "device/op.h"

struct sw_add_args {
    int64_t n;
    float *y;
    const float *x;
};
extern const struct sw_op sw_op_add_to;

/* y += x, n storage elements. */
SW_MUST_CHECK static inline int sw_op_add(struct sw_stream *s, float *y, const float *x, int64_t n,
                                          struct sw_err *err)
{
    const struct sw_add_args a = {.n = n, .y = y, .x = x};
    return sw_op_run(s, &sw_op_add_to, &a, err);
}

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

struct sw_activation_args {
    enum sw_activation function;
    float alpha;
    int64_t n;
    const float *x;
    float *y;
};
extern const struct sw_op sw_op_activate;

/* y = f(x) over n storage elements. alpha is used by leaky_relu only. */
SW_MUST_CHECK static inline int sw_op_activation(struct sw_stream *s, enum sw_activation f,
                                                 float alpha, const float *x, float *y, int64_t n,
                                                 struct sw_err *err)
{
    const struct sw_activation_args a = {.function = f, .alpha = alpha, .n = n, .x = x, .y = y};
    return sw_op_run(s, &sw_op_activate, &a, err);
}

struct sw_activation_gradient_args {
    enum sw_activation function;
    float alpha;
    int64_t n;
    const float *x, *y, *dy;
    float *dx;
};
extern const struct sw_op sw_op_activation_gradient;

/* dx = dy f'(x); only gelu reads x, the others read y = f(x), so they work in place. dx may be dy.
 * What is not read may be NULL. */
SW_MUST_CHECK static inline int sw_op_activation_backward(struct sw_stream *s, enum sw_activation f,
                                                          float alpha, const float *x,
                                                          const float *y, const float *dy,
                                                          float *dx, int64_t n, struct sw_err *err)
{
    const struct sw_activation_gradient_args a = {
        .function = f, .alpha = alpha, .n = n, .x = x, .y = y, .dy = dy, .dx = dx};
    return sw_op_run(s, &sw_op_activation_gradient, &a, err);
}

struct sw_zero_padding_args {
    struct sw_desc desc;
    float *x;
};
extern const struct sw_op sw_op_clear_padding;

/* Sets the elements of x that lie in d's padding to zero: after operations with f(0) != 0. */
SW_MUST_CHECK static inline int sw_op_zero_padding(struct sw_stream *s, const struct sw_desc *d,
                                                   float *x, struct sw_err *err)
{
    const struct sw_zero_padding_args a = {.desc = *d, .x = x};
    return sw_op_run(s, &sw_op_clear_padding, &a, err);
}

#endif
