/* Losses that are a sum over rows: of a row of values against a row of targets, or against a label
 * (hinges), or of three rows (triplets). Formulas: kernels/cpu/row_loss.c. Matrices are plain
 * [rows, columns]; only the step's valid rows are read. A target that is invalid for its loss (not
 * in 0..1 for SW_LOSS_SIGMOID, negative or not finite for all others but SW_LOSS_EUCLIDEAN) and a
 * label outside 0..columns-1 are SW_ERR_INVALID naming row and value. */
#pragma once

#include "kernels/labels.h"
#include <math.h>

enum sw_loss {
    SW_LOSS_EUCLIDEAN,
    SW_LOSS_SIGMOID,
    SW_LOSS_SOFTMAX,
    SW_LOSS_POISSON,
    SW_LOSS_HINGE, /* SW_LOSS_HINGE and SW_LOSS_RANKING use labels, or targets if these are given */
    SW_LOSS_RANKING,
};

/* Is a target valid? Others that are not finite make the loss not finite. A pixel of 255 times
 * 0.003922 is slightly above 1 and valid. */
SW_BOTH bool sw_target_fits(enum sw_loss kind, float t)
{
    if (kind == SW_LOSS_SIGMOID)
        return t >= -1e-3f && t <= 1 + 1e-3f;
    return kind == SW_LOSS_EUCLIDEAN || (t >= 0 && t < INFINITY);
}

/* Returns the loss of a margin m of a hinge and sets *slope to its derivative. NaN stays NaN. */
SW_BOTH float sw_hinge(bool squared, float m, float *slope)
{
    float v = m <= 0 ? 0 : m;
    *slope = squared ? 2 * v : v > 0 ? 1.0f : v;
    return squared ? v * v : v;
}

/* Sets the error of an invalid target; returns SW_ERR_INVALID. */
int sw_row_loss_report_bad(enum sw_loss kind, const char *who, int64_t row, int64_t column,
                           double target, struct sw_err *err) SW_MUST_CHECK;

/* Sets *result to weight times the sum of the losses of the valid rows, and to their number. y must
 * not be x; it becomes the output of the layer, which backward reads: the difference (EUCLIDEAN),
 * the probabilities (SIGMOID, SOFTMAX), the reconstruction (POISSON), the derivative (hinges). */
struct sw_row_loss_args {
    enum sw_loss kind;
    const char *who; /* name of the layer type, for messages; static */
    int64_t rows, columns;
    float weight;
    float margin; /* margin of hinges; squared: the loss is the sum of squares */
    bool squared;
    const float *x;
    const float *target;     /* for all but hinges; of a hinge: a set of labels, those above 0 */
    struct sw_labels labels; /* hinges without target */
    const struct sw_step *step;
    float *y;
    struct sw_result *result;
};
extern const struct sw_op sw_op_row_loss;

/* Sets dx = weight * step->backward_scale * dL/dx for the valid rows, 0 for the rest. dx may be y.
 * For the gradient of the target of EUCLIDEAN use -weight. */
struct sw_row_gradient_args {
    enum sw_loss kind;
    int64_t rows, columns;
    float weight;
    const float *y;
    const float *target; /* SIGMOID, SOFTMAX, POISSON */
    const struct sw_step *step;
    float *dx;
};
extern const struct sw_op sw_op_row_loss_gradient;

/* Sets *result to weight times the sum of the losses of the valid rows, and to their number, and
 * slope [rows] to the derivative by m. */
struct sw_triplet_loss_args {
    int64_t rows, columns;
    float weight, margin;
    bool squared;
    const float *anchor, *match, *other;
    const struct sw_step *step;
    float *slope;
    struct sw_result *result;
};
extern const struct sw_op sw_op_triplet_loss;

/* Sets dx = weight * step->backward_scale * slope * (plus - minus) for the valid rows, 0 for the
 * rest. The gradient of the anchor has plus = other and minus = match, that of the match minus =
 * anchor, that of the other plus = anchor. */
struct sw_triplet_gradient_args {
    int64_t rows, columns;
    float weight;
    const float *slope, *plus, *minus; /* plus, minus: NULL for zero */
    const struct sw_step *step;
    float *dx;
};
extern const struct sw_op sw_op_triplet_loss_gradient;
