#include "device/ops/classes.h"
#include "kernels/cpu/kernels.h"

/* ---- Accuracy ---- */

static void top_k_spans(const void *args, size_t *bytes)
{
    const struct sw_top_k_args *a = args;
    bytes[0] = sw_op_matrix(a->rows, a->classes);
    bytes[1] = a->labels.label ? sw_op_floats(a->rows) : 0;
    bytes[2] = a->target ? bytes[0] : 0;
    bytes[3] = sizeof *a->step;
    bytes[4] = sizeof *a->result;
}

static int top_k_cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_top_k_args *a = args;
    int64_t rows = sw_labels_valid_rows(&a->labels, a->step, a->rows), counted, hits;
    if (a->target) {
        hits = sw_kernel_top_k_hits_of_many(threads, rows, a->classes, a->top_k, a->x, a->target,
                                            &counted);
    } else {
        int rc = sw_labels_check("accuracy", &a->labels, rows, a->classes, err);
        if (rc != SW_OK)
            return rc;
        hits = sw_kernel_top_k_hits(threads, rows, a->classes, a->top_k, a->x, a->labels.label,
                                    sw_labels_ignored(&a->labels));
        counted = sw_labels_count(&a->labels, rows);
    }
    *a->result = (struct sw_result){.sum = (double)hits, .weight = (double)counted};
    return SW_OK;
}

static const struct sw_op_pointer top_k_pointers[] = {
    SW_OP_POINTER(struct sw_top_k_args, x),      SW_OP_LABELS(struct sw_top_k_args, labels),
    SW_OP_POINTER(struct sw_top_k_args, target), SW_OP_POINTER(struct sw_top_k_args, step),
    SW_OP_POINTER(struct sw_top_k_args, result), {0},
};

const struct sw_op sw_op_top_k = {
    .name = "accuracy",
    .args_bytes = sizeof(struct sw_top_k_args),
    .pointers = top_k_pointers,
    .spans = top_k_spans,
    .cpu = top_k_cpu,
};

/* ---- Counts per class ---- */

static void count_spans(const void *args, size_t *bytes)
{
    const struct sw_class_count_args *a = args;
    bytes[0] = sw_op_matrix(a->rows, a->classes);
    bytes[1] = a->labels.label ? sw_op_floats(a->rows) : 0;
    bytes[2] = a->target ? bytes[0] : 0;
    bytes[3] = sizeof *a->step;
    bytes[4] = 2 * (size_t)a->classes * sizeof *a->count;
}

static int count_cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_class_count_args *a = args;
    int64_t rows = sw_labels_valid_rows(&a->labels, a->step, a->rows);
    (void)threads;
    if (!a->target) {
        int64_t classes = a->classes == 1 ? 2 : a->classes;
        int rc = sw_labels_check("precision_recall", &a->labels, rows, classes, err);
        if (rc != SW_OK)
            return rc;
    }
    sw_kernel_count_classes(rows, a->classes, a->top_k, a->threshold, a->x, a->labels.label,
                            sw_labels_ignored(&a->labels), a->target, &a->count->sum);
    return SW_OK;
}

static const struct sw_op_pointer count_pointers[] = {
    SW_OP_POINTER(struct sw_class_count_args, x),
    SW_OP_LABELS(struct sw_class_count_args, labels),
    SW_OP_POINTER(struct sw_class_count_args, target),
    SW_OP_POINTER(struct sw_class_count_args, step),
    SW_OP_POINTER(struct sw_class_count_args, count),
    {0},
};

const struct sw_op sw_op_class_count = {
    .name = "class_count",
    .args_bytes = sizeof(struct sw_class_count_args),
    .pointers = count_pointers,
    .spans = count_spans,
    .cpu = count_cpu,
};
