/* Searches a VA-file in two phases (VA-NOA). A query fills two tables: for each byte of an
 * approximation and each of its 256 values what the dimensions in that byte add to the squared
 * lower and upper bound, so a bound of a vector is a sum of table entries. Bounds are summed in
 * float and then moved outward by more than that can be off. As soon as there is a limit, a filter
 * of small integers rules out most rows before their bounds are summed. The contract is in
 * search/va_file.h. */
#include "base/os.h"
#include "search/exact.h"
#include "search/parallel.h"
#include "search/va_filter.h"
#include "search/va_private.h"
#include <float.h>

enum {
    VALUES = 256,
    FIRST_CANDIDATES = 256,
    UNITS_OF_HALF = 16, /* what half a byte adds at the limit on average, in units of the filter */
    MOST_UNITS = 60000,
};

/* A lower bound is cut here, so that sums of it stay finite; every bound that is cut is still a
 * lower bound. */
#define MOST_LOWER 1e30

struct scratch {
    float *lower, *upper;           /* [row_bytes][VALUES] */
    struct sw_neighbor *bounds;     /* [k]: the smallest upper bounds */
    struct sw_neighbor *candidates; /* by lower bound */
    int64_t candidate_count, candidate_room;
    int64_t read;

    double *halves;       /* [row_bytes][2][SW_VA_HALF]: what half a byte adds to the lower bound */
    uint8_t *entries;     /* the same in units, rounded down */
    double entries_limit; /* the sum that units_limit stands for */
    unsigned units_limit;
};

struct search {
    const struct sw_va_file *f;
    const struct sw_vectors *queries;
    int64_t k;
    struct sw_neighbor *out;
    struct scratch *scratch; /* [threads] */
    size_t row_bytes;
    sw_va_filter *filter; /* NULL: none, or intervals of more than half a byte */
};

/* ---- The tables -------------------------------------------------------------------------------
 */

/* What one interval of a dimension adds to the squared bounds. */
static void interval_bounds(double q, const float *marks, int c, double *lower, double *upper)
{
    const double below = marks[c] - q, above = q - marks[c + 1];
    const double near = below > 0 ? below : above > 0 ? above : 0;
    const double far = fabs(below) > fabs(above) ? below : above;

    *lower = near * near;
    *upper = far * far;
}

/* What the dimensions in half a byte add to the lower bound: lower [dims][intervals] of the byte.
 */
static void fill_half(const struct search *s, const double *lower, int dims, int half, double *out)
{
    const int bits = s->f->bits, intervals = sw_va_intervals(bits), first = half * 4 / bits;

    for (int value = 0; value < SW_VA_HALF; value++) {
        out[value] = 0;
        for (int d = first; d < dims && d < first + 4 / bits; d++)
            out[value] += lower[d * intervals + (value >> ((d - first) * bits) & (intervals - 1))];
    }
}

/* What the dimensions in one byte add, for each of its values. */
static void fill_byte(const struct search *s, const float *query, double scale, int64_t byte,
                      struct scratch *w)
{
    const struct sw_va_file *f = s->f;
    const int bits = f->bits, intervals = sw_va_intervals(bits), first = (int)byte * 8 / bits;
    const int dims = f->vectors.dims - first < 8 / bits ? f->vectors.dims - first : 8 / bits;
    double lower[VALUES], upper[VALUES]; /* [dims][intervals] */

    for (int d = 0; d < dims; d++)
        for (int c = 0; c < intervals; c++)
            interval_bounds(query[first + d] * scale,
                            f->marks + (int64_t)(first + d) * (intervals + 1), c,
                            &lower[d * intervals + c], &upper[d * intervals + c]);

    for (int value = 0; value < VALUES; value++) {
        double low = 0, high = 0;

        for (int d = 0; d < dims; d++) {
            const int c = d * intervals + (value >> (d * bits) & (intervals - 1));
            low += lower[c];
            high += upper[c];
        }

        w->lower[byte * VALUES + value] = (float)(low < MOST_LOWER ? low : MOST_LOWER);
        w->upper[byte * VALUES + value] = (float)high;
    }

    for (int half = 0; s->filter && half < 2; half++)
        fill_half(s, lower, dims, half, w->halves + (byte * 2 + half) * SW_VA_HALF);
}

static void fill_tables(const struct search *s, const float *query, struct scratch *w)
{
    const double scale = sw_va_scale(s->f->metric, query, s->f->vectors.dims);

    for (int64_t byte = 0; byte < (int64_t)s->row_bytes; byte++)
        fill_byte(s, query, scale, byte, w);
    w->entries_limit = INFINITY;
}

/* Expresses the halves in units of which the limit has units_limit. Entries are rounded down: a sum
 * of more units is above the limit. */
static void fill_entries(const struct search *s, double limit, struct scratch *w)
{
    const size_t halves = 2 * s->row_bytes;

    w->entries_limit = limit;
    w->units_limit =
        halves < MOST_UNITS / UNITS_OF_HALF ? (unsigned)halves * UNITS_OF_HALF : MOST_UNITS;

    for (size_t i = 0; i < halves * SW_VA_HALF; i++) {
        const double units = w->halves[i] / limit * w->units_limit;
        w->entries[i] = (uint8_t)(units < SW_VA_MOST_ENTRY ? units : SW_VA_MOST_ENTRY);
    }
}

