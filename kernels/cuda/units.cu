/* Units of restricted Boltzmann machines (kernels/units.h), with the same random words as on the
 * CPU, by the element's number in a row. */
#include "kernels/cuda/normal.cuh"
#include "kernels/ops/units.h"
#include <math_constants.h>

static __device__ __forceinline__ float softplus(float x)
{
    return (0.0f > x ? 0.0f : x) + log1pf(expf(-fabsf(x)));
}

/* ---- Means and samples ---- */

static __device__ __forceinline__ float mean_of(const struct sw_units_args &u, int64_t r, int64_t c)
{
    float x = u.x[r * u.columns + c];

    if (!u.bias)
        return x;

    x += (u.total ? u.total[r] : 1.0f) * u.bias[c];
    return u.units == SW_UNITS_GAUSSIAN ? x : 1.0f / (1.0f + expf(-x));
}

/* A thread computes the four units of one Philox block. */
static __global__ void units(struct sw_units_args u)
{
    const bool goes_on = u.carried && !u.step->chains_begin, normal = u.units == SW_UNITS_GAUSSIAN;
    const uint32_t first = (uint32_t)u.step->first_row;
    const int64_t before = u.first_column / 4;
    const int64_t blocks = (u.first_column + u.columns + 3) / 4 - before;

    for (int64_t r = blockIdx.y; r < u.rows; r += gridDim.y)
        for (int64_t b = sw_first(); b < blocks; b += sw_stride()) {
            struct sw_philox4 w =
                sw_philox_at(u.key, u.step->step, first + (uint32_t)r, (uint32_t)(before + b));
            float number[4];

            sw_normal(w.v, number);
            sw_normal(w.v + 2, number + 2);

            for (int k = 0; k < 4; k++) {
                const int64_t c = 4 * (before + b) + k - u.first_column, at = r * u.columns + c;
                if (c < 0 || c >= u.columns)
                    continue;

                const float mean = mean_of(u, r, c);
                const float drawn = normal                             ? mean + number[k]
                                    : sw_philox_uniform(w.v[k]) < mean ? 1.0f
                                                                       : 0.0f;
                if (u.mean)
                    u.mean[at] = mean;
                if (u.sample)
                    u.sample[at] = goes_on ? u.carried[at] : drawn;
            }
        }
}

/* ---- Softmax units: one block per row; a thread has some adjacent units ---- */

static __device__ __forceinline__ float input_of(const struct sw_units_args &u, int64_t r,
                                                 int64_t c)
{
    return u.x[r * u.columns + c] + (u.bias ? u.bias[c] : 0.0f);
}

/* Prefix sums: below[t] is the sum of the threads before t, below[threads] the total. */
static __device__ void add_up_before(double mine, double *below)
{
    below[threadIdx.x + 1] = mine;
    __syncthreads();

    if (threadIdx.x == 0) {
        below[0] = 0;
        for (unsigned t = 1; t <= blockDim.x; t++)
            below[t] += below[t - 1];
    }

    __syncthreads();
}

/* Samples a unit: the one whose interval contains the word. The last thread whose units begin below
 * the word finds it. */
static __device__ int64_t sample_unit(const float *share, const double *below, int64_t piece,
                                      int64_t n, uint32_t word)
{
    const double at = (double)sw_philox_uniform(word) * below[blockDim.x];
    unsigned t = 0, end = blockDim.x;

    while (end - t > 1) {
        const unsigned middle = t + (end - t) / 2;
        if (below[middle] <= at && middle * piece < n)
            t = middle;
        else
            end = middle;
    }

    double sum = below[t];
    int64_t c = t * piece;
    for (int64_t last = c + piece < n ? c + piece - 1 : n - 1; c < last; c++) {
        sum += (double)share[c];
        if (at < sum)
            break;
    }

    return c;
}

/* Samples the counts of a row: integers below 2^24, for which atomic additions are exact in any
 * order. */
static __device__ void draw_counts(const struct sw_units_args &u, int64_t r, const float *share,
                                   const double *below, int64_t piece)
{
    const float total = u.total ? u.total[r] : 1.0f;
    const uint32_t row = (uint32_t)u.step->first_row + (uint32_t)r;

    for (uint32_t d = threadIdx.x; (float)d + 0.5f < total; d += blockDim.x) {
        const uint32_t word = sw_philox_word(u.key, u.step->step, row, d);
        int64_t c = sample_unit(share, below, piece, u.columns, word);
        atomicAdd(&u.sample[r * u.columns + c], 1.0f);
    }
}

