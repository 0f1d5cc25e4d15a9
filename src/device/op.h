/* Operations as data: what a layer has computed on its stream besides plans (device/plan.h). An
 * operation is a const struct: a name, what its arguments are, and who computes it on the CPU. The
 * arguments are one plain struct, taken over by value when the operation is queued; the pointers
 * in it are listed, so that a device which keeps its memory elsewhere can check and move them
 * without knowing the operation. One operation or family is one pair of files in device/ops: the
 * arguments, the descriptor, and an inline function that fills the one and runs the other.
 *
 * Thread rule: descriptors are frozen; sw_op_run is called by the stream's owner. */
#ifndef SW_DEVICE_OP_H
#define SW_DEVICE_OP_H

#include "base/err.h"
#include "device/device.h"

enum { SW_OP_POINTERS = 24, SW_OP_ARGS_BYTES = 640 };

/* A pointer among the arguments: to device memory, or NULL where the call does without. */
struct sw_op_pointer {
    const char *name; /* for messages */
    size_t offset;    /* in the arguments */
    bool written;     /* it may be; else it is read only */
};
/* Is member `m` of the arguments' type `t` a pointer through which one may write? A conditional
 * with a pointer to void has the qualifiers of both. */
#define SW_OP_WRITTEN(t, m)                                                                        \
    _Generic(1 ? ((t *)0)->m : (void *)1, const void * : false, void * : true)
/* A row for that member. */
#define SW_OP_POINTER(t, m)                                                                        \
    {                                                                                              \
        .name = #m, .offset = offsetof(t, m), .written = SW_OP_WRITTEN(t, m)                       \
    }

struct sw_op {
    const char *name;                     /* unique; "softmax_loss" */
    size_t args_bytes;                    /* of the arguments: at most SW_OP_ARGS_BYTES */
    const struct sw_op_pointer *pointers; /* at most SW_OP_POINTERS; ends with name NULL */
    /* How many bytes lie behind each pointer, in the order of `pointers`; bytes comes zeroed, and 0
     * stands for a pointer that this call does not use: it is NULL then, or nothing is computed at
     * all. */
    void (*spans)(const void *args, size_t *bytes);
    /* Computes on the calling thread and its OpenMP team of `threads`; what is written is the same
     * for every team. Errors: what the arguments or the data have wrong. */
    int (*cpu)(int threads, const void *args, struct sw_err *err);
    /* The same with the factors of products rounded; NULL: there are none that are to be. */
    int (*products)(int threads, enum sw_precision precision, const void *args, struct sw_err *err);
};

/* Computes it on the CPU, here and now. */
SW_MUST_CHECK static inline int sw_op_compute(const struct sw_op *op, int threads,
                                              enum sw_precision precision, const void *args,
                                              struct sw_err *err)
{
    return precision != SW_PRECISION_FP32 && op->products
               ? op->products(threads, precision, args, err)
               : op->cpu(threads, args, err);
}

/* Queues the operation; the arguments are copied, what they point to stays valid until it has run.
 * Errors: those of the operation, now or from a later call, as device.h says. */
SW_MUST_CHECK static inline int sw_op_run(struct sw_stream *s, const struct sw_op *op,
                                          const void *args, struct sw_err *err)
{
    return s->dev->ops->run(s, op, args, err);
}

/* Bytes of n elements, 0 for none: for spans. */
static inline size_t sw_op_floats(int64_t n)
{
    return n > 0 ? (size_t)n * sizeof(float) : 0;
}

/* Bytes of a matrix, or 0 where it is empty. */
static inline size_t sw_op_matrix(int64_t rows, int64_t columns)
{
    return rows > 0 && columns > 0 ? sw_op_floats(rows * columns) : 0;
}

/* Rows of a worker that count: all, but for the padding of the last evaluation batch. */
static inline int64_t sw_op_valid_rows(const struct sw_step *step, int64_t rows)
{
    return step->valid_rows < rows ? step->valid_rows : rows;
}

#endif
