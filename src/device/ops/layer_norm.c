#include "device/ops/layer_norm.h"
#include "kernels/cpu/kernels.h"

static void spans(const void *args, size_t *bytes)
{
    const struct sw_layer_norm_args *a = args;
    bytes[0] = bytes[3] = sw_op_floats(a->rows * a->n);
    bytes[1] = bytes[2] = sw_op_floats(a->n);
    bytes[4] = sw_op_floats(2 * a->rows);
}

static void gradient_spans(const void *args, size_t *bytes)
{
    const struct sw_layer_norm_args *a = args;
    bytes[0] = bytes[3] = sw_op_floats(a->rows * a->n);
    bytes[1] = bytes[5] = bytes[6] = sw_op_floats(a->n);
    bytes[2] = sw_op_floats(2 * a->rows);
    bytes[4] = a->dx ? bytes[0] : 0;
}

static struct sw_kernel_layer_norm kernel_of(const struct sw_layer_norm_args *a)
{
    return (struct sw_kernel_layer_norm){.rows = a->rows,
                                         .n = a->n,
                                         .eps = a->eps,
                                         .x = a->x,
                                         .scale = a->scale,
                                         .bias = a->bias,
                                         .y = a->y,
                                         .moments = a->moments,
                                         .dy = a->dy,
                                         .dx = a->dx,
                                         .dscale = a->dscale,
                                         .dbias = a->dbias};
}

static int forward_cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_kernel_layer_norm k = kernel_of(args);
    (void)err;
    sw_kernel_layer_norm(threads, &k);
    return SW_OK;
}

static int gradient_cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_kernel_layer_norm k = kernel_of(args);
    (void)err;
    sw_kernel_layer_norm_columns(threads, &k);
    if (k.dx)
        sw_kernel_layer_norm_backward(threads, &k);
    return SW_OK;
}

static const struct sw_op_pointer pointers[] = {
    SW_OP_POINTER(struct sw_layer_norm_args, x),
    SW_OP_POINTER(struct sw_layer_norm_args, scale),
    SW_OP_POINTER(struct sw_layer_norm_args, bias),
    SW_OP_POINTER(struct sw_layer_norm_args, y),
    SW_OP_POINTER(struct sw_layer_norm_args, moments),
    {0},
};

static const struct sw_op_pointer gradient_pointers[] = {
    SW_OP_POINTER(struct sw_layer_norm_args, x),
    SW_OP_POINTER(struct sw_layer_norm_args, scale),
    SW_OP_POINTER(struct sw_layer_norm_args, moments),
    SW_OP_POINTER(struct sw_layer_norm_args, dy),
    SW_OP_POINTER(struct sw_layer_norm_args, dx),
    SW_OP_POINTER(struct sw_layer_norm_args, dscale),
    SW_OP_POINTER(struct sw_layer_norm_args, dbias),
    {0},
};

const struct sw_op sw_op_layer_norm = {
    .name = "layer_norm",
    .args_bytes = sizeof(struct sw_layer_norm_args),
    .pointers = pointers,
    .spans = spans,
    .cpu = forward_cpu,
};

const struct sw_op sw_op_layer_norm_gradient = {
    .name = "layer_norm_backward",
    .args_bytes = sizeof(struct sw_layer_norm_args),
    .pointers = gradient_pointers,
    .spans = gradient_spans,
    .cpu = gradient_cpu,
};