/* x, mean and share may be the same array: barriers separate reads from writes. */
static __global__ void softmax_units(struct sw_units_args u)
{
    __shared__ float room[SW_THREADS];
    __shared__ double below[SW_THREADS + 1];

    const bool goes_on = u.carried && !u.step->chains_begin;
    const int64_t n = u.columns, piece = (n + blockDim.x - 1) / blockDim.x;
    const int64_t from = threadIdx.x * piece, to = from + piece < n ? from + piece : n;
    for (int64_t r = blockIdx.x; r < u.rows; r += gridDim.x) {
        const int64_t at = r * n;
        float *share = u.share + at, most = -CUDART_INF_F;
        double mine = 0;

        for (int64_t c = from; c < to; c++)
            most = input_of(u, r, c) > most ? input_of(u, r, c) : most;

        most = sw_block_max(most, room);
        for (int64_t c = from; c < to; c++) {
            share[c] = expf(input_of(u, r, c) - most);
            mine += (double)share[c];
            if (u.sample)
                u.sample[at + c] = goes_on ? u.carried[at + c] : 0.0f;
        }

        add_up_before(mine, below);
        if (u.sample && !goes_on)
            draw_counts(u, r, share, below, piece);

        const double sum = below[blockDim.x];
        __syncthreads();
        for (int64_t c = from; c < to && u.mean; c++)
            u.mean[at + c] = (u.total ? u.total[r] : 1.0f) * (float)((double)share[c] / sum);
    }
}

int sw_cuda_units(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_units_args *u = (const struct sw_units_args *)args;
    if (u->units == SW_UNITS_SOFTMAX) {
        SW_START(softmax_units, sw_blocks_of(u->rows, 65535), sw_threads_for(u->columns), l, *u);
        return (int)cudaGetLastError();
    }

    const int64_t threads = (u->columns + 3) / 4;
    const dim3 grid(sw_blocks_of((threads + SW_THREADS - 1) / SW_THREADS, 1024),
                    sw_blocks_of(u->rows, 65535), 1);
    return SW_LAUNCH(units, grid, SW_THREADS, l, *u);
}

/* ---- Energies ---- */

static __device__ __forceinline__ float element_energy(enum sw_units units, bool free, float x,
                                                       float b)
{
    if (units == SW_UNITS_GAUSSIAN)
        return free ? -(b * x + 0.5f * x * x) : 0.5f * (x - b) * (x - b);
    return free ? -softplus(x + b) : -b * x;
}

static __global__ void energies(struct sw_unit_energy_args e)
{
    __shared__ double room[SW_THREADS];

    for (int64_t r = blockIdx.x; r < e.rows; r += gridDim.x) {
        const float total = e.total ? e.total[r] : 1.0f;
        double mine = 0;

        for (int64_t c = threadIdx.x; c < e.columns; c += blockDim.x) {
            const float x = e.x[r * e.columns + c];
            mine += e.bias ? (double)element_energy(e.units, e.free, x, total * e.bias[c]) : 0.0;
            mine -= e.input ? (double)(e.input[r * e.columns + c] * x) : 0.0;
        }

        double sum = sw_block_sum(mine, room);
        if (threadIdx.x == 0)
            e.energy[r] = e.add ? e.energy[r] + sum : sum;
    }
}

static __global__ void add_energies(struct sw_unit_energy_args e)
{
    __shared__ double room[SW_THREADS];

    const int64_t valid = sw_op_valid_rows(e.step, e.rows);
    double mine = 0;
    for (int64_t r = threadIdx.x; r < valid; r += blockDim.x)
        mine += e.energy[r];

    double sum = sw_block_sum(mine, room);
    if (threadIdx.x == 0) {
        e.result->sum = (e.more ? e.result->sum : 0) + e.factor * sum;
        e.result->weight = e.part ? 0 : (double)valid;
    }
}

static int launch_energy(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_unit_energy_args *e = (const struct sw_unit_energy_args *)args;

    SW_START(energies, sw_blocks_of(e->rows, 65535), sw_threads_for(e->columns), l, *e);
    if (e->result)
        SW_START(add_energies, 1, SW_THREADS, l, *e);

    return (int)cudaGetLastError();
}

/* ---- Pseudo-likelihood: one flipped unit ---- */

static __global__ void flip(struct sw_flip_args f)
{
    __shared__ double room[SW_THREADS];

    for (int64_t r = blockIdx.x; r < f.rows; r += gridDim.x) {
        const uint32_t word =
            sw_philox_word(f.key, f.step->step, (uint32_t)f.step->first_row + (uint32_t)r, 0);
        const int64_t i = (int64_t)(((uint64_t)word * (uint64_t)f.visible) >> 32);
        const float change = 1.0f - 2.0f * f.v[r * f.visible + i];
        double mine = 0;

        for (int64_t j = threadIdx.x; j < f.hidden; j += blockDim.x) {
            float x = f.x[r * f.hidden + j], b = f.bias[j];
            float turned = x + change * f.weight[j * f.visible + i];
            mine += (double)(element_energy(f.hidden_units, true, turned, b) -
                             element_energy(f.hidden_units, true, x, b));
        }

        double sum = sw_block_sum(mine, room);
        if (threadIdx.x == 0)
            f.rise[r] = sum - (double)f.visible_bias[i] * (double)change;
    }
}

