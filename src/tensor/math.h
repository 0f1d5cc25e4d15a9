/* Tensor arithmetic for programs that use libsinga to write their own models, as in Algorithm 4.2
 * of the thesis (Figure 4.20 lists such functions). Each call queues one operation on a stream of
 * the device; all tensors are float, in plain layout and on that device, and an output may be an
 * input only where the function says so. Shapes that do not fit give SW_ERR_INVALID naming both;
 * other errors come from the device. Only the owner of the stream calls. */
#pragma once

#include "device/ops/elementwise.h"
#include "tensor/tensor.h"

/* A plain float tensor of ndim dimensions, zeros; free with sw_tensor_free. */
int sw_tensor_zeros(struct sw_device *device, int ndim, const int64_t *dim, const char *what,
                    struct sw_tensor **out, struct sw_err *err) SW_MUST_CHECK;

/* Fills t with random numbers, normal or uniform in [low, high), which depend only on the seed, the
 * name and the index of the element. */
int sw_tensor_gaussian(struct sw_stream *s, struct sw_tensor *t, uint64_t seed, const char *name,
                       double mean, double std, struct sw_err *err) SW_MUST_CHECK;
int sw_tensor_uniform(struct sw_stream *s, struct sw_tensor *t, uint64_t seed, const char *name,
                      double low, double high, struct sw_err *err) SW_MUST_CHECK;

struct sw_gemm_form {
    float alpha, beta;
    bool trans_a, trans_b;
};
/* c = alpha op(a) op(b) + beta c, matrices; op transposes where the form asks it to. c is neither a
 * nor b, and is not read where beta is 0. */
int sw_tensor_gemm(struct sw_stream *s, struct sw_gemm_form form, const struct sw_tensor *a,
                   const struct sw_tensor *b, struct sw_tensor *c,
                   struct sw_err *err) SW_MUST_CHECK;
/* y = alpha x + beta y. */
int sw_tensor_combine(struct sw_stream *s, float alpha, const struct sw_tensor *x, float beta,
                      struct sw_tensor *y, struct sw_err *err) SW_MUST_CHECK;
/* y = a b, element by element; y may be a or b. */
int sw_tensor_multiply(struct sw_stream *s, const struct sw_tensor *a, const struct sw_tensor *b,
                       struct sw_tensor *y, struct sw_err *err) SW_MUST_CHECK;
/* y [N, M] += row [M], to every row. */
int sw_tensor_add_row(struct sw_stream *s, const struct sw_tensor *row, struct sw_tensor *y,
                      struct sw_err *err) SW_MUST_CHECK;
/* row [M] = sum of the rows of x [N, M]. */
int sw_tensor_sum_rows(struct sw_stream *s, const struct sw_tensor *x, struct sw_tensor *row,
                       struct sw_err *err) SW_MUST_CHECK;
/* y = f(x) element by element; alpha as in device/ops/elementwise.h. y may be x. */
int sw_tensor_activation(struct sw_stream *s, enum sw_activation f, float alpha,
                         const struct sw_tensor *x, struct sw_tensor *y,
                         struct sw_err *err) SW_MUST_CHECK;
/* *sum = sum of all elements, in double; waits for the stream. */
int sw_tensor_sum(struct sw_stream *s, const struct sw_tensor *x, double *sum,
                  struct sw_err *err) SW_MUST_CHECK;
