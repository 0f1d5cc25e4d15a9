/* Operations by channel: sums, batch normalization, sparsity, bias. Formulas in
 * kernels/cpu/channels.c and kernels/ops/sparsity.h. On every GPU sums are divided into
 * SW_CHANNEL_PARTS parts of (row, pixel) pairs: a block computes a part for a group of adjacent
 * channels, and one thread per channel adds the parts in order. The backward pass recomputes y =
 * factor (x - mean) + bias with the same fused operation, so that a relu passes the same
 * elements. */
#include "kernels/cuda/places.cuh"
#include "kernels/ops/batch_norm.h"
#include "kernels/ops/sparsity.h"

enum { PARTS = SW_CHANNEL_PARTS };

/* The arguments, the channel layout, and the arrays in scratch. */
struct pass {
    struct sw_batch_norm_args n;
    struct sw_channels k;
    double *parts;
    float *factor; /* [C], of y = factor (x - mean) + bias */
};

static bool begin(struct pass *b, const void *args)
{
    b->n = *(const struct sw_batch_norm_args *)args;
    b->parts = (double *)b->n.b.scratch;
    b->factor = (float *)((char *)b->n.b.scratch + sw_channel_parts_bytes(&b->n.b.desc));
    return sw_cuda_channels(&b->n.b.desc, &b->k);
}

/* ---- Sums ---- */

static __device__ __forceinline__ float normalized(const struct pass &b, int64_t c, float x,
                                                   float mean)
{
    return fmaf(b.factor[c], x - mean, b.n.b.bias[c]);
}

/* Returns the gradient that the relu passes. */
static __device__ __forceinline__ float passed(const struct pass &b, int64_t c, int64_t at)
{
    return !b.n.b.relu || normalized(b, c, b.n.x[at], b.n.b.mean[c]) > 0 ? b.n.dy[at] : 0.0f;
}

/* Sums x and x^2, or for backward dy and dy (x - mean) inv_std. */
template <bool back> static __global__ void sum_parts(struct pass b, const struct sw_step *step)
{
    __shared__ double first[SW_THREADS], second[SW_THREADS];
    const struct sw_channels &k = b.k;

    unsigned t = threadIdx.x, lanes = (unsigned)k.lanes, slots = SW_THREADS / lanes;
    unsigned group = blockIdx.x / PARTS, part = blockIdx.x % PARTS;
    int64_t c = (int64_t)group * lanes + t % lanes;
    int64_t elements = (step ? sw_op_valid_rows(step, k.rows) : k.rows) * k.pixels;
    int64_t from = elements * part / PARTS, to = elements * (part + 1) / PARTS;
    double one = 0, two = 0;
    for (int64_t e = from + t / lanes; e < to && c < k.channels; e += slots) {
        int64_t at = sw_offset(k, e / k.pixels, c, e % k.pixels);
        double v = back ? (double)passed(b, c, at) : (double)b.n.x[at];
        one += v;
        two += back ? v * ((double)b.n.x[at] - (double)b.n.b.mean[c]) * (double)b.n.b.inv_std[c]
                    : v * v;
    }

    first[t] = one;
    second[t] = two;
    __syncthreads();

    for (unsigned half = SW_THREADS / 2; half >= lanes; half /= 2) {
        if (t < half) {
            first[t] += first[t + half];
            second[t] += second[t + half];
        }

        __syncthreads();
    }

    if (t < lanes && c < k.channels) {
        b.parts[2 * part * k.channels + c] = first[t];
        b.parts[(2 * part + 1) * k.channels + c] = second[t];
    }
}

static __global__ void add_parts(struct pass b, const struct sw_step *step)
{
    int64_t channels = b.k.channels;
    int64_t rows = step ? sw_op_valid_rows(step, b.k.rows) : b.k.rows;

    for (int64_t i = sw_first(); i < 2 * channels; i += sw_stride()) {
        int64_t c = i % channels, which = i / channels;
        double sum = 0;

        for (int part = 0; part < PARTS; part++)
            sum += b.parts[(2 * part + which) * channels + c];
        b.n.b.sums[i] = sum;
        if (b.n.dbias && which == 0)
            b.n.dbias[c] = (float)sum;
        if (b.n.dscale && which == 1)
            b.n.dscale[c] = (float)sum;
        if (i == 0)
            b.n.b.sums[2 * channels] = (double)(rows * b.k.pixels);
    }
}

static unsigned part_blocks(const struct sw_channels *k)
{
    return (unsigned)((k->channels + k->lanes - 1) / k->lanes * PARTS);
}

static int add_up(const struct pass *b, const struct sw_step *step, const struct sw_cuda_launch *l)
{
    return SW_LAUNCH(add_parts, sw_blocks_for(2 * b->k.channels, l), SW_THREADS, l, *b, step);
}

