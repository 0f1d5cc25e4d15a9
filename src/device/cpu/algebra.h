/* Linear algebra on host memory to prepare a training (whitening) or to train a model of binary
 * codes (search/code_method.h); not an operation of a device.
 * Computed by OpenBLAS and its LAPACK with one thread per call; several threads compute tiles that
 * depend only on the shape. Main thread, outside of training. */
#pragma once

#include "base/err.h"
#include <stdint.h>

/* The largest number of rows, since LAPACK counts with int. */
enum { SW_ALGEBRA_MAX = 16384 };

/* out [n, n] = x^T x for x [rows, n]; both triangles are written. Errors: those of sw_blas_hold and
 * sw_cpu_start_team. */
int sw_algebra_gram(int64_t n, int64_t rows, const float *x, float *out,
                    struct sw_err *err) SW_MUST_CHECK;

/* a [n, n], symmetric and positive semidefinite up to rounding, becomes (a + epsilon I)^(-1/2) by
 * an eigendecomposition. n is 1 to SW_ALGEBRA_MAX, epsilon above 0. Errors: those of sw_blas_hold,
 * SW_ERR_NOMEM, SW_ERR_LIBRARY when LAPACK does not converge. */
int sw_algebra_inverse_root(double *a, int64_t n, double epsilon, struct sw_err *err) SW_MUST_CHECK;

/* out [m, n] = a^T b for a [rows, m] and b [rows, n], none of them larger than SW_ALGEBRA_MAX.
 * Errors: those of sw_blas_hold and sw_cpu_start_team. */
int sw_algebra_product(int64_t m, int64_t n, int64_t rows, const double *a, const double *b,
                       double *out, struct sw_err *err) SW_MUST_CHECK;

/* The eigenvalues of a symmetric matrix, ascending; its eigenvectors, each of length 1, become the
 * rows of a [n, n]. n is 1 to SW_ALGEBRA_MAX. Errors: as sw_algebra_inverse_root. */
int sw_algebra_eigen(double *a, int64_t n, double *values, struct sw_err *err) SW_MUST_CHECK;
