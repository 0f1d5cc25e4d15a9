/* Operations as data: besides plans (device/plan.h), the work that layers queue on their streams.
 * The arguments of an operation are the arguments of its kernels: one plain struct in a header of
 * kernels/ops, read by C and nvcc and copied when the operation is queued. Its pointers point to
 * device memory; the operation lists them, so that a device can check and translate them without
 * knowing the operation.
 *
 * An operation consists of
 *
 *   kernels/ops/X.h    the struct, with shapes and formula, and the name of the operation
 *   kernels/cpu/X.c    the CPU kernel, the list of arrays, and the descriptor, a struct sw_op
 *   kernels/cuda/X.cu  the CUDA kernel, and a row in the table of that file
 *                      (kernels/cuda/kernels.h)
 *
 * Operations that multiply matrices with a library are in device/ops and device/cuda. An operation
 * without a CUDA kernel runs on the CPU, on copies.
 *
 * Thread rule: operations are constant; a kernel is called by the owner of a stream. */
#pragma once

#include "base/err.h"
#include "base/step.h"
#include "kernels/both.h"
#include "kernels/desc.h"
#include "kernels/precision.h"
#include <stddef.h>
#include <stdint.h>

enum { SW_OP_ARRAYS = 24, SW_OP_ARGS_BYTES = 640 };

/* An array that a pointer in the arguments points to. */
struct sw_op_array {
    const char *name; /* for messages; static */
    size_t offset;    /* of the pointer, in the arguments */
    size_t bytes;     /* 0: not used by this call: the pointer is NULL, or nothing is computed */
    bool written;     /* the call may write it; else it only reads it */
    const enum sw_dtype *type; /* of an activation: the member of the arguments with the type of its
                                  elements, f32 or 16 bits; else NULL */
};
struct sw_op_arrays {
    const void *args;
    int count;
    struct sw_op_array array[SW_OP_ARRAYS];
};

/* How a CPU kernel runs, besides its arguments. */
struct sw_host_launch {
    int threads;                 /* threads of the team that the call may use */
    enum sw_precision precision; /* precision of the factors of products */
    struct sw_err *err;
};

struct sw_op {
    const char *name;  /* unique; "softmax_loss" */
    size_t args_bytes; /* of the arguments: at most SW_OP_ARGS_BYTES */
    /* Lists all pointers of the arguments, at most SW_OP_ARRAYS, always in the same order. */
    void (*arrays)(const void *args, struct sw_op_arrays *out);
    /* Computes on the CPU; the results do not depend on the number of threads. Errors: invalid
     * arguments or data. All activations are f32: sw_op_compute (device/op.h) converts 16 bits. */
    int (*cpu)(const struct sw_host_launch *l, const void *args);
};

static inline void sw_op_list(const struct sw_op *op, const void *args, struct sw_op_arrays *out)
{
    out->args = args;
    out->count = 0;
    op->arrays(args, out);
}

/* ---- For `arrays` ---- */

static inline void sw_op_array(struct sw_op_arrays *out, const char *name, const void *pointer,
                               bool written, size_t bytes)
{
    struct sw_op_array *a = &out->array[out->count++];

    a->name = name;
    a->offset = (size_t)((const char *)pointer - (const char *)out->args);
    a->bytes = bytes;
    a->written = written;
    a->type = NULL;
}

/* Lists an array of n elements of an activation, none if there are none. */
static inline void sw_op_activation_array(struct sw_op_arrays *out, const char *name,
                                          const void *pointer, bool written,
                                          const enum sw_dtype *type, int64_t n)
{
    sw_op_array(out, name, pointer, written, n > 0 ? (size_t)n * sw_dtype_bytes(*type) : 0);
    out->array[out->count - 1].type = type;
}

/* Is the pointer's target writable? A conditional with a pointer to void has the qualifiers of
 * both. */
#define SW_OP_WRITTEN(pointer)                                                                     \
    _Generic(1 ? (pointer) : (void *)1, const void * : false, void * : true)
/* Lists the array of pointer `member` of *s, which is the arguments or a struct in them. */
#define SW_ARRAY(out, s, member, bytes)                                                            \
    sw_op_array(out, #member, &(s)->member, SW_OP_WRITTEN((s)->member), bytes)
/* SW_ARRAY for a pointer that may be NULL because the call does not need the array. */
#define SW_ARRAY_OR_NULL(out, s, member, bytes) SW_ARRAY(out, s, member, (s)->member ? (bytes) : 0)
/* SW_ARRAY for n elements of an activation; `type` is the member of the arguments with their type.
 */
#define SW_ACTIVATION(out, s, member, type, n)                                                     \
    sw_op_activation_array(out, #member, &(s)->member, SW_OP_WRITTEN((s)->member), &(type), n)
/* SW_ACTIVATION for a pointer that may be NULL, and for each of an array of such pointers. */
#define SW_ACTIVATION_OR_NULL(out, s, member, type, n)                                             \
    SW_ACTIVATION(out, s, member, type, (s)->member ? (n) : 0)
#define SW_ACTIVATIONS_OR_NULL(out, s, member, count, type, n)                                     \
    for (int i_ = 0; i_ < (count); i_++)                                                           \
    sw_op_activation_array(out, #member, &(s)->member[i_], SW_OP_WRITTEN((s)->member[i_]),         \
                           &(type), (s)->member[i_] ? (n) : 0)
/* SW_ARRAY_OR_NULL for each of an array of n pointers. */
#define SW_ARRAYS_OR_NULL(out, s, member, n, bytes)                                                \
    for (int i_ = 0; i_ < (n); i_++)                                                               \
    sw_op_array(out, #member, &(s)->member[i_], SW_OP_WRITTEN((s)->member[i_]),                    \
                (s)->member[i_] ? (bytes) : 0)

/* Bytes of n elements, 0 for none. */
static inline size_t sw_op_floats(int64_t n)
{
    return n > 0 ? (size_t)n * sizeof(float) : 0;
}

/* Bytes of a matrix, 0 for an empty one. */
static inline size_t sw_op_matrix(int64_t rows, int64_t columns)
{
    return rows > 0 && columns > 0 ? sw_op_floats(rows * columns) : 0;
}

/* Returns the valid rows of a worker: all, except for the padding of the last evaluation batch. */
SW_BOTH int64_t sw_op_valid_rows(const struct sw_step *step, int64_t rows)
{
    return step->valid_rows < rows ? step->valid_rows : rows;
}
