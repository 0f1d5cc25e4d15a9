/* The C interface of the CUDA kernels: rows of those that compute operations (kernels/op.h), whose
 * arguments are the structs of the operations, and launchers of those that plans and the device
 * start. All pointers are device memory; nothing is waited for. A launcher returns the enum
 * cudaError of the launch, 0 for none. Formulas are with the CPU kernels and repeated where the
 * arithmetic differs. No kernel adds floats atomically, except integers that are exact, and the
 * parts of a sum depend on its shape only: the same input gives the same bits. */
#pragma once

#include "kernels/axis.h"
#include "kernels/cpu/kernels.h"
#include "kernels/ops/ais.h"
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

/* A report of bad data by a kernel: the first one wins. It is in host memory that kernels can
 * write. */
enum sw_cuda_found { SW_FOUND_NOTHING, SW_FOUND_LABEL, SW_FOUND_TARGET, SW_FOUND_TOKEN };
struct sw_cuda_trouble {
    int found;    /* enum sw_cuda_found, written last */
    int owner;    /* claimed by the first thread */
    uint64_t who; /* address of a static text of the host's */
    int64_t row, column, limit;
    double value;
};

enum { SW_CUDA_PARTIALS = 4096 }; /* doubles that every stream has for sums */

/* How and where a kernel is started. */
struct sw_cuda_launch {
    struct CUstream_st *stream;
    int processors;
    double *partials; /* [SW_CUDA_PARTIALS], owned by the stream */
    void *room;       /* scratch of the size that the row requests; may be NULL otherwise */
    struct sw_cuda_trouble *trouble;
};

/* ---- Operations ---- */

/* Beside an enum cudaError: there is no kernel for these arguments, and the host computes them. */
enum { SW_CUDA_NO_KERNEL = -1 };

/* The row of an operation. */
struct sw_cuda_kernel {
    const struct sw_op *op;
    int (*launch)(const struct sw_cuda_launch *l, const void *args);
    size_t (*room)(const void *args); /* bytes for work that it needs; NULL: none */
};
/* The rows of a file, which end with op NULL. */
struct sw_cuda_kernels {
    struct sw_cuda_kernel row[12];
};
/* Written by CMake: of all files that have a header in kernels/ops. */
extern const struct sw_cuda_kernels *const sw_cuda_kernels[];

/* The channel layout of an activation; false for a layout that the kernels do not support, and for
 * rows of 2^31 elements or more. */
static inline bool sw_cuda_channels(const struct sw_desc *d, struct sw_channels *k)
{
    return d->ndim >= 2 && sw_channels_of(d, k) && k->row_stride <= INT32_MAX;
}

/* ---- elementwise.cu ---- */

/* *answer, initially 1, becomes 0 if a value is not finite. */
int sw_cuda_find_non_finite(const float *x, int64_t n, int *answer, const struct sw_cuda_launch *l);

/* ---- sums.cu ---- */

/* y[r, c] += row[c] (NULL: nothing), then max(0, .) if relu. */
int sw_cuda_add_row(int64_t rows, int64_t columns, const float *row, bool relu, float *y,
                    const struct sw_cuda_launch *l);
int sw_cuda_sum_rows(int64_t rows, int64_t columns, const float *x, float *sum,
                     const struct sw_cuda_launch *l);

/* ---- batch_norm.cu, where elements lie as k says ---- */

/* sums [2 C + 1] of x and x^2 over the rows that count (step NULL: all), and the elements of each;
 * parts: sw_channel_parts_bytes. The first also as floats [C], unless NULL. */
int sw_cuda_channel_sums(const struct sw_channels *k, const float *x, const struct sw_step *step,
                         double *parts, double *sums, float *rounded,
                         const struct sw_cuda_launch *l);
/* y = x + bias[channel], then max(0, .) if relu; y may be x, bias NULL. */
int sw_cuda_channel_bias(const struct sw_channels *k, const float *x, const float *bias, bool relu,
                         float *y, const struct sw_cuda_launch *l);

/* ---- units.cu: pieces of annealed importance sampling (kernels/ops/ais.h) ---- */

int sw_cuda_units(const struct sw_cuda_launch *l, const void *args); /* of sw_op_units */
/* log Z of the machine without weights for every row; a step of all rows; and the pairs of the
 * chains. */
int sw_cuda_ais_begin(const struct sw_ais_args *a, const struct sw_cuda_launch *l);
int sw_cuda_anneal(const struct sw_kernel_anneal *a, const struct sw_cuda_launch *l);
int sw_cuda_ais_result(const struct sw_ais_args *a, const struct sw_cuda_launch *l);

/* ---- recurrent.cu ---- */

