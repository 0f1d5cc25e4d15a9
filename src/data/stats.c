/* Measures a source: makes one pass over all records with the prefetch threads of the source
 * (each_batch), accumulating means, deviations, limits and class counts, or the covariance for ZCA
 * whitening, and writes the result to a file. The calling thread accumulates them in the order of
 * the records. */
#include "data/stats.h"
#include "base/os.h"
#include "base/stop.h"
#include "data/prefetch.h"
#include "device/cpu/algebra.h"
#include "tensor/npy.h"
#include "tensor/safetensors.h"
#include <math.h>
#include <string.h>

enum { BATCH_BYTES = 16 << 20, MAX_ROWS = 256 };

/* ---- every row once ---- */

static int64_t batch_rows(const struct sw_source *s)
{
    size_t row = 0;

    for (int f = 0; f < s->field_count; f++)
        row += sw_field_bytes(&s->field[f]);

    const int64_t rows = (int64_t)(BATCH_BYTES / (row ? row : 1));
    if (s->streams)
        return s->streams;

    return rows < 1 ? 1 : rows > MAX_ROWS ? MAX_ROWS : rows;
}

static bool continues(const struct sw_stats_watch *watch, int64_t done, int64_t records)
{
    if (sw_stop_check(NULL) != SW_OK)
        return false;
    return !watch || !watch->progress || watch->progress(watch->user, done, records);
}

typedef int take_fn(void *user, const struct sw_batch *b, struct sw_err *err);

static int each_batch(const struct sw_source *s, unsigned fields,
                      const struct sw_stats_watch *watch, take_fn *take, void *user,
                      struct sw_err *err)
{
    const int64_t rows = batch_rows(s), batches = sw_source_batches(s, rows);
    const struct sw_prefetch_args args = {.source = s,
                                          .batch_rows = rows,
                                          .row_count = rows,
                                          .batch_stride = 1,
                                          .batch_limit = batches,
                                          .slots = (int)s->prefetch + 1,
                                          .threads = (int)s->workers,
                                          .fields = fields};
    struct sw_prefetch *p = NULL;
    int64_t done = 0;
    int rc = sw_prefetch_start(&args, &p, err);

    for (int64_t i = 0; !rc && i < batches; i++) {
        struct sw_batch b;

        rc = sw_prefetch_next(p, &b, err);
        if (rc)
            break;

        rc = take(user, &b, err);
        done += b.valid_rows;
        sw_prefetch_release(p, &b);

        if (!rc && !continues(watch, done, s->records))
            rc = sw_err_set(err, SW_ERR_CANCELLED, "stopped after %lld of %lld records",
                            (long long)done, (long long)s->records);
    }

    sw_prefetch_free(p);
    return rc;
}

/* ---- measuring ---- */

/* Sums of one channel of a field. */
struct sums {
    double sum, squares, least, most;
};

struct measure {
    const struct sw_source *s;
    struct sw_stats *out;
    struct sums *sums[SW_MAX_FIELDS]; /* owned */
    double *image_sums;               /* owned; sums of the image elements, or NULL */
    int image, label;                 /* fields, or -1 */
};

static bool is_image(const struct sw_field *f)
{
    return !strcmp(f->name, "image") && f->ndim == 3 && f->dtype == SW_F32;
}

static bool is_label(const struct sw_field *f)
{
    return !strcmp(f->name, "label") && f->ndim == 0 && f->dtype == SW_I32;
}

