#include "device/ops/softmax_loss.h"
#include "kernels/cpu/kernels.h"

/* ---- Forward ---- */

static void forward_spans(const void *args, size_t *bytes)
{
    const struct sw_softmax_loss_args *a = args;
    bytes[0] = bytes[3] = sw_op_matrix(a->rows, a->classes);
    bytes[1] = sw_op_floats(a->rows);
    bytes[2] = sizeof *a->step;
    bytes[4] = sizeof *a->result;
}

static int forward_cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_softmax_loss_args *a = args;
    int64_t valid = sw_labels_valid_rows(&a->labels, a->step, a->rows);
    int rc = sw_labels_check("softmax_loss", &a->labels, valid, a->classes, err);
    if (rc != SW_OK)
        return rc;
    double sum = sw_kernel_softmax_loss(threads, valid, a->classes, a->x, a->labels.label,
                                        sw_labels_ignored(&a->labels), a->prob);
    *a->result = (struct sw_result){.sum = (double)a->weight * sum,
                                    .weight = (double)sw_labels_count(&a->labels, valid)};
    return SW_OK;
}

static const struct sw_op_pointer forward_pointers[] = {
    SW_OP_POINTER(struct sw_softmax_loss_args, x),
    SW_OP_LABELS(struct sw_softmax_loss_args, labels),
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
    bytes[0] = bytes[3] = sw_op_matrix(a->rows, a->classes);
    bytes[1] = sw_op_floats(a->rows);
    bytes[2] = sizeof *a->step;
    bytes[4] = a->counted ? sizeof *a->counted : 0;
}

/* Without a label that counts there is nothing to scale. */
static float gradient_scale(const struct sw_softmax_gradient_args *a)
{
    double scale = (double)a->weight * (double)a->step->backward_scale;
    if (a->counted)
        scale = *a->counted > 0 ? scale * (double)a->batch_rows / *a->counted : 0;
    else if (a->labels.per_sample > 1)
        scale /= (double)a->labels.per_sample;
    return (float)scale;
}

static int gradient_cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_softmax_gradient_args *a = args;
    int64_t valid = sw_labels_valid_rows(&a->labels, a->step, a->rows);
    int rc = sw_labels_check("softmax_loss", &a->labels, valid, a->classes, err);
    if (rc == SW_OK)
        sw_kernel_softmax_loss_backward(threads, valid, a->rows, a->classes, a->prob,
                                        a->labels.label, sw_labels_ignored(&a->labels),
                                        gradient_scale(a), a->dx);
    return rc;
}

static const struct sw_op_pointer gradient_pointers[] = {
    SW_OP_POINTER(struct sw_softmax_gradient_args, prob),
    SW_OP_LABELS(struct sw_softmax_gradient_args, labels),
    SW_OP_POINTER(struct sw_softmax_gradient_args, step),
    SW_OP_POINTER(struct sw_softmax_gradient_args, dx),
    SW_OP_POINTER(struct sw_softmax_gradient_args, counted),
    {0},
};

const struct sw_op sw_op_softmax_loss_gradient = {
    .name = "softmax_loss_backward",
    .args_bytes = sizeof(struct sw_softmax_gradient_args),
    .pointers = gradient_pointers,
    .spans = gradient_spans,
    .cpu = gradient_cpu,
};