/* The arrays of one step: gates contain the products on entry and the gates on return, in blocks of
 * `hidden`. */
struct sw_cuda_cell {
    enum sw_cell_kind kind;
    int64_t rows, hidden, gates_pitch, before_pitch, y_pitch;
    const float *bias;
    float *gates;
    const float *before;
    float *c;     /* lstm [rows, hidden]: c', and then c; else NULL */
    float *next;  /* h' of the next step, pitch before_pitch; this and the two below may be NULL */
    float *y, *h; /* h: [rows, hidden] */
};
/* h' of the first step; and lstm's c, unless the run goes on. */
int sw_cuda_cell_begin(const struct sw_recurrent_args *a, const struct sw_cuda_launch *l);
int sw_cuda_cell(const struct sw_cuda_cell *k, const struct sw_cuda_launch *l);

/* dh and dc [rows, hidden] as in struct sw_kernel_cell_back. */
struct sw_cuda_cell_back {
    enum sw_cell_kind kind;
    int64_t rows, hidden, gates_pitch, before_pitch, dy_pitch, dgates_pitch;
    const float *gates, *before, *dy; /* dy NULL: zero */
    float *dh, *dc, *dgates;
};
int sw_cuda_cell_back(const struct sw_cuda_cell_back *k, const struct sw_cuda_launch *l);

/* ---- layout.cu: any layout against any other ---- */

/* The layout of a tensor. */
struct sw_cuda_layout {
    int ndim;
    struct sw_axis axis[SW_MAX_DIMS];
};

/* A box of both tensors: size elements per dimension, from these indices on. */
struct sw_cuda_box {
    struct sw_cuda_layout from, to;
    int64_t size[SW_MAX_DIMS], from_at[SW_MAX_DIMS], to_at[SW_MAX_DIMS];
    bool add;          /* of floats: dst += src */
    int element_bytes; /* 4 or 1 */
};
/* half.cu: floats become 16 bits, 16 bits floats, or floats what 16 bits could hold
 * (kernels/half.h). For arrays of n elements, and for boxes (add and element_bytes are not read).
 */
enum sw_cuda_conversion {
    SW_CUDA_TO_BF16,
    SW_CUDA_TO_FP16,
    SW_CUDA_FROM_BF16,
    SW_CUDA_FROM_FP16,
    SW_CUDA_ROUND_BF16,
    SW_CUDA_ROUND_FP16,
};
int sw_cuda_convert(enum sw_cuda_conversion c, int64_t n, const void *src, void *dst,
                    const struct sw_cuda_launch *l);
int sw_cuda_convert_box(enum sw_cuda_conversion c, const struct sw_cuda_box *b, const void *src,
                        void *dst, const struct sw_cuda_launch *l);
/* Everything of one tensor to another of the same shape; padding of `to` becomes zero. */
int sw_cuda_reorder(const struct sw_cuda_launch *l, const struct sw_desc *from, const void *src,
                    const struct sw_desc *to, void *dst);
/* The same with elements converted, where the descriptors say how they lie, but not what they are.
 */
int sw_cuda_reorder_as(const struct sw_cuda_launch *l, enum sw_cuda_conversion c,
                       const struct sw_desc *from, const void *src, const struct sw_desc *to,
                       void *dst);

/* ---- pooling.cu, lrn.cu: plain planes (lanes 1), or channels last ---- */

struct sw_cuda_pool {
    struct sw_kernel_windows w;
    struct sw_channels in, out;
    enum sw_kernel_divisor by;
    const float *x, *dy;
    float *y, *dx;
    int32_t *index; /* pixel of each maximum, plain [rows, channels, out pixels]; or NULL */
};
int sw_cuda_max_pool(const struct sw_cuda_pool *p, const struct sw_cuda_launch *l);
int sw_cuda_max_pool_backward(const struct sw_cuda_pool *p, const struct sw_cuda_launch *l);
int sw_cuda_avg_pool(const struct sw_cuda_pool *p, const struct sw_cuda_launch *l);
int sw_cuda_avg_pool_backward(const struct sw_cuda_pool *p, const struct sw_cuda_launch *l);

struct sw_cuda_lrn {
    struct sw_channels k;
    int64_t height, width, size;
    bool within_channel;
    float alpha, beta, bias; /* alpha as multiplied with the sum of squares */
    const float *x, *dy;
    float *y, *dx;
    float *scale; /* of every element; NULL: not kept */
    float *ratio; /* room for as many, backward */
};
int sw_cuda_lrn(const struct sw_cuda_lrn *a, const struct sw_cuda_launch *l);
int sw_cuda_lrn_backward(const struct sw_cuda_lrn *a, const struct sw_cuda_launch *l);

#ifdef __cplusplus
}
#endif
