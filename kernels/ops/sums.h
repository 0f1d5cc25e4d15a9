/* Sums over rows, over columns and over all elements of plain, dense matrices, and addition of a
 * row to all rows. Sums are in double and in an order that depends only on the shape. leaf_sums
 * adds up the rows of several workers. */
#pragma once

#include "kernels/op.h"

struct sw_row_args {
    int64_t rows, columns;
    const float *row; /* [columns] */
    float *y;         /* [rows, columns] */
};
extern const struct sw_op sw_op_add_row; /* y[r, c] += row[c] */

struct sw_sum_rows_args {
    int64_t rows, columns;
    const float *x; /* [rows, columns] */
    float *sum;     /* [columns] */
};
extern const struct sw_op sw_op_sum_rows; /* sum[c] = sum over r of x[r, c] */

struct sw_row_sums_args {
    int64_t rows, columns;
    const float *x; /* [rows, columns] */
    float *sum;     /* [rows] */
};
extern const struct sw_op sw_op_row_sums; /* sum[r] = sum over c of x[r, c] */

/* The gradient of the hidden biases of a restricted Boltzmann machine: sum[c] = the sum over all
 * rows of x, the first `first_rows` rows multiplied by first_factor, plus shift. */
struct sw_two_sums_args {
    int64_t rows, first_rows, columns;
    float first_factor, shift;
    const float *x;
    float *sum; /* [columns] */
};
extern const struct sw_op sw_op_two_sums;

struct sw_total_args {
    int64_t n;
    const float *x;
    double *total;
};
extern const struct sw_op sw_op_total; /* *total = sum of x */

/* Sums rows of doubles in the order of base/tree.h: sums[c] = the sum over the leaves of rows[leaf,
 * c]. */
enum { SW_LEAF_SUMS = 16 }; /* leaves, at most */
struct sw_leaf_sums_args {
    int leaves, room, count;
    const double *rows; /* [leaves, room], of which `count` columns are summed */
    double *sums;       /* [count] */
};
extern const struct sw_op sw_op_leaf_sums;
