/* Predicted classes compared with labels: top-k hits, and counts per class. Matrices are plain
 * [rows, classes]; only the valid rows of the step count. A row has a label, or labels: the columns
 * where its target is above 1/2. */
#pragma once

#include "kernels/labels.h"

/* *result becomes the number of rows one of whose labels is among the top_k largest scores, and the
 * number of rows that have a label that counts. Of equal scores the lower index comes first. */
struct sw_top_k_args {
    int64_t rows, classes, top_k;
    const float *x;
    struct sw_labels labels; /* or */
    const float *target;     /* [rows, classes] */
    const struct sw_step *step;
    struct sw_result *result;
};
extern const struct sw_op sw_op_top_k;

/* A row predicts its top_k largest scores, or with top_k 0 those above threshold. count[2 c]
 * becomes the rows that predict class c and have its label, out of those that predict it; count[2 c
 * + 1] the same out of those that have the label. With one column a label is 0 or 1, whether the
 * row is of that class. */
struct sw_class_count_args {
    int64_t rows, classes, top_k;
    float threshold;
    const float *x;
    struct sw_labels labels; /* or */
    const float *target;     /* [rows, classes] */
    const struct sw_step *step;
    struct sw_result *count; /* [2 classes] */
};
extern const struct sw_op sw_op_class_count;
