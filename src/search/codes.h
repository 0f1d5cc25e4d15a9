/* Binary codes: rows of bits in 64-bit words, compared by the number of bits that differ (the
 * Hamming distance). Searches are exact: a scan of all codes, or multi-index hashing
 * (search/multi_index.h). Pure functions; any thread. */
#pragma once

#include "base/err.h"
#include "search/nearest.h"

enum { SW_CODE_MOST_BITS = 65536 };

/* n codes. Bit i is bit i % 64 of word i / 64; bits of the last word beyond `bits` are zero. */
struct sw_codes {
    const uint64_t *at; /* [count][words], borrowed */
    int64_t count;
    int bits, words;
};

static inline int sw_code_words(int bits)
{
    return (bits + 63) / 64;
}
static inline const uint64_t *sw_code(const struct sw_codes *c, int64_t row)
{
    return c->at + row * c->words;
}
/* The number of bits in which two codes differ. */
int sw_code_distance(const uint64_t *a, const uint64_t *b, int words);

/* Packs rows of `bits` / 8 bytes, bit i of a row being bit i % 8 of byte i / 8 (as FAISS has them,
 * and numpy.packbits with bitorder="little"), or of `bits` booleans, one byte each, into words. */
void sw_codes_from_bytes(const uint8_t *bytes, int64_t count, int bits, uint64_t *words);
void sw_codes_from_bools(const uint8_t *bools, int64_t count, int bits, uint64_t *words);

/* Checks 1 to 2^31 - 1 codes of 1 to SW_CODE_MOST_BITS bits, and that no code has bits beyond
 * those. `what` names the set in errors. Errors: SW_ERR_FORMAT. */
int sw_codes_check(const struct sw_codes *c, const char *what, struct sw_err *err) SW_MUST_CHECK;

/* Scans all codes for the k nearest of each query: out [queries][k], nearest first, ties by id;
 * distances are numbers of bits. Errors: SW_ERR_INVALID (bits, k, threads), SW_ERR_NOMEM,
 * SW_ERR_CANCELLED. */
int sw_codes_search(const struct sw_codes *c, const struct sw_codes *queries, int64_t k,
                    int threads, struct sw_neighbor *out, struct sw_err *err) SW_MUST_CHECK;

/* A growing list of neighbors; zero-initialise, free `at` with sw_free. */
struct sw_neighbor_list {
    struct sw_neighbor *at; /* owned */
    int64_t count, room;
};

/* Appends all codes within `radius` bits of a query, sorted as above. Errors: SW_ERR_NOMEM. */
int sw_codes_within(const struct sw_codes *c, const uint64_t *query, int radius,
                    struct sw_neighbor_list *out, struct sw_err *err) SW_MUST_CHECK;
