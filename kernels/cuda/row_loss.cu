/* Losses of a row against targets of the same size, or against a label, and of triplets; formulas
 * in kernels/cpu/row_loss.c. One block per row; y must not be x. */
#include "kernels/cuda/rows.cuh"
#include "kernels/ops/row_loss.h"
#include <math_constants.h>

struct row {
    const float *x, *t;
    float *y;
    int64_t n, label;
};

/* Shared memory of a block for sums. */
struct room {
    float most[SW_THREADS];
    double sum[SW_THREADS];
};

/* ---- Element by element ---- */

static __device__ double elements(bool sigmoid, const struct row &k)
{
    double sum = 0;

    for (int64_t i = threadIdx.x; i < k.n; i += blockDim.x) {
        float x = k.x[i], t = k.t[i];

        if (sigmoid) {
            float e = expf(-fabsf(x)), small = 1.0f / (1.0f + e);
            k.y[i] = x < 0 ? e * small : small;
            sum += (double)((x > 0 ? x : 0) - x * t + log1pf(e));
        } else {
            float d = x - t;
            k.y[i] = d;
            sum += (double)(0.5f * d * d);
        }
    }

    return sum;
}

/* ---- With a softmax ---- */

/* A row without targets has no loss, unless a score is NaN. */
static __device__ double shares(bool poisson, const struct row &k, struct room *room)
{
    double total = 0, scores = 0, factorials = 0, sum = 0;
    float m = -CUDART_INF_F;

    for (int64_t i = threadIdx.x; i < k.n; i += blockDim.x) {
        total += (double)k.t[i];
        m = k.x[i] > m ? k.x[i] : m;
    }

    total = sw_block_sum(total, room->sum);

    m = sw_block_max(m, room->most);
    for (int64_t i = threadIdx.x; i < k.n; i += blockDim.x) {
        float t = k.t[i], e = expf(k.x[i] - m);
        k.y[i] = e;
        sum += (double)e;
        scores += t > 0 ? (double)t * ((double)k.x[i] - (double)m) : 0;
        factorials += poisson && t > 0 && t != 1 ? lgamma((double)t + 1) : 0;
    }

    sum = sw_block_sum(sum, room->sum);
    scores = sw_block_sum(scores, room->sum);
    factorials = sw_block_sum(factorials, room->sum);

    float scale = (float)((poisson ? total : 1) / sum);
    for (int64_t i = threadIdx.x; i < k.n; i += blockDim.x)
        k.y[i] *= scale;

    double log_sum = log(sum);
    if (!(total > 0))
        return log_sum - log_sum;

    return poisson ? total - total * (log(total) - log_sum) - scores + factorials
                   : log_sum - scores / total;
}

/* ---- Hinges ---- */

static __device__ double hinges(const struct sw_row_loss_args &a, const struct row &k)
{
    double sum = 0;

    for (int64_t i = threadIdx.x; i < k.n; i += blockDim.x) {
        float s = (k.t ? k.t[i] > 0 : i == k.label) ? 1.0f : -1.0f, slope;
        sum += (double)sw_hinge(a.squared, a.margin - s * k.x[i], &slope);
        k.y[i] = -s * slope;
    }

    return sum;
}

static __device__ double ranking(const struct sw_row_loss_args &a, const struct row &k,
                                 struct room *room)
{
    double sum = 0, slopes = 0;
    float least = a.margin - k.x[k.label];

    for (int64_t i = threadIdx.x; i < k.n; i += blockDim.x) {
        float slope;

        if (i == k.label)
            continue;

        sum += (double)sw_hinge(a.squared, least + k.x[i], &slope);
        k.y[i] = slope;
        slopes += (double)slope;
    }

    slopes = sw_block_sum(slopes, room->sum);
    if (threadIdx.x == 0)
        k.y[k.label] = (float)-slopes;

    return sum;
}

