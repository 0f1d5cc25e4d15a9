/* Measures and applies the transform of a field. */
#include "data/scaling.h"
#include "base/os.h"
#include "base/stop.h"
#include "data/room.h"
#include "data/source.h"
#include "device/cpu/algebra.h"
#include "kernels/cpu/kernels.h"
#include <math.h>
#include <string.h>

enum { ALIGNMENT = 64 };
#define CONSTANT 1e-13 /* a smaller std, relative to the mean, is rounding */

/* ---- The numbers ---- */

int sw_scaling_init(struct sw_scaling *s, int64_t count, struct sw_err *err)
{
    *s = (struct sw_scaling){.count = count, .power = 1, .factor = 1};
    s->mean = sw_calloc(2 * (size_t)count, sizeof *s->mean);
    if (!s->mean)
        return sw_err_nomem(err, "mean and std of a field", 2 * (size_t)count * sizeof *s->mean);

    s->std = s->mean + count;
    for (int64_t i = 0; i < count; i++)
        s->std[i] = 1;

    return SW_OK;
}

void sw_scaling_fini(struct sw_scaling *s)
{
    sw_free(s->mean);
    sw_free(s->whiten);
    *s = (struct sw_scaling){0};
}

static int set_list(double *to, int64_t count, const char *key, const struct sw_reals *from,
                    struct sw_err *err)
{
    if (from->count > 1 && from->count != count)
        return sw_err_set(err, SW_ERR_INVALID,
                          "%s: %d numbers, but the field has %lld values per record: give one "
                          "number for all, or one for each",
                          key, from->count, (long long)count);

    for (int64_t i = 0; i < count && from->count > 0; i++)
        to[i] = from->items[from->count > 1 ? i : 0];

    return SW_OK;
}

int sw_scaling_set(struct sw_scaling *s, const struct sw_reals *mean, const struct sw_reals *std,
                   struct sw_err *err)
{
    int rc = set_list(s->mean, s->count, "mean", mean, err);
    if (rc)
        return rc;

    rc = set_list(s->std, s->count, "std", std, err);
    s->known = rc == SW_OK;
    return rc;
}

static int new_matrix(struct sw_scaling *s, struct sw_err *err)
{
    const size_t count = (size_t)s->count * (size_t)s->count;

    if (!s->whiten)
        s->whiten = sw_calloc(count, sizeof *s->whiten);
    return s->whiten ? SW_OK : sw_err_nomem(err, "a whitening matrix", count * sizeof *s->whiten);
}

int sw_scaling_copy(struct sw_scaling *to, const struct sw_scaling *from, struct sw_err *err)
{
    const bool matrix = to->whitens && from->whiten;
    int rc = matrix ? new_matrix(to, err) : SW_OK;
    if (rc)
        return rc;

    memcpy(to->mean, from->mean, 2 * (size_t)to->count * sizeof *to->mean);
    if (matrix)
        memcpy(to->whiten, from->whiten,
               (size_t)to->count * (size_t)to->count * sizeof *to->whiten);
    to->known = from->known && (matrix || !to->whitens);
    return SW_OK;
}

/* ---- A row ---- */

static double raise(double value, double power)
{
    return copysign(pow(fabs(value), power), value);
}

static int take_logarithms(float *row, int64_t count, struct sw_err *err)
{
    for (int64_t i = 0; i < count; i++) {
        if (!(row[i] > -1))
            return sw_err_set(err, SW_ERR_FORMAT,
                              "value %lld is %g, but log1p = yes needs values above -1",
                              (long long)i + 1, (double)row[i]);
        row[i] = log1pf(row[i]);
    }

    return SW_OK;
}

int sw_scaling_apply(const struct sw_scaling *s, struct sw_room *scratch, float *row,
                     struct sw_err *err)
{
    const size_t bytes = (size_t)s->count * sizeof *row;

    for (int64_t i = 0; s->power < 1 && i < s->count; i++)
        row[i] = (float)raise((double)row[i], s->power);

    int rc = s->log1p ? take_logarithms(row, s->count, err) : SW_OK;

    for (int64_t i = 0; !rc && i < s->count; i++)
        row[i] = (float)(((double)row[i] - s->mean[i]) / s->std[i]);

    if (!rc && s->whiten)
        rc = sw_room_need(scratch, bytes, "a row to be whitened", err);
    if (!rc && s->whiten) {
        float *centered = (float *)(void *)scratch->memory;

        memcpy(centered, row, bytes);
        sw_kernel_matrix_vector(s->count, s->count, s->whiten, centered, row);
    }

    for (int64_t i = 0; !rc && i < s->count; i++)
        row[i] = (float)((double)row[i] * s->factor);
    return rc;
}

bool sw_scaling_has_units(const struct sw_scaling *s)
{
    return s->power >= 1 && !s->log1p && !s->whitens;
}

