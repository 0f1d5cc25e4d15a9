/* Builds, opens and searches indexes of any kind. The contract is in search/index.h. */
#include "search/index.h"

#include "base/os.h"
#include "search/exact.h"
#include "search/index_private.h"
#include "search/parallel.h"
#include <stdio.h>
#include <string.h>

enum { TEXT = 128 };

/* ---- Build ------------------------------------------------------------------------------------
 */

void *sw_index_build_section(struct sw_index_build *b, int section, uint64_t bytes,
                             struct sw_err *err)
{
    void *p = sw_calloc(1, (size_t)bytes);
    if (!p) {
        sw_err_nomem(err, sw_index_section_name(section), (size_t)bytes);
        return NULL;
    }

    b->owned[section] = p;
    b->part[section] = (struct sw_index_part){p, bytes};
    return p;
}

static uint32_t place_of(const struct sw_index_kind *kind)
{
    uint32_t place = 0;

    while (sw_index_kinds[place] != kind)
        place++;
    return place;
}

static int check_args(const struct sw_index_args *a, struct sw_err *err)
{
    const struct sw_index_kind *kind = a->kind;
    const int given = a->set.codes.count ? a->set.codes.bits : 0;

    if (given && !kind->holds_codes)
        return sw_err_set(
            err, SW_ERR_INVALID,
            "an index of kind %s holds vectors, and codes were given: use codes or mih",
            kind->name);
    if (a->bits && !kind->usual_bits)
        return sw_err_set(err, SW_ERR_INVALID, "an index of kind %s takes no bits", kind->name);
    if (a->bits && given && a->bits != given)
        return sw_err_set(err, SW_ERR_INVALID, "%d bits, but the codes that were given have %d",
                          a->bits, given);
    if (a->labels && a->labels->count != (given ? a->set.codes.count : a->set.vectors.count))
        return sw_err_set(err, SW_ERR_INVALID, "%lld labels for %lld rows: each row needs one",
                          (long long)a->labels->count,
                          (long long)(given ? a->set.codes.count : a->set.vectors.count));

    return SW_OK;
}

static void add_given(struct sw_index_build *b)
{
    const struct sw_index_args *a = b->a;
    const struct sw_vectors *v = &a->set.vectors;
    const struct sw_codes *c = &a->set.codes;

    b->header = (struct sw_index_header){.kind = place_of(a->kind),
                                         .dims = (uint32_t)v->dims,
                                         .metric = (uint32_t)a->metric,
                                         .count = (uint64_t)(c->count ? c->count : v->count)};
    b->header.bits = (uint32_t)(c->count ? c->bits : a->bits ? a->bits : a->kind->usual_bits);

    if (v->count)
        b->part[SW_INDEX_VECTORS] =
            (struct sw_index_part){v->at, (uint64_t)v->count * (uint64_t)v->dims * sizeof *v->at};
    if (!a->labels)
        return;

    b->header.classes = (uint32_t)a->labels->classes;
    if (a->labels->single)
        b->part[SW_INDEX_LABELS] =
            (struct sw_index_part){a->labels->single, b->header.count * sizeof(int32_t)};
    else
        b->part[SW_INDEX_LABEL_SETS] = (struct sw_index_part){
            a->labels->sets,
            b->header.count * (uint64_t)sw_label_words(a->labels->classes) * sizeof(uint64_t)};
}

int sw_index_write(const struct sw_index_args *a, const char *path, struct sw_err *err)
{
    struct sw_index_build *b = sw_calloc(1, sizeof *b);
    if (!b)
        return sw_err_nomem(err, "an index", sizeof *b);

    b->a = a;

    int rc = check_args(a, err);
    if (rc != SW_OK)
        goto out;

    add_given(b);
    rc = a->kind->build(b, err);
    if (rc == SW_OK)
        rc = sw_index_file_write(path, &b->header, b->part, err);

out:
    for (int s = 0; s < SW_INDEX_SECTION_END; s++)
        sw_free(b->owned[s]);
    sw_free(b);
    return rc;
}

/* ---- Open -------------------------------------------------------------------------------------
 */

