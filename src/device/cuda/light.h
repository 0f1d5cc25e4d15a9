/* Matrix products by cuBLASLt, prepared once and run every step, with bias and relu as epilogue.
 * The algorithm is the first of the library's heuristics for the shape, which is the same every
 * time, or another one given by name. Internal to device/cuda; one owner, the worker of the stream.
 */
#pragma once

#include "device/cuda/libraries.h"
#include "device/tune.h"

struct sw_cuda_light;

/* Arrays of the product are ignored; alpha must be 1 and beta 0. The bias is added to the columns
 * of c. */
struct sw_cuda_light_args {
    struct sw_product product;
    bool halves;        /* the factors have 16-bit elements */
    bool writes_halves; /* and so have the result and the bias */
    bool bias, relu;
    const char *wanted; /* the name of an algorithm; "": the first */
};

/* Sets *out to NULL if the library has no algorithm, or none of that name. Free with
 * sw_cuda_light_free. Errors: SW_ERR_NOMEM, those of the device and the library. */
int sw_cuda_light_new(struct sw_stream *s, const struct sw_cuda_light_args *args,
                      struct sw_cuda_light **out, struct sw_err *err) SW_MUST_CHECK;
void sw_cuda_light_free(struct sw_cuda_light *p); /* NULL is accepted */
/* Adds the names of all algorithms in order: "2/66-20-1-0", the index in the list and the
 * configuration. Adds none if the heuristics fail. */
void sw_cuda_light_list(struct sw_stream *s, const struct sw_cuda_light_args *args,
                        struct sw_tune_candidates *out);
/* c = relu(op(a) op(b) + bias), bias and relu optional; all arrays are aligned to 64 bytes. */
int sw_cuda_light_run(struct sw_cuda_light *p, const void *a, const void *b, const void *bias,
                      void *c, struct sw_err *err) SW_MUST_CHECK;
