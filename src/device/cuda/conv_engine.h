/* Convolutions in the graph API of cuDNN, one graph per pass, and the rule by which an engine of
 * the library is chosen. The heuristics list engines in order of preference; the first one is taken
 *
 *   that is deterministic and rounds nothing but what the precision allows: fp32 uses no tensor
 *   cores, which would round to tf32;
 *   whose workspace is within the limit;
 *   and, as far as there are such, that uses tensor cores and is not compiled at run time.
 *
 * So the choice is the same every time. Another suitable engine can be requested by name, "a3/12":
 * the list, the index in it and the number of the engine. The rule also answers for a GPU that is
 * only described (cuDNN 9.8), so that it can be tested without one. Internal to device/cuda; one
 * owner, the worker of the stream. */
#pragma once

#include "device/plan.h"
#include "device/tune.h"
#include "kernels/precision.h"

struct cudnnContext;
struct sw_cuda_conv_graph;

/* The GPU that engines are chosen for: that of a cuDNN handle, or one that is described. */
struct sw_cuda_conv_gpu {
    struct cudnnContext *handle; /* borrowed; NULL: the GPU is described */
    void *description;           /* owned: the library's */
    enum sw_precision precision;
    bool avoid_winograd;
    int64_t workspace_bytes;           /* limit for one pass */
    struct sw_cuda_conv_graph *graphs; /* list of all graphs in use; equal convolutions share one */
};

/* The limit for the workspace of one pass on a GPU with so much memory. */
int64_t sw_cuda_conv_workspace(size_t memory_bytes);
/* Describes a GPU: the properties as cuDNN writes them in JSON. False if the library is older than
 * 9.8 or does not accept them. Call sw_cuda_conv_gpu_fini also then. */
bool sw_cuda_conv_gpu_describe(struct sw_cuda_conv_gpu *gpu, const char *json);
void sw_cuda_conv_gpu_fini(struct sw_cuda_conv_gpu *gpu);

/* The ids of the arrays of an operation in a variant pack; only a fused one reads a bias. */
enum {
    SW_CUDA_CONV_IMAGE = 1,
    SW_CUDA_CONV_FILTER,
    SW_CUDA_CONV_RESULT,
    SW_CUDA_CONV_BIAS,
    SW_CUDA_CONV_ARRAYS = SW_CUDA_CONV_BIAS
};

/* An execution plan. */
struct sw_cuda_conv_graph {
    void *plan;       /* owned: the library's */
    const char *name; /* of the pass, for messages; static */
    int64_t workspace_bytes;
    bool halves;                 /* the output has 16-bit elements */
    bool fused;                  /* it adds the bias, and has applied the relu if there is one */
    bool tensor_cores, compiles; /* the engine uses tensor cores, was compiled at run time */
    /* For conv_engine.c: */
    struct sw_cuda_conv_gpu *gpu; /* borrowed */
    struct sw_cuda_conv_graph *next;
    char *key; /* owned: all that decided the engine */
    int users;
};

/* The convolution to prepare. Layouts are those of the computation: plain or channels last. */
struct sw_cuda_conv_question {
    struct sw_cuda_conv_gpu *gpu;
    const struct sw_conv_shape *shape;
    const struct sw_desc *src, *weight, *dst;
    enum sw_tune_pass pass;
    bool halves;        /* inputs have 16-bit elements of the GPU's precision */
    bool writes_halves; /* and so has the output */
    bool fused; /* forward: relu(conv + bias) as the shape says, with a bias of the type of the
                   inputs, which is that of the output. Sums are fp32, and the result is rounded
                   once. Only by an engine that is not compiled at run time, with tensor cores
                   where the precision allows them. */
    bool tf32;  /* inputs may be rounded to tf32 */
    const char *wanted; /* the name of an engine; "": by the rule */
};

/* The graph, which the caller gives back with sw_cuda_conv_graph_put; NULL if cuDNN has no engine
 * for it, or none of that name, or if memory is exhausted. */
struct sw_cuda_conv_graph *sw_cuda_conv_graph_get(const struct sw_cuda_conv_question *q);
void sw_cuda_conv_graph_put(struct sw_cuda_conv_graph *g); /* NULL is accepted */
/* Adds the names of all suitable engines. */
void sw_cuda_conv_graph_list(const struct sw_cuda_conv_question *q, struct sw_tune_candidates *out);
