/* Average precision of rankings. Queries are ranked in parallel; each stores its own figures, which
 * are then summed in order, so means do not depend on threads. The contract is in search/score.h.
 */
#include "search/score.h"

#include "base/os.h"
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
    struct sw_neighbor *ranking; /* [base->count] */
    bool *relevant;              /* [base->count] */
};

struct work {
    const struct sw_score_args *a;
    struct scratch *scratch; /* [threads] */
    struct figures *query;   /* [queries->count] */
};

static int rank_query(void *user, int64_t task, int thread, struct sw_err *err)
{
    const struct work *w = user;
    const struct sw_score_args *a = w->a;
    const struct scratch *s = &w->scratch[thread];
    int64_t count = 0;

    sw_exact_rank(a->base, a->metric, sw_vector(a->queries, task), s->ranking);

    for (int64_t i = 0; i < a->base->count; i++)
        if (!a->leave_out_same || s->ranking[i].id != task)
            s->relevant[count++] =
                sw_row_labels_share(a->query_labels, task, a->base_labels, s->ranking[i].id);

    w->query[task].precision = sw_average_precision(s->relevant, count);
    sw_precision_at_recall(s->relevant, count, w->query[task].levels);
    return SW_OK;
}

static void sum_up(const struct work *w, struct sw_score *out)
{
    const struct sw_row_labels *labels = w->a->query_labels;

    for (int64_t q = 0; q < w->a->queries->count; q++) {
        const struct figures *f = &w->query[q];

        if (f->precision < 0) {
            out->without++;
            continue;
        }

        out->queries++;
        out->map += f->precision;
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
    for (int level = 0; level < SW_SCORE_LEVELS; level++)
        out->precision[level] /= queries;
    for (int c = 0; c < out->classes; c++)
        if (out->per_class[c].queries)
            out->per_class[c].map /= (double)out->per_class[c].queries;
}

static int check_args(const struct sw_score_args *a, struct sw_err *err)
{
    const struct sw_row_labels *b = a->base_labels, *q = a->query_labels;

    if (b->count != a->base->count || q->count != a->queries->count)
        return sw_err_set(err, SW_ERR_INVALID,
                          "%lld labels of %lld queries, and %lld of %lld rows: each row needs one",
                          (long long)q->count, (long long)a->queries->count, (long long)b->count,
                          (long long)a->base->count);
    if (b->classes != q->classes || !b->single != !q->single)
        return sw_err_set(err, SW_ERR_INVALID,
                          "the labels of queries (%s of %d classes) and of rows (%s of %d) differ "
                          "in their form",
                          q->single ? "one" : "a set", q->classes, b->single ? "one" : "a set",
                          b->classes);
    if (a->leave_out_same && a->base->count != a->queries->count)
        return sw_err_set(err, SW_ERR_INVALID, "%lld queries are not the %lld rows themselves",
                          (long long)a->queries->count, (long long)a->base->count);

    return SW_OK;
}

int sw_score_map(const struct sw_score_args *a, int threads, struct sw_score *out,
                 struct sw_err *err)
{
    struct work w = {.a = a};
    struct sw_score s = {.classes = a->query_labels->classes};
    const size_t count = (size_t)a->base->count;

    int rc = sw_search_check(a->base->count, a->base->dims, a->queries->dims, 1, threads, err);
    if (rc == SW_OK)
        rc = check_args(a, err);
    if (rc != SW_OK)
        return rc;

    s.per_class = sw_calloc((size_t)s.classes, sizeof *s.per_class);
    w.query = sw_calloc((size_t)a->queries->count, sizeof *w.query);
    w.scratch = sw_calloc((size_t)threads, sizeof *w.scratch);
    if (!s.per_class || !w.query || !w.scratch)
        rc = sw_err_nomem(err, "a score", 0);

    for (int i = 0; rc == SW_OK && i < threads; i++) {
        w.scratch[i].ranking = sw_calloc(count, sizeof *w.scratch[i].ranking);
        w.scratch[i].relevant = sw_calloc(count, sizeof *w.scratch[i].relevant);
        if (!w.scratch[i].ranking || !w.scratch[i].relevant)
            rc = sw_err_nomem(err, "a ranking", count * sizeof *w.scratch[i].ranking);
    }

    if (rc == SW_OK)
        rc = sw_search_parallel(threads, a->queries->count, rank_query, &w, err);
    if (rc == SW_OK) {
        sum_up(&w, &s);
        *out = s;
    } else {
        sw_score_fini(&s);
    }

    for (int i = 0; w.scratch && i < threads; i++) {
        sw_free(w.scratch[i].ranking);
        sw_free(w.scratch[i].relevant);
    }
    sw_free(w.scratch);
    sw_free(w.query);
    return rc;
}

void sw_score_fini(struct sw_score *s)
{
    sw_free(s->per_class);
    *s = (struct sw_score){0};
}
