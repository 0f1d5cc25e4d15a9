/* 16-bit floating-point formats, and floats rounded to the precision of products: one header for C
 * and nvcc, so that every device rounds to the same bits. Rounding is to nearest, ties to even;
 * subnormal numbers are kept, values that are too large become infinite, and NaN stays NaN.
 *
 *   bf16   8 bits of exponent, 7 of mantissa: a float's upper half
 *   fp16   5 bits of exponent, 10 of mantissa: 6.1e-5 (subnormal: 6.0e-8) to 65504
 *   tf32   8 bits of exponent, 10 of mantissa: 32 bits in memory, rounded by the multiplication
 *
 * fp16 is IEEE 754-2019 binary16; the others are the formats of NVIDIA's tensor cores. The
 * functions have no branches, so that loops over them vectorize. */
#pragma once

#include "kernels/updaters/formula.h" /* SW_FORMULA: inline on every side */
#include <stdint.h>
#include <string.h>

SW_FORMULA uint32_t sw_float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

SW_FORMULA float sw_bits_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Rounds the lowest `drop` bits of a float away: adds half of their range minus one, and one more
 * if the last remaining bit is odd. A carry into the exponent is correct. */
SW_FORMULA uint32_t sw_round_bits(uint32_t bits, int drop)
{
    uint32_t even = (bits >> drop) & 1u, low = (1u << drop) - 1u;
    uint32_t rounded = (bits + (low >> 1) + even) & ~low;
    /* A carry could turn a NaN into infinity. */
    return (bits & 0x7fffffffu) > 0x7f800000u ? (bits | 0x00400000u) & ~low : rounded;
}

SW_FORMULA uint16_t sw_bf16_of(float x)
{
    return (uint16_t)(sw_round_bits(sw_float_bits(x), 16) >> 16);
}

SW_FORMULA float sw_bf16_value(uint16_t h)
{
    return sw_bits_float((uint32_t)h << 16);
}

SW_FORMULA uint16_t sw_fp16_of(float x)
{
    uint32_t bits = sw_float_bits(x), sign = (bits >> 16) & 0x8000u, size = bits & 0x7fffffffu;

    /* The exponent's bias goes from 127 to 15. */
    uint32_t normal = (sw_round_bits(size, 13) - (112u << 23)) >> 13;

    /* Next to 0.5 the last bit of a float is 2^-24, the smallest subnormal number. */
    uint32_t tiny = sw_float_bits(sw_bits_float(size) + 0.5f) - 0x3f000000u;
    uint32_t h = size < 0x38800000u ? tiny : normal; /* 2^-14 */

    h = size >= 0x477ff000u ? 0x7c00u : h;           /* from 65520 on, half way to 65536 */
    h = size > 0x7f800000u ? 0x7e00u : h;
    return (uint16_t)(sign | h);
}

SW_FORMULA float sw_fp16_value(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, size = h & 0x7fffu;
    uint32_t normal = (size << 13) + (112u << 23);
    uint32_t tiny = sw_float_bits((float)size * 5.9604645e-8f); /* 2^-24, exactly */
    uint32_t bits = size < 0x0400u ? tiny : normal;

    bits = size >= 0x7c00u ? 0x7f800000u | size << 13 : bits;
    return sw_bits_float(sign | bits);
}

SW_FORMULA float sw_round_tf32(float x)
{
    return sw_bits_float(sw_round_bits(sw_float_bits(x), 13));
}

SW_FORMULA float sw_round_bf16(float x)
{
    return sw_bits_float(sw_round_bits(sw_float_bits(x), 16));
}

SW_FORMULA float sw_round_fp16(float x)
{
    return sw_fp16_value(sw_fp16_of(x));
}
