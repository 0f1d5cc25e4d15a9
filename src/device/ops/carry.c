#include "device/ops/carry.h"
#include "kernels/cpu/kernels.h"

static int cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_carry_args *a = args;
    const int64_t bytes = a->n * (int64_t)sizeof(float);
    (void)err;
    if (a->from && !a->step->sequences_begin)
        sw_kernel_copy(threads, a->to, a->from, bytes);
    else
        sw_kernel_zero(threads, a->to, bytes);
    return SW_OK;
}

static void spans(const void *args, size_t *bytes)
{
    const struct sw_carry_args *a = args;
    bytes[0] = a->from ? sw_op_floats(a->n) : 0;
    bytes[1] = sizeof *a->step;
    bytes[2] = sw_op_floats(a->n);
}

static const struct sw_op_pointer pointers[] = {
    SW_OP_POINTER(struct sw_carry_args, from),
    SW_OP_POINTER(struct sw_carry_args, step),
    SW_OP_POINTER(struct sw_carry_args, to),
    {0},
};

const struct sw_op sw_op_carry_on = {
    .name = "carry_on",
    .args_bytes = sizeof(struct sw_carry_args),
    .pointers = pointers,
    .spans = spans,
    .cpu = cpu,
};
