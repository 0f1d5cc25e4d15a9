/* Words are found by exact search (search/exact.h) of a few more rows than are asked for, from
 * which the words of the question are dropped. The contract is in search/words.h. */
#include "search/words.h"

#include "base/os.h"
#include "search/exact.h"
#include <math.h>

void sw_words_unit(float *values, int64_t count, int dims)
{
    for (int64_t row = 0; row < count; row++) {
        float *at = values + row * dims;
        const double length = sqrt(sw_vector_norm2(at, dims));

        for (int d = 0; length > 0 && d < dims; d++)
            at[d] = (float)(at[d] / length);
    }
}

/* Queries and the words that are no answer to them. */
struct questions {
    struct sw_vectors queries; /* at: owned */
    const int32_t *without;    /* [queries.count][words] */
    int words;
};

static bool is_answer(const struct questions *q, int64_t query, int64_t id)
{
    for (int i = 0; i < q->words; i++)
        if (q->without[query * q->words + i] == id)
            return false;

    return true;
}

static int answer(const struct sw_vectors *unit, const struct questions *q, int64_t k, int threads,
                  struct sw_neighbor *out, struct sw_err *err)
{
    const int64_t count = q->queries.count, wide = k + q->words;

    if (k < 1 || wide > unit->count)
        return sw_err_set(err, SW_ERR_INVALID,
                          "%lld neighbors, expected 1 to %lld: there are %lld words, and the %d of "
                          "the question %s no answer",
                          (long long)k, (long long)(unit->count - q->words), (long long)unit->count,
                          q->words, q->words == 1 ? "is" : "are");

    struct sw_neighbor *found = sw_calloc((size_t)count, (size_t)wide * sizeof *found);
    if (!found)
        return sw_err_nomem(err, "the neighbors", (size_t)count * (size_t)wide * sizeof *found);

    int rc = sw_exact_search(unit, SW_METRIC_DOT, &q->queries, wide, threads, found, err);

    for (int64_t i = 0; rc == SW_OK && i < count; i++) {
        int64_t kept = 0;

        for (int64_t j = 0; kept < k; j++)
            if (is_answer(q, i, found[i * wide + j].id))
                out[i * k + kept++] = found[i * wide + j];
    }

    sw_free(found);
    return rc;
}

/* Allocates the queries, which the caller frees. */
static int new_queries(const struct sw_vectors *unit, int64_t count, float **at, struct sw_err *err)
{
    *at = sw_calloc((size_t)count, (size_t)unit->dims * sizeof **at);
    return *at ? SW_OK
               : sw_err_nomem(err, "the queries", (size_t)count * (size_t)unit->dims * sizeof **at);
}

int sw_words_nearest(const struct sw_vectors *unit, const int32_t *words, int64_t count, int64_t k,
                     int threads, struct sw_neighbor *out, struct sw_err *err)
{
    float *at;

    int rc = new_queries(unit, count, &at, err);
    if (rc != SW_OK)
        return rc;

    for (int64_t i = 0; i < count; i++)
        for (int d = 0; d < unit->dims; d++)
            at[i * unit->dims + d] = sw_vector(unit, words[i])[d];

    const struct questions q = {{at, count, unit->dims}, words, 1};
    rc = answer(unit, &q, k, threads, out, err);
    sw_free(at);
    return rc;
}

int sw_words_analogies(const struct sw_vectors *unit, const struct sw_analogy *questions,
                       int64_t count, int64_t k, int threads, struct sw_neighbor *out,
                       struct sw_err *err)
{
    enum { GIVEN = 3 };

    int32_t *without = sw_calloc((size_t)count, GIVEN * sizeof *without);
    float *at = NULL;
    int rc = without ? new_queries(unit, count, &at, err)
                     : sw_err_nomem(err, "the questions", (size_t)count * GIVEN * sizeof *without);
    if (rc != SW_OK)
        goto out;

    for (int64_t i = 0; i < count; i++) {
        const struct sw_analogy *q = &questions[i];
        const float *a = sw_vector(unit, q->a), *b = sw_vector(unit, q->b),
                    *c = sw_vector(unit, q->c);

        for (int d = 0; d < unit->dims; d++)
            at[i * unit->dims + d] = (float)((double)b[d] - (double)a[d] + (double)c[d]);
        without[i * GIVEN] = q->a;
        without[i * GIVEN + 1] = q->b;
        without[i * GIVEN + 2] = q->c;
    }

    sw_words_unit(at, count, unit->dims);
    const struct questions q = {{at, count, unit->dims}, without, GIVEN};
    rc = answer(unit, &q, k, threads, out, err);

out:
    sw_free(without);
    sw_free(at);
    return rc;
}
