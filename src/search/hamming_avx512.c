/* The Hamming loop with AVX-512 (VPOPCNTDQ): eight words at once. Codes of one, two or four words
 * share a vector; lanes of a code are added by exchanging neighbors. CMake compiles this file for
 * processors that have it. The contract is in search/hamming.h. */
#include "search/hamming.h"
#include "search/hamming_loop.h"

#ifdef __x86_64__

#include <immintrin.h>

enum { LANES = 8, VECTORS = 4 };

/* Adds up the lanes of each code. */
static inline __m512i sum_codes(__m512i bits, int words)
{
    if (words >= 2)
        bits = _mm512_add_epi64(bits, _mm512_shuffle_epi32(bits, _MM_PERM_BADC));
    if (words >= 4)
        bits = _mm512_add_epi64(bits, _mm512_permutex_epi64(bits, 0x4e));
    return bits;
}

/* Lanes of the vector at `at` whose code differs in fewer bits than the limit. */
static inline __mmask8 near_lanes(const uint64_t *at, int words, __m512i query, __m512i limit)
{
    const __m512i bits =
        sum_codes(_mm512_popcnt_epi64(_mm512_xor_si512(_mm512_loadu_si512(at), query)), words);
    return _mm512_cmplt_epi64_mask(bits, limit);
}

/* words is 1, 2 or 4. */
static inline int64_t next_of_shared(const uint64_t *codes, int64_t from, int64_t to, int words,
                                     const uint64_t *query, int limit, int *distance)
{
    const int codes_per_vector = LANES / words;
    uint64_t repeated[LANES];

    for (int i = 0; i < LANES; i++)
        repeated[i] = query[i % words];

    const __m512i q = _mm512_loadu_si512(repeated), most = _mm512_set1_epi64(limit);

    /* Several vectors for each branch; the code itself is found by the loop below. */
    for (; from + VECTORS * codes_per_vector <= to; from += VECTORS * codes_per_vector) {
        const uint64_t *at = codes + from * words;
        const __mmask8 any =
            near_lanes(at, words, q, most) | near_lanes(at + LANES, words, q, most) |
            near_lanes(at + 2 * LANES, words, q, most) | near_lanes(at + 3 * LANES, words, q, most);
        if (any)
            break;
    }

    return hamming_next(codes, from, to, words, query, limit, distance);
}

/* Bits that differ, in eight sums. */
static inline __m512i count_long(const uint64_t *code, const uint64_t *query, int words)
{
    const int whole = words / LANES * LANES;
    const __mmask8 rest = (__mmask8)((1u << (words - whole)) - 1);
    __m512i sum = _mm512_setzero_si512();

    for (int w = 0; w < whole; w += LANES)
        sum = _mm512_add_epi64(
            sum, _mm512_popcnt_epi64(_mm512_xor_si512(_mm512_loadu_si512(code + w),
                                                      _mm512_loadu_si512(query + w))));
    if (rest)
        sum = _mm512_add_epi64(sum, _mm512_popcnt_epi64(_mm512_xor_si512(
                                        _mm512_maskz_loadu_epi64(rest, code + whole),
                                        _mm512_maskz_loadu_epi64(rest, query + whole))));
    return sum;
}

/* Adds the sums of four codes: lanes 0, 1, 4 and 5 of the result. */
static inline __m512i sum_four(__m512i a, __m512i b, __m512i c, __m512i d)
{
    const __m512i ab = _mm512_add_epi64(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
    const __m512i cd = _mm512_add_epi64(_mm512_unpacklo_epi64(c, d), _mm512_unpackhi_epi64(c, d));
    const __m512i half =
        _mm512_add_epi64(_mm512_shuffle_i64x2(ab, cd, 0x88), _mm512_shuffle_i64x2(ab, cd, 0xdd));
    return _mm512_add_epi64(half, _mm512_shuffle_i64x2(half, half, 0xb1));
}

static inline int64_t next_of_long(const uint64_t *codes, int64_t from, int64_t to, int words,
                                   const uint64_t *query, int limit, int *distance)
{
    const __m512i most = _mm512_set1_epi64(limit);

    for (; from + 4 <= to; from += 4) {
        const uint64_t *at = codes + from * words;
        const __m512i sums = sum_four(
            count_long(at, query, words), count_long(at + words, query, words),
            count_long(at + 2 * words, query, words), count_long(at + 3 * words, query, words));

        if (_mm512_cmplt_epi64_mask(sums, most))
            break;
    }

    return hamming_next(codes, from, to, words, query, limit, distance);
}

int64_t sw_hamming_next_avx512(const uint64_t *codes, int64_t from, int64_t to, int words,
                               const uint64_t *query, int limit, int *distance)
{
    switch (words) {
    case 1:
        return next_of_shared(codes, from, to, 1, query, limit, distance);
    case 2:
        return next_of_shared(codes, from, to, 2, query, limit, distance);
    case 4:
        return next_of_shared(codes, from, to, 4, query, limit, distance);
    case 8:
        return next_of_long(codes, from, to, 8, query, limit, distance);
    default:
        return next_of_long(codes, from, to, words, query, limit, distance);
    }
}

#else

int64_t sw_hamming_next_avx512(const uint64_t *codes, int64_t from, int64_t to, int words,
                               const uint64_t *query, int limit, int *distance)
{
    return hamming_next(codes, from, to, words, query, limit, distance);
}

#endif
