/* The Hamming loop with the instruction POPCNT, which counts the bits of a word per cycle or
 * faster: as fast as memory on processors with AVX2, which has no such instruction for vectors.
 * CMake compiles this file for processors that have it. The contract is in search/hamming.h. */
#include "search/hamming.h"
#include "search/hamming_loop.h"

int64_t sw_hamming_next_popcnt(const uint64_t *codes, int64_t from, int64_t to, int words,
                               const uint64_t *query, int limit, int *distance)
{
    return hamming_next(codes, from, to, words, query, limit, distance);
}
