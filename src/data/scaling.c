/* Measures and applies the standardization of a field. */
#include "data/scaling.h"
#include "base/os.h"
#include "base/stop.h"
#include "data/source.h"
#include <math.h>
#include <string.h>

enum { ALIGNMENT = 64 };
#define CONSTANT 1e-13 /* a smaller std, relative to the mean, is rounding */

/* ---- The numbers ---- */

int sw_scaling_init(struct sw_scaling *s, int64_t count, struct sw_err *err)
{
    *s = (struct sw_scaling){.count = count};
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

void sw_scaling_copy(struct sw_scaling *to, const struct sw_scaling *from)
{
    memcpy(to->mean, from->mean, 2 * (size_t)to->count * sizeof *to->mean);
    to->known = from->known;
}

void sw_scaling_apply(const struct sw_scaling *s, float *row)
{
    for (int64_t i = 0; i < s->count; i++)
        row[i] = (float)(((double)row[i] - s->mean[i]) / s->std[i]);
}

void sw_scaling_undo(const struct sw_scaling *s, float *row)
{
    for (int64_t i = 0; i < s->count; i++)
        row[i] = (float)((double)row[i] * s->std[i] + s->mean[i]);
}

/* ---- A field of a source ---- */

int sw_source_standardize(struct sw_source *s, int f, struct sw_err *err)
{
    struct sw_field *field = &s->field[f];
    const int64_t count = sw_field_count(field);

    if (!strcmp(field->name, "image"))
        return sw_err_set(err, SW_ERR_INVALID,
                          "the keys mean, std and scale of data %s standardize images", s->name);
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

/* Sets row to record i of the section, as doubles. */
static int read_row(const struct sw_source *s, int f, int64_t i, void *scratch, double *row,
                    struct sw_err *err)
{
    const int64_t record = sw_subset_record(&s->subset, i), count = s->scaling[f].count;
    const void *raw = NULL;
    int rc = sw_stop_check(err);

    if (!rc)
        rc = s->raw.format->fetch(&s->raw, record, f, scratch, &raw, err);
    if (rc)
        return rc;

    for (int64_t k = 0; k < count; k++) {
        int32_t whole;
        float real;

        memcpy(&whole, (const char *)raw + (size_t)k * sizeof whole, sizeof whole);
        memcpy(&real, (const char *)raw + (size_t)k * sizeof real, sizeof real);
        row[k] = s->raw.field[f].dtype == SW_I32 ? (double)whole : (double)real;
        if (!isfinite(row[k]))
            return sw_err_set(err, SW_ERR_FORMAT, "record %lld: value %lld of %s is %g",
                              (long long)record, (long long)k + 1, s->field[f].name, row[k]);
    }

    return SW_OK;
}

/* Adds the rows, or with `mean` the squares of their distances to it, to sum. Records that are
 * skipped elsewhere are skipped here. */
static int add_rows(const struct sw_source *s, int f, void *scratch, const double *mean,
                    double *sum, struct sw_err *err)
{
    const int64_t count = s->scaling[f].count;
    double *row = sum + count;
    int64_t rows = 0;

    for (int64_t i = 0; i < s->records; i++) {
        int rc = read_row(s, f, i, scratch, row, err);
        if (rc == SW_ERR_FORMAT && s->bad->skip)
            continue;
        if (rc)
            return rc;

        rows++;
        for (int64_t k = 0; k < count; k++)
            sum[k] += mean ? (row[k] - mean[k]) * (row[k] - mean[k]) : row[k];
    }

    for (int64_t k = 0; k < count && rows > 0; k++)
        sum[k] /= (double)rows;

    return SW_OK;
}

int sw_source_measure(struct sw_source *s, int f, struct sw_err *err)
{
    struct sw_scaling *to = &s->scaling[f];
    const size_t count = (size_t)to->count;
    unsigned char *block = sw_calloc(sw_field_bytes(&s->raw.field[f]) + ALIGNMENT, 1);
    double *sum = sw_calloc(2 * count, sizeof *sum);
    int rc = block && sum ? SW_OK : sw_err_nomem(err, "sums of a field", 2 * count * sizeof *sum);

    void *scratch = block ? block + (ALIGNMENT - (uintptr_t)block % ALIGNMENT) % ALIGNMENT : NULL;

    if (!rc)
        rc = add_rows(s, f, scratch, NULL, sum, err);
    if (rc)
        goto out;

    memcpy(to->mean, sum, count * sizeof *sum);
    memset(sum, 0, 2 * count * sizeof *sum);

    rc = add_rows(s, f, scratch, to->mean, sum, err);
    if (rc)
        goto out;

    for (size_t k = 0; k < count; k++)
        to->std[k] = sqrt(sum[k]) > CONSTANT * fabs(to->mean[k]) ? sqrt(sum[k]) : 1;
    to->known = true;

out:
    sw_free(block);
    sw_free(sum);
    return rc ? sw_err_prefix(err, rc, "data %s", s->name) : SW_OK;
}
