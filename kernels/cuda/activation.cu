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

static __device__ void activate(const struct sw_activation_args &k, int64_t i)
{
    float a, b;
    sw_activation_constants(k.function, k.alpha, &a, &b);
    ((float *)k.y)[i] = forward(k.function, a, b, ((const float *)k.x)[i]);
}

static int launch_forward(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_activation_args *k = (const struct sw_activation_args *)args;
    return k->function < SW_ACT_COUNT
               ? sw_start_each<struct sw_activation_args, activate>(*k, k->n, l)
               : SW_CUDA_NO_KERNEL;
}

/* Where a relu is 0 the gradient is 0, even if dy is NaN. */
static __device__ void gradient(const struct sw_activation_gradient_args &k, int64_t i)
{
    const float v = ((const float *)(k.function == SW_ACT_GELU ? k.x : k.y))[i];
    const float dy = ((const float *)k.dy)[i];
    float a, b;

    sw_activation_constants(k.function, k.alpha, &a, &b);
    ((float *)k.dx)[i] =
        k.function == SW_ACT_RELU ? (v > 0.0f ? dy : 0.0f) : dy * slope(k.function, a, b, v);
}

static int launch_backward(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_activation_gradient_args *k = (const struct sw_activation_gradient_args *)args;
    return k->function < SW_ACT_COUNT
               ? sw_start_each<struct sw_activation_gradient_args, gradient>(*k, k->n, l)
               : SW_CUDA_NO_KERNEL;
}

SW_CUDA_KERNELS(activation) = {{{&sw_op_activate, launch_forward, NULL},
                                {&sw_op_activation_gradient, launch_backward, NULL},
                                {}}};
