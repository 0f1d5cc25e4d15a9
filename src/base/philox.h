/* Philox 4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw, "Parallel Random
 * Numbers: As Easy as 1, 2, 3" (SC 2011). Randomness here is a pure function of (seed, purpose,
 * layer, step, global row, element), so dropout masks, augmentation, initial values and shuffles do
 * not depend on how many workers there are or which thread runs. Header-only: kernels of every
 * device include it. */
#pragma once

#include <stdint.h>

#if defined(__CUDACC__)
#define SW_PHILOX_FN static __host__ __device__ __forceinline__
#else
#define SW_PHILOX_FN static inline
#endif

/* The purpose of a random number; it is part of the key, so streams of different purposes are
 * independent. */
enum sw_purpose {
    SW_PURPOSE_INIT = 1,
    SW_PURPOSE_SHUFFLE,
    SW_PURPOSE_AUGMENT,
    SW_PURPOSE_DROPOUT,
    SW_PURPOSE_NOISE,
    SW_PURPOSE_SAMPLE,
    SW_PURPOSE_SYNTHETIC,
    SW_PURPOSE_TEST,
    SW_PURPOSE_TEXT,
    SW_PURPOSE_SIMULATION,
};

/* A stream: fixed for one layer (or parameter, or data source) and purpose. */
struct sw_philox {
    uint32_t key[2];
};

struct sw_philox4 {
    uint32_t v[4];
};

/* SplitMix64's finaliser (Steele, Lea, Flood 2014): mixes the words of a key. */
SW_PHILOX_FN uint64_t sw_mix64(uint64_t x)
{
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

/* The stream of (seed, purpose, id); id is a layer's index or the hash of a name. */
SW_PHILOX_FN struct sw_philox sw_philox_stream(uint64_t seed, uint32_t purpose, uint64_t id)
{
    uint64_t k = sw_mix64(sw_mix64(sw_mix64(seed) ^ purpose) ^ id);
    struct sw_philox p = {{(uint32_t)k, (uint32_t)(k >> 32)}};
    return p;
}

/* One block of four words for the 128-bit counter (c0, c1, c2, c3). */
SW_PHILOX_FN struct sw_philox4 sw_philox_block(struct sw_philox p, uint32_t c0, uint32_t c1,
                                               uint32_t c2, uint32_t c3)
{
    uint32_t k0 = p.key[0], k1 = p.key[1];

    for (int round = 0; round < 10; round++) {
        uint64_t m0 = (uint64_t)0xD2511F53u * c0, m1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(m1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(m0 >> 32) ^ c3 ^ k1;

        c1 = (uint32_t)m1;
        c3 = (uint32_t)m0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }

    struct sw_philox4 out = {{c0, c1, c2, c3}};
    return out;
}

/* The counter of this project: block index (element / 4), global row, step (64 bits). The word of
 * an element is v[element % 4]; elements are numbered channels-last. */
SW_PHILOX_FN struct sw_philox4 sw_philox_at(struct sw_philox p, uint64_t step, uint32_t row,
                                            uint32_t block)
{
    return sw_philox_block(p, block, row, (uint32_t)step, (uint32_t)(step >> 32));
}

SW_PHILOX_FN uint32_t sw_philox_word(struct sw_philox p, uint64_t step, uint32_t row,
                                     uint32_t element)
{
    return sw_philox_at(p, step, row, element / 4).v[element % 4];
}

/* Uniform in [0, 1) with 24 bits, exact in float. */
SW_PHILOX_FN float sw_philox_uniform(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}
