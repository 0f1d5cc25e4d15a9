/* Bias and its gradient: y += b and db = sum of dy, on a matrix whose rows have a distance of
 * `step` elements. */
#include "kernels/cpu/kernel.h"
#include "kernels/cpu/kernels.h"

enum {
    LANES = 16,
    BLOCK = 4096, /* elements summed in float before they are added to the total */
    COLUMNS = 64,
};

SW_KERNEL static void add_value(float *y, float b, bool relu, int64_t n)
{
    float floor = relu ? 0.0f : -__builtin_inff();

#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float v = y[i] + b;
        y[i] = floor > v ? floor : v;
    }
}

SW_KERNEL static void add_values(float *restrict y, const float *restrict b, bool relu, int64_t n)
{
    float floor = relu ? 0.0f : -__builtin_inff();

#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float v = y[i] + b[i];
        y[i] = floor > v ? floor : v;
    }
}

void sw_kernel_bias_rows(int64_t rows, int64_t columns, int64_t step, const float *bias, bool relu,
                         float *y)
{
    if (bias || relu)
        for (int64_t r = 0; r < rows; r++)
            add_value(y + r * step, bias ? bias[r] : 0.0f, relu, columns);
}

void sw_kernel_bias_columns(int64_t rows, int64_t columns, int64_t step, const float *bias,
                            bool relu, float *y)
{
    for (int64_t r = 0; r < rows; r++)
        if (bias)
            add_values(y + r * step, bias, relu, columns);
        else if (relu)
            add_value(y + r * step, 0.0f, relu, columns);
}

SW_KERNEL static double sum_block(const float *x, int64_t n)
{
    float lane[LANES] = {0};
    int64_t whole = n / LANES * LANES;

    for (int64_t i = 0; i < whole; i += LANES) {
#pragma omp simd
        for (int64_t j = 0; j < LANES; j++)
            lane[j] += x[i + j];
    }

    for (int64_t i = whole; i < n; i++)
        lane[i - whole] += x[i];

    double sum = 0;
    for (int j = 0; j < LANES; j++)
        sum += (double)lane[j];

    return sum;
}

double sw_kernel_sum(const float *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i += BLOCK)
        sum += sum_block(x + i, n - i < BLOCK ? n - i : BLOCK);
    return sum;
}

SW_KERNEL static void sum_few_columns(int64_t rows, int64_t columns, int64_t step, const float *x,
                                      float *sum)
{
    double total[COLUMNS] = {0};

    for (int64_t r = 0; r < rows; r++) {
#pragma omp simd
        for (int64_t c = 0; c < columns; c++)
            total[c] += (double)x[r * step + c];
    }

    for (int64_t c = 0; c < columns; c++)
        sum[c] = (float)total[c];
}

void sw_kernel_sum_columns(int64_t rows, int64_t columns, int64_t step, const float *x, float *sum)
{
    for (int64_t c = 0; c < columns; c += COLUMNS) {
        int64_t n = columns - c < COLUMNS ? columns - c : COLUMNS;
        sum_few_columns(rows, n, step, x + c, sum + c);
    }
}
