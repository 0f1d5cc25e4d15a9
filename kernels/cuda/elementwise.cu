/* Element-wise loops: addition, linear combination, products, conversion, and the search for values
 * that are not finite. */
#include "kernels/cuda/wide.cuh"
#include "kernels/ops/elementwise.h"
#include "kernels/updaters/finite.h"

struct add {
    template <typename T, int n> static __device__ void at(const struct sw_add_args &a, int64_t i)
    {
        float x[n], y[n];

        sw_load<T, n>(a.x, i, x);
        sw_load<T, n>(a.y, i, y);
        for (int j = 0; j < n; j++)
            y[j] += x[j];
        sw_store<T, n>(a.y, i, y);
    }
};

/* y is not read if beta is 0: it may contain anything. */
static __device__ void combine(const struct sw_combine_args &a, int64_t i)
{
    a.y[i] = a.beta == 0 ? a.alpha * a.x[i] : a.alpha * a.x[i] + a.beta * a.y[i];
}

static __device__ void multiply(const struct sw_multiply_args &a, int64_t i)
{
    a.y[i] = a.a[i] * a.b[i];
}

static __device__ void floats(const struct sw_floats_args &a, int64_t i)
{
    a.y[i] = (float)a.x[i];
}

/* All threads that write *answer store the same value. */
static __global__ void find_non_finite(const float *x, int64_t n, int *answer)
{
    SW_ROLLED
    for (int64_t i = sw_first(); i < n; i += sw_stride())
        if (sw_non_finite(x[i]))
            *answer = 0;
}

int sw_cuda_find_non_finite(const float *x, int64_t n, int *answer, const struct sw_cuda_launch *l)
{
    return SW_LAUNCH(find_non_finite, sw_blocks_for(n, l), SW_THREADS, l, x, n, answer);
}

SW_CUDA_KERNELS(elementwise) = {
    {{&sw_op_add_to, sw_launch_vectors<sw_op_add_to, struct sw_add_args, struct add>, NULL},
     {&sw_op_combine, sw_launch_each<struct sw_combine_args, combine>, NULL},
     {&sw_op_multiply, sw_launch_each<struct sw_multiply_args, multiply>, NULL},
     {&sw_op_to_floats, sw_launch_each<struct sw_floats_args, floats>, NULL},
     {}}};
