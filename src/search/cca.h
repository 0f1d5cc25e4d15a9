/* Canonical correlation analysis (Hotelling, "Relations between two sets of variates", 1936): the
 * directions of two sets of vectors, which belong together by row, whose products with the rows are
 * most correlated. With covariances Cxx, Cyy, Cxy and a ridge r,
 *
 *     (Cxx + r tx I)^(-1/2) Cxy (Cyy + r ty I)^(-1/2) = U S V^T
 *
 * and the directions are the rows of U^T (Cxx + ...)^(-1/2) and V^T (Cyy + ...)^(-1/2), where tx
 * and ty are the mean variances of a dimension. Without a ridge the products have variance 1, are
 * not correlated with each other, and S has the correlations of the pairs. Main thread. */
#pragma once

#include "search/vectors.h"

struct sw_cca {
    const struct sw_vectors *view[2];
    int count;           /* of directions, at most that of the dimensions of either */
    double ridge;        /* above 0 */
    float *center[2];    /* of the caller: [dims], the means */
    float *direction[2]; /* of the caller: [count][dims], the most correlated first */
    double *correlation; /* of the caller: [count], descending; or NULL */
};

/* Computes them. Errors: SW_ERR_INVALID (count; fewer directions are correlated), SW_ERR_NOMEM,
 * SW_ERR_CANCELLED, SW_ERR_LIBRARY. */
int sw_cca_fit(const struct sw_cca *c, struct sw_err *err) SW_MUST_CHECK;
