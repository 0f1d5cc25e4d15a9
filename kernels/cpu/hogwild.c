/* Copies from and additions to arrays that several threads update without locks. Additions skip
 * blocks that did not change, because sparse gradients leave most of an array unchanged. The
 * contract is in kernels/cpu/hogwild.h. */
#include "kernels/cpu/hogwild.h"

#include "kernels/cpu/kernel.h"
#include <string.h>

/* Number of floats that are compared at once. In common layouts about as many weights of one input
 * are adjacent, and their gradients are all zero if the input is zero. */
enum { BLOCK = 64 };

/* For such short copies memcpy, into which GCC would turn the loop, costs more than the loop. */
#if defined(__GNUC__) && !defined(__clang__)
#define PLAIN_LOOP __attribute__((optimize("no-tree-loop-distribute-patterns")))
#else
#define PLAIN_LOOP
#endif

PLAIN_LOOP SW_KERNEL void sw_hogwild_take(const float *restrict shared, float *restrict to,
                                          float *restrict from, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        to[i] = from[i] = shared[i];
}

SW_KERNEL_INLINE uint32_t bits_of(const float *x)
{
    uint32_t bits;
    memcpy(&bits, x, sizeof bits);
    return bits;
}

SW_KERNEL_INLINE bool differs(const float *a, const float *b)
{
    uint32_t any = 0;

#pragma omp simd reduction(| : any)
    for (int i = 0; i < BLOCK; i++)
        any |= bits_of(a + i) ^ bits_of(b + i);
    return any;
}

/* Returns a word with a bit for each of at most 64 blocks that differ. Iterating over its bits
 * needs no branch per block. */
SW_KERNEL_INLINE uint64_t differing(const float *a, const float *b, int64_t blocks)
{
    uint64_t bits = 0;
    for (int64_t k = 0; k < blocks; k++)
        bits |= (uint64_t)differs(a + k * BLOCK, b + k * BLOCK) << k;
    return bits;
}

__attribute__((no_sanitize("thread"))) SW_KERNEL void sw_hogwild_add(float *shared, const float *to,
                                                                     const float *from, int64_t n)
{
    int64_t i = 0;

    for (int64_t blocks = from ? n / BLOCK : 0, some; blocks > 0; blocks -= some) {
        some = blocks < 64 ? blocks : 64;
        for (uint64_t left = differing(to + i, from + i, some); left; left &= left - 1) {
            int64_t at = i + __builtin_ctzll(left) * (int64_t)BLOCK;
#pragma omp simd
            for (int l = 0; l < BLOCK; l++)
                shared[at + l] += to[at + l] - from[at + l];
        }

        i += some * BLOCK;
    }

    for (; i < n; i++)
        shared[i] += from ? to[i] - from[i] : to[i];
}
