/* Internal to search/: the loop that a Hamming search spends its time in, compiled for several
 * instruction sets. It looks for the next code that is near enough, so that codes that are not cost
 * nothing but their comparison. Pure functions; any thread. */
#pragma once

#include <stdint.h>

/* Returns the first i in [from, to) whose code, codes[i * words] and the words after it, differs
 * from the query in fewer than `limit` bits, and stores that number; `to` if there is none. */
typedef int64_t sw_hamming_next(const uint64_t *codes, int64_t from, int64_t to, int words,
                                const uint64_t *query, int limit, int *distance);

/* The fastest one for this processor. */
sw_hamming_next *sw_hamming_best(void);

sw_hamming_next sw_hamming_next_portable;
sw_hamming_next sw_hamming_next_popcnt; /* needs the instruction POPCNT */
sw_hamming_next sw_hamming_next_avx512; /* needs AVX512F and AVX512_VPOPCNTDQ */

/* Whether this processor has what the last two need. */
int sw_hamming_has_popcnt(void);
int sw_hamming_has_avx512(void);
