/* Bit sets of small integers, as arrays of 64-bit words. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SW_BITS_WORD = 64 };

static inline bool sw_bits_has(const uint64_t *set, int i)
{
    return set[i / SW_BITS_WORD] >> (i % SW_BITS_WORD) & 1;
}

static inline void sw_bits_put(uint64_t *set, int i)
{
    set[i / SW_BITS_WORD] |= (uint64_t)1 << (i % SW_BITS_WORD);
}

static inline void sw_bits_join(uint64_t *to, const uint64_t *from, size_t words)
{
    for (size_t w = 0; w < words; w++)
        to[w] |= from[w];
}

/* Words of a set of integers below n. */
static inline size_t sw_bits_words(int n)
{
    return ((size_t)n + SW_BITS_WORD) / SW_BITS_WORD;
}
