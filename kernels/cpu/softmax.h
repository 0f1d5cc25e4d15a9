/* The exponentials of a row of scores, for losses with a softmax. */
#pragma once

#include "kernels/cpu/lanes.h"
#include "kernels/cpu/vmath.h"

enum { SW_EXP_COST = 8 }; /* light operations per exponential */

SW_KERNEL_INLINE float sw_row_max(const float *x, int64_t n)
{
    float m = x[0];

#pragma omp simd reduction(max : m)
    for (int64_t i = 1; i < n; i++)
        m = x[i] > m ? x[i] : m;
    return m;
}

/* Writes exp(x - m) to e (may be x) and returns the sum. */
SW_KERNEL_INLINE double sw_row_exp(const float *x, float m, float *e, int64_t n)
{
    float lane[SW_ROW_LANES] = {0};
    int64_t whole = n / SW_ROW_LANES * SW_ROW_LANES;

    for (int64_t i = 0; i < whole; i += SW_ROW_LANES) {
#pragma omp simd
        for (int64_t j = 0; j < SW_ROW_LANES; j++) {
            float v = sw_v_exp(x[i + j] - m);
            e[i + j] = v;
            lane[j] += v;
        }
    }

    for (int64_t i = whole; i < n; i++) {
        e[i] = sw_v_exp(x[i] - m);
        lane[i - whole] += e[i];
    }

    double sum = 0;
    for (int j = 0; j < SW_ROW_LANES; j++)
        sum += (double)lane[j];

    return sum;
}

SW_KERNEL_INLINE void sw_row_scale(float scale, float *x, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        x[i] *= scale;
}
