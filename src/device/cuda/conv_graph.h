/* A convolution in the graph API of cuDNN: a graph of one operation, for which the heuristics of
 * the library list engines in order of preference. The first engine is used that is deterministic,
 * computes in the requested precision, and whose workspace is within the limit, so the choice is
 * the same every time. Another suitable engine can be requested by name, "a3/12": the mode of the
 * heuristics, the index in its list and the number of the engine. Internal to device/cuda; one
 * owner, the worker of the stream. */
#pragma once

#include "device/cuda/cuda_private.h"
#include "device/tune.h"

/* An execution plan and its workspace; with plan NULL the pass is not run. */
struct sw_cuda_conv_graph {
    void *plan; /* owned: the library's */
    int64_t workspace_bytes;
    bool halves; /* the output has 16-bit elements */
};

/* The convolution to prepare. Layouts are those of the computation: plain or channels last. */
struct sw_cuda_conv_question {
    struct sw_stream *stream;
    const struct sw_conv_shape *shape;
    const struct sw_desc *src, *weight, *dst;
    bool halves;        /* inputs have 16-bit elements of the device's precision */
    bool tf32;          /* inputs may be rounded to tf32 */
    const char *wanted; /* the name of an engine; "": the first suitable one */
};

/* Makes the graph; false if cuDNN has no engine for it, or none of that name. The handle of the
 * stream must exist. */
bool sw_cuda_conv_graph_make(const struct sw_cuda_conv_question *q, enum sw_tune_pass pass,
                             bool writes_halves, struct sw_cuda_conv_graph *g);
/* Adds the names of all suitable engines. */
void sw_cuda_conv_graph_list(const struct sw_cuda_conv_question *q, enum sw_tune_pass pass,
                             bool writes_halves, struct sw_tune_candidates *out);
void sw_cuda_conv_graph_drop(struct sw_cuda_conv_graph *g);
/* Runs the pass on image, filter and result, of which it writes one. */
struct sw_cuda_conv_arrays {
    const void *image, *filter, *result, *workspace;
};
int sw_cuda_conv_graph_run(const struct sw_cuda_conv_graph *g, enum sw_tune_pass pass,
                           struct sw_stream *s, const struct sw_cuda_conv_arrays *a,
                           struct sw_err *err) SW_MUST_CHECK;
