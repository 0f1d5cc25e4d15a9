/* Spectral hashing (Weiss, Torralba and Fergus, "Spectral hashing", NIPS 2008, Section 3): the rows
 * are taken for samples of a uniform distribution on a box along their principal components, on
 * which the eigenfunctions of the graph Laplacian are products of
 *
 *     sin(pi / 2 + k pi / (b - a) (x - a)),    k = 1, 2, ...
 *
 * in one component x from a to b, with eigenvalues that grow with k / (b - a). The codes are the
 * signs of the single ones (products depend on others) with the smallest eigenvalues. */
#include "base/os.h"
#include "device/cpu/algebra.h"
#include "search/code_method.h"
#include "search/moments.h"
#include <math.h>

/* The principal components of the rows, the widest first. */
struct box {
    struct sw_encoder e; /* whose bits are the components; values are the coordinates */
    float *low, *high;   /* owned [components]: the smallest and the largest coordinate */
};

static int take_components(struct box *b, struct sw_moments *m, struct sw_err *err)
{
    const int dims = b->e.dims;
    float *center = sw_encoder_room(&b->e, SW_ENCODER_CENTER, err);
    float *planes = center ? sw_encoder_room(&b->e, SW_ENCODER_PLANES, err) : NULL;
    double *values = sw_calloc((size_t)dims, sizeof *values);
    int rc = planes && values ? SW_OK : sw_err_nomem(err, "principal components", 0);

    if (rc == SW_OK)
        rc = sw_algebra_eigen(m->covariance, dims, values, err);

    for (int d = 0; rc == SW_OK && d < dims; d++)
        center[d] = (float)m->mean[d];
    for (int j = 0; rc == SW_OK && j < b->e.bits; j++)
        for (int d = 0; d < dims; d++)
            planes[(int64_t)j * dims + d] =
                (float)m->covariance[(int64_t)(dims - 1 - j) * dims + d];

    sw_free(values);
    return rc;
}

/* The ends of the box, in blocks of rows. */
static int measure(struct box *b, const struct sw_vectors *v, int threads, struct sw_err *err)
{
    enum { ROWS = 4096 };
    const int components = b->e.bits;
    float *values = sw_calloc(ROWS, (size_t)components * sizeof *values);
    int rc = values ? SW_OK : sw_err_nomem(err, "principal components", 0);

    for (int j = 0; j < components; j++) {
        b->low[j] = INFINITY;
        b->high[j] = -INFINITY;
    }

    for (int64_t from = 0; rc == SW_OK && from < v->count; from += ROWS) {
        const struct sw_vectors rows = {sw_vector(v, from),
                                        v->count - from < ROWS ? v->count - from : ROWS, v->dims};

        rc = sw_encoder_values(&b->e, &rows, threads, values, err);
        for (int64_t i = 0; rc == SW_OK && i < rows.count * components; i++) {
            const int j = (int)(i % components);

            b->low[j] = fminf(b->low[j], values[i]);
            b->high[j] = fmaxf(b->high[j], values[i]);
        }
    }

    sw_free(values);
    return rc;
}

/* The bit with the smallest eigenvalue that is left, where component j has used[j] bits. */
static int next_component(const struct box *b, const int *used)
{
    double least = INFINITY;
    int next = -1;

    for (int j = 0; j < b->e.bits; j++) {
        const double frequency = (used[j] + 1) / ((double)b->high[j] - (double)b->low[j]);

        if (b->high[j] > b->low[j] && frequency < least) {
            least = frequency;
            next = j;
        }
    }

    return next;
}

static int take_waves(const struct box *b, int bits, struct sw_encoder *e, struct sw_err *err)
{
    const int dims = b->e.dims;
    int rc = SW_OK;

    *e = (struct sw_encoder){.dims = dims, .bits = bits};

    float *center = sw_encoder_room(e, SW_ENCODER_CENTER, err);
    float *planes = center ? sw_encoder_room(e, SW_ENCODER_PLANES, err) : NULL;
    float *shifts = planes ? sw_encoder_room(e, SW_ENCODER_SHIFTS, err) : NULL;
    float *waves = shifts ? sw_encoder_room(e, SW_ENCODER_WAVES, err) : NULL;
    int *used = sw_calloc((size_t)b->e.bits, sizeof *used);
    if (!waves || !used)
        rc = sw_err_nomem(err, "waves", 0);

    for (int d = 0; rc == SW_OK && d < dims; d++)
        center[d] = b->e.part[SW_ENCODER_CENTER][d];

    for (int bit = 0; rc == SW_OK && bit < bits; bit++) {
        const int j = next_component(b, used);
        if (j < 0) {
            rc = sw_err_set(err, SW_ERR_INVALID, "all rows are equal");
            break;
        }

        for (int d = 0; d < dims; d++)
            planes[(int64_t)bit * dims + d] = b->e.part[SW_ENCODER_PLANES][(int64_t)j * dims + d];
        shifts[bit] = -b->low[j];
        waves[bit] = (float)(M_PI * ++used[j] / ((double)b->high[j] - (double)b->low[j]));
    }

    sw_free(used);
    return rc;
}

static int fit(const struct sw_code_fit *f, struct sw_encoder *view, struct sw_err *err)
{
    const struct sw_vectors *v = &f->view[0];
    struct sw_moments m = {0};
    struct box b = {.e = {.dims = v->dims, .bits = f->bits < v->dims ? f->bits : v->dims}};

    b.low = sw_calloc((size_t)b.e.bits, sizeof *b.low);
    b.high = sw_calloc((size_t)b.e.bits, sizeof *b.high);
    int rc = b.low && b.high ? SW_OK : sw_err_nomem(err, "principal components", 0);

    if (rc == SW_OK)
        rc = sw_moments_of(v, NULL, &m, err);
    if (rc == SW_OK)
        rc = take_components(&b, &m, err);
    if (rc == SW_OK)
        rc = measure(&b, v, f->threads, err);
    if (rc == SW_OK)
        rc = take_waves(&b, f->bits, &view[0], err);

    sw_moments_fini(&m);
    sw_encoder_fini(&b.e);
    sw_free(b.low);
    sw_free(b.high);
    return rc;
}

const struct sw_code_method sw_code_spectral = {
    .name = "spectral",
    .help = "spectral hashing (Weiss 2008)",
    .views = 1,
    .fit = fit,
};
