/* The filter of approximations with AVX2. CMake compiles this file for processors that have it. The
 * contract is in search/va_filter.h. */
#include "search/va_filter.h"

#ifdef __x86_64__

#include <immintrin.h>

static inline __m256i load_table(const uint8_t *table)
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)table));
}

uint32_t sw_va_filter_avx2(const uint8_t *block, const uint8_t *table, size_t row_bytes,
                           unsigned limit)
{
    const __m256i half = _mm256_set1_epi8(15), low_byte = _mm256_set1_epi16(255);
    const __m256i most = _mm256_set1_epi16((short)limit), zero = _mm256_setzero_si256();
    __m256i even = zero, odd = zero; /* sums of rows 0, 2, ... and 1, 3, ... */

    for (size_t i = 0; i < row_bytes; i++, block += SW_VA_BLOCK, table += 2 * SW_VA_HALF) {
        const __m256i cells = _mm256_loadu_si256((const __m256i *)block);
        const __m256i lower = _mm256_and_si256(cells, half);
        const __m256i upper = _mm256_and_si256(_mm256_srli_epi16(cells, 4), half);
        const __m256i entries =
            _mm256_add_epi8(_mm256_shuffle_epi8(load_table(table), lower),
                            _mm256_shuffle_epi8(load_table(table + SW_VA_HALF), upper));

        even = _mm256_adds_epu16(even, _mm256_and_si256(entries, low_byte));
        odd = _mm256_adds_epu16(odd, _mm256_srli_epi16(entries, 8));
    }

    /* A sum that exceeds the limit leaves something when the limit is subtracted. */
    const __m256i keep_even = _mm256_cmpeq_epi16(_mm256_subs_epu16(even, most), zero);
    const __m256i keep_odd = _mm256_cmpeq_epi16(_mm256_subs_epu16(odd, most), zero);

    return (uint32_t)_mm256_movemask_epi8(_mm256_blendv_epi8(keep_odd, keep_even, low_byte));
}

sw_va_filter *sw_va_filter_best(void)
{
    return __builtin_cpu_supports("avx2") ? sw_va_filter_avx2 : NULL;
}

#else

uint32_t sw_va_filter_avx2(const uint8_t *block, const uint8_t *table, size_t row_bytes,
                           unsigned limit)
{
    return ~(uint32_t)0;
}

sw_va_filter *sw_va_filter_best(void)
{
    return NULL;
}

#endif