static int new_field(struct measure *m, int f, struct sw_err *err)
{
    const struct sw_field *field = &m->s->field[f];
    struct sw_stats_field *out = &m->out->field[f];

    *out = (struct sw_stats_field){.name = field->name, .parts = 1};

    if (is_image(field)) {
        m->image = f;
        out->parts = field->dim[0];
        memcpy(m->out->shape, field->dim, sizeof m->out->shape);
        m->image_sums = sw_calloc((size_t)sw_field_count(field), sizeof *m->image_sums);

        m->out->mean = sw_calloc((size_t)sw_field_count(field), sizeof *m->out->mean);
        if (!m->image_sums || !m->out->mean)
            return sw_err_nomem(err, "a mean image", sw_field_bytes(field));
    } else if (is_label(field)) {
        m->label = f;
        m->out->classes = m->s->classes;

        m->out->class_count = sw_calloc((size_t)m->s->classes, sizeof *m->out->class_count);
        if (!m->out->class_count)
            return sw_err_nomem(err, "counts of classes", (size_t)m->s->classes * 8);
    }

    out->part = sw_calloc((size_t)out->parts, sizeof *out->part);
    m->sums[f] = sw_calloc((size_t)out->parts, sizeof *m->sums[f]);
    if (!out->part || !m->sums[f])
        return sw_err_nomem(err, "sums of a field", (size_t)out->parts * sizeof *m->sums[f]);

    for (int64_t c = 0; c < out->parts; c++)
        m->sums[f][c] = (struct sums){.least = INFINITY, .most = -INFINITY};
    return SW_OK;
}

static void add(struct sums *to, double x)
{
    to->sum += x;
    to->squares += x * x;
    to->least = x < to->least ? x : to->least;
    to->most = x > to->most ? x : to->most;
}

static double value(enum sw_dtype dtype, const void *row, int64_t i)
{
    switch (dtype) {
    case SW_F32:
        return (double)((const float *)row)[i];
    case SW_I32:
        return ((const int32_t *)row)[i];
    case SW_U8:
        return ((const uint8_t *)row)[i];
    case SW_BF16:
    case SW_F16:
        break; /* no field has them */
    }

    return 0;
}

static void add_image(struct measure *m, int f, const float *row)
{
    const int64_t area = m->out->shape[1] * m->out->shape[2];
    double *sum = m->image_sums;

    for (int64_t c = 0; c < m->out->shape[0]; c++, row += area, sum += area) {
        struct sums s = m->sums[f][c];

        for (int64_t i = 0; i < area; i++) {
            const double x = (double)row[i];
            sum[i] += x;
            add(&s, x);
        }

        m->sums[f][c] = s;
    }
}

static int add_label(struct measure *m, int32_t label, struct sw_err *err)
{
    if (label < 0 || label >= m->out->classes)
        return sw_err_set(err, SW_ERR_FORMAT, "label %d, expected 0 to %lld", label,
                          (long long)m->out->classes - 1);

    m->out->class_count[label]++;
    return SW_OK;
}

static int add_batch(void *user, const struct sw_batch *b, struct sw_err *err)
{
    struct measure *m = user;
    int rc = SW_OK;

    for (int f = 0; !rc && f < m->s->field_count; f++) {
        const struct sw_field *field = &m->s->field[f];
        const size_t bytes = sw_field_bytes(field);
        const int64_t count = sw_field_count(field);
        const char *row = b->field[f];

        for (int64_t i = 0; !rc && i < b->valid_rows; i++, row += bytes) {
            if (f == m->image)
                add_image(m, f, (const float *)(const void *)row);
            for (int64_t k = 0; f != m->image && k < count; k++)
                add(m->sums[f], value(field->dtype, row, k));
            if (f == m->label)
                rc = add_label(m, *(const int32_t *)(const void *)row, err);
        }
    }

    m->out->records += b->valid_rows;
    return rc;
}

static void conclude(struct measure *m)
{
    struct sw_stats *out = m->out;

    for (int f = 0; f < out->field_count; f++) {
        struct sw_stats_field *field = &out->field[f];
        const double count =
            (double)out->records * (double)(sw_field_count(&m->s->field[f]) / field->parts);

        for (int64_t c = 0; c < field->parts; c++) {
            const struct sums *s = &m->sums[f][c];
            const double mean = s->sum / count, variance = s->squares / count - mean * mean;
            field->part[c] =
                (struct sw_stats_range){mean, sqrt(variance > 0 ? variance : 0), s->least, s->most};
        }
    }

    for (int64_t i = 0; out->mean && i < out->shape[0] * out->shape[1] * out->shape[2]; i++)
        out->mean[i] = (float)(m->image_sums[i] / (double)out->records);
}

