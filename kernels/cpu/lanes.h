/* Sums of a row in a fixed number of float lanes, which are added in double: the compiler fills
 * vectors with the lanes of any width without changing the order of a sum. */
#pragma once

#include "kernels/cpu/kernel.h"

enum { SW_ROW_LANES = 16 };

/* Returns x . y of two rows of n. */
SW_KERNEL_INLINE double sw_row_dot(const float *x, const float *y, int64_t n)
{
    float lane[SW_ROW_LANES] = {0};
    const int64_t whole = n / SW_ROW_LANES * SW_ROW_LANES;
    double sum = 0;

    for (int64_t i = 0; i < whole; i += SW_ROW_LANES) {
#pragma omp simd
        for (int64_t j = 0; j < SW_ROW_LANES; j++)
            lane[j] += x[i + j] * y[i + j];
    }

    for (int64_t i = whole; i < n; i++)
        lane[i - whole] += x[i] * y[i];
    for (int j = 0; j < SW_ROW_LANES; j++)
        sum += (double)lane[j];

    return sum;
}
