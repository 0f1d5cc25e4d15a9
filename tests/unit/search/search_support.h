/* Shared by the tests of search: random sets, answers by comparing all, and checks of results. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/philox.h"
#include "search/codes.h"
#include "search/exact.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ASSERT_OK(call)                                                                            \
    do {                                                                                           \
        int rc_ = (call);                                                                          \
        if (rc_ != SW_OK)                                                                          \
            fail_msg("%s: %s", #call, err.text);                                                   \
    } while (0)

/* How the vectors of a set lie. */
enum shape { UNIFORM, CLUSTERED, DUPLICATES, CONSTANT_DIMS, FAR_AWAY, HUGE_VALUES, SHAPES };

static inline uint32_t random_bits(uint64_t seed, uint64_t i)
{
    return sw_philox_block(sw_philox_stream(seed, SW_PURPOSE_TEST, 0), (uint32_t)i,
                           (uint32_t)(i >> 32), 0, 0)
        .v[0];
}
static inline double random_unit(uint64_t seed, uint64_t i)
{
    return random_bits(seed, i) * 0x1p-32;
}

static inline float random_element(enum shape shape, uint64_t seed, int64_t row, int d, int dims)
{
    const double u = random_unit(seed, (uint64_t)(row * dims + d)) - 0.5;
    switch (shape) {
    case CLUSTERED: /* ten clusters, a hundred times as far from each other as they are wide */
        return (float)(100 * random_unit(seed + 1, (uint64_t)(row % 10 * dims + d)) + u);
    case DUPLICATES: /* many rows are equal, and many elements */
        return (float)((row / 7 * 31 + d) % 5) - 2.25f;
    case CONSTANT_DIMS:
        return d % 2 ? 3.5f : (float)u;
    case FAR_AWAY: /* differences are small beside the values */
        return (float)(1000 + u);
    case HUGE_VALUES: /* squares overflow in float */
        return (float)(1e30 * u);
    default:
        return (float)u;
    }
}

/* A set; free with free((void *)set.at). */
static inline struct sw_vectors random_vectors(enum shape shape, uint64_t seed, int64_t count,
                                               int dims)
{
    float *at = malloc((size_t)(count * dims) * sizeof *at);
    assert_non_null(at);
    for (int64_t row = 0; row < count; row++)
        for (int d = 0; d < dims; d++)
            at[row * dims + d] = random_element(shape, seed, row, d, dims);
    return (struct sw_vectors){at, count, dims};
}

/* Codes near each other: each is one of `centers` codes with a few bits flipped; 0 centers: all
 * bits are random. Free with free((void *)codes.at). */
static inline struct sw_codes random_codes(uint64_t seed, int64_t count, int bits, int centers)
{
    const int words = sw_code_words(bits);
    uint64_t *at = calloc((size_t)(count * words), sizeof *at);
    assert_non_null(at);
    for (int64_t row = 0; row < count; row++)
        for (int i = 0; i < bits; i++) {
            const int64_t source = centers ? row % centers : row;
            uint32_t bit = random_bits(seed, (uint64_t)(source * bits + i)) & 1;
            if (centers)
                bit ^= random_bits(seed + 1, (uint64_t)(row * bits + i)) % 16 == 0;
            at[row * words + i / 64] |= (uint64_t)bit << (i % 64);
        }
    return (struct sw_codes){at, count, bits, words};
}

static inline struct sw_neighbor *neighbors(int64_t queries, int64_t k)
{
    struct sw_neighbor *at = calloc((size_t)(queries * k), sizeof *at);
    assert_non_null(at);
    return at;
}

/* Checks that both lists have the same rows and the same bits of distances. */
static inline void assert_same(const struct sw_neighbor *a, const struct sw_neighbor *b,
                               int64_t count, const char *what)
{
    for (int64_t i = 0; i < count; i++)
        if (a[i].id != b[i].id || a[i].distance != b[i].distance)
            fail_msg("%s: place %lld is row %lld at %.17g, expected row %lld at %.17g", what,
                     (long long)i, (long long)a[i].id, a[i].distance, (long long)b[i].id,
                     b[i].distance);
}

/* The k nearest by ranking all. */
static inline void rank_all(const struct sw_vectors *base, enum sw_metric m,
                            const struct sw_vectors *queries, int64_t k, struct sw_neighbor *out)
{
    struct sw_neighbor *all = neighbors(1, base->count);
    for (int64_t q = 0; q < queries->count; q++) {
        sw_exact_rank(base, m, sw_vector(queries, q), all);
        memcpy(out + q * k, all, (size_t)k * sizeof *all);
    }
    free(all);
}
