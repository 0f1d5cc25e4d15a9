/* Several arrays combined element by element, and the gradients; formulas in kernels/cpu/eltwise.c.
 * A thread computes the same elements of all arrays, so any output may be one of the inputs. */
#include "kernels/cuda/wide.cuh"
#include "kernels/ops/eltwise.h"

static __device__ __forceinline__ float combined(enum sw_eltwise kind, float v, float factor,
                                                 float x)
{
    return kind == SW_ELTWISE_SUM       ? v + factor * x
           : kind == SW_ELTWISE_PRODUCT ? v * x
           : v > x || v != v            ? v
                                        : x;
}

struct combine {
    template <typename T, int n>
    static __device__ void at(const struct sw_eltwise_args &e, int64_t i)
    {
        float v[n], x[n];

        sw_load<T, n>(e.x[0], i, v);
        for (int j = 0; j < n && e.kind == SW_ELTWISE_SUM; j++)
            v[j] *= e.factor[0];

        for (int k = 1; k < e.count; k++) {
            sw_load<T, n>(e.x[k], i, x);
            for (int j = 0; j < n; j++)
                v[j] = combined(e.kind, v[j], e.factor[k], x[j]);
        }

        for (int j = 0; j < n; j++)
            v[j] = e.relu && 0.0f > v[j] ? 0.0f : v[j];
        sw_store<T, n>(e.y, i, v);
    }
};

/* Sets g to the gradient that a fused relu passes; y NULL: no relu. */
template <typename T, int n>
static __device__ __forceinline__ void load_passed(const void *y, const void *dy, int64_t i,
                                                   float *g)
{
    float v[n];

    sw_load<T, n>(dy, i, g);
    if (!y)
        return;

    sw_load<T, n>(y, i, v);
    for (int j = 0; j < n; j++)
        g[j] = v[j] > 0.0f ? g[j] : 0.0f;
}

struct sum_gradient {
    template <typename T, int n>
    static __device__ void at(const struct sw_eltwise_sum_gradient_args &e, int64_t i)
    {
        float g[n];

        load_passed<T, n>(e.y, e.dy, i, g);
        for (int k = 0; k < e.count; k++) {
            if (!e.dx[k])
                continue;

            float dx[n] = {};
            if (e.adds >> k & 1)
                sw_load<T, n>(e.dx[k], i, dx);
            for (int j = 0; j < n; j++)
                dx[j] += e.factor[k] * g[j];
            sw_store<T, n>(e.dx[k], i, dx);
        }
    }
};

/* Of a product or a maximum. */
struct one_gradient {
    template <typename T, int n>
    static __device__ void at(const struct sw_eltwise_gradient_args &e, int64_t i)
    {
        float g[n], mine[n] = {}, other[n], dx[n] = {};

        load_passed<T, n>(e.y, e.dy, i, g);
        if (e.kind == SW_ELTWISE_MAX)
            sw_load<T, n>(e.x[e.of], i, mine);

        for (int k = 0; k < e.count; k++) {
            if (k == e.of)
                continue;

            sw_load<T, n>(e.x[k], i, other);
            for (int j = 0; j < n; j++)
                g[j] = e.kind == SW_ELTWISE_PRODUCT ? g[j] * other[j]
                       : k > e.of                   ? (mine[j] >= other[j] ? g[j] : 0.0f)
                                                    : (mine[j] > other[j] ? g[j] : 0.0f);
        }

        if (e.add)
            sw_load<T, n>(e.dx, i, dx);
        for (int j = 0; j < n; j++)
            dx[j] += g[j];
        sw_store<T, n>(e.dx, i, dx);
    }
};

SW_CUDA_KERNELS(eltwise) = {
    {{&sw_op_eltwise, sw_launch_vectors<sw_op_eltwise, struct sw_eltwise_args, struct combine>,
      NULL},
     {&sw_op_eltwise_sum_gradient,
      sw_launch_vectors<sw_op_eltwise_sum_gradient, struct sw_eltwise_sum_gradient_args,
                        struct sum_gradient>,
      NULL},
     {&sw_op_eltwise_gradient,
      sw_launch_vectors<sw_op_eltwise_gradient, struct sw_eltwise_gradient_args,
                        struct one_gradient>,
      NULL},
     {}}};
