/* Activation functions and their derivatives.
 *
 *   relu        max(0, x); a NaN passes, so that divergence is seen    y > 0 ? 1 : 0
 *   leaky_relu  x < 0 ? slope x : x                                    y > 0 ? 1 : slope
 *   sigmoid     1 / (1 + exp -x)                                       y (1 - y)
 *   a tanh(b x) LeCun, Bottou, Orr, Mueller, "Efficient BackProp"      b (a - y^2 / a)
 *   softplus    log(1 + exp x) = max(x, 0) + log(1 + exp -|x|)         1 - exp -y
 *   gelu        x Phi(x), Hendrycks and Gimpel 2016                    Phi(x) + x phi(x)
 *
 * The right-hand column is the derivative, by y = f(x) for all but gelu. */
#include "kernels/cpu/kernel.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/vmath.h"

enum { LINE_FLOATS = 16 };

/* y = f(x) with up to two constants; and dx = f'(.) dy, where v is x or y. */
typedef void forward_fn(float a, float b, const float *x, float *y, int64_t n);
typedef void backward_fn(float a, float b, const float *v, const float *dy, float *dx, int64_t n);

static void run_forward(int threads, forward_fn *f, float a, float b, const float *x, float *y,
                        int64_t n)
{
    int team = sw_team_size(threads, n);
#pragma omp parallel num_threads(team) if (team > 1)
    {
        struct sw_range r = sw_team_range(n, LINE_FLOATS);
        f(a, b, x + r.from, y + r.from, r.to - r.from);
    }
}

static void run_backward(int threads, backward_fn *f, float a, float b, const float *v,
                         const float *dy, float *dx, int64_t n)
{
    int team = sw_team_size(threads, n);
#pragma omp parallel num_threads(team) if (team > 1)
    {
        struct sw_range r = sw_team_range(n, LINE_FLOATS);
        f(a, b, v + r.from, dy + r.from, dx + r.from, r.to - r.from);
    }
}

SW_KERNEL static void relu(float a, float b, const float *x, float *y, int64_t n)
{
    (void)a, (void)b;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = 0.0f > x[i] ? 0.0f : x[i];
}

void sw_kernel_relu(int threads, const float *x, float *y, int64_t n)
{
    run_forward(threads, relu, 0, 0, x, y, n);
}

SW_KERNEL static void leaky_relu(float slope, float b, const float *x, float *y, int64_t n)
{
    (void)b;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] < 0.0f ? slope * x[i] : x[i];
}

void sw_kernel_leaky_relu(int threads, float slope, const float *x, float *y, int64_t n)
{
    run_forward(threads, leaky_relu, slope, 0, x, y, n);
}

SW_KERNEL static void sigmoid(float a, float b, const float *x, float *y, int64_t n)
{
    (void)a, (void)b;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = sw_v_sigmoid(x[i]);
}

void sw_kernel_sigmoid(int threads, const float *x, float *y, int64_t n)
{
    run_forward(threads, sigmoid, 0, 0, x, y, n);
}

SW_KERNEL static void scaled_tanh(float a, float b, const float *x, float *y, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = a * sw_v_tanh(b * x[i]);
}

void sw_kernel_scaled_tanh(int threads, float a, float b, const float *x, float *y, int64_t n)
{
    run_forward(threads, scaled_tanh, a, b, x, y, n);
}

SW_KERNEL static void softplus(float a, float b, const float *x, float *y, int64_t n)
{
    (void)a, (void)b;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = (0.0f > x[i] ? 0.0f : x[i]) + sw_v_log1p_unit(sw_v_exp(-sw_v_abs(x[i])));
}

void sw_kernel_softplus(int threads, const float *x, float *y, int64_t n)
{
    run_forward(threads, softplus, 0, 0, x, y, n);
}

SW_KERNEL static void gelu(float a, float b, const float *x, float *y, int64_t n)
{
    (void)a, (void)b;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * sw_v_phi(x[i]);
}

void sw_kernel_gelu(int threads, const float *x, float *y, int64_t n)
{
    run_forward(threads, gelu, 0, 0, x, y, n);
}

SW_KERNEL static void relu_backward(float a, float b, const float *y, const float *dy, float *dx,
                                    int64_t n)
{
    (void)a, (void)b;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i] = y[i] > 0.0f ? dy[i] : 0.0f;
}

void sw_kernel_relu_backward(int threads, const float *y, const float *dy, float *dx, int64_t n)
{
    run_backward(threads, relu_backward, 0, 0, y, dy, dx, n);
}

SW_KERNEL static void leaky_relu_backward(float slope, float b, const float *y, const float *dy,
                                          float *dx, int64_t n)
{
    (void)b;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i] = y[i] > 0.0f ? dy[i] : slope * dy[i];
}

void sw_kernel_leaky_relu_backward(int threads, float slope, const float *y, const float *dy,
                                   float *dx, int64_t n)
{
    run_backward(threads, leaky_relu_backward, slope, 0, y, dy, dx, n);
}

SW_KERNEL static void sigmoid_backward(float a, float b, const float *y, const float *dy, float *dx,
                                       int64_t n)
{
    (void)a, (void)b;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i] = dy[i] * (y[i] * (1.0f - y[i]));
}

void sw_kernel_sigmoid_backward(int threads, const float *y, const float *dy, float *dx, int64_t n)
{
    run_backward(threads, sigmoid_backward, 0, 0, y, dy, dx, n);
}

SW_KERNEL static void scaled_tanh_backward(float a, float b, const float *y, const float *dy,
                                           float *dx, int64_t n)
{
    float b_over_a = b / a, ab = a * b;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i] = dy[i] * (ab - y[i] * y[i] * b_over_a);
}

void sw_kernel_scaled_tanh_backward(int threads, float a, float b, const float *y, const float *dy,
                                    float *dx, int64_t n)
{
    run_backward(threads, scaled_tanh_backward, a, b, y, dy, dx, n);
}

/* 1 - exp -y = 2 t / (1 + t) with t = tanh(y / 2), which keeps its accuracy where y is small. */
SW_KERNEL static void softplus_backward(float a, float b, const float *y, const float *dy,
                                        float *dx, int64_t n)
{
    (void)a, (void)b;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float t = sw_v_tanh(0.5f * y[i]);
        dx[i] = dy[i] * (2.0f * t / (1.0f + t));
    }
}

void sw_kernel_softplus_backward(int threads, const float *y, const float *dy, float *dx, int64_t n)
{
    run_backward(threads, softplus_backward, 0, 0, y, dy, dx, n);
}

SW_KERNEL static void gelu_backward(float a, float b, const float *x, const float *dy, float *dx,
                                    int64_t n)
{
    const float one_by_root_two_pi = 0.398942280f;
    (void)a, (void)b;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i] = dy[i] *
                (sw_v_phi(x[i]) + x[i] * (one_by_root_two_pi * sw_v_exp(-0.5f * (x[i] * x[i]))));
}

void sw_kernel_gelu_backward(int threads, const float *x, const float *dy, float *dx, int64_t n)
{
    run_backward(threads, gelu_backward, 0, 0, x, dy, dx, n);
}