int sw_cuda_channel_sums(const struct sw_channels *k, const float *x, const struct sw_step *step,
                         double *parts, double *sums, float *rounded,
                         const struct sw_cuda_launch *l)
{
    struct pass b = {};

    b.k = *k;
    b.n.x = x;
    b.parts = parts;
    b.n.b.sums = sums;
    b.n.dbias = rounded;
    SW_START(sum_parts<false>, part_blocks(k), SW_THREADS, l, b, step);

    return add_up(&b, step, l);
}

static int launch_sums(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_batch_norm_args *a = (const struct sw_batch_norm_args *)args;
    struct sw_channels k;
    if (!sw_cuda_channels(&a->b.desc, &k))
        return SW_CUDA_NO_KERNEL;

    return sw_cuda_channel_sums(&k, a->x, NULL, (double *)a->b.scratch, a->b.sums, NULL, l);
}

/* The factors of y = factor (x - mean) + bias. */
static __global__ void find_factors(struct pass b)
{
    for (int64_t c = sw_first(); c < b.k.channels; c += sw_stride())
        b.factor[c] = (float)((double)b.n.b.scale[c] * (double)b.n.b.inv_std[c]);
}

static int launch_sums_backward(const struct sw_cuda_launch *l, const void *args)
{
    struct pass b;
    if (!begin(&b, args))
        return SW_CUDA_NO_KERNEL;

    SW_START(find_factors, sw_blocks_for(b.k.channels, l), SW_THREADS, l, b);
    SW_START(sum_parts<true>, part_blocks(&b.k), SW_THREADS, l, b, (const struct sw_step *)NULL);
    return add_up(&b, NULL, l);
}

/* ---- Normalization ---- */

static __global__ void find_moments(struct pass b)
{
    int64_t channels = b.k.channels;
    double count = b.n.b.sums[2 * channels], m = (double)b.n.b.momentum;

    for (int64_t c = sw_first(); c < channels; c += sw_stride()) {
        double mean = b.n.b.sums[c] / count,
               variance = b.n.b.sums[channels + c] / count - mean * mean;

        variance = variance < 0 ? 0 : variance; /* below 0 only by rounding; NaN stays NaN */

        double inv_std = 1 / sqrt(variance + (double)b.n.b.eps);
        b.n.b.mean[c] = (float)mean;
        b.n.b.inv_std[c] = (float)inv_std;

        b.factor[c] = (float)((double)b.n.b.scale[c] * (double)(float)inv_std);
        if (b.n.b.update_mean) {
            double unbiased = count > 1 ? variance * count / (count - 1) : variance;
            b.n.b.update_mean[c] = (float)(m * (double)b.n.b.update_mean[c] + (1 - m) * mean);
            b.n.b.update_variance[c] =
                (float)(m * (double)b.n.b.update_variance[c] + (1 - m) * unbiased);
        }
    }
}

static __global__ void normalize(struct pass b, const float *mean)
{
    for (int64_t r = blockIdx.y; r < b.k.rows; r += gridDim.y)
        for (int64_t i = sw_first(); i < b.k.row_stride; i += sw_stride()) {
            int64_t c, pixel, at = r * b.k.row_stride + i;
            sw_element_at(b.k, (uint32_t)i, &c, &pixel);
            float y = c < b.k.channels ? normalized(b, c, b.n.x[at], mean[c]) : 0.0f;
            b.n.y[at] = b.n.b.relu && 0.0f > y ? 0.0f : y;
        }
}

static int launch_forward(const struct sw_cuda_launch *l, const void *args)
{
    struct pass b;
    if (!begin(&b, args))
        return SW_CUDA_NO_KERNEL;

    SW_START(find_moments, sw_blocks_for(b.k.channels, l), SW_THREADS, l, b);
    return SW_LAUNCH(normalize, sw_row_grid(&b.k), SW_THREADS, l, b, (const float *)b.n.b.mean);
}

static __global__ void find_running_factors(struct pass b)
{
    for (int64_t c = sw_first(); c < b.k.channels; c += sw_stride())
        b.factor[c] = (float)((double)b.n.b.scale[c] /
                              sqrt((double)b.n.b.running_variance[c] + (double)b.n.b.eps));
}

static int launch_running(const struct sw_cuda_launch *l, const void *args)
{
    struct pass b;
    if (!begin(&b, args))
        return SW_CUDA_NO_KERNEL;

    SW_START(find_running_factors, sw_blocks_for(b.k.channels, l), SW_THREADS, l, b);
    return SW_LAUNCH(normalize, sw_row_grid(&b.k), SW_THREADS, l, b, b.n.b.running_mean);
}

/* dx = scale / std (dy - sum dy / m - xhat sum(dy xhat) / m), m elements per channel. */
static __global__ void backward(struct pass b)
{
    int64_t channels = b.k.channels;
    double count = b.n.b.sums[2 * channels];

    for (int64_t r = blockIdx.y; r < b.k.rows; r += gridDim.y)
        for (int64_t i = sw_first(); i < b.k.row_stride; i += sw_stride()) {
            int64_t c, pixel, at = r * b.k.row_stride + i;
            float dx = 0.0f;

            sw_element_at(b.k, (uint32_t)i, &c, &pixel);

            if (c < channels) {
                double inv_std = (double)b.n.b.inv_std[c],
                       factor = (double)b.n.b.scale[c] * inv_std;
                float constant = (float)(factor * b.n.b.sums[c] / count);
                float of_x = (float)(factor * inv_std * b.n.b.sums[channels + c] / count);
                dx = (float)factor * passed(b, c, at) - constant -
                     of_x * (b.n.x[at] - b.n.b.mean[c]);
            }

            b.n.dx[at] = dx;
        }
}

