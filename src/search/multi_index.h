/* Multi-index hashing (Norouzi, Punjani and Fleet, "Fast Search in Hamming Space with Multi-Index
 * Hashing", CVPR 2012): codes are cut into m substrings, each with a table of the codes by its
 * value. Two codes that differ in at most m r + a bits, 0 <= a < m, differ in at most r bits of one
 * of the first a + 1 substrings, or in at most r - 1 bits of one of the others (their
 * Proposition 1). So a search looks up all values within a growing radius of the query's
 * substrings, and ends when that radius covers the k-th distance. The answer is that of
 * sw_codes_search. When looking up would cost more than a scan, the query is scanned. */
#pragma once

#include "search/codes.h"
#include <stddef.h>

enum { SW_MULTI_INDEX_MOST_BITS = 20 }; /* of a substring, whose table has an entry per value */

struct sw_multi_index {
    struct sw_codes codes; /* that are indexed */
    int parts;             /* part p has the bits from p * bits / parts to the next part */
    const uint32_t *begin; /* [sw_multi_index_begins]: for each part, where each value's rows begin
                              among the part's; one more entry ends the last */
    const uint32_t *rows;  /* [parts][count]: rows ordered by value, then by row */
};

/* The number of parts that makes a substring about log2(count) bits long. */
int sw_multi_index_parts(int64_t count, int bits);
/* Whether codes of `bits` can have so many parts: each of 1 to SW_MULTI_INDEX_MOST_BITS bits. */
bool sw_multi_index_fits(int bits, int parts);
size_t sw_multi_index_begins(int bits, int parts);

/* Writes the tables to memory of the caller. */
void sw_multi_index_build(const struct sw_codes *c, int parts, uint32_t *begin, uint32_t *rows);

/* Checks tables that come from a file: each part lists rows of the set only. `what` names them in
 * errors. Errors: SW_ERR_FORMAT. */
int sw_multi_index_check(const struct sw_multi_index *x, const char *what,
                         struct sw_err *err) SW_MUST_CHECK;

/* As sw_codes_search of its codes. *read becomes the number of codes that were compared, summed
 * over all queries. */
int sw_multi_index_search(const struct sw_multi_index *x, const struct sw_codes *queries, int64_t k,
                          int threads, struct sw_neighbor *out, int64_t *read,
                          struct sw_err *err) SW_MUST_CHECK;
