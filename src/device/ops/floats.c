#include "device/ops/floats.h"
#include "kernels/cpu/kernels.h"

static void spans(const void *args, size_t *bytes)
{
    const struct sw_floats_args *a = args;
    bytes[0] = bytes[1] = sw_op_floats(a->n);
}

static int cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_floats_args *a = args;
    (void)err;
    sw_kernel_floats(threads, a->y, a->x, a->n);
    return SW_OK;
}

static const struct sw_op_pointer pointers[] = {
    SW_OP_POINTER(struct sw_floats_args, x),
    SW_OP_POINTER(struct sw_floats_args, y),
    {0},
};

const struct sw_op sw_op_to_floats = {
    .name = "floats",
    .args_bytes = sizeof(struct sw_floats_args),
    .pointers = pointers,
    .spans = spans,
    .cpu = cpu,
};