static int launch_backward(const struct sw_cuda_launch *l, const void *args)
{
    struct pass b;
    if (!begin(&b, args))
        return SW_CUDA_NO_KERNEL;

    SW_START(find_factors, sw_blocks_for(b.k.channels, l), SW_THREADS, l, b);
    return SW_LAUNCH(backward, sw_row_grid(&b.k), SW_THREADS, l, b);
}

/* ---- Bias ---- */

/* scale NULL: 1. x NULL: 0. */
static __global__ void add_bias(struct sw_channels k, const float *x, const float *bias,
                                const struct sw_step *scale, bool relu, float *y)
{
    float factor = scale ? scale->backward_scale : 1.0f;

    for (int64_t r = blockIdx.y; r < k.rows; r += gridDim.y)
        for (int64_t i = sw_first(); i < k.row_stride; i += sw_stride()) {
            int64_t c, pixel, at = r * k.row_stride + i;

            sw_element_at(k, (uint32_t)i, &c, &pixel);

            bool is_there = c < k.channels;
            float v = (is_there && x ? x[at] : 0.0f) + (is_there && bias ? bias[c] * factor : 0.0f);
            y[at] = relu && 0.0f > v ? 0.0f : v;
        }
}

int sw_cuda_channel_bias(const struct sw_channels *k, const float *x, const float *bias, bool relu,
                         float *y, const struct sw_cuda_launch *l)
{
    return SW_LAUNCH(add_bias, sw_row_grid(k), SW_THREADS, l, *k, x, bias,
                     (const struct sw_step *)NULL, relu, y);
}

/* ---- Sparsity ---- */

static __global__ void penalty(struct sw_sparsity_args a, struct sw_channels k)
{
    __shared__ double room[SW_THREADS];

    const double least = 1e-6; /* mean activations are clamped to least .. 1 - least */
    int64_t channels = k.channels;
    double rho = (double)a.rho, beta = (double)a.beta, mine = 0, count = a.sums[2 * channels];
    double rows = (double)sw_op_valid_rows(a.step, k.rows);
    for (int64_t c = threadIdx.x; c < channels; c += blockDim.x) {
        double mean = a.sums[c] / (count > 0 ? count : 1);
        mean = mean < least ? least : mean > 1 - least ? 1 - least : mean; /* NaN passes */
        mine += beta * (rho * log(rho / mean) + (1 - rho) * log((1 - rho) / (1 - mean)));
        a.slope[c] = (float)(beta * ((1 - rho) / (1 - mean) - rho / mean) / (double)k.pixels);
    }

    double sum = sw_block_sum(mine, room);
    if (threadIdx.x == 0) {
        a.result->sum = sum * rows;
        a.result->weight = rows;
    }
}

static int launch_sparsity_sums(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_sparsity_args *a = (const struct sw_sparsity_args *)args;
    struct sw_channels k;
    if (!sw_cuda_channels(&a->desc, &k))
        return SW_CUDA_NO_KERNEL;

    return sw_cuda_channel_sums(&k, a->x, a->step, (double *)a->scratch, a->sums, NULL, l);
}

static int launch_sparsity(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_sparsity_args *a = (const struct sw_sparsity_args *)args;
    struct sw_channels k;
    if (!sw_cuda_channels(&a->desc, &k))
        return SW_CUDA_NO_KERNEL;

    return SW_LAUNCH(penalty, 1, SW_THREADS, l, *a, k);
}

static int launch_sparsity_backward(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_sparsity_args *a = (const struct sw_sparsity_args *)args;
    struct sw_channels k;
    if (!sw_cuda_channels(&a->desc, &k))
        return SW_CUDA_NO_KERNEL;

    return SW_LAUNCH(add_bias, sw_row_grid(&k), SW_THREADS, l, k, a->dy, (const float *)a->slope,
                     a->step, false, a->dx);
}

SW_CUDA_KERNELS(batch_norm) = {{{&sw_op_batch_norm_sums, launch_sums, NULL},
                                {&sw_op_batch_norm, launch_forward, NULL},
                                {&sw_op_batch_norm_running, launch_running, NULL},
                                {&sw_op_batch_norm_sums_gradient, launch_sums_backward, NULL},
                                {&sw_op_batch_norm_gradient, launch_backward, NULL},
                                {&sw_op_sparsity_sums, launch_sparsity_sums, NULL},
                                {&sw_op_sparsity, launch_sparsity, NULL},
                                {&sw_op_sparsity_gradient, launch_sparsity_backward, NULL},
                                {}}};
