/* Average precision of rankings. Queries are ranked in parallel; each stores its own figures, which
 * are then summed in order, so means do not depend on threads. The contract is in search/score.h.
 */
#include "search/score.h"

#include "base/hash.h"
#include "base/os.h"
#include "base/philox.h"
#include "search/exact.h"
#include "search/parallel.h"

double sw_average_precision(const bool *relevant, int64_t count)
{
    double sum = 0;
    int64_t found = 0;

    for (int64_t i = 0; i < count; i++)
        if (relevant[i])
            sum += (double)++found / (double)(i + 1);

    return found ? sum / (double)found : -1;
}

double sw_average_precision_tied(const bool *relevant, const double *distance, int64_t count)
{
    double sum = 0;
    int64_t before = 0; /* relevant ones that are nearer */

    for (int64_t from = 0, to; from < count; from = to) {
        int64_t here = 0;

        for (to = from; to < count && distance[to] == distance[from]; to++)
            here += relevant[to];

        const double n = (double)(to - from), r = (double)here;
        const double each = n > 1 ? (r - 1) / (n - 1) : 0;
        for (int64_t i = 0; here && i < to - from; i++)
            sum += r / n * ((double)before + 1 + (double)i * each) / (double)(from + i + 1);
        before += here;
    }

    return before ? sum / (double)before : -1;
}

void sw_precision_at_recall(const bool *relevant, int64_t count, double precision[SW_SCORE_LEVELS])
{
    int64_t all = 0, found = 0;

    for (int64_t i = 0; i < count; i++)
        all += relevant[i];
    for (int level = 0; level < SW_SCORE_LEVELS; level++)
        precision[level] = 0;

    for (int64_t i = 0; i < count; i++) {
        if (!relevant[i])
            continue;

        const double here = (double)++found / (double)(i + 1);
        /* Levels that this recall reaches: level / 10 <= found / all. */
        const int64_t reached = (SW_SCORE_LEVELS - 1) * found / all;

        for (int64_t level = 0; level <= reached; level++)
            precision[level] = here > precision[level] ? here : precision[level];
    }
}

double sw_recall(const int64_t *found, const int64_t *truth, int64_t queries, int64_t k)
{
    int64_t hits = 0;

    for (int64_t q = 0; q < queries; q++)
        for (int64_t i = 0; i < k; i++)
            for (int64_t j = 0; j < k; j++)
                if (found[q * k + i] == truth[q * k + j]) {
                    hits++;
                    break;
                }

    return (double)hits / (double)(queries * k);
}

/* The figures of one query. */
struct figures {
    double precision, levels[SW_SCORE_LEVELS];
};

struct scratch {
    struct sw_neighbor *ranking; /* [rows] */
    bool *relevant;              /* [rows] */
    double *distance;            /* [rows]: of these */
    int64_t *begin;              /* [bits + 2]: where codes of a distance begin */
};

struct work {
    const struct sw_score_args *a;
    int64_t rows, queries;
    int64_t *order;          /* [rows], of codes: that of equal distances */
    struct scratch *scratch; /* [threads] */
    struct figures *query;   /* [queries] */
    struct sw_scope_curve scopes;
    int64_t *hits; /* [queries][scopes.count]: sw_scope_hits of each query */
};

/* Sorts the codes by distance; those of equal distance stay in the order of w->order. */
static void rank_codes(const struct work *w, int64_t query, const struct scratch *s)
{
    const struct sw_codes *base = w->a->base_codes;
    const uint64_t *code = sw_code(w->a->query_codes, query);

    for (int d = 0; d < base->bits + 2; d++)
        s->begin[d] = 0;
    for (int64_t row = 0; row < w->rows; row++)
        s->begin[sw_code_distance(code, sw_code(base, row), base->words) + 1]++;
    for (int d = 0; d < base->bits; d++)
        s->begin[d + 1] += s->begin[d];

    for (int64_t i = 0; i < w->rows; i++) {
        const int64_t row = w->order[i];
        const int distance = sw_code_distance(code, sw_code(base, row), base->words);

        s->ranking[s->begin[distance]++] = (struct sw_neighbor){distance, row};
    }
}

static int rank_query(void *user, int64_t task, int thread, struct sw_err *err)
{
    const struct work *w = user;
    const struct sw_score_args *a = w->a;
    const struct scratch *s = &w->scratch[thread];
    int64_t count = 0;

    if (a->base_codes)
        rank_codes(w, task, s);
    else
        sw_exact_rank(a->base, a->metric, sw_vector(a->queries, task), s->ranking);

    for (int64_t i = 0; i < w->rows; i++)
        if (!a->leave_out_same || s->ranking[i].id != task) {
            s->distance[count] = s->ranking[i].distance;
            s->relevant[count++] =
                sw_row_labels_share(a->query_labels, task, a->base_labels, s->ranking[i].id);
        }

    w->query[task].precision = a->base_codes
                                   ? sw_average_precision_tied(s->relevant, s->distance, count)
                                   : sw_average_precision(s->relevant, count);
    sw_precision_at_recall(s->relevant, count, w->query[task].levels);
    sw_scope_hits(&w->scopes, s->relevant, count, w->hits + task * w->scopes.count);
    return SW_OK;
}

