/* Several arrays combined element by element, and the gradients; formulas in kernels/cpu/eltwise.c.
 * A thread computes one element of all arrays, so any output may be one of the inputs. */
#include "kernels/cuda/cuda.cuh"
#include "kernels/ops/eltwise.h"

static __device__ __forceinline__ float combined(const struct sw_eltwise_args &e, int64_t i)
{
    float v = e.kind == SW_ELTWISE_SUM ? e.factor[0] * ((const float *)e.x[0])[i]
                                       : ((const float *)e.x[0])[i];

    for (int k = 1; k < e.count; k++) {
        float x = ((const float *)e.x[k])[i];

        if (e.kind == SW_ELTWISE_SUM)
            v += e.factor[k] * x;
        else if (e.kind == SW_ELTWISE_PRODUCT)
            v *= x;
        else
            v = v > x || v != v ? v : x;
    }

    return v;
}

static __device__ void forward(const struct sw_eltwise_args &e, int64_t i)
{
    float v = combined(e, i);
    ((float *)e.y)[i] = e.relu && 0.0f > v ? 0.0f : v;
}

/* Returns the gradient that a fused relu passes; y NULL: no relu. */
static __device__ __forceinline__ float passed(const float *y, const float *dy, int64_t i)
{
    return y && !(y[i] > 0.0f) ? 0.0f : dy[i];
}

static __device__ void sum_backward(const struct sw_eltwise_sum_gradient_args &e, int64_t i)
{
    float g = passed((const float *)e.y, (const float *)e.dy, i);
    for (int k = 0; k < e.count; k++)
        if (e.dx[k])
            ((float *)e.dx[k])[i] =
                e.factor[k] * g + (e.adds >> k & 1 ? ((float *)e.dx[k])[i] : 0.0f);
}

static __device__ void one_backward(const struct sw_eltwise_gradient_args &e, int64_t i)
{
    float g = passed((const float *)e.y, (const float *)e.dy, i);

    for (int k = 0; k < e.count; k++) {
        if (k == e.of)
            continue;

        float mine = e.kind == SW_ELTWISE_MAX ? ((const float *)e.x[e.of])[i] : 0.0f,
              other = ((const float *)e.x[k])[i];
        if (e.kind == SW_ELTWISE_PRODUCT)
            g *= other;
        else if (!(k > e.of ? mine >= other : mine > other))
            g = 0.0f;
    }

    ((float *)e.dx)[i] = g + (e.add ? ((float *)e.dx)[i] : 0.0f);
}

SW_CUDA_KERNELS(eltwise) = {
    {{&sw_op_eltwise, sw_launch_each<struct sw_eltwise_args, forward>, NULL},
     {&sw_op_eltwise_sum_gradient,
      sw_launch_each<struct sw_eltwise_sum_gradient_args, sum_backward>, NULL},
     {&sw_op_eltwise_gradient, sw_launch_each<struct sw_eltwise_gradient_args, one_backward>, NULL},
     {}}};
