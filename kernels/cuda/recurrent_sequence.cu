/* All steps of a recurrent cell in one kernel, forward and backward, whose blocks keep their part
 * of U in shared memory; formulas in kernels/ops/recurrent.h and kernels/cpu/recurrent.c.
 *
 * A block computes `tiles` times UNITS hidden units of every `groups`-th tile of ROWS rows. Before
 * a step it waits for the blocks that compute other units of the same rows, and reads what they
 * wrote: h' of all units forward, the gradients of all gates backward (in panels of `hidden`, one
 * per gate). Each warp multiplies a slice of k; the slices are summed in a fixed order, so the same
 * input gives the same bits.
 *
 * Factors are rounded to the precision when they come to shared memory. */
#include "kernels/cuda/cell.cuh"
#include "kernels/cuda/tensor.cuh"
#include "kernels/cuda/together.cuh"
#include "kernels/ops/recurrent.h"

enum {
    ROWS = 16,
    UNITS = 8,
    WARPS = SW_THREADS / 32,
    STEP_K = 16,           /* a slice of k is a multiple of it */
    MET_PITCH = 32,        /* unsigned integers between the counters of two groups */
    FEWEST_STEPS = 4,      /* reading U must pay */
    MOST_TENSOR_K = 12288, /* k per step, summed over the products of a block: estimates of where */
    MOST_FLOAT_K = 4096,   /* one matrix product of the whole GPU and a kernel become faster */
};

/* The work of a block, and its shared memory: weights [tiles, gates, UNITS, pitch], staged
 * [panels, ROWS, pitch], sums [WARPS, ROWS, sums_pitch(columns / UNITS)]. */
struct division {
    enum sw_precision precision;
    int groups, unit_blocks, tiles; /* the grid has groups times unit_blocks blocks */
    int slice, pitch;               /* k of a warp; floats from column to column */
    unsigned *met;
};

template <typename A> struct sequence {
    A a;
    struct division d;
};

static __host__ __device__ constexpr int sums_pitch(int tiles)
{
    return (tiles | 1) * UNITS; /* odd: rows are in different banks */
}

static __device__ __forceinline__ int first_unit(const struct division &d)
{
    return (int)blockIdx.x % d.unit_blocks * d.tiles * UNITS;
}

/* ---- Products ---- */

/* Copies the warp's slice of ROWS rows of `hidden` floats, the first `rows` of which exist; NULL:
 * zeros. Eight loads of 16 bytes per thread are under way at once. */
static __device__ void stage(const struct division &d, const float *from, int64_t from_pitch,
                             int64_t rows, int hidden, float *to)
{
    const int lane = threadIdx.x % 32, begin = (int)threadIdx.x / 32 * d.slice;

    for (int k = begin + lane % 4 * 4; k < begin + d.slice; k += 4 * STEP_K) {
        float4 v[8];

        for (int i = 0; i < 8; i++) {
            const int row = lane / 4 + i % 2 * 8, at = k + i / 2 * STEP_K;
            const bool exists = from && row < rows && at < begin + d.slice && at < hidden;
            v[i] = exists ? __ldcg((const float4 *)(from + row * from_pitch + at))
                          : float4{0, 0, 0, 0};
        }

        for (int i = 0; i < 8; i++) {
            const int row = lane / 4 + i % 2 * 8, at = k + i / 2 * STEP_K;
            if (at < begin + d.slice)
                *(float4 *)(to + row * d.pitch + at) =
                    float4{sw_rounded(v[i].x, d.precision), sw_rounded(v[i].y, d.precision),
                           sw_rounded(v[i].z, d.precision), sw_rounded(v[i].w, d.precision)};
        }
    }
}

/* sum += a b of a thread over the warp's slice, for N tiles of UNITS columns on tensor cores. The
 * order of k within STEP_K is the same in both factors and else arbitrary. */
