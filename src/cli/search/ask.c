/* Searches an index for the queries of an array. The contract is in cli/search/ask.h. */
#include "cli/search/ask.h"

#include "base/os.h"

static int search(struct sw_search_ask *s, int64_t candidates, struct sw_err *err)
{
    const int64_t k = candidates ? candidates : s->k;
    struct sw_neighbor *found = sw_calloc((size_t)s->count, (size_t)k * sizeof *found);
    if (!found)
        return sw_err_nomem(err, "the neighbors", (size_t)s->count * (size_t)k * sizeof *found);

    s->found = found;
    s->metric = s->index.metric;
    s->bits = s->index.kind->holds_codes && !candidates;

    int rc = sw_index_search(&s->index, &s->queries.set, k, s->threads, found, &s->read, err);
    if (rc != SW_OK || !candidates)
        return rc;

    s->found = sw_calloc((size_t)s->count, (size_t)s->k * sizeof *found);
    rc = s->found
             ? sw_index_reorder(&s->index, &s->queries.set.vectors,
                                (struct sw_candidates){found, k}, s->k, s->threads, s->found, err)
             : sw_err_nomem(err, "the neighbors", 0);
    sw_free(found);
    return rc;
}

static int read_queries(struct sw_search_ask *s, const struct sw_search_ask_args *a,
                        struct sw_err *err)
{
    const bool encoded = a->model && a->model->model, codes = s->index.kind->holds_codes;
    const enum sw_metric metric = encoded ? SW_METRIC_EUCLIDEAN : s->index.metric;
    int rc = SW_OK;

    if (a->computed) {
        s->queries = *a->computed;
        *a->computed = (struct sw_search_array){0};
    } else {
        rc = sw_search_array_read(&s->queries, a->queries, metric, codes && !encoded, err);
    }

    if (rc == SW_OK && encoded)
        rc = sw_search_model_apply(a->model, codes, s->threads, &s->queries, err);
    if (rc == SW_OK && s->queries.set.vectors.count)
        rc = sw_vectors_check(&s->queries.set.vectors, s->index.metric, "the queries", err);
    return rc;
}

int sw_search_ask(struct sw_search_ask *s, const struct sw_search_ask_args *a, struct sw_err *err)
{
    *s = (struct sw_search_ask){.k = a->k};

    int rc = sw_search_threads(a->threads, &s->threads, err);
    if (rc == SW_OK)
        rc = sw_index_open(&s->index, a->index, err);
    if (rc == SW_OK)
        rc = read_queries(s, a, err);
    if (rc != SW_OK)
        return rc;

    s->count = sw_search_array_count(&s->queries);
    if (a->candidates && !s->index.kind->holds_codes)
        return sw_err_set(err, SW_ERR_INVALID,
                          "--candidates is for indexes of codes; %s has kind %s", a->index,
                          s->index.kind->name);

    /* Checked before memory of that size is taken. */
    const int64_t most = a->candidates ? a->candidates : s->index.count;
    if (a->k > most || most > s->index.count)
        return sw_err_set(err, SW_ERR_INVALID, "%lld neighbors%s, expected 1 to %lld",
                          (long long)(a->k > most ? a->k : most),
                          a->k > most ? "" : " as candidates",
                          (long long)(a->k > most ? most : s->index.count));

    const int64_t began = sw_os()->monotonic_ns();
    rc = search(s, a->candidates, err);
    s->seconds = (double)(sw_os()->monotonic_ns() - began) * 1e-9;
    return rc == SW_OK ? SW_OK : sw_err_prefix(err, rc, "%s", a->index);
}

void sw_search_ask_fini(struct sw_search_ask *s)
{
    sw_free(s->found);
    sw_search_array_fini(&s->queries);
    sw_index_close(&s->index);
}

double sw_search_ask_shown(const struct sw_search_ask *s, struct sw_neighbor n)
{
    return s->bits ? n.distance : sw_metric_shown(s->metric, n.distance);
}

const char *sw_search_ask_unit(const struct sw_search_ask *s)
{
    return s->bits ? "bits" : sw_metric_name(s->metric);
}