static int bind_header(struct sw_index *x, struct sw_err *err)
{
    const struct sw_index_header *h = &x->file.header;
    uint32_t kinds = 0;

    while (sw_index_kinds[kinds])
        kinds++;

    if (h->kind == SW_INDEX_KIND_MODEL)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: a model of codes, expected an index",
                          x->file.path);
    if (h->kind >= kinds)
        return sw_err_set(err, SW_ERR_UNSUPPORTED, "%s: kind %u is unknown, expected 0 to %u",
                          x->file.path, h->kind, kinds - 1);
    if (h->metric >= SW_METRIC_COUNT)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: metric %u is unknown, expected 0 to %d",
                          x->file.path, h->metric, SW_METRIC_COUNT - 1);
    if (h->count < 1 || h->count > INT32_MAX)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: %llu rows, expected 1 to 2^31 - 1", x->file.path,
                          (unsigned long long)h->count);

    x->kind = sw_index_kinds[h->kind];
    x->metric = (enum sw_metric)h->metric;
    x->count = (int64_t)h->count;
    return SW_OK;
}

static int bind_vectors(struct sw_index *x, struct sw_err *err)
{
    const struct sw_index_header *h = &x->file.header;
    const void *vectors;
    char of[TEXT];

    if (!x->file.part[SW_INDEX_VECTORS].data)
        return SW_OK;
    if (h->dims < 1 || h->dims > SW_SEARCH_MOST_DIMS)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: vectors of %u floats, expected 1 to %d",
                          x->file.path, h->dims, SW_SEARCH_MOST_DIMS);

    snprintf(of, sizeof of, "%lld vectors of %u floats", (long long)x->count, h->dims);
    int rc = sw_index_file_section(&x->file, SW_INDEX_VECTORS, h->count * h->dims * sizeof(float),
                                   of, &vectors, err);
    if (rc != SW_OK)
        return rc;

    x->vectors = (struct sw_vectors){vectors, x->count, (int)h->dims};
    x->has_vectors = true;
    return sw_vectors_check(&x->vectors, x->metric, x->file.path, err);
}

static int bind_labels(struct sw_index *x, struct sw_err *err)
{
    const struct sw_index_header *h = &x->file.header;
    const bool single = x->file.part[SW_INDEX_LABELS].data;
    const void *labels;
    char of[TEXT];

    if (!single && !x->file.part[SW_INDEX_LABEL_SETS].data)
        return SW_OK;
    if (h->classes < 1 || h->classes > SW_LABELS_MOST_CLASSES)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: labels of %u classes, expected 1 to %d",
                          x->file.path, h->classes, SW_LABELS_MOST_CLASSES);

    const uint64_t row =
        single ? sizeof(int32_t) : (uint64_t)sw_label_words((int)h->classes) * sizeof(uint64_t);
    snprintf(of, sizeof of, "%lld rows of labels of %u classes", (long long)x->count, h->classes);
    int rc = sw_index_file_section(&x->file, single ? SW_INDEX_LABELS : SW_INDEX_LABEL_SETS,
                                   h->count * row, of, &labels, err);
    if (rc != SW_OK)
        return rc;

    x->labels = (struct sw_row_labels){.count = x->count,
                                       .classes = (int)h->classes,
                                       .single = single ? labels : NULL,
                                       .sets = single ? NULL : labels};
    x->has_labels = true;
    return sw_row_labels_check(&x->labels, x->file.path, err);
}

static int bind(struct sw_index *x, struct sw_err *err)
{
    int rc = bind_header(x, err);
    if (rc == SW_OK)
        rc = bind_vectors(x, err);
    if (rc == SW_OK)
        rc = bind_labels(x, err);
    if (rc == SW_OK)
        rc = x->kind->bind(x, err);
    if (rc == SW_OK)
        rc = sw_index_file_check(&x->file, err);
    if (rc != SW_OK)
        sw_index_close(x);
    return rc;
}

int sw_index_open(struct sw_index *x, const char *path, struct sw_err *err)
{
    memset(x, 0, sizeof *x);
    int rc = sw_index_file_open(&x->file, path, err);
    return rc == SW_OK ? bind(x, err) : rc;
}

int sw_index_parse(struct sw_index *x, const char *name, const void *bytes, uint64_t count,
                   struct sw_err *err)
{
    memset(x, 0, sizeof *x);
    int rc = sw_index_file_parse(&x->file, name, bytes, count, err);
    return rc == SW_OK ? bind(x, err) : rc;
}

void sw_index_close(struct sw_index *x)
{
    sw_index_file_close(&x->file);
}

/* ---- Search -----------------------------------------------------------------------------------
 */

