/* The handles of NVIDIA libraries: each stream has its own, created at first use. Also converts
 * their results to errors. Internal to device/cuda. */
#pragma once

#include "device/cuda/cuda_private.h"
#include "kernels/product.h"

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

/* The factors of a product: floats, which cuBLAS rounds to the device's precision; floats that it
 * does not round; or 16-bit values of that precision. A product of 16-bit values is written as
 * floats, or as such values, too. */
enum sw_cuda_factors {
    SW_CUDA_FLOAT_FACTORS,
    SW_CUDA_EXACT_FACTORS,
    SW_CUDA_HALF_FACTORS,
    SW_CUDA_HALF_PRODUCT
};
int sw_cuda_multiply(struct sw_stream *s, const struct sw_product *p, enum sw_cuda_factors f,
                     struct sw_err *err) SW_MUST_CHECK;
