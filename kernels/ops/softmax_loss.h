/* Softmax with the negative log likelihood of a label. Matrices are plain [rows, classes]; only the
 * step's valid rows are looked at. Formulas: kernels/cpu/softmax_loss.c. */
#pragma once

#include "kernels/labels.h"

/* prob = softmax(x); *result becomes weight times the sum of -log prob[label] over the valid rows
 * whose label counts, and their number. */
struct sw_softmax_loss_args {
    int64_t rows, classes;
    float weight;
    const float *x;
    struct sw_labels labels;
    const struct sw_step *step;
    float *prob; /* may be x */
    struct sw_result *result;
};
extern const struct sw_op sw_op_softmax_loss;

/* dx = weight * step->backward_scale * (prob - onehot(label)), divided by the rows of a sample, or
 * times batch_rows / *counted where that is given; 0 for rows that do not count. */
struct sw_softmax_gradient_args {
    int64_t rows, classes, batch_rows;
    float weight;
    const float *prob;
    struct sw_labels labels;
    const struct sw_step *step;
    /* The number of labels that count in the whole batch of batch_rows samples; the loss is their
     * mean. NULL: all count. */
    const double *counted;
    float *dx; /* may be prob */
};
extern const struct sw_op sw_op_softmax_loss_gradient;

/* Without a label that counts there is nothing to scale. */
SW_BOTH float sw_softmax_gradient_scale(const struct sw_softmax_gradient_args *a)
{
    double scale = (double)a->weight * (double)a->step->backward_scale;
    if (a->counted)
        scale = *a->counted > 0 ? scale * (double)a->batch_rows / *a->counted : 0;
    else if (a->labels.per_sample > 1)
        scale /= (double)a->labels.per_sample;
    return (float)scale;
}
