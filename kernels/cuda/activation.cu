/* Activation functions and their derivatives; formulas in kernels/cpu/activation.c. */
#include "kernels/cuda/cuda.cuh"

static __device__ __forceinline__ float forward(enum sw_cuda_function f, float a, float b, float x)
{
    switch (f) {
    case SW_CUDA_RELU:
        return 0.0f > x ? 0.0f : x; /* a NaN passes */
    case SW_CUDA_LEAKY_RELU:
        return x < 0.0f ? a * x : x;
    case SW_CUDA_SIGMOID:
        return 1.0f / (1.0f + expf(-x));
    case SW_CUDA_SCALED_TANH:
        return a * tanhf(b * x);
    case SW_CUDA_SOFTPLUS:
        return (0.0f > x ? 0.0f : x) + log1pf(expf(-fabsf(x)));
    case SW_CUDA_GELU:
        return x * normcdff(x);
    }
    return x;
}

/* v is y, of gelu x. 1 - exp -y keeps its accuracy where y is small. */
static __device__ __forceinline__ float slope(enum sw_cuda_function f, float a, float b, float v)
{
    switch (f) {
    case SW_CUDA_RELU:
        return v > 0.0f ? 1.0f : 0.0f;
    case SW_CUDA_LEAKY_RELU:
        return v > 0.0f ? 1.0f : a;
    case SW_CUDA_SIGMOID:
        return v * (1.0f - v);
    case SW_CUDA_SCALED_TANH:
        return a * b - v * v * (b / a);
    case SW_CUDA_SOFTPLUS:
        return -expm1f(-v);
    case SW_CUDA_GELU:
        return normcdff(v) + v * (0.398942280f * expf(-0.5f * (v * v)));
    }
    return 1.0f;
}

static __global__ void activate(enum sw_cuda_function f, float a, float b, const float *x, float *y,
                                int64_t n)
{
    for (int64_t i = sw_first(); i < n; i += sw_stride())
        y[i] = forward(f, a, b, x[i]);
}

int sw_cuda_activation(enum sw_cuda_function f, float a, float b, const float *x, float *y,
                       int64_t n, const struct sw_cuda_launch *l)
{
    SW_START(activate, sw_blocks_for(n, l), SW_THREADS, l, f, a, b, x, y, n);
    return (int)cudaGetLastError();
}

/* Where a relu let nothing through the gradient is 0, even if dy is not a number. */
static __global__ void go_back(enum sw_cuda_function f, float a, float b, const float *v,
                               const float *dy, float *dx, int64_t n)
{
    for (int64_t i = sw_first(); i < n; i += sw_stride())
        dx[i] = f == SW_CUDA_RELU ? (v[i] > 0.0f ? dy[i] : 0.0f) : dy[i] * slope(f, a, b, v[i]);
}

int sw_cuda_activation_backward(enum sw_cuda_function f, float a, float b, const float *v,
                                const float *dy, float *dx, int64_t n,
                                const struct sw_cuda_launch *l)
{
    SW_START(go_back, sw_blocks_for(n, l), SW_THREADS, l, f, a, b, v, dy, dx, n);
    return (int)cudaGetLastError();
}