int sw_stats_measure(const struct sw_source *s, const struct sw_stats_watch *watch,
                     struct sw_stats *out, struct sw_err *err)
{
    struct measure m = {.s = s, .out = out, .image = -1, .label = -1};
    int rc = SW_OK;

    *out = (struct sw_stats){.field_count = s->field_count};
    for (int f = 0; !rc && f < s->field_count; f++)
        rc = new_field(&m, f, err);
    if (!rc)
        rc = each_batch(s, ~0u, watch, add_batch, &m, err);
    if (!rc)
        conclude(&m);
    for (int f = 0; f < SW_MAX_FIELDS; f++)
        sw_free(m.sums[f]);
    sw_free(m.image_sums);

    return rc;
}

void sw_stats_fini(struct sw_stats *s)
{
    for (int f = 0; f < SW_MAX_FIELDS; f++)
        sw_free(s->field[f].part);
    sw_free(s->class_count);
    sw_free(s->mean);
    *s = (struct sw_stats){0};
}

/* ---- whitening ---- */

struct whitening {
    int image;
    int64_t count; /* values of a row */
    float *mean;   /* owned until handed out */
    double *sum;   /* owned; [count], then covariance [count, count] */
    float *rows;   /* owned; a batch without its mean */
    float *gram;   /* owned; [count, count] */
    int64_t records;
};

static int add_mean(void *user, const struct sw_batch *b, struct sw_err *err)
{
    struct whitening *w = user;
    const float *x = b->field[w->image];

    for (int64_t i = 0; i < b->valid_rows; i++, x += w->count) {
        for (int64_t k = 0; k < w->count; k++)
            w->sum[k] += (double)x[k];
    }

    w->records += b->valid_rows;
    return SW_OK;
}

static int add_gram(void *user, const struct sw_batch *b, struct sw_err *err)
{
    struct whitening *w = user;
    const float *x = b->field[w->image];

    for (int64_t i = 0; i < b->valid_rows; i++) {
        for (int64_t k = 0; k < w->count; k++)
            w->rows[i * w->count + k] = x[i * w->count + k] - w->mean[k];
    }

    int rc = sw_algebra_gram(w->count, b->valid_rows, w->rows, w->gram, err);
    if (rc != SW_OK)
        return rc;

    for (int64_t i = 0; i < w->count * w->count; i++)
        w->sum[i] += (double)w->gram[i];
    return SW_OK;
}

static int take_memory(struct whitening *w, int64_t rows, struct sw_err *err)
{
    const size_t n = (size_t)w->count;

    w->mean = sw_calloc(n, sizeof *w->mean);
    w->sum = sw_calloc(n * n, sizeof *w->sum);
    w->rows = sw_calloc((size_t)rows * n, sizeof *w->rows);

    w->gram = sw_calloc(n * n, sizeof *w->gram);
    if (w->mean && w->sum && w->rows && w->gram)
        return SW_OK;

    return sw_err_nomem(err, "the covariance of rows", n * n * (sizeof *w->sum + sizeof *w->gram));
}

static int find_image(const struct sw_source *s, struct whitening *w, struct sw_err *err)
{
    w->image = sw_source_find(s, "image");
    if (w->image < 0 || s->field[w->image].dtype != SW_F32)
        return sw_err_set(err, SW_ERR_INVALID, "data %s has no field image to whiten", s->name);
    w->count = sw_field_count(&s->field[w->image]);
    if (w->count <= SW_ALGEBRA_MAX)
        return SW_OK;

    return sw_err_set(err, SW_ERR_INVALID, "rows of %lld values; at most %d can be whitened",
                      (long long)w->count, SW_ALGEBRA_MAX);
}

