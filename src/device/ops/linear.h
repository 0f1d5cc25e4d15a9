/* Linear algebra on plain, dense arrays: matrix product, sums of arrays and of rows, products of
 * elements. Results do not depend on the number of threads. */
#ifndef SW_DEVICE_OPS_LINEAR_H
#define SW_DEVICE_OPS_LINEAR_H

#include "device/op.h"

struct sw_gemm_args {
    bool trans_a, trans_b;
    int64_t m, n, k;
    float alpha, beta;
    const float *a, *b;
    float *c;
    bool exact; /* it counts or sums: factors are not rounded, whatever the precision */
};
extern const struct sw_op sw_op_gemm; /* c [m, n] = alpha op(a) [m, k] op(b) [k, n] + beta c */

struct sw_combine_args {
    int64_t n;
    float alpha, beta;
    const float *x;
    float *y;
};
extern const struct sw_op sw_op_combine; /* y = alpha x + beta y; y is not read where beta is 0 */

struct sw_multiply_args {
    int64_t n;
    const float *a, *b;
    float *y;
};
extern const struct sw_op sw_op_multiply; /* y = a b by element; y may be a or b */

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

struct sw_total_args {
    int64_t n;
    const float *x;
    double *total; /* device memory */
};
extern const struct sw_op sw_op_total; /* *total = sum of x, in fixed blocks and double */

#endif