/* The queries in the form that the index compares: *owned is memory for their codes. */
static int as_compared(const struct sw_index *x, const struct sw_search_set *q, int threads,
                       struct sw_search_set *out, uint64_t **owned, struct sw_err *err)
{
    *owned = NULL;
    *out = *q;

    if (!x->kind->holds_codes || q->codes.count) {
        if (x->kind->holds_codes == (q->codes.count > 0))
            return SW_OK;
        return sw_err_set(err, SW_ERR_INVALID,
                          "the queries are codes of %d bits, expected vectors of %d floats",
                          q->codes.bits, x->vectors.dims);
    }
    if (!x->has_vectors)
        return sw_err_set(err, SW_ERR_INVALID,
                          "the queries are vectors of %d floats, expected codes of %d bits",
                          q->vectors.dims, x->codes.bits);

    int rc = sw_search_check(x->count, x->encoder.dims, q->vectors.dims, 1, threads, err);
    if (rc != SW_OK)
        return rc;

    const int words = x->codes.words;
    *owned = sw_calloc((size_t)q->vectors.count * (size_t)words, sizeof **owned);
    if (!*owned)
        return sw_err_nomem(err, "the codes of queries", (size_t)q->vectors.count * (size_t)words);

    out->codes = (struct sw_codes){*owned, q->vectors.count, x->codes.bits, words};
    return sw_encoder_encode(&x->encoder, &q->vectors, threads, *owned, err);
}

int sw_index_search(const struct sw_index *x, const struct sw_search_set *q, int64_t k, int threads,
                    struct sw_neighbor *out, int64_t *read, struct sw_err *err)
{
    struct sw_search_set compared;
    uint64_t *owned;

    int rc = as_compared(x, q, threads, &compared, &owned, err);
    if (rc == SW_OK)
        rc = x->kind->search(x, &compared, k, threads, out, read, err);
    if (rc == SW_OK)
        rc = sw_index_file_check(&x->file, err);

    sw_free(owned);
    return rc;
}

struct reorder {
    const struct sw_index *x;
    const struct sw_vectors *queries;
    struct sw_candidates candidates;
    int64_t k;
    struct sw_neighbor *out; /* [queries][k] */
};

static int reorder_query(void *user, int64_t task, int thread, struct sw_err *err)
{
    const struct reorder *r = user;
    const struct sw_neighbor *found = r->candidates.at + task * r->candidates.each;
    struct sw_nearest n = sw_nearest_in(r->out + task * r->k, r->k);

    for (int64_t i = 0; i < r->candidates.each; i++)
        sw_nearest_offer(&n,
                         sw_vector_distance(r->x->metric, sw_vector(r->queries, task),
                                            sw_vector(&r->x->vectors, found[i].id),
                                            r->x->vectors.dims),
                         found[i].id);

    sw_nearest_sort(&n);
    return SW_OK;
}

int sw_index_reorder(const struct sw_index *x, const struct sw_vectors *queries,
                     struct sw_candidates c, int64_t k, int threads, struct sw_neighbor *out,
                     struct sw_err *err)
{
    struct reorder r = {x, queries, c, k, out};

    if (!x->has_vectors || !queries->count)
        return sw_err_set(err, SW_ERR_INVALID,
                          "codes have no vectors to be ordered by: build the index from vectors");

    int rc = sw_search_check(c.each, x->vectors.dims, queries->dims, k, threads, err);
    if (rc == SW_OK)
        rc = sw_search_parallel(threads, queries->count, reorder_query, &r, err);
    return rc == SW_OK ? sw_index_file_check(&x->file, err) : rc;
}

int sw_index_truth(const struct sw_index *x, const struct sw_search_set *q, int64_t k, int threads,
                   struct sw_neighbor *out, struct sw_err *err)
{
    int rc;

    if (x->has_vectors && !q->codes.count) {
        rc = sw_exact_search(&x->vectors, x->metric, &q->vectors, k, threads, out, err);
    } else if (x->has_vectors) {
        rc = sw_err_set(err, SW_ERR_INVALID,
                        "the queries are codes of %d bits, expected vectors of %d floats",
                        q->codes.bits, x->vectors.dims);
    } else if (!q->codes.count) {
        rc = sw_err_set(err, SW_ERR_INVALID,
                        "the queries are vectors of %d floats, expected codes of %d bits",
                        q->vectors.dims, x->codes.bits);
    } else {
        rc = sw_codes_search(&x->codes, &q->codes, k, threads, out, err);
    }

    return rc == SW_OK ? sw_index_file_check(&x->file, err) : rc;
}
