/* Encodes arrays. The contract is in cli/search/model.h. */
#include "cli/search/model.h"

#include "base/os.h"
#include "cli/cli.h"
#include <stdlib.h>

static const char *const views[SW_CODE_VIEWS] = {"image", "text"};

int sw_search_model_check(const char *verb, const struct sw_search_model_options *o)
{
    if (o->view && !o->model)
        return sw_cli_usage(verb, "--view needs --model");
    if (o->view && !sw_str_eq(o->view, views[0]) && !sw_str_eq(o->view, views[1]))
        return sw_cli_usage(verb, "--view=%s: must be image or text", o->view);
    return SW_EXIT_DONE;
}

/* Replaces what an array has. */
static void take(struct sw_search_array *a, void *owned, struct sw_search_set set)
{
    sw_free(a->owned);
    *a = (struct sw_search_array){.set = set, .owned = owned};
}

int sw_search_model_encode(const struct sw_code_model *m, int view, const char *what, bool codes,
                           int threads, struct sw_search_array *a, struct sw_err *err)
{
    const struct sw_encoder *e = sw_code_model_view(m, view);
    const struct sw_vectors *v = &a->set.vectors;
    const int words = sw_code_words(e->bits);
    const size_t row_bytes = codes ? (size_t)words * sizeof(uint64_t) : (size_t)e->bits * 4;

    if (!v->count || v->dims != e->dims)
        return sw_err_set(err, SW_ERR_INVALID,
                          "%s: %s of %d %s, expected vectors of %d numbers for %s", what,
                          v->count ? "vectors" : "codes", v->count ? v->dims : a->set.codes.bits,
                          v->count ? "numbers" : "bits", e->dims, m->file.path);

    void *out = sw_calloc((size_t)v->count, row_bytes);
    if (!out)
        return sw_err_nomem(err, "the codes of vectors", (size_t)v->count * row_bytes);

    struct sw_search_set set = {0};
    int rc;

    if (codes) {
        rc = sw_encoder_encode(e, v, threads, out, err);
        set.codes = (struct sw_codes){out, v->count, e->bits, words};
    } else {
        rc = sw_encoder_values(e, v, threads, out, err);
        set.vectors = (struct sw_vectors){out, v->count, e->bits};
        if (rc == SW_OK)
            rc = sw_vectors_check(&set.vectors, SW_METRIC_EUCLIDEAN, what, err);
    }

    if (rc == SW_OK)
        rc = sw_index_file_check(&m->file, err);
    if (rc == SW_OK)
        take(a, out, set);
    else
        sw_free(out);
    return rc;
}

int sw_search_model_apply(const struct sw_search_model_options *o, bool codes, int threads,
                          struct sw_search_array *a, struct sw_err *err)
{
    struct sw_code_model m;

    if (!o->model)
        return SW_OK;

    int rc = sw_code_model_open(&m, o->model, err);
    if (rc == SW_OK && m.views > 1 && !o->view)
        rc = sw_err_set(err, SW_ERR_INVALID,
                        "%s has two views: --view=image or --view=text is missing", o->model);
    if (rc == SW_OK)
        rc = sw_search_model_encode(&m, o->view && sw_str_eq(o->view, views[1]), "the vectors",
                                    codes, threads, a, err);
    sw_code_model_close(&m);
    return rc;
}

/* ---- Medians ----------------------------------------------------------------------------------
 */

static int compare(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

int sw_search_median_codes(const struct sw_vectors *base, struct sw_search_array *a,
                           struct sw_err *err)
{
    const struct sw_vectors *v = &a->set.vectors;
    const int bits = v->dims, words = sw_code_words(bits);
    float *column = NULL;

    if (v->dims != base->dims)
        return sw_err_set(err, SW_ERR_INVALID,
                          "the queries have %d dimensions, expected %d as those that are searched",
                          v->dims, base->dims);

    uint64_t *codes = sw_calloc((size_t)v->count, (size_t)words * sizeof *codes);
    column = sw_calloc((size_t)base->count, sizeof *column);
    if (!codes || !column) {
        sw_free(codes);
        sw_free(column);
        return sw_err_nomem(err, "codes", (size_t)v->count * (size_t)words * sizeof *codes);
    }

    for (int j = 0; j < bits; j++) {
        for (int64_t row = 0; row < base->count; row++)
            column[row] = sw_vector(base, row)[j];
        qsort(column, (size_t)base->count, sizeof *column, compare);

        const float median = column[(base->count - 1) / 2];
        for (int64_t row = 0; row < v->count; row++)
            codes[row * words + j / 64] |= (uint64_t)(sw_vector(v, row)[j] > median) << (j % 64);
    }

    sw_free(column);
    take(a, codes, (struct sw_search_set){.codes = {codes, v->count, bits, words}});
    return SW_OK;
}