/* ---- Bounds -----------------------------------------------------------------------------------
 */

/* The sum of table entries for one row of a block. */
static double sum_row(const float *table, const uint8_t *block, int row, size_t bytes)
{
    float sum[4] = {0};

    for (size_t i = 0; i < bytes; i++)
        sum[i % 4] += table[i * VALUES + block[i * SW_VA_BLOCK + (size_t)row]];

    return (double)(sum[0] + sum[1]) + (double)(sum[2] + sum[3]);
}

/* The same for all rows of a block. */
static void sum_rows(const float *table, const uint8_t *block, size_t bytes,
                     float sums[SW_VA_BLOCK])
{
    for (int row = 0; row < SW_VA_BLOCK; row++)
        sums[row] = 0;

    for (size_t i = 0; i < bytes; i++)
        for (size_t row = 0; row < SW_VA_BLOCK; row++)
            sums[row] += table[i * VALUES + block[i * SW_VA_BLOCK + row]];
}

/* The relative error of a sum of n floats, each rounded once, and twice that. */
static double slack_of(size_t bytes)
{
    return (double)(bytes + 16) * 0x1p-23;
}

/* What a squared bound says about the compared distance. Coordinates of a normalized vector were
 * rounded to float, which moves the vector by at most 2^-24; |a - b|^2 = 2 (1 - cos) then. */
static double lower_of(const struct search *s, double squared)
{
    squared *= 1 - slack_of(s->row_bytes);
    if (s->f->metric != SW_METRIC_COSINE)
        return squared - s->f->vectors.dims * 0x1p-140;

    const double moved = sqrt(squared > 0 ? squared : 0) - 0x1p-23;
    return (moved > 0 ? moved * moved / 2 : 0) - 1e-12;
}

static double upper_of(const struct search *s, double squared)
{
    squared *= 1 + slack_of(s->row_bytes);
    if (s->f->metric != SW_METRIC_COSINE)
        return squared + s->f->vectors.dims * 0x1p-140;

    const double moved = sqrt(squared) + 0x1p-23;
    return moved * moved / 2 + 1e-12;
}

/* The largest table sum whose lower bound is not above a limit: comparing sums is cheaper. */
static double sum_limit(const struct search *s, double limit)
{
    if (!isfinite(limit))
        return INFINITY;

    double squared = limit + s->f->vectors.dims * 0x1p-140;
    if (s->f->metric == SW_METRIC_COSINE) {
        const double root = sqrt(2 * (limit > 0 ? limit : 0) + 4e-12) + 0x1p-22;
        squared = root * root;
    }

    return squared * (1 + 2 * slack_of(s->row_bytes));
}

/* ---- The two phases ---------------------------------------------------------------------------
 */

static int add_candidate(struct scratch *w, double lower, int64_t id, struct sw_err *err)
{
    int rc = sw_grow(&w->candidates, sizeof *w->candidates, w->candidate_count, &w->candidate_room,
                     FIRST_CANDIDATES, "candidates of a search", err);
    if (rc == SW_OK)
        w->candidates[w->candidate_count++] = (struct sw_neighbor){lower, id};
    return rc;
}

/* Where phase 1 is: the k smallest upper bounds so far, and the largest table sum of a row that can
 * still be a candidate. */
struct progress {
    struct sw_nearest bounds;
    double most;
};

/* Looks at a row whose lower bounds sum to `low`. */
static int consider(const struct search *s, struct scratch *w, const uint8_t *block, int64_t row,
                    double low, struct progress *p, struct sw_err *err)
{
    if (low > p->most)
        return SW_OK;

    int rc = add_candidate(w, lower_of(s, low), row, err);
    if (rc != SW_OK)
        return rc;

    const double high =
        upper_of(s, sum_row(w->upper, block, (int)(row % SW_VA_BLOCK), s->row_bytes));
    if (high < sw_nearest_limit(&p->bounds)) {
        sw_nearest_offer(&p->bounds, high, row);
        p->most = sum_limit(s, sw_nearest_limit(&p->bounds));
    }

    return SW_OK;
}

static int scan_block(const struct search *s, struct scratch *w, int64_t first, struct progress *p,
                      struct sw_err *err)
{
    const uint8_t *block = s->f->cells + (size_t)first * s->row_bytes;
    const int64_t left = s->f->vectors.count - first;
    const int rows = left < SW_VA_BLOCK ? (int)left : SW_VA_BLOCK;
    const bool filtered = s->filter && isfinite(p->most);
    float sums[SW_VA_BLOCK];
    uint32_t mask = ~(uint32_t)0;
    int rc = SW_OK;

    if (filtered) {
        if (p->most < 0.9 * w->entries_limit)
            fill_entries(s, p->most, w);
        mask = s->filter(block, w->entries, s->row_bytes, w->units_limit);
    } else {
        sum_rows(w->lower, block, s->row_bytes, sums);
    }

