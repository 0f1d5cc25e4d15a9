/* Single-precision elementary functions without branches or tables, so that loops over them
 * vectorize. Errors are relative, measured against double over the whole range, and include
 * rounding; coefficients are minimax fits (Remez exchange) made for this project. NaN stays NaN;
 * infinities are handled as in C. */
#pragma once

#include "kernels/cpu/kernel.h"
#include <math.h>
#include <string.h>

SW_KERNEL_INLINE float sw_v_from_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

SW_KERNEL_INLINE uint32_t sw_v_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

SW_KERNEL_INLINE float sw_v_abs(float x)
{
    return sw_v_from_bits(sw_v_bits(x) & 0x7fffffffu);
}

/* exp x: x = n ln 2 + r, a polynomial of degree 6 in r, scaled by 2^n in two steps so that the ends
 * of the range (n = 128, subnormal results) are correct. Error below 1e-7. */
SW_KERNEL_INLINE float sw_v_exp(float x)
{
    const float round_bias = 0x1.8p23f; /* adding it leaves the nearest integer in the low bits */
    float t = x > 89.0f ? 89.0f : x;

    t = t < -104.0f ? -104.0f : t;

    float shifted = t * 1.44269504f + round_bias;
    float n = shifted - round_bias;
    float r = (t - n * 0.693359375f) + n * 2.12194440e-4f;
    float q = 0.00138144672f;
    q = q * r + 0.00836878084f;
    q = q * r + 0.0416683927f;
    q = q * r + 0.166665196f;
    q = q * r + 0.49999994f;

    float p = q * (r * r) + r + 1.0f;
    int32_t k = (int32_t)(sw_v_bits(shifted) - sw_v_bits(round_bias));
    int32_t half = k >> 1;
    float scale_a = sw_v_from_bits((uint32_t)(half + 127) << 23);
    float scale_b = sw_v_from_bits((uint32_t)(k - half + 127) << 23);

    return p * scale_a * scale_b;
}

/* tanh x: an odd polynomial below 0.625, else 1 - 2 / (exp 2|x| + 1). Error below 2e-7. */
SW_KERNEL_INLINE float sw_v_tanh(float x)
{
    float a = sw_v_abs(x), z = x * x;
    float q = -0.00513866264f;

    q = q * z + 0.0200919714f;
    q = q * z - 0.05355886f;
    q = q * z + 0.13329111f;
    q = q * z - 0.333331913f;

    float small = x + x * (z * q);
    float large = 1.0f - 2.0f / (sw_v_exp(2.0f * a) + 1.0f);
    large = sw_v_from_bits(sw_v_bits(large) | (sw_v_bits(x) & 0x80000000u));

    return a < 0.625f ? small : large;
}

/* 1 / (1 + exp -x). Error below 2e-7. */
SW_KERNEL_INLINE float sw_v_sigmoid(float x)
{
    return 1.0f / (1.0f + sw_v_exp(-x));
}

/* log(1 + u) for u in [0, 1], as 2 atanh(u / (2 + u)). Error below 2e-7. */
SW_KERNEL_INLINE float sw_v_log1p_unit(float u)
{
    float s = u / (2.0f + u), z = s * s;
    float q = 0.140059933f;

    q = q * z + 0.140009031f;
    q = q * z + 0.200107634f;
    q = q * z + 0.333332092f;

    return 2.0f * (s + s * (z * q));
}

/* log u for u in [2^-126, 1]: u = 2^k m with m in [sqrt 1/2, sqrt 2), log m = 2 atanh((m - 1) /
 * (m + 1)). Error below 3e-7. */
SW_KERNEL_INLINE float sw_v_log_unit(float u)
{
    uint32_t bits = sw_v_bits(u) - 0x3f3504f3u; /* of sqrt 1/2 */
    float k = (float)((int32_t)bits >> 23);
    float m = sw_v_from_bits((bits & 0x007fffffu) + 0x3f3504f3u);
    float s = (m - 1.0f) / (m + 1.0f), z = s * s;
    float q = 0.140059933f;

    q = q * z + 0.140009031f;
    q = q * z + 0.200107634f;
    q = q * z + 0.333332092f;

    return 2.0f * (s + s * (z * q)) + k * 0.693147181f;
}

/* sin and cos of 2 pi t for t in [0, 1): Taylor's series in the nearest eighth turn. Absolute error
 * below 2e-7. */
SW_KERNEL_INLINE void sw_v_turn(float t, float *sine, float *cosine)
{
    int32_t quarter = (int32_t)(4.0f * t + 0.5f);
    float x = (4.0f * t - (float)quarter) * 1.57079633f, z = x * x;
    float s = 2.75573192e-6f;

    s = s * z - 1.98412698e-4f;
    s = s * z + 8.33333333e-3f;
    s = s * z - 1.66666667e-1f;
    s = x + x * (z * s);

    float c = 2.48015873e-5f;
    c = c * z - 1.38888889e-3f;
    c = c * z + 4.16666667e-2f;
    c = 1.0f - 0.5f * z + z * z * c;

    float a = quarter & 1 ? c : s, b = quarter & 1 ? s : c;
    *sine = quarter & 2 ? -a : a;
    *cosine = (quarter + 1) & 2 ? -b : b;
}

/* The normal distribution function Phi(x) = erfc(-x / sqrt 2) / 2, as exp(-x^2/2) times a
 * polynomial in 1 / (1 + 0.3 |x| / sqrt 2) (the form of Abramowitz and Stegun 7.1.26). Absolute
 * error below 3e-7; the lower tail keeps a relative accuracy of 3e-6 down to x = -10. */
SW_KERNEL_INLINE float sw_v_phi(float x)
{
    float a = sw_v_abs(x);
    float t = 1.0f / (1.0f + 0.212132034f * a);
    float q = -0.064761363f;

    q = q * t + 0.242781177f;
    q = q * t - 0.256138176f;
    q = q * t + 0.273859024f;
    q = q * t - 0.0473246872f;
    q = q * t + 0.107462741f;
    q = q * t + 0.0741696581f;
    q = q * t + 0.0853576064f;
    q = q * t + 0.0845940039f;

    float tail = q * t * sw_v_exp(-0.5f * (x * x));
    return x < 0.0f ? tail : 1.0f - tail;
}
