/* Sums of the errors of predicted values, for regression metrics. Matrices are plain
 * [rows, columns]; only the valid rows of the step are counted. Everything is summed in double. */
#pragma once

#include "kernels/op.h"

/* The pairs of a column: the sums of |x - t| and of (x - t)^2, each with the number of values, and
 * the sums of t and of t^2. */
enum { SW_ERROR_ABSOLUTE, SW_ERROR_SQUARED, SW_ERROR_TARGET, SW_ERROR_PAIRS };

struct sw_target_error_args {
    int64_t rows, columns;
    bool by_column; /* false: all columns are one */
    const float *x, *target;
    const struct sw_step *step;
    struct sw_result *pairs; /* [columns, or 1][SW_ERROR_PAIRS] */
};
extern const struct sw_op sw_op_target_error;

/* Returns the number of columns that have pairs of their own. */
SW_BOTH int64_t sw_target_error_groups(const struct sw_target_error_args *a)
{
    return a->by_column ? a->columns : 1;
}
