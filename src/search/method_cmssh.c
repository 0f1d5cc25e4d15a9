/* Cross-modality similarity-sensitive hashing (Bronstein, Bronstein, Michel and Paragios, "Data
 * fusion through cross-modality metric learning using similarity-sensitive hashing", CVPR 2010):
 * bits are weak classifiers of pairs (x, y) of a row of either view that are similar (s = 1) or not
 * (s = -1), which boosting adds one by one. Bit i maximizes the weighted correlation
 *
 *     r = sum over pairs of w s sign(p . x + a) sign(q . y + b),
 *
 * where p and q are the first singular vectors of sum w s x y^T, which maximize it without the
 * signs, and a and b are found one after the other among all values of the pairs. Then, as in
 * AdaBoost, weights become w exp(-alpha s sign() sign()), alpha = log((1 + r) / (1 - r)) / 2, of
 * sum 1.
 *
 * A row and its partner are similar, and random rows are not; with labels, similar pairs are also
 * random ones that share a label, and dissimilar ones do not share one. Values are divided by their
 * deviation, so that those of both views have the same scale. */
#include "base/hash.h"
#include "base/os.h"
#include "base/philox.h"
#include "base/stop.h"
#include "device/cpu/algebra.h"
#include "search/code_method.h"
#include "search/nearest.h"
#include <math.h>
#include <string.h>

enum {
    EACH = 4, /* pairs of a row: half of them similar with labels, else one */
    TRIES = 64,
    BLOCK = 1024, /* rows of a product */
    ROUNDS = 10,  /* of thresholds */
    STEPS = 200,  /* of the power method */
};

/* What boosting has for each pair k; its first row is k / EACH. */
struct pair {
    int32_t second; /* row of the second view; -1: there is none */
    int8_t s;       /* 1 or -1 */
    double weight;
};

struct work {
    const struct sw_code_fit *f;
    int64_t rows, pairs;
    struct pair *pair;             /* [pairs] */
    double *mean[2];               /* [dims] */
    double *block[2];              /* [BLOCK][dims] */
    double *products, *add;        /* [first dims][second dims] */
    double *vector[2];             /* [dims]: p and q */
    double *value[2];              /* [rows]: products with them */
    struct sw_neighbor *sorted[2]; /* [rows]: the same, ascending, and their rows */
    double *gain;                  /* [rows] */
};

/* ---- Pairs ------------------------------------------------------------------------------------
 */

static bool alike(const struct work *w, int64_t a, int64_t b)
{
    const struct sw_row_labels *l = w->f->labels;

    return l ? sw_row_labels_share(l, a, l, b) : a == b;
}

/* A random row that is alike, or is not; -1 where some tries find none. */
static int32_t draw(const struct work *w, struct sw_philox key, int64_t row, int place, bool wanted)
{
    for (uint32_t i = 0; i < TRIES; i++) {
        const uint32_t word = sw_philox_word(key, (uint64_t)place, (uint32_t)row, i);
        const int64_t other = (int64_t)(word % (uint64_t)w->rows);

        if (other != row && alike(w, row, other) == wanted)
            return (int32_t)other;
    }

    return -1;
}

static int draw_pairs(struct work *w, struct sw_err *err)
{
    const struct sw_philox key =
        sw_philox_stream(w->f->seed, SW_PURPOSE_INIT, sw_hash_name("search.pairs"));
    double sum[2] = {0};

    for (int64_t k = 0; k < w->pairs; k++) {
        const int64_t row = k / EACH;
        const int place = (int)(k % EACH);
        const bool similar = place == 0 || (w->f->labels && place == 1);
        struct pair *p = &w->pair[k];

        p->s = similar ? 1 : -1;
        p->second = place == 0 ? (int32_t)row : draw(w, key, row, place, similar);
        p->weight = p->second >= 0;
        sum[similar] += p->weight;
    }

    if (sum[0] == 0)
        return sw_err_set(err, SW_ERR_INVALID, "no pair of rows is dissimilar: all share a label");

    /* Both kinds weigh as much. */
    for (int64_t k = 0; k < w->pairs; k++)
        w->pair[k].weight /= 2 * sum[w->pair[k].s > 0];
    return SW_OK;
}

