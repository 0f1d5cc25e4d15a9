#include "device/ops/elementwise.h"
#include "kernels/cpu/kernels.h"

/* ---- y += x ---- */

static void add_spans(const void *args, size_t *bytes)
{
    const struct sw_add_args *a = args;
    bytes[0] = bytes[1] = sw_op_floats(a->n);
}

static int add_cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_add_args *a = args;
    (void)err;
    sw_kernel_add(threads, a->y, a->x, a->n);
    return SW_OK;
}

static const struct sw_op_pointer add_pointers[] = {
    SW_OP_POINTER(struct sw_add_args, y),
    SW_OP_POINTER(struct sw_add_args, x),
    {0},
};

const struct sw_op sw_op_add_to = {
    .name = "add",
    .args_bytes = sizeof(struct sw_add_args),
    .pointers = add_pointers,
    .spans = add_spans,
    .cpu = add_cpu,
};

/* ---- Activation functions ---- */

static const float stanh_a = 1.7159047f, stanh_b = 0.66666667f;

static int unknown_activation(enum sw_activation f, struct sw_err *err)
{
    return sw_err_set(err, SW_ERR_UNSUPPORTED, "the CPU has no activation function number %d",
                      (int)f);
}

static void activate_spans(const void *args, size_t *bytes)
{
    const struct sw_activation_args *a = args;
    bytes[0] = bytes[1] = sw_op_floats(a->n);
}

static int activate_cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_activation_args *a = args;
    switch (a->function) {
    case SW_ACT_RELU:
        sw_kernel_relu(threads, a->x, a->y, a->n);
        return SW_OK;
    case SW_ACT_LEAKY_RELU:
        sw_kernel_leaky_relu(threads, a->alpha, a->x, a->y, a->n);
        return SW_OK;
    case SW_ACT_SIGMOID:
        sw_kernel_sigmoid(threads, a->x, a->y, a->n);
        return SW_OK;
    case SW_ACT_TANH:
        sw_kernel_scaled_tanh(threads, 1, 1, a->x, a->y, a->n);
        return SW_OK;
    case SW_ACT_STANH:
        sw_kernel_scaled_tanh(threads, stanh_a, stanh_b, a->x, a->y, a->n);
        return SW_OK;
    case SW_ACT_SOFTPLUS:
        sw_kernel_softplus(threads, a->x, a->y, a->n);
        return SW_OK;
    case SW_ACT_GELU:
        sw_kernel_gelu(threads, a->x, a->y, a->n);
        return SW_OK;
    case SW_ACT_COUNT:
        break;
    }
    return unknown_activation(a->function, err);
}

static const struct sw_op_pointer activate_pointers[] = {
    SW_OP_POINTER(struct sw_activation_args, x),
    SW_OP_POINTER(struct sw_activation_args, y),
    {0},
};

const struct sw_op sw_op_activate = {
    .name = "activation",
    .args_bytes = sizeof(struct sw_activation_args),
    .pointers = activate_pointers,
    .spans = activate_spans,
    .cpu = activate_cpu,
};

/* Only gelu reads x, only the others y: what is not read may be missing. */
static void gradient_spans(const void *args, size_t *bytes)
{
    const struct sw_activation_gradient_args *a = args;
    bool reads_x = a->function == SW_ACT_GELU;
    size_t all = sw_op_floats(a->n);
    bytes[0] = a->x || reads_x ? all : 0;
    bytes[1] = a->y || !reads_x ? all : 0;
    bytes[2] = bytes[3] = all;
}

static int gradient_cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_activation_gradient_args *a = args;
    switch (a->function) {
    case SW_ACT_RELU:
        sw_kernel_relu_backward(threads, a->y, a->dy, a->dx, a->n);
        return SW_OK;
    case SW_ACT_LEAKY_RELU:
        sw_kernel_leaky_relu_backward(threads, a->alpha, a->y, a->dy, a->dx, a->n);
        return SW_OK;
    case SW_ACT_SIGMOID:
        sw_kernel_sigmoid_backward(threads, a->y, a->dy, a->dx, a->n);
        return SW_OK;
    case SW_ACT_TANH:
        sw_kernel_scaled_tanh_backward(threads, 1, 1, a->y, a->dy, a->dx, a->n);
        return SW_OK;
    case SW_ACT_STANH:
        sw_kernel_scaled_tanh_backward(threads, stanh_a, stanh_b, a->y, a->dy, a->dx, a->n);
        return SW_OK;
    case SW_ACT_SOFTPLUS:
        sw_kernel_softplus_backward(threads, a->y, a->dy, a->dx, a->n);
        return SW_OK;
    case SW_ACT_GELU:
        sw_kernel_gelu_backward(threads, a->x, a->dy, a->dx, a->n);
        return SW_OK;
    case SW_ACT_COUNT:
        break;
    }
    return unknown_activation(a->function, err);
}

static const struct sw_op_pointer gradient_pointers[] = {
    SW_OP_POINTER(struct sw_activation_gradient_args, x),
    SW_OP_POINTER(struct sw_activation_gradient_args, y),
    SW_OP_POINTER(struct sw_activation_gradient_args, dy),
    SW_OP_POINTER(struct sw_activation_gradient_args, dx),
    {0},
};

const struct sw_op sw_op_activation_gradient = {
    .name = "activation_backward",
    .args_bytes = sizeof(struct sw_activation_gradient_args),
    .pointers = gradient_pointers,
    .spans = gradient_spans,
    .cpu = gradient_cpu,
};

/* ---- Padding ---- */

/* Sets to zero what lies beyond dimension `beyond`, whatever the other indices are. */
static void zero_beyond(const struct sw_desc *d, int beyond, float *x)
{
    int64_t index[SW_MAX_DIMS] = {0};
    index[beyond] = d->dim[beyond];
    for (;;) {
        int i = d->ndim - 1;
        x[sw_desc_offset(d, index)] = 0.0f;
        for (; i >= 0; i--) {
            if (++index[i] < d->padded[i])
                break;
            index[i] = i == beyond ? d->dim[i] : 0;
        }
        if (i < 0)
            return;
    }
}

static void padding_spans(const void *args, size_t *bytes)
{
    const struct sw_zero_padding_args *a = args;
    bytes[0] = sw_desc_bytes(&a->desc);
}

static int padding_cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_zero_padding_args *a = args;
    const struct sw_desc *d = &a->desc;
    int block = sw_desc_channel_block(d);
    (void)err;
    if (block && sw_desc_count(d) > 0)
        sw_kernel_zero_channel_padding(threads, d->dim[0], d->dim[1], sw_desc_pixels(d), block,
                                       a->x);
    else if (sw_desc_storage(d) > 0)
        for (int i = 0; i < d->ndim; i++)
            if (d->padded[i] > d->dim[i])
                zero_beyond(d, i, a->x);
    return SW_OK;
}

static const struct sw_op_pointer padding_pointers[] = {
    SW_OP_POINTER(struct sw_zero_padding_args, x),
    {0},
};

const struct sw_op sw_op_clear_padding = {
    .name = "zero_padding",
    .args_bytes = sizeof(struct sw_zero_padding_args),
    .pointers = padding_pointers,
    .spans = padding_spans,
    .cpu = padding_cpu,
};
