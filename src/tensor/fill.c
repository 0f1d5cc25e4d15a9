/* Gaussian and uniform random floats from Philox blocks, a chunk at a time. The loops are written
 * for vectorization, and every operation is one that IEEE 754 rounds exactly, so the bits do not
 * depend on compiler, vector width or libm. The contract is in tensor/fill.h. */
#include "tensor/fill.h"
#include "kernels/cpu/kernel.h"
#include <math.h>
#include <string.h>

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF /* GCC's -std=c17 already means this */
#endif

enum { BLOCKS = SW_FILL_CHUNK / 4 }; /* a Philox block is four words */

/* (word + 1/2) / 2^32, through a signed conversion because vectors have no unsigned one. */
SW_KERNEL_INLINE double unit(uint32_t word)
{
    return ((double)(int32_t)(word ^ 0x80000000u) + 2147483648.5) * 0x1p-32;
}

/* Natural logarithm of a positive normal double, to 1e-13. With x = 2^e m, m within a factor root 2
 * of 1: ln x = e ln 2 + 2 atanh((m - 1) / (m + 1)), the latter by its Taylor series. */
SW_KERNEL_INLINE double natural_log(double x)
{
    const uint64_t root_half = 0x3fe6a09e667f3bcdull;
    uint64_t bits;

    memcpy(&bits, &x, sizeof bits);

    int32_t e = (int32_t)((bits - root_half) >> 32) >> 20;
    bits -= (uint64_t)(uint32_t)e << 52;

    double m;
    memcpy(&m, &bits, sizeof m);

    double s = (m - 1) / (m + 1), q = s * s;
    double p = 1.0 / 15;
    p = p * q + 1.0 / 13;
    p = p * q + 1.0 / 11;
    p = p * q + 1.0 / 9;
    p = p * q + 1.0 / 7;
    p = p * q + 1.0 / 5;
    p = p * q + 1.0 / 3;
    p = p * q + 1;

    return (double)e * 0.693147180559945309417 + 2 * s * p;
}

struct point {
    double x, y;
};

/* A point of the unit circle, to 1e-12, uniform if the word is: the top two bits select a quarter
 * turn, the others an angle between -45 and 45 degrees, where the Taylor series are short. */
SW_KERNEL_INLINE struct point on_circle(uint32_t word)
{
    double a = ((double)(int32_t)(word & 0x3fffffffu) + (0.5 - 0x1p29)) *
               (1.57079632679489661923 * 0x1p-30);
    double q = a * a;
    double c = 1.0 / 479001600;

    c = c * q - 1.0 / 3628800;
    c = c * q + 1.0 / 40320;
    c = c * q - 1.0 / 720;
    c = c * q + 1.0 / 24;
    c = c * q - 1.0 / 2;
    c = c * q + 1;

    double s = 1.0 / 6227020800;
    s = s * q - 1.0 / 39916800;
    s = s * q + 1.0 / 362880;
    s = s * q - 1.0 / 5040;
    s = s * q + 1.0 / 120;
    s = s * q - 1.0 / 6;
    s = (s * q + 1) * a;

    double sign = word & 0x80000000u ? -1 : 1;
    struct point straight = {sign * c, sign * s}, turned = {-sign * s, sign * c};
    return word & 0x40000000u ? turned : straight;
}

/* The four words of every block of a chunk, each in its own row. */
SW_KERNEL_INLINE void draw(struct sw_philox key, uint64_t chunk, uint32_t word[4][BLOCKS])
{
    uint32_t low[BLOCKS], high = (uint32_t)(chunk * BLOCKS >> 32);

    for (uint32_t b = 0; b < BLOCKS; b++)
        low[b] = (uint32_t)(chunk * BLOCKS) + b;

#pragma omp simd
    for (uint32_t b = 0; b < BLOCKS; b++) {
        struct sw_philox4 w = sw_philox_at(key, 0, high, low[b]);
        word[0][b] = w.v[0];
        word[1][b] = w.v[1];
        word[2][b] = w.v[2];
        word[3][b] = w.v[3];
    }
}

SW_KERNEL_INLINE void interleave(float (*restrict row)[BLOCKS], float *restrict out)
{
    for (int b = 0; b < BLOCKS; b++) {
        for (int i = 0; i < 4; i++)
            out[4 * b + i] = row[i][b];
    }
}

SW_KERNEL void sw_fill_gaussian(struct sw_philox key, uint64_t chunk, double mean, double std,
                                float *out)
{
    uint32_t word[4][BLOCKS];
    float value[4][BLOCKS];

    draw(key, chunk, word);

    for (int i = 0; i < 4; i += 2) {
#pragma omp simd
        for (int b = 0; b < BLOCKS; b++) {
            double radius = std * sqrt(-2 * natural_log(unit(word[i][b])));
            struct point p = on_circle(word[i + 1][b]);
            value[i][b] = (float)(mean + radius * p.x);
            value[i + 1][b] = (float)(mean + radius * p.y);
        }
    }

    interleave(value, out);
}

SW_KERNEL void sw_fill_uniform(struct sw_philox key, uint64_t chunk, double low, double high,
                               float *out)
{
    uint32_t word[4][BLOCKS];
    float value[4][BLOCKS];

    draw(key, chunk, word);

    for (int i = 0; i < 4; i++) {
#pragma omp simd
        for (int b = 0; b < BLOCKS; b++)
            value[i][b] = (float)(low + (high - low) * unit(word[i][b]));
    }

    interleave(value, out);
}
