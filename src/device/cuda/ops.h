/* Operations that consist of several kernels and matrix products of a library; all others are rows
 * of the tables in kernels/cuda. Internal to device/cuda. */
#pragma once

#include "device/cuda/cuda_private.h"

/* Operations that consist of several kernels and library calls. Errors: those of the device and the
 * libraries. */
int sw_cuda_recurrent(struct sw_stream *s, const void *args, struct sw_err *err) SW_MUST_CHECK;
int sw_cuda_recurrent_gradient(struct sw_stream *s, const void *args,
                               struct sw_err *err) SW_MUST_CHECK;
int sw_cuda_ais(struct sw_stream *s, const void *args, struct sw_err *err) SW_MUST_CHECK;
