#include "device/ops/row_loss.h"
#include "kernels/cpu/kernels.h"
#include <math.h>

static const enum sw_kernel_loss kernel_of[] = {
    [SW_LOSS_EUCLIDEAN] = SW_KERNEL_EUCLIDEAN, [SW_LOSS_SIGMOID] = SW_KERNEL_SIGMOID,
    [SW_LOSS_SOFTMAX] = SW_KERNEL_SOFTMAX,     [SW_LOSS_POISSON] = SW_KERNEL_POISSON,
    [SW_LOSS_HINGE] = SW_KERNEL_HINGE,         [SW_LOSS_RANKING] = SW_KERNEL_RANKING,
};

/* ---- Forward ---- */

/* A pixel of 255 times 0.003922 is a little above 1 and meant. */
static const float probability_slack = 1e-3f;

static bool fits(enum sw_loss kind, float t)
{
    switch (kind) {
    case SW_LOSS_SIGMOID:
        return t >= -probability_slack && t <= 1 + probability_slack;
    case SW_LOSS_SOFTMAX:
    case SW_LOSS_POISSON:
        return t >= 0 && t < INFINITY;
    default:
        return true; /* what is not finite shows in the loss */
    }
}

int sw_row_loss_say_bad(enum sw_loss kind, const char *who, int64_t row, int64_t column,
                        double target, struct sw_err *err)
{
    return sw_err_set(err, SW_ERR_INVALID, "%s: target %lld of row %lld is %g, but %s", who,
                      (long long)column, (long long)row, target,
                      kind == SW_LOSS_SIGMOID
                          ? "a target is 0 to 1 (pixels become so by scale = 0.00390625)"
                          : "a target is 0 or more");
}

static int check_targets(const struct sw_row_loss_args *a, int64_t rows, struct sw_err *err)
{
    for (int64_t i = 0; i < rows * a->columns; i++)
        if (!fits(a->kind, a->target[i]))
            return sw_row_loss_say_bad(a->kind, a->who, i / a->columns, i % a->columns,
                                       (double)a->target[i], err);
    return SW_OK;
}

static void forward_spans(const void *args, size_t *bytes)
{
    const struct sw_row_loss_args *a = args;
    bytes[0] = bytes[4] = sw_op_matrix(a->rows, a->columns);
    bytes[1] = a->target ? bytes[0] : 0;
    bytes[2] = a->labels.label ? sw_op_floats(a->rows) : 0;
    bytes[3] = sizeof *a->step;
    bytes[5] = sizeof *a->result;
}

static int forward_cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_row_loss_args *a = args;
    struct sw_kernel_row_loss k = {kernel_of[a->kind], a->columns, a->margin, a->squared};
    int64_t valid = sw_op_valid_rows(a->step, a->rows);
    int rc = a->target ? check_targets(a, valid, err)
                       : sw_labels_check(a->who, &a->labels, valid, a->columns, err);
    if (rc != SW_OK)
        return rc;
    double sum = sw_kernel_row_losses(threads, &k, valid, a->x, a->target, a->labels.label, a->y);
    *a->result = (struct sw_result){.sum = (double)a->weight * sum, .weight = (double)valid};
    return SW_OK;
}

static const struct sw_op_pointer forward_pointers[] = {
    SW_OP_POINTER(struct sw_row_loss_args, x),
    SW_OP_POINTER(struct sw_row_loss_args, target),
    SW_OP_LABELS(struct sw_row_loss_args, labels),
    SW_OP_POINTER(struct sw_row_loss_args, step),
    SW_OP_POINTER(struct sw_row_loss_args, y),
    SW_OP_POINTER(struct sw_row_loss_args, result),
    {0},
};

const struct sw_op sw_op_row_loss_forward = {
    .name = "row_loss",
    .args_bytes = sizeof(struct sw_row_loss_args),
    .pointers = forward_pointers,
    .spans = forward_spans,
    .cpu = forward_cpu,
};

/* ---- Backward ---- */

static void gradient_spans(const void *args, size_t *bytes)
{
    const struct sw_row_gradient_args *a = args;
    bytes[0] = bytes[3] = sw_op_matrix(a->rows, a->columns);
    bytes[1] = a->target ? bytes[0] : 0;
    bytes[2] = sizeof *a->step;
}

