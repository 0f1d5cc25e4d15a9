/* Computes the Gram matrix and the inverse square root of a matrix, with which data is whitened
 * before training, and products and eigenvectors, with which codes are trained. Work is divided
 * into tiles of a fixed size, so that the result does not depend on the number of threads. The
 * contract is in device/cpu/algebra.h. */
#include "device/cpu/algebra.h"
#include "base/os.h"
#include "device/cpu/blas.h"
#include <math.h>
#include <omp.h>
#include <string.h>

enum { TILE = 256 };

static int min_int(int64_t a, int64_t b)
{
    return (int)(a < b ? a : b);
}

/* Loads OpenBLAS and starts a team of threads for it. */
static int begin(int threads, struct sw_err *err)
{
    int rc = sw_blas_hold(threads, err);
    if (rc != SW_OK)
        return rc;

    rc = sw_cpu_start_team(threads, err);
    if (rc != SW_OK)
        sw_blas_release(threads);

    return rc;
}

int sw_algebra_gram(int64_t n, int64_t rows, const float *x, float *out, struct sw_err *err)
{
    const int threads = omp_get_max_threads();

    int rc = begin(threads, err);
    if (rc != SW_OK)
        return rc;

#pragma omp parallel for schedule(dynamic)
    for (int64_t i = 0; i < n; i += TILE)
        sw_cpu_sgemm(sw_product_of(min_int(TILE, n - i), n, rows, sw_transposed(x + i, n),
                                   sw_stored(x, n), out + i * n, n));

    sw_blas_release(threads);
    return SW_OK;
}

/* Replaces a by its eigenvectors. Columns of LAPACK are rows here: eigenvector i becomes row i of
 * a, and eigenvalues ascend. */
static int eigen(double *a, int n, double *values, struct sw_err *err)
{
    const int64_t work_count = 1 + 6 * (int64_t)n + 2 * (int64_t)n * n,
                  int_count = 3 + 5 * (int64_t)n;
    const int lwork = (int)work_count, liwork = (int)int_count;
    int info = 0, rc = SW_OK;
    double *work = sw_os()->alloc((size_t)work_count * sizeof *work);
    int *iwork = sw_os()->alloc((size_t)int_count * sizeof *iwork);

    if (!work || !iwork)
        rc = sw_err_nomem(err, "eigenvectors", (size_t)work_count * sizeof *work);

    const int team = sw_blas_use_one_thread();
    if (!rc)
        info = sw_blas()->eigen(n, a, values, work, lwork, iwork, liwork);
    sw_blas_restore_team(team);

    if (!rc && info)
        rc = sw_err_set(err, SW_ERR_LIBRARY,
                        "LAPACK's dsyevd failed with %d on a matrix of %d rows", info, n);

    sw_free(work);
    sw_free(iwork);
    return rc;
}

/* out [m, n] = a^T b in tiles. */
static void product(int64_t m, int64_t n, int64_t rows, const double *a, const double *b,
                    double *out)
{
#pragma omp parallel for schedule(dynamic)
    for (int64_t i = 0; i < m; i += TILE) {
        int team = sw_blas_use_one_thread();
        sw_blas()->dgemm(min_int(TILE, m - i), (int)n, (int)rows, a + i, (int)m, b, out + i * n);
        sw_blas_restore_team(team);
    }
}

int sw_algebra_product(int64_t m, int64_t n, int64_t rows, const double *a, const double *b,
                       double *out, struct sw_err *err)
{
    const int threads = omp_get_max_threads();

    int rc = begin(threads, err);
    if (rc != SW_OK)
        return rc;

    product(m, n, rows, a, b, out);
    sw_blas_release(threads);
    return SW_OK;
}

int sw_algebra_eigen(double *a, int64_t n, double *values, struct sw_err *err)
{
    const int threads = omp_get_max_threads();

    int rc = begin(threads, err);
    if (rc != SW_OK)
        return rc;

    rc = eigen(a, (int)n, values, err);
    sw_blas_release(threads);
    return rc;
}

int sw_algebra_inverse_root(double *a, int64_t n, double epsilon, struct sw_err *err)
{
    const size_t bytes = (size_t)n * (size_t)n * sizeof *a;
    const int threads = omp_get_max_threads();
    double *root = NULL, *values;

    int rc = begin(threads, err);
    if (rc != SW_OK)
        return rc;
    values = sw_os()->alloc((size_t)n * sizeof *values);
    if (!values) {
        rc = sw_err_nomem(err, "eigenvalues", (size_t)n * sizeof *values);
        goto out;
    }
    rc = eigen(a, (int)n, values, err);
    if (rc != SW_OK)
        goto out;
    root = sw_os()->alloc(bytes);
    if (!root) {
        rc = sw_err_nomem(err, "the square root of a matrix", bytes);
        goto out;
    }

    /* The result is the sum over i of v_i v_i^T / sqrt(value_i + epsilon): each v_i is scaled
     * by the square root of its factor. */
    for (int64_t i = 0; i < n; i++) {
        const double value = values[i] > 0 ? values[i] : 0;
        const double factor = pow(value + epsilon, -0.25);
        for (int64_t k = 0; k < n; k++)
            a[i * n + k] *= factor;
    }

    product(n, n, n, a, a, root);
    memcpy(a, root, bytes);

out:
    sw_blas_release(threads);
    sw_free(values);
    sw_free(root);

    return rc;
}
