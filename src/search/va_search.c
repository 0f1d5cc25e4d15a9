/* Searches a VA-file in two phases (VA-NOA). A query fills two tables: for each byte of an
 * approximation and each of its 256 values what the dimensions in that byte add to the squared
 * lower and upper bound, so a bound of a vector is a sum of table entries. Bounds are summed in
 * float and then moved outward by more than that can be off. The contract is in
 * search/va_file.h. */
#include "base/os.h"
#include "search/exact.h"
#include "search/parallel.h"
#include "search/va_private.h"
#include <float.h>

enum { VALUES = 256, FIRST_CANDIDATES = 256 };

/* A lower bound is cut here, so that sums of it stay finite; every bound that is cut is still a
 * lower bound. */
#define MOST_LOWER 1e30

struct scratch {
    float *lower, *upper;           /* [row_bytes][VALUES] */
    struct sw_neighbor *bounds;     /* [k]: the smallest upper bounds */
    struct sw_neighbor *candidates; /* by lower bound */
    int64_t candidate_count, candidate_room;
    int64_t read;
};

struct search {
    const struct sw_va_file *f;
    const struct sw_vectors *queries;
    int64_t k;
    struct sw_neighbor *out;
    struct scratch *scratch; /* [threads] */
    size_t row_bytes;
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
}

static void fill_tables(const struct search *s, const float *query, struct scratch *w)
{
    const double scale = sw_va_scale(s->f->metric, query, s->f->vectors.dims);

    for (int64_t byte = 0; byte < (int64_t)s->row_bytes; byte++)
        fill_byte(s, query, scale, byte, w);
}

/* ---- Bounds -----------------------------------------------------------------------------------
 */

static double sum_table(const float *table, const uint8_t *cells, size_t bytes)
{
    float sum[4] = {0};
    size_t i = 0;

    for (; i + 4 <= bytes; i += 4)
        for (size_t k = 0; k < 4; k++)
            sum[k] += table[(i + k) * VALUES + cells[i + k]];
    for (; i < bytes; i++)
        sum[0] += table[i * VALUES + cells[i]];

    return (double)(sum[0] + sum[1]) + (double)(sum[2] + sum[3]);
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

/* Phase 1: scans the approximations. */
static int scan(const struct search *s, struct scratch *w, double *limit, struct sw_err *err)
{
    struct sw_nearest bounds = sw_nearest_in(w->bounds, s->k);
    double most = INFINITY;

    w->candidate_count = 0;

    for (int64_t row = 0; row < s->f->vectors.count; row++) {
        const uint8_t *cells = s->f->cells + (size_t)row * s->row_bytes;
        const double low = sum_table(w->lower, cells, s->row_bytes);

        if (low > most)
            continue;

        int rc = add_candidate(w, lower_of(s, low), row, err);
        if (rc != SW_OK)
            return rc;

        const double high = sum_table(w->upper, cells, s->row_bytes);
        if (bounds.count < bounds.k || upper_of(s, high) < bounds.at[0].distance) {
            sw_nearest_offer(&bounds, upper_of(s, high), row);
            most = sum_limit(s, sw_nearest_limit(&bounds));
        }
    }

    *limit = sw_nearest_limit(&bounds);
    return SW_OK;
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
    const size_t table = s->row_bytes * VALUES;

    s->scratch = sw_calloc((size_t)threads, sizeof *s->scratch);
    for (int i = 0; s->scratch && i < threads; i++) {
        struct scratch *w = &s->scratch[i];

        w->lower = sw_calloc(table, sizeof *w->lower);
        w->upper = sw_calloc(table, sizeof *w->upper);
        w->bounds = sw_calloc((size_t)s->k, sizeof *w->bounds);
        if (!w->lower || !w->upper || !w->bounds)
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
