#include "device/ops/softmax.h"
#include "kernels/cpu/kernels.h"

static void spans(const void *args, size_t *bytes)
{
    const struct sw_softmax_args *a = args;
    bytes[0] = bytes[1] = sw_op_floats(a->rows * a->classes * a->places);
}

static void gradient_spans(const void *args, size_t *bytes)
{
    spans(args, bytes);
    bytes[2] = bytes[0];
}

static int forward_cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_softmax_args *a = args;
    (void)err;
    sw_kernel_softmax(threads, a->rows, a->classes, a->places, a->x, a->y);
    return SW_OK;
}

static int gradient_cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_softmax_args *a = args;
    (void)err;
    sw_kernel_softmax_backward(threads, a->rows, a->classes, a->places, a->y, a->dy, a->dx);
    return SW_OK;
}

static const struct sw_op_pointer pointers[] = {
    SW_OP_POINTER(struct sw_softmax_args, x),
    SW_OP_POINTER(struct sw_softmax_args, y),
    {0},
};

static const struct sw_op_pointer gradient_pointers[] = {
    SW_OP_POINTER(struct sw_softmax_args, y),
    SW_OP_POINTER(struct sw_softmax_args, dy),
    SW_OP_POINTER(struct sw_softmax_args, dx),
    {0},
};

const struct sw_op sw_op_softmax = {
    .name = "softmax",
    .args_bytes = sizeof(struct sw_softmax_args),
    .pointers = pointers,
    .spans = spans,
    .cpu = forward_cpu,
};

const struct sw_op sw_op_softmax_gradient = {
    .name = "softmax_backward",
    .args_bytes = sizeof(struct sw_softmax_args),
    .pointers = gradient_pointers,
    .spans = gradient_spans,
    .cpu = gradient_cpu,
};
