#include "device/ops/fold.h"
#include "kernels/cpu/fold.h"

/* A row for array i. */
#define X(i)                                                                                       \
    {                                                                                              \
        .name = "x", .offset = offsetof(struct sw_fold_args, x) + (i) * sizeof(float *),           \
        .written = false                                                                           \
    }
static const struct sw_op_pointer pointers[] = {
    X(0),
    X(1),
    X(2),
    X(3),
    X(4),
    X(5),
    X(6),
    X(7),
    X(8),
    X(9),
    X(10),
    X(11),
    X(12),
    X(13),
    X(14),
    X(15),
    SW_OP_POINTER(struct sw_fold_args, y),
    {0},
};
_Static_assert(SW_FOLD_TERMS == 16, "every array is among the pointers");

static void spans(const void *args, size_t *bytes)
{
    const struct sw_fold_args *a = args;
    for (int i = 0; i < a->count; i++)
        bytes[i] = sw_op_floats(a->n);
    bytes[SW_FOLD_TERMS] = sw_op_floats(a->n);
}

static int fold(int threads, const void *args, struct sw_err *err)
{
    const struct sw_fold_args *a = args;
    const struct sw_terms sum = {.in = a->x, .ends = a->ends, .count = a->count};
    (void)err;
    sw_kernel_fold(threads, &sum, a->y, a->n);
    return SW_OK;
}

const struct sw_op sw_op_fold_arrays = {.name = "fold",
                                        .args_bytes = sizeof(struct sw_fold_args),
                                        .pointers = pointers,
                                        .spans = spans,
                                        .cpu = fold};
