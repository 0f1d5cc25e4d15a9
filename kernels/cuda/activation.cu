/* Activation functions and their derivatives; formulas in kernels/cpu/activation.c. */
#include "kernels/cuda/wide.cuh"
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

template <typename T, int n>
static __device__ __forceinline__ void apply(enum sw_activation f,
                                             const struct sw_activation_args &k, int64_t i)
{
    float a, b, v[n];

    sw_activation_constants(f, k.alpha, &a, &b);
    sw_load<T, n>(k.x, i, v);
    for (int j = 0; j < n; j++)
        v[j] = forward(f, a, b, v[j]);
    sw_store<T, n>(k.y, i, v);
}

/* Where a relu is 0 the gradient is 0, even if dy is NaN. */
template <typename T, int n>
static __device__ __forceinline__ void apply(enum sw_activation f,
                                             const struct sw_activation_gradient_args &k, int64_t i)
{
    float a, b, v[n], dy[n];

    sw_activation_constants(f, k.alpha, &a, &b);
    sw_load<T, n>(f == SW_ACT_GELU ? k.x : k.y, i, v);
    sw_load<T, n>(k.dy, i, dy);
    for (int j = 0; j < n; j++)
        dy[j] = f == SW_ACT_RELU ? (v[j] > 0.0f ? dy[j] : 0.0f) : dy[j] * slope(f, a, b, v[j]);
    sw_store<T, n>(k.dx, i, dy);
}

/* Chooses the function once per vector. */
struct activate {
    template <typename T, int n, typename A> static __device__ void at(const A &k, int64_t i)
    {
        switch (k.function) {
        case SW_ACT_RELU:
            return apply<T, n>(SW_ACT_RELU, k, i);
        case SW_ACT_LEAKY_RELU:
            return apply<T, n>(SW_ACT_LEAKY_RELU, k, i);
        case SW_ACT_SIGMOID:
            return apply<T, n>(SW_ACT_SIGMOID, k, i);
        case SW_ACT_TANH:
            return apply<T, n>(SW_ACT_TANH, k, i);
        case SW_ACT_STANH:
            return apply<T, n>(SW_ACT_STANH, k, i);
        case SW_ACT_SOFTPLUS:
            return apply<T, n>(SW_ACT_SOFTPLUS, k, i);
        case SW_ACT_GELU:
            return apply<T, n>(SW_ACT_GELU, k, i);
        case SW_ACT_COUNT:
            break;
        }
    }
};

template <const struct sw_op &op, typename A>
static int launch(const struct sw_cuda_launch *l, const void *args)
{
    return ((const A *)args)->function < SW_ACT_COUNT
               ? sw_launch_vectors<op, A, struct activate>(l, args)
               : SW_CUDA_NO_KERNEL;
}

SW_CUDA_KERNELS(activation) = {
    {{&sw_op_activate, launch<sw_op_activate, struct sw_activation_args>, NULL},
     {&sw_op_activation_gradient,
      launch<sw_op_activation_gradient, struct sw_activation_gradient_args>, NULL},
     {}}};