int sw_stats_whiten(const struct sw_source *s, double epsilon, const struct sw_stats_watch *watch,
                    float **mean, float **matrix, struct sw_err *err)
{
    struct whitening w = {.records = 0};
    int rc = find_image(s, &w, err);
    const unsigned fields = rc ? 0 : 1u << w.image;

    if (!rc)
        rc = take_memory(&w, batch_rows(s), err);
    if (!rc)
        rc = each_batch(s, fields, watch, add_mean, &w, err);

    for (int64_t k = 0; !rc && k < w.count; k++) {
        w.mean[k] = (float)(w.sum[k] / (double)w.records);
        w.sum[k] = 0;
    }

    if (!rc)
        rc = each_batch(s, fields, watch, add_gram, &w, err);
    for (int64_t i = 0; !rc && i < w.count * w.count; i++)
        w.sum[i] /= (double)w.records;
    if (!rc)
        rc = sw_algebra_inverse_root(w.sum, w.count, epsilon, err);

    if (!rc) {
        for (int64_t i = 0; i < w.count * w.count; i++)
            w.gram[i] = (float)w.sum[i];
        *mean = w.mean;
        *matrix = w.gram;
        w.mean = w.gram = NULL;
    }

    sw_free(w.mean);
    sw_free(w.sum);
    sw_free(w.rows);
    sw_free(w.gram);

    return rc;
}

/* ---- files ---- */

int sw_stats_check_name(const char *path, bool whitening, struct sw_err *err)
{
    if (sw_str_ends(path, ".safetensors") || (!whitening && sw_str_ends(path, ".npy")))
        return SW_OK;
    return sw_err_set(err, SW_ERR_INVALID, "%s: unsupported suffix, expected %s.safetensors", path,
                      whitening ? "" : ".npy or ");
}

struct array {
    const float *x;
    size_t bytes;
};

static int emit(void *user, struct sw_st_sink *sink, struct sw_err *err)
{
    const struct array *a = user;
    return sw_st_emit(sink, a->x, a->bytes, err);
}

int sw_stats_write(const struct sw_stats_file *f, const char *path, struct sw_err *err)
{
    const int64_t count = f->row_shape[0] * f->row_shape[1] * f->row_shape[2];
    const int64_t square[2] = {count, count};
    const int64_t mean_count = f->mean_shape[0] * f->mean_shape[1] * f->mean_shape[2];
    struct array mean = {f->mean, (size_t)mean_count * sizeof(float)};
    struct array center = {f->whiten_mean, (size_t)count * sizeof(float)};
    struct array matrix = {f->whiten_matrix, (size_t)(count * count) * sizeof(float)};

    int rc = sw_stats_check_name(path, f->whiten_matrix != NULL, err);
    if (rc)
        return rc;
    if (sw_str_ends(path, ".npy"))
        return sw_npy_write(path, SW_F32, 3, f->mean_shape, f->mean, err);

    struct sw_st_writer *w = sw_st_writer_new();
    if (!w)
        return sw_err_nomem(err, path, 0);

    if (f->mean)
        rc = sw_st_writer_add(w, "mean", (struct sw_st_shape){SW_ST_F32, 3, f->mean_shape}, emit,
                              &mean, err);
    if (!rc && f->whiten_matrix)
        rc = sw_st_writer_add(w, "whiten.mean", (struct sw_st_shape){SW_ST_F32, 3, f->row_shape},
                              emit, &center, err);
    if (!rc && f->whiten_matrix)
        rc = sw_st_writer_add(w, "whiten.matrix", (struct sw_st_shape){SW_ST_F32, 2, square}, emit,
                              &matrix, err);
    if (!rc)
        rc = sw_st_writer_write(w, path, 0666, NULL, NULL, err);
    sw_st_writer_free(w);

    return rc;
}
