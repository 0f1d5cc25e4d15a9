/* One step of a recurrent cell, forward and backward; formulas in kernels/ops/recurrent.h and, for
 * the gradients, kernels/cpu/recurrent.c. A thread computes a hidden unit of a row; the caller
 * computes the products with weights. */
#include "kernels/cuda/cuda.cuh"
#include "kernels/ops/recurrent.h"

static __device__ __forceinline__ float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

/* ---- Initial state ---- */

static __device__ void initial_state(const struct sw_initial_state_args &a, int64_t i)
{
    a.to[i] = a.from && !a.step->sequences_begin ? a.from[i] : 0.0f;
}

SW_CUDA_KERNELS(recurrent) = {
    {{&sw_op_initial_state, sw_launch_each<struct sw_initial_state_args, initial_state>, NULL},
     {}}};

/* Sets h' and c' of the first step: the recurrent state, or h0 and c0, or zero. */
static __device__ void begin_state(const struct sw_recurrent_args &a, int64_t i)
{
    const struct sw_recurrent &r = a.r;
    const bool goes_on = a.carried && !a.step->sequences_begin;
    const int64_t row = i / r.hidden, j = i % r.hidden;
    float *first = a.before + sw_recurrent_step(&r, 0) * r.hidden;

    first[row * r.steps * r.hidden + j] = goes_on ? a.h[i] : a.h0 ? a.h0[i] : 0.0f;
    if (r.kind == SW_CELL_LSTM && !goes_on)
        a.c[i] = a.c0 ? a.c0[i] : 0.0f;
}

/* Makes room for q of a unit of gru: r, z, n becomes r, z, 0, n, to which a step adds its product.
 */
static __device__ void begin_gates(const struct sw_recurrent_args &a, int64_t i)
{
    const int64_t n = a.r.hidden;
    float *unit = a.gates + i / n * 4 * n + i % n;

    unit[3 * n] = unit[2 * n];
    unit[2 * n] = 0.0f;
}

static __device__ void begin(const struct sw_recurrent_args &a, int64_t i)
{
    if (i < a.r.rows * a.r.hidden)
        begin_state(a, i);
    if (a.r.kind == SW_CELL_GRU)
        begin_gates(a, i);
}

int sw_cuda_cell_begin(const struct sw_recurrent_args *a, const struct sw_cuda_launch *l)
{
    const int64_t steps = a->r.kind == SW_CELL_GRU ? a->r.steps : 1;

    return sw_start_each<struct sw_recurrent_args, begin>(*a, a->r.rows * steps * a->r.hidden, l);
}

/* ---- One step ---- */

/* Reads r, z, q, n; keeps r, z, n, q. */
static __device__ float gru(float *a, const float *b, int64_t n, float before)
{
    float r = sigmoid(a[0] + b[0]), z = sigmoid(a[n] + b[n]), q = a[2 * n] + b[3 * n];
    float t = tanhf(a[3 * n] + b[2 * n] + r * q);

    a[0] = r;
    a[n] = z;
    a[2 * n] = t;
    a[3 * n] = q;

    return (1 - z) * t + z * before;
}

static __device__ float lstm(float *a, const float *b, int64_t n, float *c)
{
    float i = sigmoid(a[0] + b[0]), f = sigmoid(a[n] + b[n]);
    float g = tanhf(a[2 * n] + b[2 * n]), o = sigmoid(a[3 * n] + b[3 * n]);
    float now = f * *c + i * g;

    a[0] = i;
    a[n] = f;
    a[2 * n] = g;
    a[3 * n] = o;
    a[4 * n] = *c;
    *c = now;

    return o * tanhf(now);
}

static __device__ float rnn(bool relu, float *a, const float *b)
{
    float v = *a + *b;
    return *a = relu ? (0.0f > v ? 0.0f : v) : tanhf(v);
}

static __device__ void step(const struct sw_cuda_cell &k, int64_t i)
{
    int64_t n = k.hidden, r = i / n, j = i % n;
    float *a = k.gates + r * k.gates_pitch + j;
    const float *b = k.bias + j;
    float h = k.kind == SW_CELL_GRU    ? gru(a, b, n, k.before[r * k.before_pitch + j])
              : k.kind == SW_CELL_LSTM ? lstm(a, b, n, k.c + i)
                                       : rnn(k.kind == SW_CELL_RNN_RELU, a, b);

    if (k.next)
        k.next[r * k.before_pitch + j] = h;
    if (k.y)
        k.y[r * k.y_pitch + j] = h;
    if (k.h)
        k.h[i] = h;
}

int sw_cuda_cell_step(const struct sw_cuda_cell *k, const struct sw_cuda_launch *l)
{
    return sw_start_each<struct sw_cuda_cell, step>(*k, k->rows * k->hidden, l);
}

/* Writes the gradients of r, z, q, n; returns the part of dh that bypasses the gates to the
 * previous step. */
static __device__ float gru_back(const float *a, float before, float dh, int64_t n, float *d)
{
    float r = a[0], z = a[n], t = a[2 * n], q = a[3 * n];
    float candidate = dh * (1 - z) * (1 - t * t);

    d[0] = candidate * q * r * (1 - r);
    d[n] = dh * (before - t) * z * (1 - z);
    d[2 * n] = candidate * r;
    d[3 * n] = candidate;

    return dh * z;
}

static __device__ void lstm_back(const float *a, float dh, float *dc, int64_t n, float *d)
{
    float i = a[0], f = a[n], g = a[2 * n], o = a[3 * n], before = a[4 * n];
    float t = tanhf(f * before + i * g), c = *dc + dh * o * (1 - t * t);

    d[0] = c * g * i * (1 - i);
    d[n] = c * before * f * (1 - f);
    d[2 * n] = c * i * (1 - g * g);
    d[3 * n] = dh * t * o * (1 - o);
    *dc = c * f;
}

static __device__ void step_back(const struct sw_cuda_cell_back &k, int64_t i)
{
    int64_t n = k.hidden, r = i / n, j = i % n;
    const float *a = k.gates + r * k.gates_pitch + j;
    float *d = k.dgates + r * k.dgates_pitch + j;
    float dh = k.dh[i] + (k.dy ? k.dy[r * k.dy_pitch + j] : 0.0f);

    if (k.kind == SW_CELL_GRU)
        dh = gru_back(a, k.before[r * k.before_pitch + j], dh, n, d);
    else if (k.kind == SW_CELL_LSTM)
        lstm_back(a, dh, k.dc + i, n, d);
    else
        *d = dh * (k.kind == SW_CELL_RNN_RELU ? (*a > 0 ? 1.0f : 0.0f) : 1 - *a * *a);

    k.dh[i] = dh;
}

int sw_cuda_cell_step_back(const struct sw_cuda_cell_back *k, const struct sw_cuda_launch *l)
{
    return sw_start_each<struct sw_cuda_cell_back, step_back>(*k, k->rows * k->hidden, l);
}

/* Exchanges the gradients of q and n of a unit of gru: r, z, q, n becomes r, z, n, q. */
static __device__ void end_back(const struct sw_recurrent_gradient_args &a, int64_t i)
{
    const int64_t n = a.r.hidden;
    float *unit = a.dgates + i / n * 4 * n + i % n, q = unit[2 * n];

    unit[2 * n] = unit[3 * n];
    unit[3 * n] = q;
}

int sw_cuda_cell_end_back(const struct sw_recurrent_gradient_args *a,
                          const struct sw_cuda_launch *l)
{
    return sw_start_each<struct sw_recurrent_gradient_args, end_back>(
        *a, a->r.rows * a->r.steps * a->r.hidden, l);
}
