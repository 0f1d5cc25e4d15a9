/* Activation functions and their derivatives; formulas in kernels/cpu/activation.c. */
#include "kernels/cuda/cuda.cuh"
#include "kernels/ops/activation.h"

static __device__ __forceinline__ float forward(enum sw_activation f, float a, float b, float x)
{
    switch (f) {
    case SW_ACT_RELU:
        return 0.0f > x ? 0.0f : x; /* NaN passes */
    case SW_ACT_LEAKY_RELU:
        return x < 0.0f ? a * x : x;
    case SW_ACT_SIGMOID:
        return 1.0f / (1.0f + expf(-x));
    case SW_ACT_TANH:
    case SW_ACT_STANH:
        return a * tanhf(b * x);
    case SW_ACT_SOFTPLUS:
        return (0.0f > x ? 0.0f : x) + log1pf(expf(-fabsf(x)));
    case SW_ACT_GELU:
        return x * normcdff(x);
    case SW_ACT_COUNT:
        break;
    }

    return x;
}

/* v is y, but x for gelu. 1 - exp -y is computed such that it is accurate for small y. */
static __device__ __forceinline__ float slope(enum sw_activation f, float a, float b, float v)
{
    switch (f) {
    case SW_ACT_RELU:
        return v > 0.0f ? 1.0f : 0.0f;
    case SW_ACT_LEAKY_RELU:
        return v > 0.0f ? 1.0f : a;
    case SW_ACT_SIGMOID:
        return v * (1.0f - v);
    case SW_ACT_TANH:
    case SW_ACT_STANH:
        return a * b - v * v * (b / a);
    case SW_ACT_SOFTPLUS:
        return -expm1f(-v);
    case SW_ACT_GELU:
        return normcdff(v) + v * (0.398942280f * expf(-0.5f * (v * v)));
    case SW_ACT_COUNT:
        break;
    }

    return 1.0f;
}

static __global__ void activate(enum sw_activation f, float a, float b, const float *x, float *y,
                                int64_t n)
{
    for (int64_t i = sw_first(); i < n; i += sw_stride())
        y[i] = forward(f, a, b, x[i]);
}

static int launch_forward(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_activation_args *k = (const struct sw_activation_args *)args;
    float a, b;

    if (k->function >= SW_ACT_COUNT)
        return SW_CUDA_NO_KERNEL;

    sw_activation_constants(k->function, k->alpha, &a, &b);
    SW_START(activate, sw_blocks_for(k->n, l), SW_THREADS, l, k->function, a, b, k->x, k->y, k->n);
    return (int)cudaGetLastError();
}

/* Where a relu is 0 the gradient is 0, even if dy is NaN. */
static __global__ void gradient(enum sw_activation f, float a, float b, const float *v,
                               const float *dy, float *dx, int64_t n)
{
    for (int64_t i = sw_first(); i < n; i += sw_stride())
        dx[i] = f == SW_ACT_RELU ? (v[i] > 0.0f ? dy[i] : 0.0f) : dy[i] * slope(f, a, b, v[i]);
}

static int launch_backward(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_activation_gradient_args *k = (const struct sw_activation_gradient_args *)args;
    const float *v = k->function == SW_ACT_GELU ? k->x : k->y;
    float a, b;

    if (k->function >= SW_ACT_COUNT)
        return SW_CUDA_NO_KERNEL;

    sw_activation_constants(k->function, k->alpha, &a, &b);
    SW_START(gradient, sw_blocks_for(k->n, l), SW_THREADS, l, k->function, a, b, v, k->dy, k->dx,
             k->n);

    return (int)cudaGetLastError();
}

SW_CUDA_KERNELS(activation) = {{{&sw_op_activate, launch_forward, NULL},
                                {&sw_op_activation_gradient, launch_backward, NULL},
                                {}}};
