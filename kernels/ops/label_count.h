/* The number of labels that count. */
#pragma once

#include "kernels/labels.h"

/* *count becomes the number of valid rows whose label counts. */
struct sw_label_count_args {
    int64_t rows;
    struct sw_labels labels;
    const struct sw_step *step;
    double *count;
};
extern const struct sw_op sw_op_label_count;
