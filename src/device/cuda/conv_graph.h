/* Runs a pass of a convolution of cuDNN. Internal to device/cuda; one owner, the worker of the
 * stream. */
#pragma once

#include "device/cuda/conv_engine.h"
#include "device/cuda/cuda_private.h"

/* Runs the pass on image, filter and result, of which it writes one; bias: of a fused pass. */
struct sw_cuda_conv_arrays {
    const void *image, *filter, *result, *bias, *workspace;
};
int sw_cuda_conv_graph_run(const struct sw_cuda_conv_graph *g, struct sw_stream *s,
                           const struct sw_cuda_conv_arrays *a, struct sw_err *err) SW_MUST_CHECK;
