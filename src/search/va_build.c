/* Builds the approximations of a VA-file: the marks of each dimension by sorting a sample of its
 * values, then the interval of each element by binary search. The contract is in
 * search/va_file.h. */
#include "base/os.h"
#include "search/parallel.h"
#include "search/va_filter.h"
#include "search/va_private.h"
#include <stdlib.h>
#include <string.h>

enum { SAMPLE = 65536, ROWS = 1024 };

size_t sw_va_marks(int dims, int bits)
{
    return (size_t)dims * ((size_t)sw_va_intervals(bits) + 1);
}

size_t sw_va_row_bytes(int dims, int bits)
{
    return ((size_t)dims * (size_t)bits + 7) / 8;
}

size_t sw_va_cells(int64_t count, int dims, int bits)
{
    return sw_aligned((size_t)count, SW_VA_BLOCK) * sw_va_row_bytes(dims, bits);
}

int sw_va_check(int bits, enum sw_metric m, struct sw_err *err)
{
    if (bits != 1 && bits != 2 && bits != 4 && bits != 8)
        return sw_err_set(err, SW_ERR_INVALID, "%d bits per dimension: a VA-file has 1, 2, 4 or 8",
                          bits);
    if (m == SW_METRIC_DOT)
        return sw_err_set(err, SW_ERR_INVALID,
                          "a VA-file bounds the distances euclidean and cosine, not dot");

    return SW_OK;
}

struct build {
    const struct sw_vectors *v;
    enum sw_metric metric;
    int bits;
    double *scale;  /* [count] */
    float *samples; /* [threads][SAMPLE] */
    float *marks;
    uint8_t *cells;
};

static float element(const struct build *b, int64_t row, int dim)
{
    const float x = sw_vector(b->v, row)[dim];
    return b->metric == SW_METRIC_COSINE ? (float)((double)x * b->scale[row]) : x;
}

static int compare(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Task: the marks of one dimension. */
static int mark_dimension(void *user, int64_t task, int thread, struct sw_err *err)
{
    const struct build *b = user;
    const int64_t count = b->v->count, taken = count < SAMPLE ? count : SAMPLE;
    const int intervals = sw_va_intervals(b->bits), dim = (int)task;
    float *sample = b->samples + (int64_t)thread * SAMPLE;
    float *marks = b->marks + task * (intervals + 1);

    for (int64_t i = 0; i < taken; i++)
        sample[i] = element(b, i * count / taken, dim);
    qsort(sample, (size_t)taken, sizeof *sample, compare);

    for (int c = 0; c <= intervals; c++)
        marks[c] = sample[c < intervals ? c * taken / intervals : taken - 1];

    for (int64_t row = 0; row < count; row++) {
        const float x = element(b, row, dim);

        marks[0] = x < marks[0] ? x : marks[0];
        marks[intervals] = x > marks[intervals] ? x : marks[intervals];
    }

    return SW_OK;
}

/* The last interval that begins at x or before. */
static unsigned interval_of(const float *marks, int intervals, float x)
{
    int low = 0, high = intervals - 1;

    while (low < high) {
        const int middle = (low + high + 1) / 2;

        if (marks[middle] <= x)
            low = middle;
        else
            high = middle - 1;
    }

    return (unsigned)low;
}

/* Task: the cells of ROWS rows. */
static int fill_cells(void *user, int64_t task, int thread, struct sw_err *err)
{
    const struct build *b = user;
    const int intervals = sw_va_intervals(b->bits), dims = b->v->dims;
    const size_t row_bytes = sw_va_row_bytes(dims, b->bits);
    const int64_t first = task * ROWS, end = first + ROWS;

    for (int64_t row = first; row < end && row < b->v->count; row++) {
        const size_t in_block = (size_t)row % SW_VA_BLOCK;
        uint8_t *block = b->cells + ((size_t)row - in_block) * row_bytes;

        if (in_block == 0)
            memset(block, 0, SW_VA_BLOCK * row_bytes);
        for (int d = 0; d < dims; d++) {
            const float *marks = b->marks + (int64_t)d * (intervals + 1);
            const unsigned cell = interval_of(marks, intervals, element(b, row, d));

            block[(size_t)(d * b->bits / 8) * SW_VA_BLOCK + in_block] |=
                (uint8_t)(cell << (d * b->bits % 8));
        }
    }

    return SW_OK;
}

int sw_va_build(const struct sw_vectors *v, enum sw_metric m, int bits, int threads, float *marks,
                uint8_t *cells, struct sw_err *err)
{
    struct build b = {.v = v, .metric = m, .bits = bits, .marks = marks, .cells = cells};

    int rc = sw_va_check(bits, m, err);
    if (rc != SW_OK)
        return rc;

    b.scale = sw_calloc((size_t)v->count, sizeof *b.scale);
    b.samples = sw_calloc((size_t)threads, SAMPLE * sizeof *b.samples);
    if (!b.scale || !b.samples) {
        rc = sw_err_nomem(err, "a VA-file", (size_t)v->count * sizeof *b.scale);
        goto out;
    }

    for (int64_t row = 0; row < v->count; row++)
        b.scale[row] = sw_va_scale(m, sw_vector(v, row), v->dims);

    rc = sw_search_parallel(threads, v->dims, mark_dimension, &b, err);
    if (rc == SW_OK)
        rc = sw_search_parallel(threads, (v->count + ROWS - 1) / ROWS, fill_cells, &b, err);

out:
    sw_free(b.scale);
    sw_free(b.samples);
    return rc;
}

int sw_va_check_marks(const struct sw_va_file *f, const char *what, struct sw_err *err)
{
    const int intervals = sw_va_intervals(f->bits);

    for (int d = 0; d < f->vectors.dims; d++) {
        const float *marks = f->marks + (int64_t)d * (intervals + 1);

        for (int c = 0; c <= intervals; c++)
            if (!isfinite(marks[c]) || (c > 0 && marks[c] < marks[c - 1]))
                return sw_err_set(
                    err, SW_ERR_FORMAT,
                    "%s: mark %d of dimension %d is %g, expected a number that is not "
                    "below the mark before",
                    what, c, d, (double)marks[c]);
    }

    return SW_OK;
}
