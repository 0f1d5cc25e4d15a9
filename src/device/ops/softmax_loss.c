#include "device/ops/softmax_loss.h"
#include "kernels/cpu/kernels.h"

static size_t matrix_bytes(int64_t rows, int64_t columns)
{
    return rows > 0 && columns > 0 ? sw_op_floats(rows * columns) : 0;
}

static int check_labels(const char *who, int64_t rows, int64_t classes, const int32_t *label,
                        struct sw_err *err)
{
    for (int64_t r = 0; r < rows; r++)
        if (label[r] < 0 || label[r] >= classes)
            return sw_err_set(
                err, SW_ERR_INVALID,
                "%s: the label of row %lld is %d, but there are %lld classes (0..%lld)", who,
                (long long)r, (int)label[r], (long long)classes, (long long)classes - 1);
    return SW_OK;
}

/* ---- Forward ---- */

static void forward_spans(const void *args, size_t *bytes)
{
    const struct sw_softmax_loss_args *a = args;
    bytes[0] = bytes[3] = matrix_bytes(a->rows, a->classes);
    bytes[1] = matrix_bytes(a->rows, 1);
    bytes[2] = sizeof *a->step;
    bytes[4] = sizeof *a->result;
}

static int forward_cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_softmax_loss_args *a = args;
    int64_t valid = sw_op_valid_rows(a->step, a->rows);
    int rc = check_labels("softmax_loss", valid, a->classes, a->label, err);
    if (rc != SW_OK)
        return rc;
    double sum = sw_kernel_softmax_loss(threads, valid, a->classes, a->x, a->label, a->prob);
    *a->result = (struct sw_result){.sum = (double)a->weight * sum, .weight = (double)valid};
    return SW_OK;
}

static const struct sw_op_pointer forward_pointers[] = {
    SW_OP_POINTER(struct sw_softmax_loss_args, x),
    SW_OP_POINTER(struct sw_softmax_loss_args, label),
    SW_OP_POINTER(struct sw_softmax_loss_args, step),
    SW_OP_POINTER(struct sw_softmax_loss_args, prob),
    SW_OP_POINTER(struct sw_softmax_loss_args, result),
    {0},
};

const struct sw_op sw_op_softmax_loss_forward = {
    .name = "softmax_loss",
    .args_bytes = sizeof(struct sw_softmax_loss_args),
    .pointers = forward_pointers,
    .spans = forward_spans,
    .cpu = forward_cpu,
};

/* ---- Backward ---- */

static void gradient_spans(const void *args, size_t *bytes)
{
    const struct sw_softmax_gradient_args *a = args;
    bytes[0] = bytes[3] = matrix_bytes(a->rows, a->classes);
    bytes[1] = matrix_bytes(a->rows, 1);
    bytes[2] = sizeof *a->step;
}

static int gradient_cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_softmax_gradient_args *a = args;
    int64_t valid = sw_op_valid_rows(a->step, a->rows);
    int rc = check_labels("softmax_loss", valid, a->classes, a->label, err);
    if (rc == SW_OK)
        sw_kernel_softmax_loss_backward(threads, valid, a->rows, a->classes, a->prob, a->label,
                                        a->weight * a->step->backward_scale, a->dx);
    return rc;
}

static const struct sw_op_pointer gradient_pointers[] = {
    SW_OP_POINTER(struct sw_softmax_gradient_args, prob),
    SW_OP_POINTER(struct sw_softmax_gradient_args, label),
    SW_OP_POINTER(struct sw_softmax_gradient_args, step),
    SW_OP_POINTER(struct sw_softmax_gradient_args, dx),
    {0},
};

const struct sw_op sw_op_softmax_loss_gradient = {
    .name = "softmax_loss_backward",
    .args_bytes = sizeof(struct sw_softmax_gradient_args),
    .pointers = gradient_pointers,
    .spans = gradient_spans,
    .cpu = gradient_cpu,
};

/* ---- Accuracy ---- */

static void top_k_spans(const void *args, size_t *bytes)
{
    const struct sw_top_k_args *a = args;
    bytes[0] = matrix_bytes(a->rows, a->classes);
    bytes[1] = matrix_bytes(a->rows, 1);
    bytes[2] = sizeof *a->step;
    bytes[3] = sizeof *a->result;
}

static int top_k_cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_top_k_args *a = args;
    int64_t valid = sw_op_valid_rows(a->step, a->rows);
    int rc = check_labels("accuracy", valid, a->classes, a->label, err);
    if (rc != SW_OK)
        return rc;
    int64_t hits = sw_kernel_top_k_hits(threads, valid, a->classes, a->top_k, a->x, a->label);
    *a->result = (struct sw_result){.sum = (double)hits, .weight = (double)valid};
    return SW_OK;
}

static const struct sw_op_pointer top_k_pointers[] = {
    SW_OP_POINTER(struct sw_top_k_args, x),
    SW_OP_POINTER(struct sw_top_k_args, label),
    SW_OP_POINTER(struct sw_top_k_args, step),
    SW_OP_POINTER(struct sw_top_k_args, result),
    {0},
};

const struct sw_op sw_op_top_k = {
    .name = "accuracy",
    .args_bytes = sizeof(struct sw_top_k_args),
    .pointers = top_k_pointers,
    .spans = top_k_spans,
    .cpu = top_k_cpu,
};
