/* Means and covariances of one or two sets of vectors that belong together by row, in double: what
 * principal components and canonical correlations are computed from. Memory depends on dimensions,
 * not on rows. Main thread (device/cpu/algebra.h). */
#pragma once

#include "search/vectors.h"

struct sw_moments {
    int dims;           /* of all sets together */
    double *mean;       /* owned [dims]: the first set's, then the second's */
    double *covariance; /* owned [dims][dims]: the sum of products over rows, divided by the rows */
};

/* Computes them; b has as many rows as a, or none. Free them with sw_moments_fini. Errors:
 * SW_ERR_INVALID (more than SW_ALGEBRA_MAX dims), SW_ERR_NOMEM, SW_ERR_CANCELLED, those of
 * sw_algebra_product. */
int sw_moments_of(const struct sw_vectors *a, const struct sw_vectors *b, struct sw_moments *out,
                  struct sw_err *err) SW_MUST_CHECK;
void sw_moments_fini(struct sw_moments *m); /* a zeroed one is accepted */

/* The covariance of dims [row, row + rows) with dims [column, column + columns): out
 * [rows][columns]. */
void sw_moments_block(const struct sw_moments *m, int row, int rows, int column, int columns,
                      double *out);
