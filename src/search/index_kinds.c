/* The kinds of an index: which sections each builds, what it expects of a file, and how it
 * searches. The contract is in search/index.h. */
#include "base/str.h"
#include "search/exact.h"
#include "search/index_private.h"
#include <stdio.h>

typedef unsigned long long ull;

enum { TEXT = 128, CODE_BITS = 64, VA_BITS = 4 };

/* ---- exact ------------------------------------------------------------------------------------
 */

static int build_exact(struct sw_index_build *b, struct sw_err *err)
{
    return SW_OK; /* the vectors are a section of every index that is built from vectors */
}

static int need_vectors(const struct sw_index *x, struct sw_err *err)
{
    if (!x->has_vectors)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s: section vectors is missing, expected %lld vectors in an index of "
                          "kind %s",
                          x->file.path, (long long)x->count, x->kind->name);
    return SW_OK;
}

static int bind_exact(struct sw_index *x, struct sw_err *err)
{
    return need_vectors(x, err);
}

static int search_exact(const struct sw_index *x, const struct sw_search_set *q, int64_t k,
                        int threads, struct sw_neighbor *out, int64_t *read, struct sw_err *err)
{
    *read = q->vectors.count * x->count;
    return sw_exact_search(&x->vectors, x->metric, &q->vectors, k, threads, out, err);
}

/* The vectors alone, all of which are compared. */
static const struct sw_index_kind exact_kind = {
    .name = "exact",
    .build = build_exact,
    .bind = bind_exact,
    .search = search_exact,
};

/* ---- va ---------------------------------------------------------------------------------------
 */

static int build_va(struct sw_index_build *b, struct sw_err *err)
{
    const struct sw_vectors *v = &b->a->set.vectors;
    const int bits = (int)b->header.bits;

    int rc = sw_va_check(bits, b->a->metric, err);
    if (rc != SW_OK)
        return rc;

    float *marks =
        sw_index_build_section(b, SW_INDEX_MARKS, sw_va_marks(v->dims, bits) * sizeof *marks, err);
    if (!marks)
        return SW_ERR_NOMEM;
    uint8_t *cells =
        sw_index_build_section(b, SW_INDEX_CELLS, sw_va_cells(v->count, v->dims, bits), err);
    if (!cells)
        return SW_ERR_NOMEM;

    return sw_va_build(v, b->a->metric, bits, b->a->threads, marks, cells, err);
}

static int bind_va(struct sw_index *x, struct sw_err *err)
{
    const int dims = x->vectors.dims, bits = (int)x->file.header.bits;
    const void *marks, *cells;
    char of[TEXT];
    struct sw_err why;

    int rc = need_vectors(x, err);
    if (rc != SW_OK)
        return rc;
    if (sw_va_check(bits, x->metric, &why) != SW_OK)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: %s", x->file.path, why.text);

    snprintf(of, sizeof of, "marks of %d dimensions with %d bits", dims, bits);
    rc = sw_index_file_section(&x->file, SW_INDEX_MARKS, sw_va_marks(dims, bits) * sizeof(float),
                               of, &marks, err);
    if (rc != SW_OK)
        return rc;

    snprintf(of, sizeof of, "%lld approximations of %d dimensions with %d bits",
             (long long)x->count, dims, bits);
    rc = sw_index_file_section(&x->file, SW_INDEX_CELLS, sw_va_cells(x->count, dims, bits), of,
                               &cells, err);
    if (rc != SW_OK)
        return rc;

    x->va = (struct sw_va_file){x->vectors, bits, x->metric, marks, cells};
    return sw_va_check_marks(&x->va, x->file.path, err);
}

static int search_va(const struct sw_index *x, const struct sw_search_set *q, int64_t k,
                     int threads, struct sw_neighbor *out, int64_t *read, struct sw_err *err)
{
    return sw_va_search(&x->va, &q->vectors, k, threads, out, read, err);
}

/* A VA-file: the same answer, and few vectors are read. */
static const struct sw_index_kind va_kind = {
    .name = "va",
    .usual_bits = VA_BITS,
    .build = build_va,
    .bind = bind_va,
    .search = search_va,
};

