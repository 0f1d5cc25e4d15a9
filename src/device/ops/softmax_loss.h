/* Softmax with the negative log likelihood of a label, and the share of rows whose label is among
 * the best scores. Matrices are plain [rows, classes]; only the step's valid rows are looked at. A
 * label outside 0..classes-1 is SW_ERR_INVALID naming row and value; nothing is written then. */
#ifndef SW_DEVICE_OPS_SOFTMAX_LOSS_H
#define SW_DEVICE_OPS_SOFTMAX_LOSS_H

#include "device/op.h"

struct sw_softmax_loss_args {
    int64_t rows, classes;
    float weight;
    const float *x;
    const int32_t *label;
    const struct sw_step *step;
    float *prob;
    struct sw_result *result;
};
extern const struct sw_op sw_op_softmax_loss_forward;

/* prob = softmax(x); *result becomes weight times the sum of -log prob[label] over the valid rows,
 * and their number. prob may be x. */
SW_MUST_CHECK static inline int sw_op_softmax_loss(struct sw_stream *s, int64_t rows,
                                                   int64_t classes, const float *x,
                                                   const int32_t *label, const struct sw_step *step,
                                                   float weight, float *prob,
                                                   struct sw_result *result, struct sw_err *err)
{
    const struct sw_softmax_loss_args a = {.rows = rows,
                                           .classes = classes,
                                           .weight = weight,
                                           .x = x,
                                           .label = label,
                                           .step = step,
                                           .prob = prob,
                                           .result = result};
    return sw_op_run(s, &sw_op_softmax_loss_forward, &a, err);
}

struct sw_softmax_gradient_args {
    int64_t rows, classes;
    float weight;
    const float *prob;
    const int32_t *label;
    const struct sw_step *step;
    float *dx;
};
extern const struct sw_op sw_op_softmax_loss_gradient;

/* dx = weight * step->backward_scale * (prob - onehot(label)) for the valid rows, 0 for the rest.
 * dx may be prob. */
SW_MUST_CHECK static inline int
sw_op_softmax_loss_backward(struct sw_stream *s, int64_t rows, int64_t classes, const float *prob,
                            const int32_t *label, const struct sw_step *step, float weight,
                            float *dx, struct sw_err *err)
{
    const struct sw_softmax_gradient_args a = {.rows = rows,
                                               .classes = classes,
                                               .weight = weight,
                                               .prob = prob,
                                               .label = label,
                                               .step = step,
                                               .dx = dx};
    return sw_op_run(s, &sw_op_softmax_loss_gradient, &a, err);
}

struct sw_top_k_args {
    int64_t rows, classes, top_k;
    const float *x;
    const int32_t *label;
    const struct sw_step *step;
    struct sw_result *result;
};
extern const struct sw_op sw_op_top_k;

/* *result becomes the number of valid rows whose label is among the top_k largest scores, and the
 * number of valid rows; a tie counts as a hit only when the label's index is lower. */
SW_MUST_CHECK static inline int sw_op_accuracy(struct sw_stream *s, int64_t rows, int64_t classes,
                                               int64_t top_k, const float *x, const int32_t *label,
                                               const struct sw_step *step, struct sw_result *result,
                                               struct sw_err *err)
{
    const struct sw_top_k_args a = {.rows = rows,
                                    .classes = classes,
                                    .top_k = top_k,
                                    .x = x,
                                    .label = label,
                                    .step = step,
                                    .result = result};
    return sw_op_run(s, &sw_op_top_k, &a, err);
}

#endif
