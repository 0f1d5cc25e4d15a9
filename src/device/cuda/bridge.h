/* The bridge: work that no kernel does is done by the cpu device on copies in host memory, and the
 * stream is waited for. Right, and slow; counted per device. Internal to device/cuda. */
#pragma once

#include "device/cuda/cuda_private.h"

/* Arrays in device memory, and their copies on the host while the work is done. */
struct sw_cuda_ferry {
    int count;
    void *there[SW_OP_ARRAYS], *here[SW_OP_ARRAYS];
    size_t bytes[SW_OP_ARRAYS];
    bool written[SW_OP_ARRAYS];
};

/* Brings all arrays to the host: sets `here`. Arrays inside others have no copies of their own. */
int sw_cuda_ferry_out(struct sw_stream *s, struct sw_cuda_ferry *f,
                      struct sw_err *err) SW_MUST_CHECK;
/* Brings what was written back. */
int sw_cuda_ferry_back(struct sw_stream *s, const struct sw_cuda_ferry *f,
                       struct sw_err *err) SW_MUST_CHECK;
