/* Predicted classes compared with labels: top-k hits, and counts per class. Matrices are plain
 * [rows, classes]; only the valid rows of the step are counted. A row has one label, or several:
 * the columns where its target is above 1/2. */
#pragma once

#include "kernels/labels.h"

/* Sets *result to the number of rows with a label among the top_k largest scores, and the number of
 * rows with a label that is not ignored. Of equal scores the lower index comes first. */
struct sw_top_k_args {
    int64_t rows, classes, top_k;
    const float *x;
    struct sw_labels labels; /* or */
    const float *target;     /* [rows, classes] */
    const struct sw_step *step;
    struct sw_result *result;
};
extern const struct sw_op sw_op_top_k;

/* A row predicts the classes of its top_k largest scores, or with top_k 0 of the scores above
 * threshold. Sets count[2 c] to the rows that predict class c and have its label, out of those that
 * predict it, and count[2 c + 1] to the same out of those that have the label. With one column a
 * label is 0 or 1 and says whether the row is of the class. */
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
