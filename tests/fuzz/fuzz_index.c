/* An index file of untrusted bytes, or a model of codes, which is one of its own kind: opening ends
 * in an index whose search stays in bounds, in a model that encodes, or in an error. The first byte
 * selects whether checksums are corrected first, so that the code after them is reached; the rest
 * is the file. */
#include "base/hash.h"
#include "base/os.h"
#include "search/code_model.h"
#include "search/index.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum {
    AT_FILE_BYTES = 16,
    AT_SECTIONS = 52,
    AT_TABLE = 64,
    ENTRY = 32,
    AT_SUM = SW_INDEX_HEADER_BYTES - 8,
    MOST_ROWS = 4096,
    MOST_DIMS = 64,
    MOST_WORDS = 16,
    MOST_ANCHORS = 256,
    K = 3,
};

static void demand(bool holds)
{
    if (!holds)
        __builtin_trap();
}

static uint64_t get64(const unsigned char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static void put64(unsigned char *p, uint64_t v)
{
    memcpy(p, &v, sizeof v);
}

static void correct(unsigned char *b, uint64_t bytes)
{
    uint32_t sections;
    memcpy(&sections, b + AT_SECTIONS, sizeof sections);
    for (uint32_t i = 0; i < sections && i < SW_INDEX_MOST_SECTIONS; i++) {
        unsigned char *entry = b + AT_TABLE + i * ENTRY;
        const uint64_t offset = get64(entry + 8), size = get64(entry + 16);
        if (offset <= bytes && size <= bytes - offset)
            put64(entry + 24, sw_hash_bytes64(b + offset, size));
    }
    put64(b + AT_FILE_BYTES, bytes);
    put64(b + AT_SUM, sw_hash_bytes64(b, AT_SUM));
}

/* Asks for the first rows of the index itself, and for ones. */
static void search(const struct sw_index *x)
{
    static const float ones[MOST_DIMS] = {1, 1, 1, 1, 1, 1, 1, 1};
    static const uint64_t code[MOST_WORDS] = {1};
    const int64_t k = x->count < K ? x->count : K;
    struct sw_search_set q = {.vectors = {ones, 1, x->vectors.dims}};
    struct sw_neighbor found[K];
    int64_t read = 0;
    struct sw_err err;
    if (x->count > MOST_ROWS || x->vectors.dims > MOST_DIMS || x->codes.words > MOST_WORDS)
        return;
    if (!x->has_vectors)
        q = (struct sw_search_set){.codes = {code, 1, x->codes.bits, x->codes.words}};
    for (int own = 0; own < 2; own++) {
        demand(sw_index_search(x, &q, k, 1, found, &read, &err) == SW_OK);
        demand(read >= k);
        for (int64_t i = 0; i < k; i++)
            demand(found[i].id >= 0 && found[i].id < x->count);
        for (int64_t i = 1; i < k; i++)
            demand(sw_neighbor_before(found[i - 1], found[i]));
        if (x->has_vectors)
            q.vectors.at = x->vectors.at;
        else
            q.codes.at = x->codes.at;
    }
    for (int64_t i = 0; x->has_labels && i < x->count; i++)
        demand(x->labels.sets || sw_row_has_label(&x->labels, i, x->labels.single[i]));
}

/* Encodes a vector of ones, whose values have no bits beyond their number. */
static void encode(const struct sw_code_model *m)
{
    static const float ones[MOST_DIMS] = {1, 1, 1, 1, 1, 1, 1, 1};
    static float values[64 * MOST_WORDS];
    uint64_t code[MOST_WORDS];
    struct sw_err err;
    for (int v = 0; v < SW_CODE_VIEWS; v++) {
        const struct sw_encoder *e = sw_code_model_view(m, v);
        const struct sw_vectors one = {ones, 1, e->dims};
        const struct sw_codes c = {code, 1, e->bits, sw_code_words(e->bits)};
        if (e->dims > MOST_DIMS || c.words > MOST_WORDS || e->anchors > MOST_ANCHORS)
            return;
        demand(sw_encoder_values(e, &one, 1, values, &err) == SW_OK);
        demand(sw_encoder_encode(e, &one, 1, code, &err) == SW_OK);
        demand(sw_codes_check(&c, "codes", &err) == SW_OK);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct sw_code_model m;
    struct sw_index x;
    struct sw_err err = {0};
    if (bytes < 1)
        return 0;
    unsigned char *copy = sw_os()->alloc(bytes); /* aligned; the sanitizer checks its end */
    if (!copy)
        return 0;
    memcpy(copy, data + 1, bytes - 1);
    if (data[0] & 1 && bytes - 1 >= SW_INDEX_HEADER_BYTES)
        correct(copy, bytes - 1);
    if (sw_index_parse(&x, "input", copy, bytes - 1, &err) == SW_OK)
        search(&x);
    else
        demand(err.code < 0 && err.text[0]);
    if (sw_code_model_parse(&m, "input", copy, bytes - 1, &err) == SW_OK) {
        demand(!x.kind);
        encode(&m);
    } else {
        demand(err.code < 0 && err.text[0]);
    }
    sw_code_model_close(&m);
    sw_index_close(&x);
    sw_free(copy);
    return 0;
}
