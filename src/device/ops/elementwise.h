/* Functions that queue common element-wise operations. */
#pragma once

#include "device/op.h"
#include "kernels/ops/activation.h"
#include "kernels/ops/elementwise.h"
#include "kernels/ops/layout.h"

/* y += x, n floats. */
SW_MUST_CHECK static inline int sw_op_add(struct sw_stream *s, float *y, const float *x, int64_t n,
                                          struct sw_err *err)
{
    const struct sw_add_args a = {.n = n, .y = y, .x = x};
    return sw_op_run(s, &sw_op_add_to, &a, err);
}

/* y += x, all storage elements of two activations of layout d. */
SW_MUST_CHECK static inline int sw_op_add_activation(struct sw_stream *s, const struct sw_desc *d,
                                                     void *y, const void *x, struct sw_err *err)
{
    const struct sw_add_args a = {.type = d->dtype, .n = sw_desc_storage(d), .y = y, .x = x};
    return sw_op_run(s, &sw_op_add_to, &a, err);
}

/* y = f(x) over n storage elements. alpha is used by leaky_relu only. */
SW_MUST_CHECK static inline int sw_op_activation(struct sw_stream *s, enum sw_activation f,
                                                 float alpha, const float *x, float *y, int64_t n,
                                                 struct sw_err *err)
{
    const struct sw_activation_args a = {.function = f, .alpha = alpha, .n = n, .x = x, .y = y};
    return sw_op_run(s, &sw_op_activate, &a, err);
}

/* Sets the elements of x in d's padding to zero: after operations with f(0) != 0. */
SW_MUST_CHECK static inline int sw_op_zero_padding(struct sw_stream *s, const struct sw_desc *d,
                                                   void *x, struct sw_err *err)
{
    const struct sw_zero_padding_args a = {.desc = *d, .x = x};
    return sw_op_run(s, &sw_op_clear_padding, &a, err);
}
