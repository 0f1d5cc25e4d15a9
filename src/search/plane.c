/* The two principal components of vectors by subspace iteration: a few orthonormal axes are
 * multiplied by the covariance, rotated so that the first ones take the largest variances
 * (Rayleigh-Ritz), and made orthonormal again. More axes than two are carried because the distance
 * between the second variance and the first one that is left out sets the speed. Golub and Van
 * Loan, "Matrix Computations", 4th edition, section 8.2.4. The contract is in search/plane.h. */
#include "search/plane.h"

#include "base/hash.h"
#include "base/os.h"
#include "base/philox.h"
#include "base/stop.h"
#include <math.h>
#include <string.h>

enum { AXES = 8, MOST_ROUNDS = 1000, SWEEPS = 30 };

struct search {
    const struct sw_vectors *sets;
    int set_count, dims, axes;
    int64_t rows;
    double *mean;     /* [dims] */
    double *row;      /* [dims]: a row without the mean */
    double *axis;     /* [axes][dims], orthonormal or zero */
    double *product;  /* [axes][dims]: the covariance times the axes */
    double variances; /* the sum of all */
    double found[AXES];
};

/* ---- Rows -------------------------------------------------------------------------------------
 */

static double dot(const double *a, const double *b, int dims)
{
    double sum = 0;

    for (int d = 0; d < dims; d++)
        sum += a[d] * b[d];
    return sum;
}

/* Sets s->row to a row without the mean. */
static void center(struct search *s, const float *row)
{
    for (int d = 0; d < s->dims; d++)
        s->row[d] = (double)row[d] - s->mean[d];
}

static void find_mean(struct search *s)
{
    for (int i = 0; i < s->set_count; i++)
        for (int64_t r = 0; r < s->sets[i].count; r++)
            for (int d = 0; d < s->dims; d++)
                s->mean[d] += (double)sw_vector(&s->sets[i], r)[d];

    for (int d = 0; d < s->dims; d++)
        s->mean[d] /= (double)s->rows;

    for (int i = 0; i < s->set_count; i++)
        for (int64_t r = 0; r < s->sets[i].count; r++) {
            center(s, sw_vector(&s->sets[i], r));
            s->variances += dot(s->row, s->row, s->dims) / (double)s->rows;
        }
}

static void multiply(struct search *s)
{
    memset(s->product, 0, (size_t)s->axes * (size_t)s->dims * sizeof *s->product);

    for (int i = 0; i < s->set_count; i++)
        for (int64_t r = 0; r < s->sets[i].count; r++) {
            center(s, sw_vector(&s->sets[i], r));

            for (int a = 0; a < s->axes; a++) {
                double *out = s->product + (size_t)a * (size_t)s->dims;
                const double along =
                    dot(s->row, s->axis + (size_t)a * (size_t)s->dims, s->dims) / (double)s->rows;

                for (int d = 0; d < s->dims; d++)
                    out[d] += along * s->row[d];
            }
        }
}

/* ---- Axes -------------------------------------------------------------------------------------
 */

/* Makes the axes orthonormal, the first ones first; one that depends on those before becomes zero.
 */
static void orthonormalize(struct search *s, double *axes)
{
    for (int a = 0; a < s->axes; a++) {
        double *at = axes + (size_t)a * (size_t)s->dims;
        const double before = sqrt(dot(at, at, s->dims));

        for (int twice = 0; twice < 2; twice++)
            for (int b = 0; b < a; b++) {
                const double *other = axes + (size_t)b * (size_t)s->dims;
                const double along = dot(at, other, s->dims);

                for (int d = 0; d < s->dims; d++)
                    at[d] -= along * other[d];
            }

        const double after = sqrt(dot(at, at, s->dims));
        const double scale = after > 1e-12 * before ? 1 / after : 0;

        for (int d = 0; d < s->dims; d++)
            at[d] *= scale;
    }
}

static void begin_axes(struct search *s)
{
    const struct sw_philox key = sw_philox_stream(1, SW_PURPOSE_INIT, sw_hash_name("search.plane"));

    for (int i = 0; i < s->axes * s->dims; i++)
        s->axis[i] = (double)sw_philox_block(key, (uint32_t)i, 0, 0, 0).v[0] * 0x1p-32 - 0.5;
    orthonormalize(s, s->axis);
}

/* Rotates rows p and q of a matrix of `columns` columns. */
static void rotate(double *m, int columns, int p, int q, double cosine, double sine)
{
    for (int i = 0; i < columns; i++) {
        const double x = m[(size_t)p * (size_t)columns + (size_t)i];
        const double y = m[(size_t)q * (size_t)columns + (size_t)i];

        m[(size_t)p * (size_t)columns + (size_t)i] = cosine * x - sine * y;
        m[(size_t)q * (size_t)columns + (size_t)i] = sine * x + cosine * y;
    }
}

static void transpose(double m[AXES * AXES], int n)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++) {
            const double x = m[i * n + j];
            m[i * n + j] = m[j * n + i];
            m[j * n + i] = x;
        }
}

/* Rotates axes and products so that the symmetric `m` = axes . products becomes diagonal (Jacobi).
 */
