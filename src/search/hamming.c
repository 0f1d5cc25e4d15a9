/* The Hamming loop for any processor, and the choice of the fastest one. The contract is in
 * search/hamming.h. */
#include "search/hamming.h"

#include "search/hamming_loop.h"

int64_t sw_hamming_next_portable(const uint64_t *codes, int64_t from, int64_t to, int words,
                                 const uint64_t *query, int limit, int *distance)
{
    return hamming_next(codes, from, to, words, query, limit, distance);
}

int sw_hamming_has_popcnt(void)
{
#ifdef __x86_64__
    return __builtin_cpu_supports("popcnt");
#else
    return 0;
#endif
}

int sw_hamming_has_avx512(void)
{
#ifdef __x86_64__
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vpopcntdq");
#else
    return 0;
#endif
}

sw_hamming_next *sw_hamming_best(void)
{
    if (sw_hamming_has_avx512())
        return sw_hamming_next_avx512;
    if (sw_hamming_has_popcnt())
        return sw_hamming_next_popcnt;
    return sw_hamming_next_portable;
}
