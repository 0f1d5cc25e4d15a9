/* One step of a recurrent cell, forward and backward; formulas in kernels/ops/recurrent.h and, for
 * the gradients, kernels/cpu/recurrent.c. A thread computes a hidden unit of a row; the caller
 * computes the products with weights. */
#include "kernels/cuda/cell.cuh"
#include "kernels/cuda/cuda.cuh"
#include "kernels/ops/recurrent.h"

/* ---- Initial state ---- */

static __device__ void initial_state(const struct sw_initial_state_args &a, int64_t i)
{
    a.to[i] = a.from && !a.step->sequences_begin ? a.from[i] : 0.0f;
}

SW_CUDA_KERNELS(recurrent) = {
    {{&sw_op_initial_state, sw_launch_each<struct sw_initial_state_args, initial_state>, NULL},
     {}}};

/* Sets h' and c' of the first step: the recurrent state, or h0 and c0, or zero. */
static __device__ void begin_state(const struct sw_recurrent_args &a, int64_t row, int64_t j)
{
    const struct sw_recurrent &r = a.r;
    const bool goes_on = a.carried && !a.step->sequences_begin;
    const int64_t i = row * r.hidden + j;
    float *first = a.before + sw_recurrent_step(&r, 0) * r.hidden;

    first[row * r.steps * r.hidden + j] = goes_on ? a.h[i] : a.h0 ? a.h0[i] : 0.0f;
    if (r.kind == SW_CELL_LSTM && !goes_on)
        a.c[i] = a.c0 ? a.c0[i] : 0.0f;
}

/* Makes room for q of a unit of gru: r, z, n becomes r, z, 0, n, to which a step adds its product.
 */
static __device__ void begin_gates(const struct sw_recurrent_args &a, int64_t row, int64_t j)
{
    const int64_t n = a.r.hidden;
    float *unit = a.gates + row * 4 * n + j;

    unit[3 * n] = unit[2 * n];
    unit[2 * n] = 0.0f;
}

static __device__ void begin(const struct sw_recurrent_args &a, int64_t row, int64_t j)
{
    if (row < a.r.rows)
        begin_state(a, row, j);
    if (a.r.kind == SW_CELL_GRU)
        begin_gates(a, row, j);
}

int sw_cuda_cell_begin(const struct sw_recurrent_args *a, const struct sw_cuda_launch *l)
{
    const int64_t steps = a->r.kind == SW_CELL_GRU ? a->r.steps : 1;

    return sw_start_rows<struct sw_recurrent_args, begin>(*a, a->r.rows * steps, a->r.hidden, l);
}

/* ---- One step ---- */

static __device__ void step(const struct sw_cuda_cell &k, int64_t r, int64_t j)
{
    int64_t n = k.hidden, i = r * n + j;
    float *a = k.gates + r * k.gates_pitch + j;
    const float *b = k.bias + j;
    float h = k.kind == SW_CELL_GRU    ? sw_cell_gru(a, b, n, k.before[r * k.before_pitch + j])
              : k.kind == SW_CELL_LSTM ? sw_cell_lstm(a, b, n, k.c + i)
                                       : sw_cell_rnn(k.kind == SW_CELL_RNN_RELU, a, b);

    if (k.next)
        k.next[r * k.before_pitch + j] = h;
    if (k.y)
        k.y[r * k.y_pitch + j] = h;
    if (k.h)
        k.h[i] = h;
}

int sw_cuda_cell_step(const struct sw_cuda_cell *k, const struct sw_cuda_launch *l)
{
    return sw_start_rows<struct sw_cuda_cell, step>(*k, k->rows, k->hidden, l);
}

static __device__ void step_back(const struct sw_cuda_cell_back &k, int64_t r, int64_t j)
{
    int64_t n = k.hidden, i = r * n + j;
    const float *a = k.gates + r * k.gates_pitch + j;
    float *d = k.dgates + r * k.dgates_pitch + j;
    float dh = k.dh[i] + (k.dy ? k.dy[r * k.dy_pitch + j] : 0.0f);

    if (k.kind == SW_CELL_GRU)
        dh = sw_cell_gru_back(a, k.before[r * k.before_pitch + j], dh, n, d);
    else if (k.kind == SW_CELL_LSTM)
        sw_cell_lstm_back(a, dh, k.dc + i, n, d);
    else
        *d = sw_cell_rnn_back(k.kind == SW_CELL_RNN_RELU, *a, dh);

    k.dh[i] = dh;
}

int sw_cuda_cell_step_back(const struct sw_cuda_cell_back *k, const struct sw_cuda_launch *l)
{
    return sw_start_rows<struct sw_cuda_cell_back, step_back>(*k, k->rows, k->hidden, l);
}

/* Exchanges the gradients of q and n of a unit of gru: r, z, q, n becomes r, z, n, q. */
static __device__ void end_back(const struct sw_recurrent_gradient_args &a, int64_t row, int64_t j)
{
    const int64_t n = a.r.hidden;
    float *unit = a.dgates + row * 4 * n + j, q = unit[2 * n];

    unit[2 * n] = unit[3 * n];
    unit[3 * n] = q;
}

int sw_cuda_cell_end_back(const struct sw_recurrent_gradient_args *a,
                          const struct sw_cuda_launch *l)
{
    return sw_start_rows<struct sw_recurrent_gradient_args, end_back>(*a, a->r.rows * a->r.steps,
                                                                      a->r.hidden, l);
}