template <int N>
static __device__ __forceinline__ void add_fragments(const struct division &d, const float *a,
                                                     const float *b, float (*sum)[4])
{
    const int lane = threadIdx.x % 32, begin = (int)threadIdx.x / 32 * d.slice + lane % 4 * 4;

    a += lane / 4 * d.pitch + begin;
    b += lane / 4 * d.pitch + begin;

    for (int k = 0; k < d.slice; k += STEP_K) {
        const float4 low = *(const float4 *)(a + k), high = *(const float4 *)(a + 8 * d.pitch + k);
        const float first[4] = {low.x, high.x, low.y, high.y};
        const float second[4] = {low.z, high.z, low.w, high.w};

        for (int n = 0; n < N; n++) {
            const float4 w = *(const float4 *)(b + n * UNITS * d.pitch + k);
            const float of_first[2] = {w.x, w.y}, of_second[2] = {w.z, w.w};
            SW_MULTIPLY_FRAGMENTS(sum[n], first, of_first);
            SW_MULTIPLY_FRAGMENTS(sum[n], second, of_second);
        }
    }
}

/* The same without tensor cores: a thread computes four rows of one column per tile. */
template <int N>
static __device__ __forceinline__ void add_floats(const struct division &d, const float *a,
                                                  const float *b, float (*sum)[4])
{
    const int lane = threadIdx.x % 32, begin = (int)threadIdx.x / 32 * d.slice;

    a += lane / 8 * 4 * d.pitch + begin;
    b += lane % 8 * d.pitch + begin;

    for (int k = 0; k < d.slice; k += 4) {
        float4 v[4];
        for (int i = 0; i < 4; i++)
            v[i] = *(const float4 *)(a + i * d.pitch + k);

        for (int n = 0; n < N; n++) {
            const float4 w = *(const float4 *)(b + n * UNITS * d.pitch + k);
            for (int i = 0; i < 4; i++)
                sum[n][i] += v[i].x * w.x + v[i].y * w.y + v[i].z * w.z + v[i].w * w.w;
        }
    }
}

/* Multiplies the staged panels, each with its columns, and writes the warp's sums of N tiles. */
template <int PANELS, int N, bool TENSOR>
static __device__ void multiply(const struct division &d, const float *staged, const float *weights,
                                float *sums)
{
    const int lane = threadIdx.x % 32;
    float sum[N][4] = {};

    for (int p = 0; p < PANELS; p++) {
        const float *a = staged + p * ROWS * d.pitch, *b = weights + p * UNITS * d.pitch;
        if (TENSOR)
            add_fragments<N>(d, a, b, sum);
        else
            add_floats<N>(d, a, b, sum);
    }

    sums += (int)threadIdx.x / 32 * ROWS * sums_pitch(N);
    for (int n = 0; n < N; n++)
        for (int i = 0; i < 4; i++) {
            const int row = TENSOR ? lane / 4 + i / 2 * 8 : lane / 8 * 4 + i;
            const int column = n * UNITS + (TENSOR ? lane % 4 * 2 + i % 2 : lane % 8);
            sums[row * sums_pitch(N) + column] = sum[n][i];
        }
}

/* The sum over the warps for this thread's row and unit of a tile, and tile n of N. */
template <int N> static __device__ __forceinline__ float total(const float *sums, int n)
{
    float all = 0;

    sums += (int)threadIdx.x / UNITS * sums_pitch(N) + n * UNITS + threadIdx.x % UNITS;
    for (int w = 0; w < WARPS; w++)
        all += sums[w * ROWS * sums_pitch(N)];

    return all;
}

/* Writes the block's columns of the products, of which column (tile, gate, unit) contains
 * at[gate * hidden * hidden + unit * unit_step + k * k_step]. Adjacent threads read adjacent units,
 * and a warp four k, so that either step may be 1. */
static __device__ void keep_weights(const struct division &d, const float *at, int gates,
                                    int hidden, int unit_step, int k_step, float *weights)
{
    const int all = d.tiles * gates * UNITS * d.pitch;

    for (int i = threadIdx.x; i < all; i += SW_THREADS) {
        const int k = i / UNITS % d.pitch, part = i / UNITS / d.pitch, gate = part % gates;
        const int unit = first_unit(d) + part / gates * UNITS + i % UNITS;
        const int64_t from =
            (int64_t)gate * hidden * hidden + (int64_t)unit * unit_step + (int64_t)k * k_step;

        weights[(part * UNITS + i % UNITS) * d.pitch + k] =
            unit < hidden && k < hidden ? sw_rounded(at[from], d.precision) : 0.0f;
    }
}

/* ---- Units ---- */

/* A hidden unit of a row, in the step that runs as the s-th. */
struct unit {
    int64_t s, row;
    int at;
};

/* The unit of this thread in a tile; rows begin at `row`. Only the first ROWS * UNITS threads have
 * one. */
