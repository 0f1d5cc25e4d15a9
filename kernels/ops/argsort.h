/* The indices of the largest values of each row. */
#pragma once

#include "kernels/op.h"

/* Sets place [rows, top_k] to the column indices of the top_k <= columns largest values of each row
 * of x [rows, columns], plain: the largest first, of equal values the lower index first, NaN
 * last. */
struct sw_argsort_args {
    int64_t rows, columns, top_k;
    const float *x;
    int32_t *place;
};
extern const struct sw_op sw_op_argsort;
