/* The bridge: operations without a CUDA kernel are computed by the cpu device on copies in host
 * memory, and the host waits for the stream. Correct but slow; counted per device. Internal to
 * device/cuda. */
#pragma once

#include "device/cuda/cuda_private.h"

/* Arrays in device memory and their copies on the host. */
struct sw_cuda_ferry {
    int count;
    void *device[SW_OP_ARRAYS], *host[SW_OP_ARRAYS];
    size_t bytes[SW_OP_ARRAYS];
    bool written[SW_OP_ARRAYS];
};

/* Copies all arrays to the host and sets `host`. An array inside another one shares its copy. */
int sw_cuda_ferry_out(struct sw_stream *s, struct sw_cuda_ferry *f,
                      struct sw_err *err) SW_MUST_CHECK;
/* Copies the written arrays back. */
int sw_cuda_ferry_back(struct sw_stream *s, const struct sw_cuda_ferry *f,
                       struct sw_err *err) SW_MUST_CHECK;