/* A row without targets has no loss. */
static __device__ double ranking_by_target(const struct sw_row_loss_args &a, const struct row &k,
                                           struct room *room)
{
    double sum = 0, slopes = 0, total = 0, scores = 0;

    for (int64_t i = threadIdx.x; i < k.n; i += blockDim.x) {
        total += (double)k.t[i];
        scores += k.t[i] > 0 ? (double)k.t[i] * (double)k.x[i] : 0;
    }

    total = sw_block_sum(total, room->sum);
    scores = sw_block_sum(scores, room->sum);

    const bool counts = total > 0;
    const float least = counts ? a.margin - (float)(scores / total) : 0;
    for (int64_t i = threadIdx.x; i < k.n; i += blockDim.x) {
        float slope = 0;

        if (counts && !(k.t[i] > 0))
            sum += (double)sw_hinge(a.squared, least + k.x[i], &slope);
        k.y[i] = slope;
        slopes += (double)slope;
    }

    slopes = sw_block_sum(slopes, room->sum);
    for (int64_t i = threadIdx.x; i < k.n; i += blockDim.x)
        if (k.t[i] > 0)
            k.y[i] = (float)(-slopes * (double)k.t[i] / total);

    return sum;
}

/* ---- Rows ---- */

/* Returns each thread's part of the loss of a row; softmax and Poisson return the whole loss in
 * thread 0. */
static __device__ double loss_of(const struct sw_row_loss_args &a, const struct row &k,
                                 struct room *room)
{
    double all;

    switch (a.kind) {
    case SW_LOSS_EUCLIDEAN:
    case SW_LOSS_SIGMOID:
        return elements(a.kind == SW_LOSS_SIGMOID, k);
    case SW_LOSS_SOFTMAX:
    case SW_LOSS_POISSON:
        all = shares(a.kind == SW_LOSS_POISSON, k, room);
        return threadIdx.x == 0 ? all : 0;
    case SW_LOSS_HINGE:
        return hinges(a, k);
    case SW_LOSS_RANKING:
        return k.t ? ranking_by_target(a, k, room) : ranking(a, k, room);
    }

    return 0;
}

static __global__ void forward(struct sw_row_loss_args a, uint64_t who, double *part,
                               struct sw_cuda_trouble *trouble)
{
    __shared__ struct room room;

    int64_t valid = sw_op_valid_rows(a.step, a.rows), n = a.columns;
    const int32_t *label = a.target ? NULL : a.labels.label;
    double loss = 0, rows = 0;
    for (int64_t r = blockIdx.x; r < valid; r += gridDim.x) {
        const struct row k = {a.x + r * n, a.target ? a.target + r * n : NULL, a.y + r * n, n,
                              label ? label[r] : 0};

        for (int64_t i = threadIdx.x; a.target && i < n; i += blockDim.x)
            if (!sw_target_fits(a.kind, k.t[i]))
                sw_report_invalid(trouble, SW_FOUND_TARGET, who, r, i, a.kind, (double)k.t[i]);

        bool counts = !label || sw_label_fits(k.label, n, r, who, trouble);
        double mine = counts ? loss_of(a, k, &room) : 0;
        loss += sw_block_sum(mine, room.sum);
        rows++;
    }

    sw_store_partial(part, loss, rows);
}

static int launch_forward(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_row_loss_args *a = (const struct sw_row_loss_args *)args;
    unsigned blocks = sw_sum_blocks(a->rows);

    SW_START(forward, blocks, sw_threads_for(a->columns), l, *a, (uint64_t)(uintptr_t)a->who,
             l->partials, l->trouble);
    return SW_LAUNCH(sw_add_row_partials, 1, SW_THREADS, l, l->partials, blocks, a->weight,
                     a->result);
}

