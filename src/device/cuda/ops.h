/* Operations that are made of several kernels and products of a library; all others are rows of the
 * files in kernels/cuda. Internal to device/cuda. */
#pragma once

#include "device/cuda/cuda_private.h"

/* Return errors themselves. */
int sw_cuda_recurrent(struct sw_stream *s, const void *args, struct sw_err *err) SW_MUST_CHECK;
int sw_cuda_recurrent_gradient(struct sw_stream *s, const void *args,
                               struct sw_err *err) SW_MUST_CHECK;
int sw_cuda_ais(struct sw_stream *s, const void *args, struct sw_err *err) SW_MUST_CHECK;