static __device__ __forceinline__ bool find_unit(const struct sw_recurrent &r,
                                                 const struct division &d, int64_t s, int64_t row,
                                                 int tile, struct unit *u)
{
    *u = {s, row + threadIdx.x / UNITS, first_unit(d) + tile * UNITS + (int)threadIdx.x % UNITS};
    return threadIdx.x < ROWS * UNITS && u->row < r.rows && u->at < r.hidden;
}

/* The place of the unit in an array of steps: pitch floats per step. */
static __device__ __forceinline__ int64_t offset(const struct sw_recurrent &r, const struct unit &u,
                                                 int64_t pitch)
{
    return (u.row * r.steps + sw_recurrent_step(&r, u.s)) * pitch + u.at;
}

/* Floats per unit: what a step keeps, and biases. */
template <int GATES> struct blocks {
    enum { KEPT = GATES == 3 ? 4 : GATES == 4 ? 5 : 1, BIASES = GATES == 1 ? 1 : 4 };
};

/* ---- Forward ---- */

/* h' [rows, hidden] of the step that runs as the s-th, NULL if it is zero; sets the floats between
 * rows. */
static __device__ const float *before_step(const struct sw_recurrent_args &a, int64_t s,
                                           int64_t *pitch)
{
    const struct sw_recurrent &r = a.r;

    *pitch = s > 0 ? r.steps * r.hidden : r.hidden;
    return s > 0                                   ? a.before + sw_recurrent_step(&r, s) * r.hidden
           : a.carried && !a.step->sequences_begin ? a.h
                                                   : a.h0;
}

static __device__ __forceinline__ float c_before(const struct sw_recurrent_args &a, int64_t s,
                                                 int64_t i)
{
    const bool goes_on = s > 0 || (a.carried && !a.step->sequences_begin);
    return goes_on ? a.c[i] : a.c0 ? a.c0[i] : 0.0f;
}

/* What a unit is computed from besides its products with U; read before these are complete. */
template <int GATES> struct parts {
    float v[blocks<GATES>::KEPT], b[blocks<GATES>::BIASES], before, c;
};

template <int GATES>
static __device__ void read_parts(const struct sw_recurrent_args &a, const struct unit &u,
                                  struct parts<GATES> *p)
{
    const struct sw_recurrent &r = a.r;
    const float *gates = a.gates + offset(r, u, blocks<GATES>::KEPT * r.hidden);
    int64_t pitch;
    const float *before = before_step(a, u.s, &pitch);

    for (int j = 0; j < GATES; j++)
        p->v[j] = gates[j * r.hidden];
    for (int j = 0; j < blocks<GATES>::BIASES; j++)
        p->b[j] = a.bias[j * r.hidden + u.at];

    p->before = before ? __ldcg(before + u.row * pitch + u.at) : 0.0f;
    if (GATES == 4)
        p->c = c_before(a, u.s, u.row * r.hidden + u.at);
}

/* Computes the unit; stores what backward reads, and the output. */
template <int GATES>
static __device__ void finish(const struct sw_recurrent_args &a, const struct unit &u,
                              struct parts<GATES> *p, const float *sums)
{
    const struct sw_recurrent &r = a.r;
    float *gates = a.gates + offset(r, u, blocks<GATES>::KEPT * r.hidden);
    const int64_t i = u.row * r.hidden + u.at, out = sw_recurrent_output(&r, u.s);
    float h;

    if constexpr (GATES == 3) {
        p->v[3] = p->v[2];
        p->v[2] = 0;
    }
    for (int j = 0; j < GATES; j++)
        p->v[j] += total<GATES>(sums, j);

    if constexpr (GATES == 3)
        h = sw_cell_gru(p->v, p->b, 1, p->before);
    else if constexpr (GATES == 4)
        h = sw_cell_lstm(p->v, p->b, 1, &p->c);
    else
        h = sw_cell_rnn(r.kind == SW_CELL_RNN_RELU, p->v, p->b);

    for (int j = 0; j < blocks<GATES>::KEPT; j++)
        gates[j * r.hidden] = p->v[j];
    if (GATES == 4)
        a.c[i] = p->c;

    if (u.s == 0)
        a.before[offset(r, u, r.hidden)] = p->before;
    if (u.s < r.steps - 1)
        a.before[offset(r, {u.s + 1, u.row, u.at}, r.hidden)] = h;
    else if (a.h)
        a.h[i] = h;
    if (out >= 0)
        a.y[u.row * sw_recurrent_output_pitch(&r) + out + u.at] = h;
}