void sw_scaling_undo(const struct sw_scaling *s, float *row)
{
    for (int64_t i = 0; i < s->count; i++)
        row[i] = (float)((double)row[i] * sw_scaling_unit(s, i) + s->mean[i]);
}

double sw_scaling_unit(const struct sw_scaling *s, int64_t c)
{
    return s->std[c] / s->factor;
}

/* ---- A field of a source ---- */

int sw_source_scale(struct sw_source *s, int f, struct sw_err *err)
{
    struct sw_field *field = &s->field[f];
    const int64_t count = sw_field_count(field);

    if (!strcmp(field->name, "image") && (s->raw.has_pictures || s->raw.field[f].dtype != SW_F32 ||
                                          !sw_transform_keeps_values(&s->transform)))
        return sw_err_set(err, SW_ERR_INVALID,
                          "the keys of data %s (mean, std, scale, log1p, whiten) transform images: "
                          "those of the input layer are for features, which the section leaves as "
                          "they are",
                          s->name);
    if (field->dtype == SW_I32 && count > 1)
        return sw_err_set(
            err, SW_ERR_INVALID,
            "the field %s of data %s is a list of %lld whole numbers, not of measured "
            "values",
            field->name, s->name, (long long)count);

    int rc = sw_scaling_init(&s->scaling[f], count, err);
    if (rc)
        return rc;

    field->dtype = SW_F32;
    return SW_OK;
}

/* A pass over the records of a field. */
struct scan {
    const struct sw_source *source;
    int f;
    unsigned char *block; /* owned: memory of a record */
    void *scratch;        /* in block, aligned */
    double *row;          /* owned [count] */
    int64_t rows;         /* of the pass */
};

static int begin_scan(struct scan *scan, struct sw_err *err)
{
    const size_t bytes = sw_field_bytes(&scan->source->raw.field[scan->f]) + ALIGNMENT,
                 count = (size_t)scan->source->scaling[scan->f].count;

    scan->block = sw_calloc(bytes, 1);
    scan->row = sw_calloc(count, sizeof *scan->row);
    if (!scan->block || !scan->row)
        return sw_err_nomem(err, "a record", bytes + count * sizeof *scan->row);

    scan->scratch = scan->block + (ALIGNMENT - (uintptr_t)scan->block % ALIGNMENT) % ALIGNMENT;
    return SW_OK;
}

static void end_scan(struct scan *scan)
{
    sw_free(scan->block);
    sw_free(scan->row);
}

static int bad_value(const struct scan *scan, int64_t record, int64_t k, double value,
                     struct sw_err *err)
{
    const struct sw_source *s = scan->source;
    struct sw_bytes where = {0};

    sw_records_locate(&s->raw, record, &where);
    sw_err_set(err, SW_ERR_FORMAT, "%s: value %lld of %s is %g%s", sw_bytes_text(&where),
               (long long)k + 1, s->field[scan->f].name, value,
               s->scaling[scan->f].log1p ? ", but log1p = yes needs values above -1" : "");
    sw_bytes_fini(&where);
    return SW_ERR_FORMAT;
}

/* Sets scan->row to record i of the section, with the transforms of single values. */
static int read_row(struct scan *scan, int64_t i, struct sw_err *err)
{
    const struct sw_source *s = scan->source;
    const struct sw_scaling *scaling = &s->scaling[scan->f];
    const int64_t record = sw_subset_record(&s->subset, i);
    const void *raw = NULL;
    int rc = sw_stop_check(err);

    if (!rc)
        rc = s->raw.format->fetch(&s->raw, record, scan->f, scan->scratch, &raw, err);
    if (rc)
        return rc;

    for (int64_t k = 0; k < scaling->count; k++) {
        int32_t whole;
        float real;

        memcpy(&whole, (const char *)raw + (size_t)k * sizeof whole, sizeof whole);
        memcpy(&real, (const char *)raw + (size_t)k * sizeof real, sizeof real);

        const double value = s->raw.field[scan->f].dtype == SW_I32 ? (double)whole : (double)real,
                     raised = scaling->power < 1 ? raise(value, scaling->power) : value;
        scan->row[k] = scaling->log1p ? log1p(raised) : raised;
        if (!isfinite(scan->row[k]))
            return bad_value(scan, record, k, value, err);
    }

    return SW_OK;
}

/* Calls add for every record; those that are skipped elsewhere are skipped here. */
static int each_row(struct scan *scan, void (*add)(void *user, const double *row), void *user,
                    struct sw_err *err)
{
    const struct sw_source *s = scan->source;

    scan->rows = 0;
    for (int64_t i = 0; i < s->records; i++) {
        int rc = read_row(scan, i, err);
        if (rc == SW_ERR_FORMAT && s->bad->skip)
            continue;
        if (rc)
            return rc;

        scan->rows++;
        add(user, scan->row);
    }

    return scan->rows ? SW_OK : sw_err_set(err, SW_ERR_FORMAT, "no record can be read");
}

struct moments {
    int64_t count;
    double *mean, *variance; /* owned [2 count]; sums until all rows are added */
};