static void diagonalize(struct search *s, double m[AXES * AXES])
{
    const int n = s->axes;

    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        bool done = true;

        for (int p = 0; p < n; p++)
            for (int q = p + 1; q < n; q++) {
                const double off = m[p * n + q];

                if (fabs(off) <= 1e-16 * (fabs(m[p * n + p]) + fabs(m[q * n + q])))
                    continue;

                const double angle = 0.5 * atan2(2 * off, m[q * n + q] - m[p * n + p]);
                const double cosine = cos(angle), sine = sin(angle);

                rotate(m, n, p, q, cosine, sine);
                transpose(m, n);
                rotate(m, n, p, q, cosine, sine);
                transpose(m, n);
                rotate(s->axis, s->dims, p, q, cosine, sine);
                rotate(s->product, s->dims, p, q, cosine, sine);
                done = false;
            }

        if (done)
            break;
    }
}

static void swap_rows(double *m, int columns, int p, int q)
{
    for (int i = 0; i < columns; i++) {
        const double x = m[(size_t)p * (size_t)columns + (size_t)i];
        m[(size_t)p * (size_t)columns + (size_t)i] = m[(size_t)q * (size_t)columns + (size_t)i];
        m[(size_t)q * (size_t)columns + (size_t)i] = x;
    }
}

/* The axes with the largest variances come first. */
static void sort_axes(struct search *s)
{
    for (int p = 0; p < s->axes; p++)
        for (int q = p + 1; q < s->axes; q++)
            if (s->found[q] > s->found[p]) {
                swap_rows(s->found, 1, p, q);
                swap_rows(s->axis, s->dims, p, q);
                swap_rows(s->product, s->dims, p, q);
            }
}

/* One round; whether the two largest variances have stopped changing. */
static bool improve(struct search *s)
{
    const int n = s->axes;
    const double before[2] = {s->found[0], s->found[n > 1]};
    double m[AXES * AXES];

    multiply(s);

    for (int p = 0; p < n; p++)
        for (int q = 0; q <= p; q++)
            m[p * n + q] = m[q * n + p] = dot(s->axis + (size_t)p * (size_t)s->dims,
                                              s->product + (size_t)q * (size_t)s->dims, s->dims);

    diagonalize(s, m);
    for (int p = 0; p < n; p++)
        s->found[p] = m[p * n + p];
    sort_axes(s);
    return fabs(s->found[0] - before[0]) <= 1e-13 * s->found[0] &&
           fabs(s->found[n > 1] - before[1]) <= 1e-13 * s->found[0];
}

static int find_axes(struct search *s, struct sw_err *err)
{
    int calm = 0, rc = SW_OK;

    find_mean(s);
    begin_axes(s);

    for (int round = 0; rc == SW_OK && round < MOST_ROUNDS; round++) {
        rc = sw_stop_check(err);
        calm = improve(s) ? calm + 1 : 0;
        if (calm == 3)
            break; /* variances settle twice as fast as axes do */

        memcpy(s->axis, s->product, (size_t)s->axes * (size_t)s->dims * sizeof *s->axis);
        orthonormalize(s, s->axis);
    }

    return rc;
}

/* ---- Points -----------------------------------------------------------------------------------
 */

static double sign_of(const double *axis, int dims)
{
    double most = 0;

    for (int d = 0; d < dims; d++)
        most = fabs(axis[d]) > fabs(most) ? axis[d] : most;
    return most < 0 ? -1 : 1;
}

static void project(struct search *s, float *xy, double share[2])
{
    double sign[2] = {0, 0};

    for (int a = 0; a < 2; a++) {
        const bool has = a < s->axes;

        sign[a] = has ? sign_of(s->axis + a * s->dims, s->dims) : 0;
        share[a] = has && s->variances > 0 ? s->found[a] / s->variances : 0;
    }

    for (int i = 0; i < s->set_count; i++)
        for (int64_t r = 0; r < s->sets[i].count; r++, xy += 2) {
            center(s, sw_vector(&s->sets[i], r));
            for (int a = 0; a < 2; a++)
                xy[a] = a < s->axes ? (float)(sign[a] * dot(s->row, s->axis + a * s->dims, s->dims))
                                    : 0;
        }
}

int sw_plane_project(const struct sw_vectors *sets, int count, float *xy, double share[2],
                     struct sw_err *err)
{
    const size_t dims = (size_t)sets[0].dims;
    struct search s = {.sets = sets,
                       .set_count = count,
                       .dims = sets[0].dims,
                       .axes = sets[0].dims < AXES ? sets[0].dims : AXES};

    for (int i = 0; i < count; i++) {
        s.rows += sets[i].count;
        if (sets[i].dims != s.dims)
            return sw_err_set(err, SW_ERR_INVALID, "vectors of %d and of %d dimensions", s.dims,
                              sets[i].dims);
    }

    double *memory = sw_calloc(2 + 2 * AXES, dims * sizeof *memory);
    if (!memory)
        return sw_err_nomem(err, "principal components", (2 + 2 * AXES) * dims * sizeof *memory);

    s.mean = memory;
    s.row = memory + dims;
    s.axis = memory + 2 * dims;
    s.product = memory + (2 + AXES) * dims;

    int rc = find_axes(&s, err);
    if (rc == SW_OK)
        project(&s, xy, share);
    sw_free(memory);
    return rc;
}
