/* Activation functions and their derivatives.
 *
 *   relu        max(0, x); NaN passes, so divergence is detected       y > 0 ? 1 : 0
 *   leaky_relu  x < 0 ? slope x : x                                    y > 0 ? 1 : slope
 *   sigmoid     1 / (1 + exp -x)                                       y (1 - y)
 *   a tanh(b x) LeCun, Bottou, Orr, Mueller, "Efficient BackProp"      b (a - y^2 / a)
 *   softplus    log(1 + exp x) = max(x, 0) + log(1 + exp -|x|)         1 - exp -y
 *   gelu        x Phi(x), Hendrycks and Gimpel 2016                    Phi(x) + x phi(x)
 *
 * The right column is the derivative, as a function of y = f(x) except for gelu. */
#include "kernels/ops/activation.h"
#include "kernels/cpu/kernel.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/vmath.h"

/* y = f(x) with up to two constants a and b; and dx = f'(v) dy, where v is x or y. */
typedef void forward_fn(float a, float b, const float *x, float *y, int64_t n);
typedef void backward_fn(float a, float b, const float *v, const float *dy, float *dx, int64_t n);

SW_KERNEL static void relu(float a, float b, const float *x, float *y, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = 0.0f > x[i] ? 0.0f : x[i];
}

SW_KERNEL static void leaky_relu(float slope, float b, const float *x, float *y, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] < 0.0f ? slope * x[i] : x[i];
}

SW_KERNEL static void sigmoid(float a, float b, const float *x, float *y, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = sw_v_sigmoid(x[i]);
}

SW_KERNEL static void scaled_tanh(float a, float b, const float *x, float *y, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = a * sw_v_tanh(b * x[i]);
}

SW_KERNEL static void softplus(float a, float b, const float *x, float *y, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = (0.0f > x[i] ? 0.0f : x[i]) + sw_v_log1p_unit(sw_v_exp(-sw_v_abs(x[i])));
}

SW_KERNEL static void gelu(float a, float b, const float *x, float *y, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * sw_v_phi(x[i]);
}

SW_KERNEL static void relu_backward(float a, float b, const float *y, const float *dy, float *dx,
                                    int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i] = y[i] > 0.0f ? dy[i] : 0.0f;
}

SW_KERNEL static void leaky_relu_backward(float slope, float b, const float *y, const float *dy,
                                          float *dx, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i] = y[i] > 0.0f ? dy[i] : slope * dy[i];
}

SW_KERNEL static void sigmoid_backward(float a, float b, const float *y, const float *dy, float *dx,
                                       int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i] = dy[i] * (y[i] * (1.0f - y[i]));
}

SW_KERNEL static void scaled_tanh_backward(float a, float b, const float *y, const float *dy,
                                           float *dx, int64_t n)
{
    float b_over_a = b / a, ab = a * b;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i] = dy[i] * (ab - y[i] * y[i] * b_over_a);
}

/* 1 - exp -y = 2 t / (1 + t) with t = tanh(y / 2), which keeps its accuracy where y is small. */
SW_KERNEL static void softplus_backward(float a, float b, const float *y, const float *dy,
                                        float *dx, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float t = sw_v_tanh(0.5f * y[i]);
        dx[i] = dy[i] * (2.0f * t / (1.0f + t));
    }
}

SW_KERNEL static void gelu_backward(float a, float b, const float *x, const float *dy, float *dx,
                                    int64_t n)
{
    const float one_by_root_two_pi = 0.398942280f;

#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i] = dy[i] *
                (sw_v_phi(x[i]) + x[i] * (one_by_root_two_pi * sw_v_exp(-0.5f * (x[i] * x[i]))));
}

/* ---- The operations ---- */

static const struct function {
    forward_fn *forward;
    backward_fn *backward;
} functions[SW_ACT_COUNT] = {
    [SW_ACT_RELU] = {relu, relu_backward},
    [SW_ACT_LEAKY_RELU] = {leaky_relu, leaky_relu_backward},
    [SW_ACT_SIGMOID] = {sigmoid, sigmoid_backward},
    [SW_ACT_TANH] = {scaled_tanh, scaled_tanh_backward},
    [SW_ACT_STANH] = {scaled_tanh, scaled_tanh_backward},
    [SW_ACT_SOFTPLUS] = {softplus, softplus_backward},
    [SW_ACT_GELU] = {gelu, gelu_backward},
};

/* Sets dx = dy f'(v), or f(v) if dy is NULL. */
static int apply(const struct sw_host_launch *l, const struct sw_activation_gradient_args *k,
                 const float *v)
{
    int team = sw_team_size(l->threads, k->n);
    float a, b;

    if ((unsigned)k->function >= SW_ACT_COUNT)
        return sw_err_set(l->err, SW_ERR_UNSUPPORTED,
                          "activation function %d is not implemented on the CPU", (int)k->function);

    sw_activation_constants(k->function, k->alpha, &a, &b);

#pragma omp parallel num_threads(team) if (team > 1)
    {
        struct sw_range r = sw_team_range(k->n, SW_LINE_FLOATS);
        const struct function *f = &functions[k->function];
        const float *dy = k->dy;
        float *dx = k->dx;

        if (dy)
            f->backward(a, b, v + r.from, dy + r.from, dx + r.from, r.to - r.from);
        else
            f->forward(a, b, v + r.from, dx + r.from, r.to - r.from);
    }

    return SW_OK;
}

static void activation_arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_activation_args *a = args;
    SW_ACTIVATION(out, a, x, a->type, a->n);
    SW_ACTIVATION(out, a, y, a->type, a->n);
}

int sw_cpu_activation(const struct sw_host_launch *l, const void *args)
{
    const struct sw_activation_args *a = args;
    const struct sw_activation_gradient_args k = {
        .function = a->function, .alpha = a->alpha, .n = a->n, .dx = a->y};
    return apply(l, &k, a->x);
}

const struct sw_op sw_op_activate = {"activation", sizeof(struct sw_activation_args),
                                     activation_arrays, sw_cpu_activation};

static void gradient_arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_activation_gradient_args *a = args;
    bool reads_x = a->function == SW_ACT_GELU;

    SW_ACTIVATION(out, a, x, a->type, a->x || reads_x ? a->n : 0);
    SW_ACTIVATION(out, a, y, a->type, a->y || !reads_x ? a->n : 0);
    SW_ACTIVATION(out, a, dy, a->type, a->n);
    SW_ACTIVATION(out, a, dx, a->type, a->n);
}

int sw_cpu_activation_gradient(const struct sw_host_launch *l, const void *args)
{
    const struct sw_activation_gradient_args *k = args;
    return apply(l, k, k->function == SW_ACT_GELU ? k->x : k->y);
}

const struct sw_op sw_op_activation_gradient = {"activation_backward",
                                                sizeof(struct sw_activation_gradient_args),
                                                gradient_arrays, sw_cpu_activation_gradient};
