/* Gram-Schmidt on rows of normal samples, in double, by panels: the vectors of a panel are
 * orthonormalized one after the other, then their components are subtracted from every later
 * vector, which stays in the cache meanwhile. The diagonal of R is positive, so Q is uniformly
 * distributed (Mezzadri, "How to generate random matrices from the classical compact groups",
 * 2007). */
#include "optim/orthogonal.h"

#include "base/os.h"
#include "base/stop.h"
#include "kernels/cpu/kernel.h"
#include "tensor/fill.h"
#include <math.h>

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF /* GCC's -std=c17 already means this */
#endif

enum { PANEL = 8, LANES = 8 };

/* Returns the sum of x[i] y[i], always with eight partial sums, whatever the vector width of the
 * machine. */
SW_KERNEL_INLINE double dot(const double *x, const double *y, int64_t n)
{
    double lane[LANES] = {0}, sum = 0;
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] += x[i + l] * y[i + l];

    for (; i < n; i++)
        lane[0] += x[i] * y[i];
    for (int l = 0; l < LANES; l++)
        sum += lane[l];

    return sum;
}

/* Subtracts from v its components along the vectors [from, to). */
SW_KERNEL static void subtract_components(double *v, const double *vectors, int64_t from,
                                          int64_t to, int64_t n)
{
    for (int64_t j = from; j < to; j++) {
        const double *q = vectors + j * n;
        double along = dot(q, v, n);
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            v[i] -= along * q[i];
    }
}

SW_KERNEL static void normalize(double *v, int64_t n)
{
    double length = sqrt(dot(v, v, n));
    for (int64_t i = 0; i < n; i++)
        v[i] /= length;
}

static int orthonormalize(double *vectors, int64_t count, int64_t n, struct sw_err *err)
{
    for (int64_t from = 0; from < count; from += PANEL) {
        int rc = sw_stop_check(err);
        if (rc != SW_OK)
            return rc;

        int64_t to = from + PANEL < count ? from + PANEL : count;
        for (int64_t i = from; i < to; i++) {
            subtract_components(vectors + i * n, vectors, from, i, n);
            normalize(vectors + i * n, n);
        }

#pragma omp parallel for schedule(static) if ((count - to) * n > 65536)
        for (int64_t i = to; i < count; i++)
            subtract_components(vectors + i * n, vectors, from, to, n);
    }

    return SW_OK;
}

static void draw(struct sw_philox key, int64_t elements, double *out)
{
    float chunk[SW_FILL_CHUNK];

    for (int64_t from = 0; from < elements; from += SW_FILL_CHUNK) {
        sw_fill_gaussian(key, (uint64_t)(from / SW_FILL_CHUNK), 0, 1, chunk);
        for (int64_t i = from; i < elements && i < from + SW_FILL_CHUNK; i++)
            out[i] = (double)chunk[i - from];
    }
}

int sw_fill_orthogonal(struct sw_philox key, int64_t rows, int64_t columns, double gain, float *out,
                       struct sw_err *err)
{
    bool wide = rows <= columns;
    int64_t count = wide ? rows : columns, n = wide ? columns : rows;
    size_t bytes = (size_t)(count * n) * sizeof(double);
    double *vectors = sw_calloc(1, bytes ? bytes : 1);
    if (!vectors)
        return sw_err_nomem(err, "an orthogonal matrix", bytes);

    draw(key, count * n, vectors);

    int rc = orthonormalize(vectors, count, n, err);
    if (rc != SW_OK)
        goto out;

    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            out[r * columns + c] = (float)(gain * vectors[wide ? r * n + c : c * n + r]);

out:
    sw_free(vectors);
    return rc;
}
