/* Loops over arrays: adding, combining, multiplying, converting, and looking for what is not
 * finite. */
#include "kernels/cuda/cuda.cuh"
#include "kernels/updaters/finite.h"

static __global__ void add(float *y, const float *x, int64_t n)
{
    for (int64_t i = sw_first(); i < n; i += sw_stride())
        y[i] += x[i];
}

int sw_cuda_add(float *y, const float *x, int64_t n, const struct sw_cuda_launch *l)
{
    SW_START(add, sw_blocks_for(n, l), SW_THREADS, l, y, x, n);
    return (int)cudaGetLastError();
}

/* y is not read where beta is 0: it may hold anything. */
static __global__ void combine(float alpha, const float *x, float beta, float *y, int64_t n)
{
    for (int64_t i = sw_first(); i < n; i += sw_stride())
        y[i] = beta == 0 ? alpha * x[i] : alpha * x[i] + beta * y[i];
}

int sw_cuda_combine(float alpha, const float *x, float beta, float *y, int64_t n,
                    const struct sw_cuda_launch *l)
{
    SW_START(combine, sw_blocks_for(n, l), SW_THREADS, l, alpha, x, beta, y, n);
    return (int)cudaGetLastError();
}

static __global__ void multiply(const float *a, const float *b, float *y, int64_t n)
{
    for (int64_t i = sw_first(); i < n; i += sw_stride())
        y[i] = a[i] * b[i];
}

int sw_cuda_multiply(const float *a, const float *b, float *y, int64_t n,
                     const struct sw_cuda_launch *l)
{
    SW_START(multiply, sw_blocks_for(n, l), SW_THREADS, l, a, b, y, n);
    return (int)cudaGetLastError();
}

static __global__ void floats(float *y, const int32_t *x, int64_t n)
{
    for (int64_t i = sw_first(); i < n; i += sw_stride())
        y[i] = (float)x[i];
}

int sw_cuda_floats(float *y, const int32_t *x, int64_t n, const struct sw_cuda_launch *l)
{
    SW_START(floats, sw_blocks_for(n, l), SW_THREADS, l, y, x, n);
    return (int)cudaGetLastError();
}

/* A NaN passes a relu, so that divergence is seen. */
static __global__ void add_row(int64_t n, int64_t columns, const float *row, bool relu, float *y)
{
    for (int64_t i = sw_first(); i < n; i += sw_stride()) {
        float v = y[i] + (row ? row[i % columns] : 0.0f);
        y[i] = relu && 0.0f > v ? 0.0f : v;
    }
}

int sw_cuda_add_row(int64_t rows, int64_t columns, const float *row, bool relu, float *y,
                    const struct sw_cuda_launch *l)
{
    int64_t n = rows * columns;
    SW_START(add_row, sw_blocks_for(n, l), SW_THREADS, l, n, columns, row, relu, y);
    return (int)cudaGetLastError();
}

/* Whoever writes, writes the same. */
static __global__ void find_non_finite(const float *x, int64_t n, int *answer)
{
    for (int64_t i = sw_first(); i < n; i += sw_stride())
        if (sw_non_finite(x[i]))
            *answer = 0;
}

int sw_cuda_find_non_finite(const float *x, int64_t n, int *answer, const struct sw_cuda_launch *l)
{
    SW_START(find_non_finite, sw_blocks_for(n, l), SW_THREADS, l, x, n, answer);
    return (int)cudaGetLastError();
}