static int gradient_cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_row_gradient_args *a = args;
    (void)err;
    sw_kernel_row_losses_backward(threads, kernel_of[a->kind], sw_op_valid_rows(a->step, a->rows),
                                  a->rows, a->columns, a->y, a->target,
                                  a->weight * a->step->backward_scale, a->dx);
    return SW_OK;
}

static const struct sw_op_pointer gradient_pointers[] = {
    SW_OP_POINTER(struct sw_row_gradient_args, y),
    SW_OP_POINTER(struct sw_row_gradient_args, target),
    SW_OP_POINTER(struct sw_row_gradient_args, step),
    SW_OP_POINTER(struct sw_row_gradient_args, dx),
    {0},
};

const struct sw_op sw_op_row_loss_gradient = {
    .name = "row_loss_backward",
    .args_bytes = sizeof(struct sw_row_gradient_args),
    .pointers = gradient_pointers,
    .spans = gradient_spans,
    .cpu = gradient_cpu,
};

/* ---- Triplets ---- */

static void triplet_spans(const void *args, size_t *bytes)
{
    const struct sw_triplet_loss_args *a = args;
    bytes[0] = bytes[1] = bytes[2] = sw_op_matrix(a->rows, a->columns);
    bytes[3] = sizeof *a->step;
    bytes[4] = sw_op_floats(a->rows);
    bytes[5] = sizeof *a->result;
}

static int triplet_cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_triplet_loss_args *a = args;
    struct sw_kernel_row_loss k = {
        .columns = a->columns, .margin = a->margin, .squared = a->squared};
    int64_t valid = sw_op_valid_rows(a->step, a->rows);
    (void)err;
    double sum = sw_kernel_triplets(threads, &k, valid, a->anchor, a->match, a->other, a->slope);
    *a->result = (struct sw_result){.sum = (double)a->weight * sum, .weight = (double)valid};
    return SW_OK;
}

static const struct sw_op_pointer triplet_pointers[] = {
    SW_OP_POINTER(struct sw_triplet_loss_args, anchor),
    SW_OP_POINTER(struct sw_triplet_loss_args, match),
    SW_OP_POINTER(struct sw_triplet_loss_args, other),
    SW_OP_POINTER(struct sw_triplet_loss_args, step),
    SW_OP_POINTER(struct sw_triplet_loss_args, slope),
    SW_OP_POINTER(struct sw_triplet_loss_args, result),
    {0},
};

const struct sw_op sw_op_triplet_loss_forward = {
    .name = "triplet_loss",
    .args_bytes = sizeof(struct sw_triplet_loss_args),
    .pointers = triplet_pointers,
    .spans = triplet_spans,
    .cpu = triplet_cpu,
};

static void triplet_gradient_spans(const void *args, size_t *bytes)
{
    const struct sw_triplet_gradient_args *a = args;
    size_t matrix = sw_op_matrix(a->rows, a->columns);
    bytes[0] = sw_op_floats(a->rows);
    bytes[1] = a->plus ? matrix : 0;
    bytes[2] = a->minus ? matrix : 0;
    bytes[3] = sizeof *a->step;
    bytes[4] = matrix;
}

static int triplet_gradient_cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_triplet_gradient_args *a = args;
    (void)err;
    sw_kernel_triplets_backward(threads, sw_op_valid_rows(a->step, a->rows), a->rows, a->columns,
                                a->slope, a->weight * a->step->backward_scale, a->plus, a->minus,
                                a->dx);
    return SW_OK;
}

static const struct sw_op_pointer triplet_gradient_pointers[] = {
    SW_OP_POINTER(struct sw_triplet_gradient_args, slope),
    SW_OP_POINTER(struct sw_triplet_gradient_args, plus),
    SW_OP_POINTER(struct sw_triplet_gradient_args, minus),
    SW_OP_POINTER(struct sw_triplet_gradient_args, step),
    SW_OP_POINTER(struct sw_triplet_gradient_args, dx),
    {0},
};

const struct sw_op sw_op_triplet_loss_gradient = {
    .name = "triplet_loss_backward",
    .args_bytes = sizeof(struct sw_triplet_gradient_args),
    .pointers = triplet_gradient_pointers,
    .spans = triplet_gradient_spans,
    .cpu = triplet_gradient_cpu,
};
