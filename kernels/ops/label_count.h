/* The number of labels that are not ignored. */
#pragma once

#include "kernels/labels.h"

/* Sets *count to the number of valid rows whose label is not ignored. */
struct sw_label_count_args {
    int64_t rows;
    struct sw_labels labels;
    const struct sw_step *step;
    double *count;
};
extern const struct sw_op sw_op_label_count;
