/* What linear algebra needs beside a matrix product: y = alpha x + beta y, products of elements,
 * and a row added to every row of a matrix. */
#include "kernels/cpu/kernel.h"
#include "kernels/cpu/kernels.h"

enum { LINE_FLOATS = 16 };

SW_KERNEL static void combine(float alpha, const float *restrict x, float beta, float *restrict y,
                              int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = alpha * x[i] + beta * y[i];
}

/* Without reading y, which may hold anything. */
SW_KERNEL static void scale(float alpha, const float *x, float *y, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = alpha * x[i];
}

void sw_kernel_combine(int threads, float alpha, const float *x, float beta, float *y, int64_t n)
{
    int team = sw_team_size(threads, n);
#pragma omp parallel num_threads(team) if (team > 1)
    {
        struct sw_range r = sw_team_range(n, LINE_FLOATS);
        if (beta == 0)
            scale(alpha, x + r.from, y + r.from, r.to - r.from);
        else
            combine(alpha, x + r.from, beta, y + r.from, r.to - r.from);
    }
}

SW_KERNEL static void multiply(const float *a, const float *b, float *y, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = a[i] * b[i];
}

void sw_kernel_multiply(int threads, const float *a, const float *b, float *y, int64_t n)
{
    int team = sw_team_size(threads, n);
#pragma omp parallel num_threads(team) if (team > 1)
    {
        struct sw_range r = sw_team_range(n, LINE_FLOATS);
        multiply(a + r.from, b + r.from, y + r.from, r.to - r.from);
    }
}