/* Softmax: targets are divided by their sum, and a row without targets has no gradient. */
static __global__ void backward(struct sw_row_gradient_args a)
{
    __shared__ double room[SW_THREADS];

    bool softmax = a.kind == SW_LOSS_SOFTMAX;
    bool by_target = softmax || a.kind == SW_LOSS_SIGMOID || a.kind == SW_LOSS_POISSON;
    int64_t valid = sw_op_valid_rows(a.step, a.rows), n = a.columns;
    float scale = a.weight * a.step->backward_scale;
    for (int64_t r = blockIdx.x; r < a.rows; r += gridDim.x) {
        double total = softmax ? 0 : 1;

        if (softmax && r < valid) {
            for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
                total += (double)a.target[r * n + i];
            total = sw_block_sum(total, room);
        }

        float share = (float)(1 / total);
        bool counts = r < valid && total > 0;
        for (int64_t i = r * n + threadIdx.x; i < (r + 1) * n; i += blockDim.x)
            a.dx[i] = !counts ? 0.0f : scale * (a.y[i] - (by_target ? share * a.target[i] : 0.0f));
    }
}

static int launch_backward(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_row_gradient_args *a = (const struct sw_row_gradient_args *)args;
    return SW_LAUNCH(backward, sw_blocks_of(a->rows, 65535), sw_threads_for(a->columns), l, *a);
}

/* ---- Triplets ---- */

static __global__ void triplets(struct sw_triplet_loss_args a, double *part)
{
    __shared__ double room[SW_THREADS];

    int64_t valid = sw_op_valid_rows(a.step, a.rows), n = a.columns;
    double loss = 0, rows = 0;
    for (int64_t r = blockIdx.x; r < valid; r += gridDim.x) {
        double dot = 0;

        for (int64_t i = r * n + threadIdx.x; i < (r + 1) * n; i += blockDim.x)
            dot += (double)a.anchor[i] * ((double)a.other[i] - (double)a.match[i]);

        float slope, m = (float)((double)a.margin + sw_block_sum(dot, room));
        loss += (double)sw_hinge(a.squared, m, &slope);
        rows++;
        if (threadIdx.x == 0)
            a.slope[r] = slope;
    }

    sw_store_partial(part, loss, rows);
}

static int launch_triplets(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_triplet_loss_args *a = (const struct sw_triplet_loss_args *)args;
    unsigned blocks = sw_sum_blocks(a->rows);

    SW_START(triplets, blocks, sw_threads_for(a->columns), l, *a, l->partials);
    return SW_LAUNCH(sw_add_row_partials, 1, SW_THREADS, l, l->partials, blocks, a->weight,
                     a->result);
}

static __global__ void triplets_backward(struct sw_triplet_gradient_args a, unsigned wide)
{
    const int64_t valid = sw_op_valid_rows(a.step, a.rows);
    const float scale = a.weight * a.step->backward_scale;
    const struct sw_row_walk w = sw_walk_rows(wide);

    for (int64_t r = w.row; r < a.rows; r += w.row_step) {
        const float slope = r < valid ? scale * a.slope[r] : 0.0f;

        for (int64_t i = r * a.columns + w.column; i < (r + 1) * a.columns; i += wide) {
            float plus = a.plus ? a.plus[i] : 0.0f, minus = a.minus ? a.minus[i] : 0.0f;
            a.dx[i] = r < valid ? slope * (plus - minus) : 0.0f;
        }
    }
}

static int launch_triplets_backward(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_triplet_gradient_args *a = (const struct sw_triplet_gradient_args *)args;
    const unsigned wide = sw_threads_for(a->columns);

    return SW_LAUNCH(triplets_backward, sw_walk_blocks(a->rows, wide, l), SW_THREADS, l, *a, wide);
}

SW_CUDA_KERNELS(row_loss) = {{{&sw_op_row_loss, launch_forward, NULL},
                              {&sw_op_row_loss_gradient, launch_backward, NULL},
                              {&sw_op_triplet_loss, launch_triplets, NULL},
                              {&sw_op_triplet_loss_gradient, launch_triplets_backward, NULL},
                              {}}};
