/* Scans of binary codes. A task takes a block of queries over pieces of the codes that stay in the
 * processor's cache. The contract is in search/codes.h. */
#include "search/codes.h"

#include "base/os.h"
#include "search/exact.h"
#include "search/hamming.h"
#include "search/hamming_loop.h"
#include "search/parallel.h"

enum { QUERY_BLOCK = 32, PIECE_BYTES = 1 << 18 };

int sw_code_distance(const uint64_t *a, const uint64_t *b, int words)
{
    return hamming_words(a, b, words);
}

void sw_codes_from_bytes(const uint8_t *bytes, int64_t count, int bits, uint64_t *words)
{
    const int row_bytes = bits / 8, row_words = sw_code_words(bits);

    for (int64_t row = 0; row < count; row++)
        for (int w = 0; w < row_words; w++) {
            uint64_t word = 0;

            for (int i = 0; i < 8 && 8 * w + i < row_bytes; i++)
                word |= (uint64_t)bytes[row * row_bytes + 8 * w + i] << (8 * i);
            words[row * row_words + w] = word;
        }
}

void sw_codes_from_bools(const uint8_t *bools, int64_t count, int bits, uint64_t *words)
{
    const int row_words = sw_code_words(bits);

    for (int64_t row = 0; row < count; row++)
        for (int w = 0; w < row_words; w++) {
            uint64_t word = 0;

            for (int i = 0; i < 64 && 64 * w + i < bits; i++)
                word |= (uint64_t)(bools[row * bits + 64 * w + i] != 0) << i;
            words[row * row_words + w] = word;
        }
}

int sw_codes_check(const struct sw_codes *c, const char *what, struct sw_err *err)
{
    if (c->count < 1 || c->count > INT32_MAX)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: %lld codes, expected 1 to 2^31 - 1", what,
                          (long long)c->count);
    if (c->bits < 1 || c->bits > SW_CODE_MOST_BITS)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: codes of %d bits, expected 1 to %d", what,
                          c->bits, SW_CODE_MOST_BITS);

    const uint64_t beyond = c->bits % 64 ? ~(uint64_t)0 << (c->bits % 64) : 0;

    for (int64_t row = 0; row < c->count; row++)
        if (sw_code(c, row)[c->words - 1] & beyond)
            return sw_err_set(err, SW_ERR_FORMAT, "%s: code %lld has bits beyond its %d", what,
                              (long long)row, c->bits);

    return SW_OK;
}

struct search {
    const struct sw_codes *codes, *queries;
    sw_hamming_next *next;
    struct sw_search_division division;
    int64_t k;
    struct sw_neighbor *out; /* [shards][queries][k] */
};

/* Offers the codes [from, to) to a query. Equal distances of later codes change nothing. */
static void offer_codes(const struct search *s, const uint64_t *query, int64_t from, int64_t to,
                        struct sw_nearest *n)
{
    const struct sw_codes *c = s->codes;

    for (;;) {
        const int limit = n->count < n->k ? c->bits + 1 : (int)n->at[0].distance;
        int distance;

        from = s->next(c->at, from, to, c->words, query, limit, &distance);
        if (from >= to)
            return;
        sw_nearest_offer(n, distance, from++);
    }
}

static int run_task(void *user, int64_t task, int thread, struct sw_err *err)
{
    const struct search *s = user;
    const struct sw_search_part p = sw_search_part_of(&s->division, task);
    const int64_t piece = PIECE_BYTES / (8 * s->codes->words) + 1;
    struct sw_neighbor *out = s->out + (p.shard * s->queries->count + p.query) * s->k;
    struct sw_nearest nearest[QUERY_BLOCK];

    for (int64_t q = 0; q < p.queries; q++)
        nearest[q] = sw_nearest_in(out + q * s->k, s->k);

    for (int64_t row = p.row; row < p.end; row += piece)
        for (int64_t q = 0; q < p.queries; q++)
            offer_codes(s, sw_code(s->queries, p.query + q), row,
                        row + piece < p.end ? row + piece : p.end, &nearest[q]);

    for (int64_t q = 0; q < p.queries; q++) {
        sw_nearest_sort(&nearest[q]);
        if (nearest[q].count < s->k)
            nearest[q].at[nearest[q].count].id = -1;
    }

    return SW_OK;
}

int sw_codes_search(const struct sw_codes *c, const struct sw_codes *queries, int64_t k,
                    int threads, struct sw_neighbor *out, struct sw_err *err)
{
    struct search s = {.codes = c,
                       .queries = queries,
                       .next = sw_hamming_best(),
                       .division = sw_search_divide(queries->count, c->count, QUERY_BLOCK, threads),
                       .k = k,
                       .out = out};
    const int64_t shards = s.division.shards;
    struct sw_neighbor *lists = NULL;

    int rc = sw_search_check(c->count, c->bits, queries->bits, k, threads, err);
    if (rc != SW_OK)
        return rc;

    if (shards > 1) {
        s.out = lists = sw_calloc((size_t)(shards * queries->count), (size_t)k * sizeof *out);
        if (!lists)
            return sw_err_nomem(err, "the neighbors of all shards", 0);
    }

    rc = sw_search_parallel(threads, sw_search_tasks(&s.division), run_task, &s, err);
    if (rc == SW_OK && lists)
        sw_nearest_merge(lists, shards, queries->count, k, out);

    sw_free(lists);
    return rc;
}

int sw_codes_within(const struct sw_codes *c, const uint64_t *query, int radius,
                    struct sw_neighbor_list *out, struct sw_err *err)
{
    sw_hamming_next *next = sw_hamming_best();
    const int64_t first = out->count;
    int distance;

    for (int64_t i = next(c->at, 0, c->count, c->words, query, radius + 1, &distance); i < c->count;
         i = next(c->at, i + 1, c->count, c->words, query, radius + 1, &distance)) {
        int rc = sw_grow(&out->at, sizeof *out->at, out->count, &out->room, 64,
                         "codes within a radius", err);
        if (rc != SW_OK)
            return rc;
        out->at[out->count++] = (struct sw_neighbor){distance, i};
    }

    sw_neighbors_sort(out->at + first, out->count - first);
    return SW_OK;
}
