/* How many labels count. */
#ifndef SW_KERNELS_OPS_LABEL_COUNT_H
#define SW_KERNELS_OPS_LABEL_COUNT_H

#include "kernels/labels.h"

/* *count becomes the number of valid rows whose label counts. */
struct sw_label_count_args {
    int64_t rows;
    struct sw_labels labels;
    const struct sw_step *step;
    double *count;
};
extern const struct sw_op sw_op_label_count;

#endif
