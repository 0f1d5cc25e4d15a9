/* Products by cuBLASLt, described once and run every step: with bias and relu as they are written,
 * by the library's first suggestion for the shape, which is the same every time, or by another one
 * that is said by name. Internal to device/cuda; one owner, the worker of the stream. */
#pragma once

#include "device/cuda/libraries.h"
#include "device/tune.h"

struct sw_cuda_light;

/* Of the product only the description is read: no arrays, alpha 1 and beta 0. Bias and relu are by
 * columns of c. */
struct sw_cuda_light_args {
    struct sw_cuda_product product;
    bool bias, relu;
    const char *wanted; /* the name of a suggestion; "": the first */
};

/* *out becomes NULL where the library has none, or none of that name. Free with
 * sw_cuda_light_free. Errors: SW_ERR_NOMEM, those of the device and the library. */
int sw_cuda_light_new(struct sw_stream *s, const struct sw_cuda_light_args *args,
                      struct sw_cuda_light **out, struct sw_err *err) SW_MUST_CHECK;
void sw_cuda_light_free(struct sw_cuda_light *p); /* NULL is accepted */
/* Adds the names of all suggestions in order: "2/66-20-1-0", the index in the list and the
 * configuration of the algorithm. Adds none if they are not available. */
void sw_cuda_light_list(struct sw_stream *s, const struct sw_cuda_light_args *args,
                        struct sw_tune_ways *out);
/* c = op(a) op(b), + bias, relu; all arrays begin at a line. */
int sw_cuda_light_run(struct sw_cuda_light *p, const void *a, const void *b, const float *bias,
                      float *c, struct sw_err *err) SW_MUST_CHECK;