/* One step of ROWS rows. */
template <int GATES, bool TENSOR>
static __device__ void forward_rows(const struct sequence<struct sw_recurrent_args> &q, int64_t s,
                                    int64_t row, float *weights)
{
    const struct sw_recurrent &r = q.a.r;
    const struct division &d = q.d;
    float *staged = weights + d.tiles * GATES * UNITS * d.pitch, *sums = staged + ROWS * d.pitch;
    int64_t pitch;
    const float *before = before_step(q.a, s, &pitch);

    stage(d, before ? before + row * pitch : NULL, pitch, r.rows - row, (int)r.hidden, staged);
    __syncwarp(); /* a warp reads its own slice only */

    for (int tile = 0; tile < d.tiles; tile++) {
        struct unit u;
        struct parts<GATES> p;
        const bool exists = find_unit(r, d, s, row, tile, &u);

        if (exists)
            read_parts<GATES>(q.a, u, &p);
        multiply<1, GATES, TENSOR>(d, staged, weights + tile * GATES * UNITS * d.pitch, sums);
        __syncthreads();

        if (exists)
            finish<GATES>(q.a, u, &p, sums);
        __syncthreads();
    }
}

template <int GATES, bool TENSOR>
static __global__ void __launch_bounds__(SW_THREADS, 1)
    forward(struct sequence<struct sw_recurrent_args> q)
{
    SW_SHARED_FLOATS(weights);
    const struct sw_recurrent &r = q.a.r;
    const int group = (int)blockIdx.x / q.d.unit_blocks, hidden = (int)r.hidden;

    keep_weights(q.d, q.a.recurrent, GATES, hidden, hidden, 1, weights);
    __syncthreads();

    for (int64_t s = 0; s < r.steps; s++) {
        if (s > 0)
            sw_meet(q.d.met + group * MET_PITCH, (unsigned)q.d.unit_blocks, (unsigned)s);

        for (int64_t row = group * ROWS; row < r.rows; row += q.d.groups * ROWS)
            forward_rows<GATES, TENSOR>(q, s, row, weights);
    }
}

/* ---- Backward ---- */

/* What the gradients of a unit are computed from besides dh through the gates of the next step; s =
 * -1: the initial state. */
template <int GATES> struct gradient_parts {
    float v[blocks<GATES>::KEPT], before, dh, dc;
};

template <int GATES>
static __device__ void read_gradient_parts(const struct sw_recurrent_gradient_args &a,
                                           const struct unit &u, struct gradient_parts<GATES> *p)
{
    const struct sw_recurrent &r = a.r;
    const int64_t i = u.row * r.hidden + u.at;
    const bool last = u.s == r.steps - 1, has_state = !last || a.handed_on;
    const int64_t out = u.s < 0 ? -1 : sw_recurrent_output(&r, u.s);

    p->dh = has_state && (last || GATES == 3) ? a.dstate[i] : 0.0f;
    p->dc = has_state && GATES == 4 ? a.dstate[r.rows * r.hidden + i] : 0.0f;
    if (out >= 0)
        p->dh += a.dy[u.row * sw_recurrent_output_pitch(&r) + out + u.at];
    if (u.s < 0)
        return;

    const float *gates = a.gates + offset(r, u, blocks<GATES>::KEPT * r.hidden);
    for (int j = 0; j < blocks<GATES>::KEPT; j++)
        p->v[j] = gates[j * r.hidden];
    if (GATES == 3)
        p->before = a.before[offset(r, u, r.hidden)];
}

/* Computes the gradients of the unit's products, those of gru in the order r, z, q, n. */
template <int GATES>
static __device__ void finish_back(const struct sw_recurrent_gradient_args &a, const struct unit &u,
                                   struct gradient_parts<GATES> *p, float through)
{
    constexpr int biases = blocks<GATES>::BIASES;
    const struct sw_recurrent &r = a.r;
    const int64_t i = u.row * r.hidden + u.at;
    float d[biases], dh = p->dh + through;

    if (u.s < 0) {
        a.dstate[i] = dh;
        if (a.dh0)
            a.dh0[i] = dh;
        return;
    }

