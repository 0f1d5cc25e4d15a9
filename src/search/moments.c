/* Means, and then products of what differs from them, block by block of the rows. The contract is
 * in search/moments.h. */
#include "search/moments.h"

#include "base/os.h"
#include "base/stop.h"
#include "device/cpu/algebra.h"
#include <string.h>

enum { ROWS = 1024 };

static void add_mean(const struct sw_vectors *v, double *mean)
{
    for (int64_t row = 0; row < v->count; row++)
        for (int d = 0; d < v->dims; d++)
            mean[d] += (double)sw_vector(v, row)[d];
    for (int d = 0; d < v->dims; d++)
        mean[d] /= (double)v->count;
}

/* Rows of both sets less their mean, side by side: out [rows][dims]. */
static void center_rows(const struct sw_vectors *v, int at, const struct sw_moments *m,
                        int64_t from, int64_t rows, double *out)
{
    for (int64_t row = 0; row < rows; row++)
        for (int d = 0; d < v->dims; d++)
            out[row * m->dims + at + d] = (double)sw_vector(v, from + row)[d] - m->mean[at + d];
}

static int add_products(const struct sw_vectors *a, const struct sw_vectors *b,
                        struct sw_moments *m, struct sw_err *err)
{
    const size_t dims = (size_t)m->dims;
    double *rows = sw_calloc(ROWS * dims, sizeof *rows);
    double *products = sw_calloc(dims * dims, sizeof *products);
    int rc = rows && products ? SW_OK : sw_err_nomem(err, "a covariance", dims * dims);

    for (int64_t from = 0; rc == SW_OK && from < a->count; from += ROWS) {
        const int64_t count = a->count - from < ROWS ? a->count - from : ROWS;

        center_rows(a, 0, m, from, count, rows);
        if (b->count)
            center_rows(b, a->dims, m, from, count, rows);

        rc = sw_stop_check(err);
        if (rc == SW_OK)
            rc = sw_algebra_product(m->dims, m->dims, count, rows, rows, products, err);
        for (size_t i = 0; rc == SW_OK && i < dims * dims; i++)
            m->covariance[i] += products[i] / (double)a->count;
    }

    sw_free(rows);
    sw_free(products);
    return rc;
}

int sw_moments_of(const struct sw_vectors *a, const struct sw_vectors *b, struct sw_moments *out,
                  struct sw_err *err)
{
    static const struct sw_vectors none;
    struct sw_moments m = {.dims = a->dims + (b ? b->dims : 0)};
    const size_t dims = (size_t)m.dims;

    b = b ? b : &none;
    if (m.dims > SW_ALGEBRA_MAX)
        return sw_err_set(err, SW_ERR_INVALID,
                          "vectors of %d numbers, expected at most %d for their covariance", m.dims,
                          SW_ALGEBRA_MAX);

    m.mean = sw_calloc(dims, sizeof *m.mean);
    m.covariance = sw_calloc(dims * dims, sizeof *m.covariance);
    int rc = m.mean && m.covariance ? SW_OK : sw_err_nomem(err, "a covariance", dims * dims);

    if (rc == SW_OK) {
        add_mean(a, m.mean);
        if (b->count)
            add_mean(b, m.mean + a->dims);
        rc = add_products(a, b, &m, err);
    }

    if (rc == SW_OK)
        *out = m;
    else
        sw_moments_fini(&m);
    return rc;
}

void sw_moments_fini(struct sw_moments *m)
{
    sw_free(m->mean);
    sw_free(m->covariance);
    *m = (struct sw_moments){0};
}

void sw_moments_block(const struct sw_moments *m, int row, int rows, int column, int columns,
                      double *out)
{
    for (int r = 0; r < rows; r++)
        memcpy(out + (int64_t)r * columns, m->covariance + (int64_t)(row + r) * m->dims + column,
               (size_t)columns * sizeof *out);
}