/* ---- codes ------------------------------------------------------------------------------------
 */

static int encode(struct sw_index_build *b, struct sw_err *err)
{
    const struct sw_vectors *v = &b->a->set.vectors;
    const int bits = (int)b->header.bits;

    float *center =
        sw_index_build_section(b, SW_INDEX_CENTER, (uint64_t)v->dims * sizeof *center, err);
    if (!center)
        return SW_ERR_NOMEM;
    float *planes = sw_index_build_section(
        b, SW_INDEX_PLANES, (uint64_t)bits * (uint64_t)v->dims * sizeof *planes, err);
    if (!planes)
        return SW_ERR_NOMEM;
    uint64_t *codes = sw_index_build_section(
        b, SW_INDEX_CODES, (uint64_t)v->count * (uint64_t)sw_code_words(bits) * sizeof *codes, err);
    if (!codes)
        return SW_ERR_NOMEM;

    sw_encoder_random(v, bits, b->a->seed, center, planes);

    const struct sw_encoder e = {.dims = v->dims, .bits = bits, .part = {center, planes}};
    return sw_encoder_encode(&e, v, b->a->threads, codes, err);
}

static int build_codes(struct sw_index_build *b, struct sw_err *err)
{
    const struct sw_codes *c = &b->a->set.codes;

    if (b->header.bits < 1 || b->header.bits > SW_CODE_MOST_BITS)
        return sw_err_set(err, SW_ERR_INVALID, "codes of %u bits, expected 1 to %d", b->header.bits,
                          SW_CODE_MOST_BITS);
    if (!c->count)
        return encode(b, err);

    b->part[SW_INDEX_CODES] =
        (struct sw_index_part){c->at, (uint64_t)c->count * (uint64_t)c->words * sizeof *c->at};
    return SW_OK;
}

static int bind_encoder(struct sw_index *x, struct sw_err *err)
{
    const uint64_t dims = (uint64_t)x->vectors.dims, bits = (uint64_t)x->codes.bits;
    const void *center, *planes;
    char of[TEXT];

    snprintf(of, sizeof of, "the mean of vectors of %llu floats", (ull)dims);
    int rc =
        sw_index_file_section(&x->file, SW_INDEX_CENTER, dims * sizeof(float), of, &center, err);
    if (rc != SW_OK)
        return rc;

    snprintf(of, sizeof of, "%llu hyperplanes of %llu floats", (ull)bits, (ull)dims);
    rc = sw_index_file_section(&x->file, SW_INDEX_PLANES, bits * dims * sizeof(float), of, &planes,
                               err);
    if (rc != SW_OK)
        return rc;

    x->encoder =
        (struct sw_encoder){.dims = (int)dims, .bits = (int)bits, .part = {center, planes}};

    const struct sw_vectors all[] = {{center, 1, (int)dims}, {planes, (int64_t)bits, (int)dims}};
    for (int i = 0; rc == SW_OK && i < 2; i++)
        rc = sw_vectors_check(&all[i], SW_METRIC_EUCLIDEAN,
                              sw_index_section_name(i ? SW_INDEX_PLANES : SW_INDEX_CENTER), err);
    return rc == SW_OK ? SW_OK : sw_err_prefix(err, rc, "%s", x->file.path);
}

static int bind_codes(struct sw_index *x, struct sw_err *err)
{
    const uint32_t bits = x->file.header.bits;
    const void *codes;
    char of[TEXT];

    if (bits < 1 || bits > SW_CODE_MOST_BITS)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: codes of %u bits, expected 1 to %d",
                          x->file.path, bits, SW_CODE_MOST_BITS);

    const int words = sw_code_words((int)bits);
    snprintf(of, sizeof of, "%lld codes of %u bits", (long long)x->count, bits);
    int rc = sw_index_file_section(&x->file, SW_INDEX_CODES,
                                   (uint64_t)x->count * (uint64_t)words * sizeof(uint64_t), of,
                                   &codes, err);
    if (rc != SW_OK)
        return rc;

    x->codes = (struct sw_codes){codes, x->count, (int)bits, words};
    rc = sw_codes_check(&x->codes, x->file.path, err);
    if (rc == SW_OK && x->has_vectors)
        rc = bind_encoder(x, err);
    return rc;
}

