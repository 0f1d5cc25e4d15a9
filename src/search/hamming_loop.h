/* Internal to search/hamming_*.c: the loop in C, which each file compiles for its instruction set.
 * The number of words is a constant at the calls that matter, so the inner loop is unrolled. */
#pragma once

#include <stdint.h>

static inline int hamming_words(const uint64_t *a, const uint64_t *b, int words)
{
    int bits = 0;

    for (int w = 0; w < words; w++)
        bits += __builtin_popcountll(a[w] ^ b[w]);
    return bits;
}

static inline int64_t hamming_next_of(const uint64_t *codes, int64_t from, int64_t to, int words,
                                      const uint64_t *query, int limit, int *distance)
{
    const uint64_t *code = codes + from * words;

    for (int64_t i = from; i < to; i++, code += words) {
        const int bits = hamming_words(code, query, words);
        if (bits < limit) {
            *distance = bits;
            return i;
        }
    }

    return to;
}

static inline int64_t hamming_next(const uint64_t *codes, int64_t from, int64_t to, int words,
                                   const uint64_t *query, int limit, int *distance)
{
    switch (words) {
    case 1:
        return hamming_next_of(codes, from, to, 1, query, limit, distance);
    case 2:
        return hamming_next_of(codes, from, to, 2, query, limit, distance);
    case 4:
        return hamming_next_of(codes, from, to, 4, query, limit, distance);
    default:
        return hamming_next_of(codes, from, to, words, query, limit, distance);
    }
}
