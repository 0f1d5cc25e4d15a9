/* Softmax with the negative log likelihood of a label. Matrices are plain [rows, classes]; only the
 * step's valid rows are read. Formulas: kernels/cpu/softmax_loss.c. */
#pragma once

#include "kernels/labels.h"

/* Sets prob = softmax(x), and *result to weight times the sum of -log prob[label] over the valid
 * rows whose label is not ignored, and their number. */
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

/* Sets dx = weight * step->backward_scale * (prob - onehot(label)), divided by the rows of a
 * sample, or if counted is given multiplied by batch_rows / *counted; 0 for ignored and invalid
 * rows. */
struct sw_softmax_gradient_args {
    int64_t rows, classes, batch_rows;
    float weight;
    const float *prob;
    struct sw_labels labels;
    const struct sw_step *step;
    /* The number of labels that are not ignored in the global batch of batch_rows samples, over
     * which the loss is averaged. NULL: all labels are counted. */
    const double *counted;
    float *dx; /* may be prob */
};
extern const struct sw_op sw_op_softmax_loss_gradient;

/* Returns the factor of prob - onehot(label); 0 if all labels are ignored. */
SW_BOTH float sw_softmax_gradient_scale(const struct sw_softmax_gradient_args *a)
{
    double scale = (double)a->weight * (double)a->step->backward_scale;

    if (a->counted)
        scale = *a->counted > 0 ? scale * (double)a->batch_rows / *a->counted : 0;
    else if (a->labels.per_sample > 1)
        scale /= (double)a->labels.per_sample;

    return (float)scale;
}