/* ---- Directions -------------------------------------------------------------------------------
 */

/* Adds v (row - mean) to out. */
static void add_row(const struct work *w, int view, int64_t row, double v, double *out)
{
    const struct sw_vectors *rows = &w->f->view[view];
    const float *at = sw_vector(rows, row);

    for (int d = 0; d < rows->dims; d++)
        out[d] += v * ((double)at[d] - w->mean[view][d]);
}

/* products = sum over pairs of weight s x y^T. */
static int correlate(struct work *w, struct sw_err *err)
{
    const int n = w->f->view[0].dims, m = w->f->view[1].dims;
    const int64_t count = (int64_t)n * m;

    memset(w->products, 0, (size_t)count * sizeof *w->products);

    for (int64_t from = 0; from < w->rows; from += BLOCK) {
        const int64_t rows = w->rows - from < BLOCK ? w->rows - from : BLOCK;

        memset(w->block[0], 0, (size_t)(rows * n) * sizeof(double));
        memset(w->block[1], 0, (size_t)(rows * m) * sizeof(double));

        for (int64_t row = 0; row < rows; row++)
            add_row(w, 0, from + row, 1, w->block[0] + row * n);
        for (int64_t k = from * EACH; k < (from + rows) * EACH; k++)
            if (w->pair[k].second >= 0)
                add_row(w, 1, w->pair[k].second, w->pair[k].weight * w->pair[k].s,
                        w->block[1] + (k / EACH - from) * m);

        int rc = sw_stop_check(err);
        if (rc == SW_OK)
            rc = sw_algebra_product(n, m, rows, w->block[0], w->block[1], w->add, err);
        if (rc != SW_OK)
            return rc;
        for (int64_t i = 0; i < count; i++)
            w->products[i] += w->add[i];
    }

    return SW_OK;
}

/* Makes a vector as long as 1; returns how long it was. */
static double normalize(double *x, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += x[i] * x[i];
    sum = sqrt(sum);
    for (int i = 0; sum > 0 && i < n; i++)
        x[i] /= sum;
    return sum;
}

/* The first singular vectors of the products, by the power method from their longest row. */
static int take_vectors(struct work *w, struct sw_err *err)
{
    const int n = w->f->view[0].dims, m = w->f->view[1].dims;
    double *p = w->vector[0], *q = w->vector[1], most = -1, before = 0;

    for (int i = 0; i < n; i++) {
        const double *row = w->products + (int64_t)i * m;
        double sum = 0;

        for (int k = 0; k < m; k++)
            sum += row[k] * row[k];
        if (sum > most) {
            most = sum;
            memcpy(q, row, (size_t)m * sizeof *q);
        }
    }
    if (!(normalize(q, m) > 0))
        return sw_err_set(err, SW_ERR_INVALID, "the two views are not correlated");

    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < n; i++) {
            p[i] = 0;
            for (int k = 0; k < m; k++)
                p[i] += w->products[(int64_t)i * m + k] * q[k];
        }
        normalize(p, n);

        memset(q, 0, (size_t)m * sizeof *q);
        for (int i = 0; i < n; i++)
            for (int k = 0; k < m; k++)
                q[k] += w->products[(int64_t)i * m + k] * p[i];

        const double value = normalize(q, m);
        if (fabs(value - before) <= 1e-12 * value)
            break;
        before = value;
    }

    return SW_OK;
}

/* ---- Thresholds -------------------------------------------------------------------------------
 */

