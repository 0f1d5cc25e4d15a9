/* The handles of NVIDIA libraries: each stream has its own, created at first use. Also converts
 * their results to errors. Internal to device/cuda. */
#pragma once

#include "device/cuda/cuda_private.h"

/* Creates the handle unless it exists. Errors: SW_ERR_LIBRARY, SW_ERR_NOMEM. */
int sw_cuda_need_blas(struct sw_cuda_stream *s, struct sw_err *err) SW_MUST_CHECK;
int sw_cuda_need_dnn(struct sw_cuda_stream *s, struct sw_err *err) SW_MUST_CHECK;
/* The workspace of the stream, which an operation may use while it runs. It never moves, since
 * graphs refer to it. */
int sw_cuda_need_room(struct sw_cuda_stream *s, struct sw_err *err) SW_MUST_CHECK;
void sw_cuda_libraries_free(struct sw_cuda_stream *s);

/* Convert results of cuBLAS (an enum cublasStatus_t) and cuDNN (cudnnStatus_t) to errors. */
int sw_cuda_check_blas(struct sw_cuda_stream *s, int status, const char *what,
                       struct sw_err *err) SW_MUST_CHECK;
int sw_cuda_check_dnn(struct sw_cuda_stream *s, int status, const char *what,
                      struct sw_err *err) SW_MUST_CHECK;

/* c [m, n] = alpha op(a) [m, k] op(b) [k, n] + beta c, row by row, with leading dimensions. a and b
 * are floats, which cuBLAS rounds to the device's precision, or 16-bit values of that precision. */
struct sw_cuda_product {
    bool halves; /* a and b have 16-bit elements */
    bool exact;  /* a and b are floats and not rounded */
    bool trans_a, trans_b;
    int64_t m, n, k, lda, ldb, ldc;
    float alpha, beta;
    const void *a, *b;
    float *c;
};
int sw_cuda_multiply_matrices(struct sw_stream *s, const struct sw_cuda_product *p,
                              struct sw_err *err) SW_MUST_CHECK;
