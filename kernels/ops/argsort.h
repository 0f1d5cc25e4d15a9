/* The positions of the largest values of a row. */
#pragma once

#include "kernels/op.h"

/* place [rows, top_k]: of the top_k largest of x [rows, columns], plain, top_k <= columns; the
 * largest first, of equal values the lower place, NaN last. */
struct sw_argsort_args {
    int64_t rows, columns, top_k;
    const float *x;
    int32_t *place;
};
extern const struct sw_op sw_op_argsort;
