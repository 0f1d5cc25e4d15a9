/* Exact search in blocks. For a block of queries and a block of rows a product of matrices gives
 * float dot products. The distance to compare is, but for a term of the query alone,
 *
 *     add[j] - multiply[j] * dot[j]
 *         euclidean  |b|^2 - 2 q.b      cosine  -q.b / |b|      dot  -q.b
 *
 * A dot product of d floats, summed in any order, is off by at most g |q| |b| with g = (d + 2) u /
 * (1 - (d + 2) u) and u = 2^-24 (Higham, Accuracy and Stability of Numerical Algorithms, 3.1), plus
 * what underflows. Rows that are farther than the k-th nearest so far by more than that are
 * dropped; of the others the distance is computed in double, which alone decides. The contract is
 * in search/exact.h. */
#include "search/exact.h"

#include "base/os.h"
#include "device/driver.h"
#include "device/op.h"
#include "kernels/ops/gemm.h"
#include "search/parallel.h"
#include <float.h>

enum { QUERY_BLOCK = 64, ROW_BLOCK = 1024, GROUP = 16 };

/* Beyond these the float products may overflow or underflow, and every row is computed in double.
 */
#define MOST_NORM 1e18
#define LEAST_NORM 1e-15

/* What a row contributes, of a block of rows. */
struct terms {
    float add[ROW_BLOCK], multiply[ROW_BLOCK];
    double most, least; /* norm of a row */
};

struct scratch {
    struct sw_stream *stream;
    float *dots; /* [QUERY_BLOCK][ROW_BLOCK] */
    struct terms terms;
};

struct search {
    const struct sw_vectors *base, *queries;
    enum sw_metric metric;
    int64_t k;
    struct sw_search_division division;
    struct sw_neighbor *out; /* [shards][queries][k] */
    struct sw_device *device;
    struct scratch *scratch; /* [threads] */
};

static double gamma_of(int dims)
{
    const double rounded = (dims + 2) * 0x1p-24;
    return rounded / (1 - rounded);
}

static void fill_terms(const struct search *s, int64_t row, int64_t rows, struct terms *t)
{
    t->most = 0;
    t->least = INFINITY;

    for (int64_t j = 0; j < rows; j++) {
        const double norm2 = sw_vector_norm2(sw_vector(s->base, row + j), s->base->dims);
        const double norm = sqrt(norm2);

        t->most = norm > t->most ? norm : t->most;
        t->least = norm < t->least ? norm : t->least;
        t->add[j] = s->metric == SW_METRIC_EUCLIDEAN ? (float)norm2 : 0;
        t->multiply[j] = s->metric == SW_METRIC_EUCLIDEAN ? 2
                         : s->metric == SW_METRIC_COSINE  ? (float)(1 / norm)
                                                          : 1;
    }
}

/* What bounds the rows of a block that a query has to look at: those with add - multiply * dot <=
 * threshold. */
struct bound {
    double shift; /* compared distance = scale * (add - multiply * dot + shift) */
    double scale;
    double error; /* of add - multiply * dot, in float */
};

static struct bound bound_of(const struct search *s, double query_norm, const struct terms *t)
{
    const double gamma = gamma_of(s->base->dims), tiny = 4.0 * s->base->dims * FLT_MIN;

    if (s->metric == SW_METRIC_EUCLIDEAN)
        return (struct bound){.shift = query_norm * query_norm,
                              .scale = 1,
                              .error = 2 * gamma * query_norm * t->most + tiny +
                                       0x1p-21 * t->most * (t->most + query_norm) +
                                       0x1p-40 * query_norm * query_norm};
    if (s->metric == SW_METRIC_COSINE)
        return (struct bound){.shift = query_norm,
                              .scale = 1 / query_norm,
                              .error = query_norm * (gamma + 0x1p-21) + tiny / t->least};

    return (struct bound){.scale = 1, .error = (gamma + 0x1p-21) * query_norm * t->most + tiny};
}

/* The least float that is at least the threshold for a distance limit. */
static float threshold(const struct bound *b, double limit)
{
    return nextafterf((float)(limit / b->scale - b->shift + b->error), INFINITY);
}

static void offer(const struct search *s, int64_t query, int64_t row, struct sw_nearest *n)
{
    sw_nearest_offer(n,
                     sw_vector_distance(s->metric, sw_vector(s->queries, query),
                                        sw_vector(s->base, row), s->base->dims),
                     row);
}

/* Whether a group has a row that the threshold does not rule out. */
static bool group_has(const struct terms *t, const float *dots, int64_t at, float most)
{
    int found = 0;

    for (int i = 0; i < GROUP; i++)
        found |= t->add[at + i] - t->multiply[at + i] * dots[at + i] <= most;
    return found;
}

/* Offers the rows [row, row + rows) to a query, whose dot products with them are `dots`. */
static void select_rows(const struct search *s, int64_t query, int64_t row, int64_t rows,
                        const struct terms *t, const float *dots, struct sw_nearest *n)
{
    const double norm = sqrt(sw_vector_norm2(sw_vector(s->queries, query), s->base->dims));
    const bool in_float =
        norm < MOST_NORM && t->most < MOST_NORM &&
        (s->metric != SW_METRIC_COSINE || (norm > LEAST_NORM && t->least > LEAST_NORM));
    const struct bound b = bound_of(s, norm, t);
    float most = threshold(&b, sw_nearest_limit(n));

    for (int64_t j = 0; j < rows; j++) {
        if (in_float) {
            if (j % GROUP == 0 && j + GROUP <= rows && !group_has(t, dots, j, most)) {
                j += GROUP - 1;
                continue;
            }
            if (t->add[j] - t->multiply[j] * dots[j] > most)
                continue;
        }

        offer(s, query, row + j, n);
        most = threshold(&b, sw_nearest_limit(n));
    }
}

