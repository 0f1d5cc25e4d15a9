/* Softmax with the negative log likelihood of a label. Matrices are plain [rows, classes]; only the
 * step's valid rows are looked at. A label that counts and is outside 0..classes-1 is
 * SW_ERR_INVALID naming row and value; nothing is written then. */
#ifndef SW_DEVICE_OPS_SOFTMAX_LOSS_H
#define SW_DEVICE_OPS_SOFTMAX_LOSS_H

#include "device/ops/labels.h"

struct sw_softmax_loss_args {
    int64_t rows, classes;
    float weight;
    const float *x;
    struct sw_labels labels;
    const struct sw_step *step;
    float *prob;
    struct sw_result *result;
};
extern const struct sw_op sw_op_softmax_loss_forward;

/* prob = softmax(x); *result becomes weight times the sum of -log prob[label] over the valid rows
 * whose label counts, and their number. prob may be x. */
SW_MUST_CHECK static inline int
sw_op_softmax_loss(struct sw_stream *s, const struct sw_softmax_loss_args *a, struct sw_err *err)
{
    return sw_op_run(s, &sw_op_softmax_loss_forward, a, err);
}

struct sw_softmax_gradient_args {
    int64_t rows, classes, batch_rows;
    float weight;
    const float *prob;
    struct sw_labels labels;
    const struct sw_step *step;
    /* The labels that count in the whole batch of batch_rows samples: the loss is their mean.
     * NULL: all count. */
    const double *counted;
    float *dx;
};
extern const struct sw_op sw_op_softmax_loss_gradient;

/* dx = weight * step->backward_scale * (prob - onehot(label)), divided by the rows of a sample, or
 * times batch_rows / *counted where that is given; 0 for rows that do not count. dx may be prob. */
SW_MUST_CHECK static inline int
sw_op_softmax_loss_backward(struct sw_stream *s, const struct sw_softmax_gradient_args *a,
                            struct sw_err *err)
{
    return sw_op_run(s, &sw_op_softmax_loss_gradient, a, err);
}

#endif