static void add_values(void *user, const double *row)
{
    struct moments *m = user;
    for (int64_t k = 0; k < m->count; k++)
        m->mean[k] += row[k];
}

static void add_squares(void *user, const double *row)
{
    struct moments *m = user;
    for (int64_t k = 0; k < m->count; k++)
        m->variance[k] += (row[k] - m->mean[k]) * (row[k] - m->mean[k]);
}

/* Sets mean and std, as far as they are asked for. */
static int measure_moments(struct scan *scan, struct sw_scaling *to,
                           const struct sw_scaling_measure *how, struct sw_err *err)
{
    const size_t count = (size_t)to->count;
    struct moments m = {.count = to->count, .mean = sw_calloc(2 * count, sizeof *m.mean)};

    if (m.mean)
        m.variance = m.mean + count;
    int rc = m.mean ? each_row(scan, add_values, &m, err)
                    : sw_err_nomem(err, "sums of a field", 2 * count * sizeof *m.mean);

    for (size_t k = 0; !rc && k < count; k++)
        m.mean[k] /= (double)scan->rows;
    if (!rc && how->mean)
        memcpy(to->mean, m.mean, count * sizeof *m.mean);

    if (!rc && how->std)
        rc = each_row(scan, add_squares, &m, err);
    for (size_t k = 0; !rc && how->std && k < count; k++) {
        const double std = sqrt(m.variance[k] / (double)scan->rows);
        to->std[k] = std > CONSTANT * fabs(m.mean[k]) ? std : 1;
    }

    sw_free(m.mean);
    return rc;
}

/* The sum of outer products of standardized rows; those of a few rows are summed as floats. */
struct gram {
    const struct sw_scaling *scaling;
    double *sum;            /* owned [count, count] */
    float *rows, *products; /* owned [GRAM_ROWS, count], [count, count] */
    int64_t filled;         /* rows that are not in the sum yet */
    struct sw_err *err;
    int rc;
};

enum { GRAM_ROWS = 256 };

static void add_products(struct gram *g)
{
    const int64_t n = g->scaling->count;

    if (!g->rc && g->filled)
        g->rc = sw_algebra_gram(n, g->filled, g->rows, g->products, g->err);
    for (int64_t i = 0; !g->rc && g->filled && i < n * n; i++)
        g->sum[i] += (double)g->products[i];
    g->filled = 0;
}

static void add_row(void *user, const double *row)
{
    struct gram *g = user;
    const struct sw_scaling *s = g->scaling;
    float *to = g->rows + g->filled * s->count;

    for (int64_t k = 0; k < s->count; k++)
        to[k] = (float)((row[k] - s->mean[k]) / s->std[k]);
    if (++g->filled == GRAM_ROWS)
        add_products(g);
}

/* Sets the whitening matrix; mean and std are known. */
static int measure_matrix(struct scan *scan, struct sw_scaling *to, double epsilon,
                          struct sw_err *err)
{
    const int64_t n = to->count;
    const size_t count = (size_t)n * (size_t)n;
    struct gram g = {.scaling = to, .err = err};

    if (n > SW_ALGEBRA_MAX)
        return sw_err_set(err, SW_ERR_INVALID, "whiten: rows have %lld values; the limit is %d",
                          (long long)n, SW_ALGEBRA_MAX);

    g.sum = sw_calloc(count, sizeof *g.sum);
    g.products = sw_calloc(count, sizeof *g.products);
    g.rows = sw_calloc(GRAM_ROWS * (size_t)n, sizeof *g.rows);
    int rc = g.sum && g.products && g.rows
                 ? new_matrix(to, err)
                 : sw_err_nomem(err, "a covariance matrix", count * sizeof *g.sum);

    if (!rc)
        rc = each_row(scan, add_row, &g, err);
    if (!rc) {
        add_products(&g);
        rc = g.rc;
    }
    for (size_t i = 0; !rc && i < count; i++)
        g.sum[i] /= (double)scan->rows;
    if (!rc)
        rc = sw_algebra_inverse_root(g.sum, n, epsilon, err);
    for (size_t i = 0; !rc && i < count; i++)
        to->whiten[i] = (float)g.sum[i];

    sw_free(g.sum);
    sw_free(g.products);
    sw_free(g.rows);
    return rc;
}

int sw_source_measure(struct sw_source *s, int f, const struct sw_scaling_measure *how,
                      struct sw_err *err)
{
    struct sw_scaling *to = &s->scaling[f];
    struct scan scan = {.source = s, .f = f};

    int rc = begin_scan(&scan, err);
    if (!rc && (how->mean || how->std))
        rc = measure_moments(&scan, to, how, err);
    if (!rc && to->whitens)
        rc = measure_matrix(&scan, to, how->epsilon, err);
    to->known = !rc;

    end_scan(&scan);
    return rc ? sw_err_prefix(err, rc, "data %s", s->name) : SW_OK;
}