static int run_task(void *user, int64_t task, int thread, struct sw_err *err)
{
    const struct search *s = user;
    struct scratch *w = &s->scratch[thread];
    const struct sw_search_part p = sw_search_part_of(&s->division, task);
    struct sw_neighbor *out = s->out + (p.shard * s->queries->count + p.query) * s->k;
    struct sw_nearest nearest[QUERY_BLOCK];
    int rc = SW_OK;

    for (int64_t q = 0; q < p.queries; q++)
        nearest[q] = sw_nearest_in(out + q * s->k, s->k);

    for (int64_t row = p.row; rc == SW_OK && row < p.end; row += ROW_BLOCK) {
        const int64_t rows = p.end - row < ROW_BLOCK ? p.end - row : ROW_BLOCK;
        const struct sw_gemm_args args = {.trans_b = true,
                                          .m = p.queries,
                                          .n = rows,
                                          .k = s->base->dims,
                                          .alpha = 1,
                                          .a = sw_vector(s->queries, p.query),
                                          .b = sw_vector(s->base, row),
                                          .c = w->dots};

        fill_terms(s, row, rows, &w->terms);
        rc = sw_op_run(w->stream, &sw_op_gemm, &args, err);
        for (int64_t q = 0; rc == SW_OK && q < p.queries; q++)
            select_rows(s, p.query + q, row, rows, &w->terms, w->dots + q * rows, &nearest[q]);
    }

    for (int64_t q = 0; q < p.queries; q++) {
        sw_nearest_sort(&nearest[q]);
        if (nearest[q].count < s->k)
            nearest[q].at[nearest[q].count].id = -1;
    }

    return rc;
}

static int open_threads(struct search *s, int threads, struct sw_err *err)
{
    const struct sw_device_args host = {.precision = SW_PRECISION_FP32};

    s->scratch = sw_calloc((size_t)threads, sizeof *s->scratch);
    if (!s->scratch)
        return sw_err_nomem(err, "an exact search", (size_t)threads * sizeof *s->scratch);

    int rc = sw_driver_host()->open(&host, &s->device, err);

    for (int i = 0; rc == SW_OK && i < threads; i++) {
        s->scratch[i].dots = sw_calloc(QUERY_BLOCK * ROW_BLOCK, sizeof(float));
        if (!s->scratch[i].dots)
            return sw_err_nomem(err, "an exact search", QUERY_BLOCK * ROW_BLOCK * sizeof(float));
        rc = sw_stream_new(s->device, 1, &s->scratch[i].stream, err);
    }

    return rc;
}

static void close_threads(struct search *s, int threads)
{
    for (int i = 0; s->scratch && i < threads; i++) {
        sw_stream_free(s->scratch[i].stream);
        sw_free(s->scratch[i].dots);
    }

    sw_device_close(s->device);
    sw_free(s->scratch);
}

int sw_search_check(int64_t base, int base_dims, int query_dims, int64_t k, int threads,
                    struct sw_err *err)
{
    if (base_dims != query_dims)
        return sw_err_set(err, SW_ERR_INVALID,
                          "the queries have %d dimensions, expected %d as those that are searched",
                          query_dims, base_dims);
    if (k < 1 || k > base)
        return sw_err_set(err, SW_ERR_INVALID, "k = %lld neighbors, expected 1 to %lld",
                          (long long)k, (long long)base);
    if (threads < 1 || threads > SW_SEARCH_MOST_THREADS)
        return sw_err_set(err, SW_ERR_INVALID, "%d threads, expected 1 to %d", threads,
                          SW_SEARCH_MOST_THREADS);

    return SW_OK;
}

int sw_exact_search(const struct sw_vectors *base, enum sw_metric m,
                    const struct sw_vectors *queries, int64_t k, int threads,
                    struct sw_neighbor *out, struct sw_err *err)
{
    struct search s = {.base = base,
                       .queries = queries,
                       .metric = m,
                       .k = k,
                       .division =
                           sw_search_divide(queries->count, base->count, QUERY_BLOCK, threads)};
    const int64_t shards = s.division.shards;
    struct sw_neighbor *lists = NULL;

    int rc = sw_search_check(base->count, base->dims, queries->dims, k, threads, err);
    if (rc != SW_OK)
        return rc;

    s.out = out;
    if (shards > 1) {
        s.out = lists = sw_calloc((size_t)(shards * queries->count), (size_t)k * sizeof *out);
        if (!lists)
            return sw_err_nomem(err, "the neighbors of all shards", 0);
    }

    rc = open_threads(&s, threads, err);
    if (rc == SW_OK)
        rc = sw_search_parallel(threads, sw_search_tasks(&s.division), run_task, &s, err);
    if (rc == SW_OK && lists)
        sw_nearest_merge(lists, shards, queries->count, k, out);

    close_threads(&s, threads);
    sw_free(lists);
    return rc;
}

void sw_exact_rank(const struct sw_vectors *base, enum sw_metric m, const float *query,
                   struct sw_neighbor *out)
{
    for (int64_t row = 0; row < base->count; row++)
        out[row] = (struct sw_neighbor){
            sw_vector_distance(m, query, sw_vector(base, row), base->dims), row};

    sw_neighbors_sort(out, base->count);
}