/* Products of the rows of a view with its vector, divided by their deviation, as is the vector. */
static void project(struct work *w, int view)
{
    const int dims = w->f->view[view].dims;
    double *value = w->value[view], sum = 0;

    for (int64_t row = 0; row < w->rows; row++) {
        const float *at = sw_vector(&w->f->view[view], row);

        value[row] = 0;
        for (int d = 0; d < dims; d++)
            value[row] += ((double)at[d] - w->mean[view][d]) * w->vector[view][d];
        sum += value[row] * value[row];
    }

    const double deviation = sum > 0 ? sqrt(sum / (double)w->rows) : 1;
    for (int64_t row = 0; row < w->rows; row++) {
        value[row] /= deviation;
        w->sorted[view][row] = (struct sw_neighbor){value[row], row};
    }
    for (int d = 0; d < dims; d++)
        w->vector[view][d] /= deviation;

    sw_neighbors_sort(w->sorted[view], w->rows);
}

static int side(double value, double threshold)
{
    return value > threshold ? 1 : -1;
}

/* The row of a pair in a view. */
static int64_t row_of(const struct work *w, int64_t k, int view)
{
    return view ? w->pair[k].second : k / EACH;
}

/* The best threshold of one view where that of the other is given; *r becomes its correlation. */
static double best_threshold(struct work *w, int view, double other, double *r)
{
    const struct sw_neighbor *sorted = w->sorted[view];
    double all = 0, sum = 0, best = 0;

    memset(w->gain, 0, (size_t)w->rows * sizeof *w->gain);
    for (int64_t k = 0; k < w->pairs; k++) {
        const struct pair *p = &w->pair[k];
        if (p->second < 0)
            continue;

        const double g = p->weight * p->s * side(w->value[!view][row_of(w, k, !view)], other);
        w->gain[row_of(w, k, view)] += g;
        all += g;
    }

    /* Rows up to place i are at or below the threshold. */
    *r = -INFINITY;
    for (int64_t i = 0; i + 1 < w->rows; i++) {
        const double here = sorted[i].distance, next = sorted[i + 1].distance;

        sum += w->gain[sorted[i].id];
        if (next > here && all - 2 * sum > *r) {
            *r = all - 2 * sum;
            best = here + (next - here) / 2;
        }
    }

    return best;
}

/* Both thresholds, in turns; returns their correlation. */
static double take_thresholds(struct work *w, double threshold[2])
{
    double r = -INFINITY;

    threshold[0] = threshold[1] = 0;
    for (int round = 0; round < ROUNDS; round++) {
        double now, before = r;

        threshold[0] = best_threshold(w, 0, threshold[1], &now);
        threshold[1] = best_threshold(w, 1, threshold[0], &r);
        if (r <= before)
            break;
    }

    return r;
}

/* ---- Boosting ---------------------------------------------------------------------------------
 */

static void reweigh(struct work *w, const double threshold[2], double r)
{
    /* A bit that is right for all pairs would leave no weight. */
    const double capped = fmax(-0.99, fmin(r, 0.99));
    const double alpha = 0.5 * log((1 + capped) / (1 - capped));
    double sum = 0;

    for (int64_t k = 0; k < w->pairs; k++) {
        struct pair *p = &w->pair[k];
        if (p->second < 0)
            continue;

        p->weight *= exp(-alpha * p->s * side(w->value[0][k / EACH], threshold[0]) *
                         side(w->value[1][p->second], threshold[1]));
        sum += p->weight;
    }

    for (int64_t k = 0; k < w->pairs; k++)
        w->pair[k].weight /= sum;
}

static int take_memory(struct work *w, struct sw_err *err)
{
    const size_t rows = (size_t)w->rows;
    const size_t count = (size_t)w->f->view[0].dims * (size_t)w->f->view[1].dims;
    bool all = true;

    for (int v = 0; v < 2; v++) {
        const size_t dims = (size_t)w->f->view[v].dims;

        w->mean[v] = sw_calloc(dims, sizeof(double));
        w->vector[v] = sw_calloc(dims, sizeof(double));
        w->block[v] = sw_calloc(dims, BLOCK * sizeof(double));
        w->value[v] = sw_calloc(rows, sizeof(double));
        w->sorted[v] = sw_calloc(rows, sizeof *w->sorted[v]);
        all = all && w->mean[v] && w->vector[v] && w->block[v] && w->value[v] && w->sorted[v];
    }

    w->pair = sw_calloc((size_t)w->pairs, sizeof *w->pair);
    w->gain = sw_calloc(rows, sizeof(double));
    w->products = sw_calloc(count, sizeof(double));
    w->add = sw_calloc(count, sizeof(double));
    return all && w->pair && w->gain && w->products && w->add
               ? SW_OK
               : sw_err_nomem(err, "pairs of rows", (size_t)w->pairs * sizeof *w->pair);
}