    if constexpr (GATES == 3) {
        a.dstate[i] = sw_cell_gru_back(p->v, p->before, dh, 1, d);
    } else if constexpr (GATES == 4) {
        sw_cell_lstm_back(p->v, dh, &p->dc, 1, d);
        a.dstate[r.rows * r.hidden + i] = p->dc;
    } else {
        d[0] = sw_cell_rnn_back(r.kind == SW_CELL_RNN_RELU, p->v[0], dh);
    }

    float *to = a.dgates + offset(r, u, biases * r.hidden);
    for (int j = 0; j < biases; j++)
        to[j * r.hidden] = d[j];
}

/* One step of ROWS rows. */
template <int GATES, bool TENSOR>
static __device__ void backward_rows(const struct sequence<struct sw_recurrent_gradient_args> &q,
                                     int64_t s, int64_t row, float *weights)
{
    const struct sw_recurrent &r = q.a.r;
    const struct division &d = q.d;
    constexpr int biases = blocks<GATES>::BIASES;
    float *staged = weights + d.tiles * GATES * UNITS * d.pitch;
    float *sums = staged + GATES * ROWS * d.pitch;
    const bool ends = s == r.steps - 1;
    const float *next =
        ends ? NULL
             : q.a.dgates + (row * r.steps + sw_recurrent_step(&r, s + 1)) * biases * r.hidden;

    for (int gate = 0; !ends && gate < GATES; gate++)
        stage(d, next + gate * r.hidden, r.steps * biases * r.hidden, r.rows - row, (int)r.hidden,
              staged + gate * ROWS * d.pitch);
    __syncwarp(); /* a warp reads its own slice only */

    for (int tile = 0; tile < d.tiles; tile++) {
        struct unit u;
        struct gradient_parts<GATES> p;
        const bool exists = find_unit(r, d, s, row, tile, &u);

        if (exists)
            read_gradient_parts<GATES>(q.a, u, &p);
        if (!ends)
            multiply<GATES, 1, TENSOR>(d, staged, weights + tile * GATES * UNITS * d.pitch, sums);
        __syncthreads();

        if (exists)
            finish_back<GATES>(q.a, u, &p, ends ? 0.0f : total<1>(sums, 0));
        __syncthreads();
    }
}

template <int GATES, bool TENSOR>
static __global__ void __launch_bounds__(SW_THREADS, 1)
    backward(struct sequence<struct sw_recurrent_gradient_args> q)
{
    SW_SHARED_FLOATS(weights);
    const struct sw_recurrent &r = q.a.r;
    const int group = (int)blockIdx.x / q.d.unit_blocks, hidden = (int)r.hidden;
    const int64_t end = q.a.dh0 || q.a.handed_on ? -1 : 0;

    keep_weights(q.d, q.a.recurrent, GATES, hidden, 1, hidden, weights);
    __syncthreads();

    for (int64_t s = r.steps - 1; s >= end; s--) {
        if (s < r.steps - 1)
            sw_meet(q.d.met + group * MET_PITCH, (unsigned)q.d.unit_blocks,
                    (unsigned)(r.steps - 1 - s));

        for (int64_t row = group * ROWS; row < r.rows; row += q.d.groups * ROWS)
            backward_rows<GATES, TENSOR>(q, s, row, weights);
    }
}

/* ---- Launches ---- */

/* What limits a division: of the GPU that is current. */
struct limits {
    int processors, shared_bytes;
    bool tensor;
};

static bool limits_of(const struct sw_cuda_launch *l, struct limits *out)
{
    int gpu, together;

    if (cudaGetDevice(&gpu) != cudaSuccess ||
        cudaDeviceGetAttribute(&together, cudaDevAttrCooperativeLaunch, gpu) != cudaSuccess ||
        cudaDeviceGetAttribute(&out->shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, gpu) !=
            cudaSuccess)
        return false;

    out->processors = l->processors;
    out->tensor = sw_on_tensor_cores(l->precision);
    return together != 0;
}

/* Divides the rows among as many groups as there are tiles of rows, or fewer if the weights of so
 * many units do not fit; false if a step would be too much work for a block. Sets its shared
 * memory.
 */
