/* Sums of several arrays in the order of the reduction tree (base/tree.h): partial sums of several
 * microbatches. */
#pragma once

#include "kernels/op.h"

enum { SW_FOLD_INPUTS = 16 };

/* Sets y [n] to the sum of x[0 .. count); y may be x[0]. ends: as in struct sw_fold_inputs
 * (kernels/cpu/fold.h). */
struct sw_fold_args {
    const float *x[SW_FOLD_INPUTS];
    int ends[SW_FOLD_INPUTS];
    int count;
    int64_t n;
    float *y;
};
extern const struct sw_op sw_op_fold;