static void free_memory(struct work *w)
{
    for (int v = 0; v < 2; v++) {
        sw_free(w->mean[v]);
        sw_free(w->vector[v]);
        sw_free(w->block[v]);
        sw_free(w->value[v]);
        sw_free(w->sorted[v]);
    }

    sw_free(w->pair);
    sw_free(w->gain);
    sw_free(w->products);
    sw_free(w->add);
}

/* The mean of a view, as its encoder has it. */
static void take_mean(struct work *w, int view, float *center)
{
    const struct sw_vectors *rows = &w->f->view[view];

    for (int64_t row = 0; row < w->rows; row++)
        for (int d = 0; d < rows->dims; d++)
            w->mean[view][d] += (double)sw_vector(rows, row)[d];
    for (int d = 0; d < rows->dims; d++) {
        center[d] = (float)(w->mean[view][d] / (double)w->rows);
        w->mean[view][d] = (double)center[d];
    }
}

/* Adds one bit: its planes and shifts, and the weights after it. */
static int add_bit(struct work *w, int bit, float *planes[2], float *shifts[2], struct sw_err *err)
{
    double threshold[2];

    int rc = correlate(w, err);
    if (rc == SW_OK)
        rc = take_vectors(w, err);
    if (rc != SW_OK)
        return rc;

    project(w, 0);
    project(w, 1);
    const double r = take_thresholds(w, threshold);
    reweigh(w, threshold, r);

    for (int v = 0; v < 2; v++) {
        const int dims = w->f->view[v].dims;

        for (int d = 0; d < dims; d++)
            planes[v][(int64_t)bit * dims + d] = (float)w->vector[v][d];
        shifts[v][bit] = (float)-threshold[v];
    }

    return SW_OK;
}

static int fit(const struct sw_code_fit *f, struct sw_encoder *view, struct sw_err *err)
{
    struct work w = {.f = f, .rows = f->view[0].count, .pairs = f->view[0].count * EACH};
    float *center[2], *planes[2], *shifts[2];

    for (int v = 0; v < 2; v++) {
        view[v].dims = f->view[v].dims;
        view[v].bits = f->bits;
        if (view[v].dims > SW_ALGEBRA_MAX)
            return sw_err_set(err, SW_ERR_INVALID, "vectors of %d numbers, expected at most %d",
                              view[v].dims, SW_ALGEBRA_MAX);

        center[v] = sw_encoder_room(&view[v], SW_ENCODER_CENTER, err);
        planes[v] = center[v] ? sw_encoder_room(&view[v], SW_ENCODER_PLANES, err) : NULL;
        shifts[v] = planes[v] ? sw_encoder_room(&view[v], SW_ENCODER_SHIFTS, err) : NULL;
        if (!shifts[v])
            return SW_ERR_NOMEM;
    }

    int rc = take_memory(&w, err);
    for (int v = 0; rc == SW_OK && v < 2; v++)
        take_mean(&w, v, center[v]);
    if (rc == SW_OK)
        rc = draw_pairs(&w, err);
    for (int bit = 0; rc == SW_OK && bit < f->bits; bit++)
        rc = add_bit(&w, bit, planes, shifts, err);

    free_memory(&w);
    return rc;
}

const struct sw_code_method sw_code_cmssh = {
    .name = "cmssh",
    .help = "similarity-sensitive hashing of two views, by boosting (Bronstein 2010)",
    .views = 2,
    .takes = SW_CODE_LABELS | SW_CODE_SEED,
    .fit = fit,
};