static bool divide(const struct sw_recurrent *r, int panels, enum sw_precision p,
                   const struct limits *most, struct division *d, size_t *bytes)
{
    const int64_t gates = sw_cell_gates(r->kind), columns = panels == 1 ? gates : 1;
    const int64_t row_tiles = (r->rows + ROWS - 1) / ROWS,
                  unit_tiles = (r->hidden + UNITS - 1) / UNITS;
    const int64_t slice = (r->hidden + WARPS * STEP_K - 1) / (WARPS * STEP_K) * STEP_K;
    /* The columns of a fragment, or those that add_floats reads, are in different banks. */
    const int64_t k = WARPS * slice, pitch = k + (most->tensor ? 16 : 4);
    const int64_t most_k = most->tensor ? MOST_TENSOR_K : MOST_FLOAT_K;

    for (int64_t groups = row_tiles < most->processors ? row_tiles : most->processors; groups > 0;
         groups--) {
        const int64_t blocks = most->processors / groups,
                      tiles = (unit_tiles + blocks - 1) / blocks;
        const int64_t floats = (tiles * gates * UNITS + panels * ROWS) * pitch +
                               (int64_t)WARPS * ROWS * sums_pitch((int)columns);

        if ((row_tiles + groups - 1) / groups * tiles * gates * k > most_k ||
            floats * (int64_t)sizeof(float) > most->shared_bytes)
            continue;

        *bytes = (size_t)floats * sizeof(float);
        *d = (struct division){.precision = p,
                               .groups = (int)groups,
                               .unit_blocks = (int)((unit_tiles + tiles - 1) / tiles),
                               .tiles = (int)tiles,
                               .slice = (int)slice,
                               .pitch = (int)pitch,
                               .met = NULL};
        return true;
    }

    return false;
}

/* Starts one of the kernels of a kind of cell; returns SW_CUDA_NO_KERNEL if the arguments or the
 * GPU do not suit it. `read`: what other blocks wrote is read in vectors from this array on. */
template <typename A>
static int start(void (*const kernels[2])(struct sequence<A>), const A *a, int panels,
                 const float *read, const struct sw_cuda_launch *l)
{
    struct limits most;
    struct sequence<A> q = {
        *a,
        {
        }
    };
    size_t bytes;

    if (a->r.steps < FEWEST_STEPS || a->r.hidden % 4 != 0 ||
        (uintptr_t)read % sizeof(float4) != 0 || !limits_of(l, &most) ||
        !divide(&a->r, panels, l->precision, &most, &q.d, &bytes))
        return SW_CUDA_NO_KERNEL;

    q.d.met = (unsigned *)l->partials;
    cudaError_t e =
        cudaMemsetAsync(q.d.met, 0, q.d.groups * MET_PITCH * sizeof *q.d.met, l->stream);
    if (e != cudaSuccess)
        return (int)e;

    int status = SW_START_TOGETHER(kernels[most.tensor], q.d.groups * q.d.unit_blocks, bytes, l, q);
    if (status != (int)cudaErrorCooperativeLaunchTooLarge)
        return status;

    (void)cudaGetLastError();
    return SW_CUDA_NO_KERNEL;
}

int sw_cuda_sequence(const struct sw_recurrent_args *a, const struct sw_cuda_launch *l)
{
    typedef void kernel(struct sequence<struct sw_recurrent_args>);
    static kernel *const rnn[] = {forward<1, false>, forward<1, true>};
    static kernel *const gru[] = {forward<3, false>, forward<3, true>};
    static kernel *const lstm[] = {forward<4, false>, forward<4, true>};
    /* The first step reads the initial state. */
    const uintptr_t from = (uintptr_t)a->h | (uintptr_t)a->h0 | (uintptr_t)a->before;

    return start(a->r.kind == SW_CELL_GRU    ? gru
                 : a->r.kind == SW_CELL_LSTM ? lstm
                                             : rnn,
                 a, 1, (const float *)from, l);
}

int sw_cuda_sequence_back(const struct sw_recurrent_gradient_args *a,
                          const struct sw_cuda_launch *l)
{
    typedef void kernel(struct sequence<struct sw_recurrent_gradient_args>);
    static kernel *const rnn[] = {backward<1, false>, backward<1, true>};
    static kernel *const gru[] = {backward<3, false>, backward<3, true>};
    static kernel *const lstm[] = {backward<4, false>, backward<4, true>};

    return start(a->r.kind == SW_CELL_GRU    ? gru
                 : a->r.kind == SW_CELL_LSTM ? lstm
                                             : rnn,
                 a, (int)sw_cell_gates(a->r.kind), a->dgates, l);
}
