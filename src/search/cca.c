/* Canonical correlations by inverse square roots and an eigenproblem of the smaller view. The
 * contract is in search/cca.h. */
#include "search/cca.h"

#include "base/os.h"
#include "device/cpu/algebra.h"
#include "search/moments.h"
#include <math.h>

/* A correlation below this is rounding. */
static const double least = 1e-9;

/* small: the view with fewer dimensions, n of them; the other has m. */
struct work {
    int small, n, m;
    double *root[2]; /* inverse square roots of the covariances: [n][n], [m][m] */
    double *cross;   /* [m][n]: of the large view with the small one */
    double *half;    /* [m][n] */
    double *whole;   /* [m][n]: the large view's root . cross . the small one's */
    double *gram;    /* [n][n], then eigenvectors */
    double *values;  /* [n] */
    double *large;   /* [m] */
};

static int take_memory(struct work *w, struct sw_err *err)
{
    const size_t n = (size_t)w->n, m = (size_t)w->m;

    w->root[0] = sw_calloc(n * n, sizeof(double));
    w->root[1] = sw_calloc(m * m, sizeof(double));
    w->cross = sw_calloc(m * n, sizeof(double));
    w->half = sw_calloc(m * n, sizeof(double));
    w->whole = sw_calloc(m * n, sizeof(double));
    w->gram = sw_calloc(n * n, sizeof(double));
    w->values = sw_calloc(n, sizeof(double));
    w->large = sw_calloc(m, sizeof(double));
    if (w->root[0] && w->root[1] && w->cross && w->half && w->whole && w->gram && w->values &&
        w->large)
        return SW_OK;
    return sw_err_nomem(err, "canonical correlations", (m + n) * (m + n) * sizeof(double));
}

static void free_memory(struct work *w)
{
    sw_free(w->root[0]);
    sw_free(w->root[1]);
    sw_free(w->cross);
    sw_free(w->half);
    sw_free(w->whole);
    sw_free(w->gram);
    sw_free(w->values);
    sw_free(w->large);
}

/* (a + ridge t I)^(-1/2) where t is the mean of the diagonal. */
static int inverse_root(double *a, int n, double ridge, struct sw_err *err)
{
    double trace = 0;

    for (int i = 0; i < n; i++)
        trace += a[(int64_t)i * n + i];
    if (!(trace > 0))
        return sw_err_set(err, SW_ERR_INVALID, "all rows of a view are equal");
    return sw_algebra_inverse_root(a, n, ridge * trace / n, err);
}

/* The eigenproblem: rows of gram become the directions of the small view in whitened space. */
static int solve(struct work *w, const struct sw_cca *c, const struct sw_moments *mo,
                 struct sw_err *err)
{
    const int first = c->view[0]->dims, n = w->n, m = w->m;
    const int at_small = w->small ? first : 0, at_large = w->small ? 0 : first;

    sw_moments_block(mo, at_small, n, at_small, n, w->root[0]);
    sw_moments_block(mo, at_large, m, at_large, m, w->root[1]);
    sw_moments_block(mo, at_large, m, at_small, n, w->cross);

    int rc = inverse_root(w->root[0], n, c->ridge, err);
    if (rc == SW_OK)
        rc = inverse_root(w->root[1], m, c->ridge, err);
    /* root_large . cross: roots are symmetric. */
    if (rc == SW_OK)
        rc = sw_algebra_product(m, n, m, w->root[1], w->cross, w->half, err);
    if (rc != SW_OK)
        return rc;

    /* half . root_small, whose rows are those of half times a symmetric matrix. */
    for (int i = 0; i < m; i++)
        for (int k = 0; k < n; k++)
            w->cross[(int64_t)k * m + i] = w->half[(int64_t)i * n + k];
    rc = sw_algebra_product(m, n, n, w->cross, w->root[0], w->whole, err);
    if (rc == SW_OK)
        rc = sw_algebra_product(n, n, m, w->whole, w->whole, w->gram, err);
    return rc == SW_OK ? sw_algebra_eigen(w->gram, n, w->values, err) : rc;
}

/* out = row . root, for a symmetric root [n][n]. */
static void unwhiten(const double *row, const double *root, int n, double sign, float *out)
{
    for (int i = 0; i < n; i++) {
        double sum = 0;

        for (int k = 0; k < n; k++)
            sum += row[k] * root[(int64_t)i * n + k];
        out[i] = (float)(sign * sum);
    }
}

/* Eigenvectors have no sign of their own: the element that is farthest from zero becomes positive.
 */
static double sign_of(const double *row, int n)
{
    int most = 0;

    for (int i = 1; i < n; i++)
        if (fabs(row[i]) > fabs(row[most]))
            most = i;
    return row[most] < 0 ? -1 : 1;
}

static int take_directions(const struct work *w, const struct sw_cca *c, struct sw_err *err)
{
    const int n = w->n, m = w->m;

    for (int j = 0; j < c->count; j++) {
        const int place = n - 1 - j; /* eigenvalues ascend */
        const double *small = w->gram + (int64_t)place * n;
        const double value = w->values[place], correlation = value > 0 ? sqrt(value) : 0;
        if (correlation < least)
            return sw_err_set(err, SW_ERR_INVALID,
                              "%d bits, but only %d directions of the two views are correlated",
                              c->count, j);

        for (int i = 0; i < m; i++) {
            double sum = 0;

            for (int k = 0; k < n; k++)
                sum += w->whole[(int64_t)i * n + k] * small[k];
            w->large[i] = sum / correlation;
        }

        const double sign = sign_of(small, n);
        unwhiten(small, w->root[0], n, sign, c->direction[w->small] + (int64_t)j * n);
        unwhiten(w->large, w->root[1], m, sign, c->direction[!w->small] + (int64_t)j * m);
        if (c->correlation)
            c->correlation[j] = correlation;
    }

    return SW_OK;
}

int sw_cca_fit(const struct sw_cca *c, struct sw_err *err)
{
    const int dims[] = {c->view[0]->dims, c->view[1]->dims};
    struct work w = {.small = dims[1] < dims[0]};
    struct sw_moments mo = {0};

    w.n = dims[w.small];
    w.m = dims[!w.small];
    if (c->count > w.n)
        return sw_err_set(err, SW_ERR_INVALID,
                          "%d bits, expected at most the %d dimensions of a view", c->count, w.n);

    int rc = sw_moments_of(c->view[0], c->view[1], &mo, err);
    if (rc == SW_OK)
        rc = take_memory(&w, err);
    if (rc == SW_OK)
        rc = solve(&w, c, &mo, err);
    if (rc == SW_OK)
        rc = take_directions(&w, c, err);

    for (int v = 0; rc == SW_OK && v < 2; v++)
        for (int d = 0; d < dims[v]; d++)
            c->center[v][d] = (float)mo.mean[(v ? dims[0] : 0) + d];

    free_memory(&w);
    sw_moments_fini(&mo);
    return rc;
}