static int search_codes(const struct sw_index *x, const struct sw_search_set *q, int64_t k,
                        int threads, struct sw_neighbor *out, int64_t *read, struct sw_err *err)
{
    *read = q->codes.count * x->count;
    return sw_codes_search(&x->codes, &q->codes, k, threads, out, err);
}

/* Binary codes, all of which are compared. */
static const struct sw_index_kind codes_kind = {
    .name = "codes",
    .usual_bits = CODE_BITS,
    .holds_codes = true,
    .build = build_codes,
    .bind = bind_codes,
    .search = search_codes,
};

/* ---- mih --------------------------------------------------------------------------------------
 */

static int build_mih(struct sw_index_build *b, struct sw_err *err)
{
    int rc = build_codes(b, err);
    if (rc != SW_OK)
        return rc;

    const int bits = (int)b->header.bits;
    const struct sw_codes c = {b->part[SW_INDEX_CODES].data, (int64_t)b->header.count, bits,
                               sw_code_words(bits)};
    const int parts = sw_multi_index_parts(c.count, bits);

    uint32_t *begins = sw_index_build_section(
        b, SW_INDEX_BEGINS, sw_multi_index_begins(bits, parts) * sizeof *begins, err);
    if (!begins)
        return SW_ERR_NOMEM;
    uint32_t *rows = sw_index_build_section(
        b, SW_INDEX_ROWS, (uint64_t)parts * (uint64_t)c.count * sizeof *rows, err);
    if (!rows)
        return SW_ERR_NOMEM;

    b->header.parts = (uint32_t)parts;
    sw_multi_index_build(&c, parts, begins, rows);
    return SW_OK;
}

static int bind_mih(struct sw_index *x, struct sw_err *err)
{
    const void *begins, *rows;
    char of[TEXT];

    int rc = bind_codes(x, err);
    if (rc != SW_OK)
        return rc;

    const uint32_t parts = x->file.header.parts;
    if (parts > SW_CODE_MOST_BITS || !sw_multi_index_fits(x->codes.bits, (int)parts))
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s: %u substrings of %d bits, expected 1 to %d bits in each",
                          x->file.path, parts, x->codes.bits, SW_MULTI_INDEX_MOST_BITS);

    snprintf(of, sizeof of, "tables of %u substrings of %d bits", parts, x->codes.bits);
    rc = sw_index_file_section(&x->file, SW_INDEX_BEGINS,
                               sw_multi_index_begins(x->codes.bits, (int)parts) * sizeof(uint32_t),
                               of, &begins, err);
    if (rc != SW_OK)
        return rc;

    snprintf(of, sizeof of, "%lld rows of %u substrings", (long long)x->count, parts);
    rc = sw_index_file_section(&x->file, SW_INDEX_ROWS,
                               (uint64_t)parts * (uint64_t)x->count * sizeof(uint32_t), of, &rows,
                               err);
    if (rc != SW_OK)
        return rc;

    x->multi = (struct sw_multi_index){x->codes, (int)parts, begins, rows};
    return sw_multi_index_check(&x->multi, x->file.path, err);
}

static int search_mih(const struct sw_index *x, const struct sw_search_set *q, int64_t k,
                      int threads, struct sw_neighbor *out, int64_t *read, struct sw_err *err)
{
    return sw_multi_index_search(&x->multi, &q->codes, k, threads, out, read, err);
}

/* Codes with multi-index hashing: the answer of codes, and few are compared. */
static const struct sw_index_kind mih_kind = {
    .name = "mih",
    .usual_bits = CODE_BITS,
    .holds_codes = true,
    .build = build_mih,
    .bind = bind_mih,
    .search = search_mih,
};

const struct sw_index_kind *const sw_index_kinds[] = {&exact_kind, &va_kind, &codes_kind, &mih_kind,
                                                      NULL};

const struct sw_index_kind *sw_index_kind_find(const char *name)
{
    for (int i = 0; sw_index_kinds[i]; i++)
        if (sw_str_eq(sw_index_kinds[i]->name, name))
            return sw_index_kinds[i];

    return NULL;
}
