/* Internal to search/va_*.c: rules out most of a block of approximations by integers. A half byte
 * of an approximation has 16 values, so a table of what each adds to the lower bound fits a vector
 * register, and one shuffle looks up 32 rows (as in Andre, Kermarrec and Le Scouarnec, "Cache
 * locality is not enough: High-Performance Nearest Neighbor Search with Product Quantization Fast
 * Scan", VLDB 2015). Entries are rounded down, so a sum that exceeds the limit proves that the
 * bound does. Pure functions; any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { SW_VA_BLOCK = 32, SW_VA_HALF = 16, SW_VA_MOST_ENTRY = 127 };

/* Returns the rows of a block, bit i for row i, whose sum is at most `limit`: block [row_bytes]
 * [SW_VA_BLOCK] holds approximations, and table [row_bytes][2][SW_VA_HALF] the entries, at most
 * SW_VA_MOST_ENTRY, for the lower and the upper half of a byte. Sums stop at 65535. */
typedef uint32_t sw_va_filter(const uint8_t *block, const uint8_t *table, size_t row_bytes,
                              unsigned limit);

/* The one for this processor; NULL: none that is faster than the bounds themselves. */
sw_va_filter *sw_va_filter_best(void);

sw_va_filter sw_va_filter_avx2; /* needs AVX2 */