    if (rows < SW_VA_BLOCK)
        mask &= ((uint32_t)1 << rows) - 1;

    for (; rc == SW_OK && mask; mask &= mask - 1) {
        const int row = __builtin_ctz(mask);
        const double low =
            filtered ? sum_row(w->lower, block, row, s->row_bytes) : (double)sums[row];

        rc = consider(s, w, block, first + row, low, p, err);
    }

    return rc;
}

/* Phase 1: scans the approximations. */
static int scan(const struct search *s, struct scratch *w, double *limit, struct sw_err *err)
{
    struct progress p = {sw_nearest_in(w->bounds, s->k), INFINITY};
    int rc = SW_OK;

    w->candidate_count = 0;
    for (int64_t row = 0; rc == SW_OK && row < s->f->vectors.count; row += SW_VA_BLOCK)
        rc = scan_block(s, w, row, &p, err);

    *limit = sw_nearest_limit(&p.bounds);
    return rc;
}

/* Phase 2: reads candidates by ascending lower bound. Marks that were checked leave k of them. */
static int refine(const struct search *s, const float *query, double limit, struct scratch *w,
                  struct sw_neighbor *out, struct sw_err *err)
{
    struct sw_nearest nearest = sw_nearest_in(out, s->k);
    int64_t kept = 0;

    for (int64_t i = 0; i < w->candidate_count; i++)
        if (w->candidates[i].distance <= limit)
            w->candidates[kept++] = w->candidates[i];
    sw_neighbors_sort(w->candidates, kept);

    for (int64_t i = 0; i < kept && w->candidates[i].distance <= sw_nearest_limit(&nearest); i++) {
        const int64_t row = w->candidates[i].id;

        sw_nearest_offer(&nearest,
                         sw_vector_distance(s->f->metric, query, sw_vector(&s->f->vectors, row),
                                            s->f->vectors.dims),
                         row);
        w->read++;
    }

    sw_nearest_sort(&nearest);
    if (nearest.count < s->k)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "the marks of the VA-file changed while they were searched");
    return SW_OK;
}

static int run_task(void *user, int64_t task, int thread, struct sw_err *err)
{
    const struct search *s = user;
    struct scratch *w = &s->scratch[thread];
    const float *query = sw_vector(s->queries, task);
    double limit;

    fill_tables(s, query, w);

    int rc = scan(s, w, &limit, err);
    if (rc == SW_OK)
        rc = refine(s, query, limit, w, s->out + task * s->k, err);
    return rc;
}

static int open_threads(struct search *s, int threads, struct sw_err *err)
{
    const size_t table = s->row_bytes * VALUES, halves = s->row_bytes * 2 * SW_VA_HALF;

    s->scratch = sw_calloc((size_t)threads, sizeof *s->scratch);
    for (int i = 0; s->scratch && i < threads; i++) {
        struct scratch *w = &s->scratch[i];

        w->lower = sw_calloc(table, sizeof *w->lower);
        w->upper = sw_calloc(table, sizeof *w->upper);
        w->bounds = sw_calloc((size_t)s->k, sizeof *w->bounds);
        w->halves = sw_calloc(halves, sizeof *w->halves);
        w->entries = sw_calloc(halves, sizeof *w->entries);
        if (!w->lower || !w->upper || !w->bounds || !w->halves || !w->entries)
            return sw_err_nomem(err, "a search", table * sizeof *w->lower);
    }

    return s->scratch ? SW_OK : sw_err_nomem(err, "a search", 0);
}

static void close_threads(struct search *s, int threads)
{
    for (int i = 0; s->scratch && i < threads; i++) {
        sw_free(s->scratch[i].lower);
        sw_free(s->scratch[i].upper);
        sw_free(s->scratch[i].bounds);
        sw_free(s->scratch[i].candidates);
        sw_free(s->scratch[i].halves);
        sw_free(s->scratch[i].entries);
    }

    sw_free(s->scratch);
}

int sw_va_search(const struct sw_va_file *f, const struct sw_vectors *queries, int64_t k,
                 int threads, struct sw_neighbor *out, int64_t *read, struct sw_err *err)
{
    struct search s = {.f = f,
                       .queries = queries,
                       .k = k,
                       .out = out,
                       .filter = f->bits <= 4 ? sw_va_filter_best() : NULL,
                       .row_bytes = sw_va_row_bytes(f->vectors.dims, f->bits)};
    int64_t total = 0;

    int rc = sw_search_check(f->vectors.count, f->vectors.dims, queries->dims, k, threads, err);
    if (rc != SW_OK)
        return rc;

    rc = open_threads(&s, threads, err);
    if (rc == SW_OK)
        rc = sw_search_parallel(threads, queries->count, run_task, &s, err);

    for (int i = 0; rc == SW_OK && i < threads; i++)
        total += s.scratch[i].read;
    if (rc == SW_OK)
        *read = total;

    close_threads(&s, threads);
    return rc;
}
