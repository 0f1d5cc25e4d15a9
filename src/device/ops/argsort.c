#include "device/ops/argsort.h"
#include "kernels/cpu/kernels.h"

static void spans(const void *args, size_t *bytes)
{
    const struct sw_argsort_args *a = args;
    bytes[0] = sw_op_floats(a->rows * a->columns);
    bytes[1] = sw_op_floats(a->rows * a->top_k);
}

static int cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_argsort_args *a = args;
    (void)err;
    sw_kernel_argsort(threads, a->rows, a->columns, a->top_k, a->x, a->place);
    return SW_OK;
}

static const struct sw_op_pointer pointers[] = {
    SW_OP_POINTER(struct sw_argsort_args, x),
    SW_OP_POINTER(struct sw_argsort_args, place),
    {0},
};

const struct sw_op sw_op_argsort = {
    .name = "argsort",
    .args_bytes = sizeof(struct sw_argsort_args),
    .pointers = pointers,
    .spans = spans,
    .cpu = cpu,
};