static void sum_up(const struct work *w, struct sw_score *out)
{
    const struct sw_row_labels *labels = w->a->query_labels;

    out->scopes = w->scopes;

    for (int64_t q = 0; q < w->queries; q++) {
        const struct figures *f = &w->query[q];

        if (f->precision < 0) {
            out->without++;
            continue;
        }

        out->queries++;
        out->map += f->precision;
        sw_scope_curve_add(&out->scopes, w->hits + q * w->scopes.count);
        for (int level = 0; level < SW_SCORE_LEVELS; level++)
            out->precision[level] += f->levels[level];

        for (int c = 0; c < out->classes; c++)
            if (sw_row_has_label(labels, q, c)) {
                out->per_class[c].map += f->precision;
                out->per_class[c].queries++;
            }
    }

    const double queries = out->queries ? (double)out->queries : 1;

    out->map /= queries;
    sw_scope_curve_end(&out->scopes, out->queries);
    for (int level = 0; level < SW_SCORE_LEVELS; level++)
        out->precision[level] /= queries;
    for (int c = 0; c < out->classes; c++)
        if (out->per_class[c].queries)
            out->per_class[c].map /= (double)out->per_class[c].queries;
}

static int check_args(const struct work *w, struct sw_err *err)
{
    const struct sw_score_args *a = w->a;
    const struct sw_row_labels *b = a->base_labels, *q = a->query_labels;

    if (b->count != w->rows || q->count != w->queries)
        return sw_err_set(err, SW_ERR_INVALID,
                          "%lld labels of %lld queries, and %lld of %lld rows: each row needs one",
                          (long long)q->count, (long long)w->queries, (long long)b->count,
                          (long long)w->rows);
    if (b->classes != q->classes || !b->single != !q->single)
        return sw_err_set(err, SW_ERR_INVALID,
                          "the labels of queries (%s of %d classes) and of rows (%s of %d) differ "
                          "in their form",
                          q->single ? "one" : "a set", q->classes, b->single ? "one" : "a set",
                          b->classes);
    if (a->leave_out_same && w->rows != w->queries)
        return sw_err_set(err, SW_ERR_INVALID, "%lld queries are not the %lld rows themselves",
                          (long long)w->queries, (long long)w->rows);

    return SW_OK;
}

/* A random order of all rows (Fisher and Yates). */
static int take_order(struct work *w, struct sw_err *err)
{
    const struct sw_philox key =
        sw_philox_stream(1, SW_PURPOSE_SHUFFLE, sw_hash_name("search.ties"));

    w->order = sw_calloc((size_t)w->rows, sizeof *w->order);
    if (!w->order)
        return sw_err_nomem(err, "an order of rows", (size_t)w->rows * sizeof *w->order);

    for (int64_t i = 0; i < w->rows; i++) {
        const int64_t at = sw_philox_word(key, 0, 0, (uint32_t)i) % (i + 1);

        w->order[i] = w->order[at];
        w->order[at] = i;
    }

    return SW_OK;
}

static int take_scratch(struct work *w, int threads, struct sw_err *err)
{
    const size_t rows = (size_t)w->rows;
    const size_t distances = w->a->base_codes ? (size_t)w->a->base_codes->bits + 2 : 1;

    w->scratch = sw_calloc((size_t)threads, sizeof *w->scratch);
    if (!w->scratch)
        return sw_err_nomem(err, "a score", 0);

    for (int i = 0; i < threads; i++) {
        struct scratch *s = &w->scratch[i];

        s->ranking = sw_calloc(rows, sizeof *s->ranking);
        s->relevant = sw_calloc(rows, sizeof *s->relevant);
        s->distance = sw_calloc(rows, sizeof *s->distance);
        s->begin = sw_calloc(distances, sizeof *s->begin);
        if (!s->ranking || !s->relevant || !s->distance || !s->begin)
            return sw_err_nomem(err, "a ranking", rows * sizeof *s->ranking);
    }

    return SW_OK;
}

static void free_work(struct work *w, int threads)
{
    for (int i = 0; w->scratch && i < threads; i++) {
        sw_free(w->scratch[i].ranking);
        sw_free(w->scratch[i].relevant);
        sw_free(w->scratch[i].distance);
        sw_free(w->scratch[i].begin);
    }

    sw_free(w->scratch);
    sw_free(w->order);
    sw_free(w->hits);
    sw_free(w->query);
}

int sw_score_map(const struct sw_score_args *a, int threads, struct sw_score *out,
                 struct sw_err *err)
{
    const bool codes = a->base_codes;
    struct work w = {.a = a,
                     .rows = codes ? a->base_codes->count : a->base->count,
                     .queries = codes ? a->query_codes->count : a->queries->count};
    struct sw_score s = {.classes = a->query_labels->classes};

    int rc = sw_search_check(w.rows, codes ? a->base_codes->bits : a->base->dims,
                             codes ? a->query_codes->bits : a->queries->dims, 1, threads, err);
    if (rc == SW_OK)
        rc = check_args(&w, err);
    if (rc != SW_OK)
        return rc;

    sw_scope_curve_begin(&w.scopes, w.rows - a->leave_out_same);
    s.per_class = sw_calloc((size_t)s.classes, sizeof *s.per_class);
    w.query = sw_calloc((size_t)w.queries, sizeof *w.query);
    w.hits = sw_calloc((size_t)w.queries, (size_t)w.scopes.count * sizeof *w.hits);
    if (!s.per_class || !w.query || !w.hits)
        rc = sw_err_nomem(err, "a score", 0);
    if (rc == SW_OK)
        rc = take_scratch(&w, threads, err);
    if (rc == SW_OK && codes)
        rc = take_order(&w, err);

    if (rc == SW_OK)
        rc = sw_search_parallel(threads, w.queries, rank_query, &w, err);
    if (rc == SW_OK) {
        sum_up(&w, &s);
        *out = s;
    } else {
        sw_score_fini(&s);
    }

    free_work(&w, threads);
    return rc;
}

void sw_score_fini(struct sw_score *s)
{
    sw_free(s->per_class);
    *s = (struct sw_score){0};
}
