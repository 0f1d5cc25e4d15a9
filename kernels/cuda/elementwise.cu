/* Element-wise loops: addition, linear combination, products, conversion, and the search for values
 * that are not finite. */
#include "kernels/cuda/cuda.cuh"
#include "kernels/ops/elementwise.h"
#include "kernels/updaters/finite.h"

static __global__ void add(float *y, const float *x, int64_t n)
{
    for (int64_t i = sw_first(); i < n; i += sw_stride())
        y[i] += x[i];
}

static int launch_add(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_add_args *a = (const struct sw_add_args *)args;
    SW_START(add, sw_blocks_for(a->n, l), SW_THREADS, l, a->y, a->x, a->n);
    return (int)cudaGetLastError();
}

/* y is not read if beta is 0: it may contain anything. */
static __global__ void combine(float alpha, const float *x, float beta, float *y, int64_t n)
{
    for (int64_t i = sw_first(); i < n; i += sw_stride())
        y[i] = beta == 0 ? alpha * x[i] : alpha * x[i] + beta * y[i];
}

static int launch_combine(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_combine_args *a = (const struct sw_combine_args *)args;
    SW_START(combine, sw_blocks_for(a->n, l), SW_THREADS, l, a->alpha, a->x, a->beta, a->y, a->n);
    return (int)cudaGetLastError();
}

static __global__ void multiply(const float *a, const float *b, float *y, int64_t n)
{
    for (int64_t i = sw_first(); i < n; i += sw_stride())
        y[i] = a[i] * b[i];
}

static int launch_multiply(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_multiply_args *a = (const struct sw_multiply_args *)args;
    SW_START(multiply, sw_blocks_for(a->n, l), SW_THREADS, l, a->a, a->b, a->y, a->n);
    return (int)cudaGetLastError();
}

static __global__ void floats(float *y, const int32_t *x, int64_t n)
{
    for (int64_t i = sw_first(); i < n; i += sw_stride())
        y[i] = (float)x[i];
}

static int launch_floats(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_floats_args *a = (const struct sw_floats_args *)args;
    SW_START(floats, sw_blocks_for(a->n, l), SW_THREADS, l, a->y, a->x, a->n);
    return (int)cudaGetLastError();
}

/* All threads that write *answer store the same value. */
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

SW_CUDA_KERNELS(elementwise) = {{{&sw_op_add_to, launch_add, NULL},
                                 {&sw_op_combine, launch_combine, NULL},
                                 {&sw_op_multiply, launch_multiply, NULL},
                                 {&sw_op_to_floats, launch_floats, NULL},
                                 {}}};