static __global__ void add_rises(struct sw_flip_args f)
{
    __shared__ double room[SW_THREADS];

    const int64_t valid = sw_op_valid_rows(f.step, f.rows);
    double mine = 0;
    for (int64_t r = threadIdx.x; r < valid; r += blockDim.x)
        mine -= fmax(-f.rise[r], 0.0) + log1p(exp(-fabs(f.rise[r])));

    double sum = sw_block_sum(mine, room);
    if (threadIdx.x == 0) {
        f.result->sum = (double)f.visible * sum;
        f.result->weight = (double)valid;
    }
}

static int launch_flip(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_flip_args *f = (const struct sw_flip_args *)args;
    SW_START(flip, sw_blocks_of(f->rows, 65535), sw_threads_for(f->hidden), l, *f);
    return SW_LAUNCH(add_rises, 1, SW_THREADS, l, *f);
}

/* ---- Annealing ---- */

static __global__ void activity(struct sw_activity_args a)
{
    const int64_t valid = sw_op_valid_rows(a.step, a.rows);

    for (int64_t c = sw_first(); c < a.columns; c += sw_stride()) {
        double sum = 0;

        for (int64_t r = 0; r < valid; r++)
            sum += (double)a.x[r * a.columns + c];
        a.sum[c] = sum;
        if (c == 0)
            *a.counted = (double)valid;
    }
}

static int launch_activity(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_activity_args *a = (const struct sw_activity_args *)args;
    return SW_LAUNCH(activity, sw_blocks_for(a->columns, l), SW_THREADS, l, *a);
}

/* Starts the chains; runs in one block. */
static __global__ void begin_annealing(struct sw_ais_args a)
{
    __shared__ double room[SW_THREADS];

    const double half_log_2pi = 0.91893853320467274;
    double mine = 0;

    for (int64_t i = threadIdx.x; i < a.visible + a.hidden; i += blockDim.x) {
        const bool hidden = i >= a.visible;
        const float base = sw_ais_base_bias(&a, i);

        a.base[i] = base;
        if ((hidden ? a.hidden_units : a.visible_units) == SW_UNITS_GAUSSIAN)
            mine += hidden ? 0.0 : half_log_2pi;
        else
            mine += (double)softplus(base);
    }

    const double sum = sw_block_sum(mine, room);
    for (int64_t r = threadIdx.x; r < a.rows; r += blockDim.x)
        a.log_weight[r] = sum;
}

int sw_cuda_ais_begin(const struct sw_ais_args *a, const struct sw_cuda_launch *l)
{
    return SW_LAUNCH(begin_annealing, 1, SW_THREADS, l, *a);
}

static __global__ void anneal(struct sw_anneal_args a)
{
    __shared__ double room[SW_THREADS];

    for (int64_t r = blockIdx.x; r < a.rows; r += gridDim.x) {
        double mine = 0;

        for (int64_t c = threadIdx.x; c < a.columns; c += blockDim.x) {
            float *x = a.x + r * a.columns + c;
            const float before = a.free ? a.from * *x : *x, after = a.free ? a.to * *x : *x;
            const float base = a.base[c], way = a.bias[c] - base, bias = base + a.to * way;

            mine += (double)(element_energy(a.units, a.free, after, bias) -
                             element_energy(a.units, a.free, before, base + a.from * way));
            *x = after;
            if (r == 0)
                a.blend[c] = bias;
        }

        double sum = sw_block_sum(mine, room);
        if (threadIdx.x == 0)
            a.log_weight[r] -= sum;
    }
}

int sw_cuda_anneal(const struct sw_anneal_args *a, const struct sw_cuda_launch *l)
{
    return SW_LAUNCH(anneal, sw_blocks_of(a->rows, 65535), sw_threads_for(a->columns), l, *a);
}

static __global__ void store_chains(struct sw_ais_args a)
{
    for (int64_t c = sw_first(); c < a.chains; c += sw_stride()) {
        const int64_t r = c - a.step->first_row;
        const bool mine = a.runs && r >= 0 && r < a.rows;
        a.result[c].sum = mine ? a.log_weight[r] : 0;
        a.result[c].weight = mine;
    }
}

int sw_cuda_ais_result(const struct sw_ais_args *a, const struct sw_cuda_launch *l)
{
    return SW_LAUNCH(store_chains, sw_blocks_for(a->chains, l), SW_THREADS, l, *a);
}

SW_CUDA_KERNELS(units) = {{{&sw_op_units, sw_cuda_units, NULL},
                           {&sw_op_unit_energy, launch_energy, NULL},
                           {&sw_op_flip, launch_flip, NULL},
                           {&sw_op_activity, launch_activity, NULL},
                           {}}};
