/* Several arrays combined element by element, and the gradients:
 *
 *   sum      y = sum c_k x_k    dx_k = c_k dy
 *   product  y = prod x_k       dx_k = dy prod_{j != k} x_j, without a division, so that zeros
 *   max      y = max x_k        dx_k = dy where x_k is the first of the largest, else 0
 *
 * each optionally followed by relu, whose derivative masks dy where y is not above zero. NaN
 * passes, so that divergence is detected. The arrays are processed in pieces that fit the L1 cache,
 * so that each element is read from and written to memory only once. */
#include "kernels/ops/eltwise.h"
#include "kernels/cpu/kernel.h"

enum { PIECE = 1024 };

/* Runs the loop on a team, one piece of the arrays at a time. */
static int run_pieces(const struct sw_host_launch *l, int64_t n, sw_each_fn *piece,
                      const void *args)
{
    int team = sw_team_size(l->threads, n);

#pragma omp parallel num_threads(team) if (team > 1)
    {
        struct sw_range r = sw_team_range(n, SW_LINE_FLOATS);
        for (int64_t at = r.from; at < r.to; at += PIECE)
            piece(args, at, r.to - at < PIECE ? r.to - at : PIECE);
    }

    return SW_OK;
}

/* y = a x (op) b z; y may be x or z. */
typedef void pair_fn(float a, const float *x, float b, const float *z, float *y, int64_t n);

SW_KERNEL static void sum_pair(float a, const float *x, float b, const float *z, float *y,
                               int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = a * x[i] + b * z[i];
}

SW_KERNEL static void sum_pair_relu(float a, const float *x, float b, const float *z, float *y,
                                    int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float v = a * x[i] + b * z[i];
        y[i] = 0.0f > v ? 0.0f : v;
    }
}

SW_KERNEL static void product_pair(float a, const float *x, float b, const float *z, float *y,
                                   int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * z[i];
}

SW_KERNEL static void max_pair(float a, const float *x, float b, const float *z, float *y,
                               int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] > z[i] || x[i] != x[i] ? x[i] : z[i];
}

SW_KERNEL static void relu(float *y, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = 0.0f > y[i] ? 0.0f : y[i];
}

static const float *values_at(const void *x, int64_t at)
{
    return (const float *)x + at;
}

static float *floats_at(void *y, int64_t at)
{
    return (float *)y + at;
}

static void forward_piece(const void *args, int64_t at, int64_t n)
{
    const struct sw_eltwise_args *k = args;
    static pair_fn *const pairs[] = {[SW_ELTWISE_SUM] = sum_pair,
                                     [SW_ELTWISE_PRODUCT] = product_pair,
                                     [SW_ELTWISE_MAX] = max_pair};
    float *y = floats_at(k->y, at);

    for (int i = 1; i < k->count; i++) {
        bool last_sum = k->kind == SW_ELTWISE_SUM && k->relu && i == k->count - 1;
        (last_sum ? sum_pair_relu : pairs[k->kind])(i == 1 ? k->factor[0] : 1.0f,
                                                    i == 1 ? values_at(k->x[0], at) : y,
                                                    k->factor[i], values_at(k->x[i], at), y, n);
    }

    if (k->relu && k->kind != SW_ELTWISE_SUM)
        relu(y, n);
}

static void arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_eltwise_args *a = args;

    SW_ACTIVATIONS_OR_NULL(out, a, x, SW_ELTWISE_SRCS, a->type, a->n);
    SW_ACTIVATION_OR_NULL(out, a, y, a->type, a->n);
}

static int forward(const struct sw_host_launch *l, const void *args)
{
    return run_pieces(l, ((const struct sw_eltwise_args *)args)->n, forward_piece, args);
}

const struct sw_op sw_op_eltwise = {"eltwise", sizeof(struct sw_eltwise_args), arrays, forward};

/* ---- Backward ---- */

/* dx = a g, or dx += a g; dx may be g. */
SW_KERNEL static void scale_to(float a, const float *g, float *dx, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i] = a * g[i];
}

SW_KERNEL static void scale_add(float a, const float *g, float *dx, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i] += a * g[i];
}

SW_KERNEL static void mask(const float *y, const float *dy, float *g, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        g[i] = y[i] > 0.0f ? dy[i] : 0.0f;
}

SW_KERNEL static void mask_smaller(const float *x, const float *other, bool equal_too, float *g,
                                   int64_t n)
{
    if (equal_too) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            g[i] = x[i] >= other[i] ? g[i] : 0.0f;
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            g[i] = x[i] > other[i] ? g[i] : 0.0f;
    }
}

static void write_gradient(const struct sw_eltwise_sum_gradient_args *k, int i, const float *g,
                           int64_t at, int64_t n)
{
    (k->adds >> i & 1 ? scale_add : scale_to)(k->factor[i], g, floats_at(k->dx[i], at), n);
}

/* One output may be dy itself; it is written last. */
static void sum_piece(const void *args, int64_t at, int64_t n)
{
    const struct sw_eltwise_sum_gradient_args *k = args;
    float masked[PIECE];
    const float *g = values_at(k->dy, at);
    int in_place = -1;

    if (k->y) {
        mask(values_at(k->y, at), g, masked, n);
        g = masked;
    }

    for (int i = 0; i < k->count; i++) {
        if (!k->dx[i])
            continue;

        if (k->dx[i] == k->dy)
            in_place = i;
        else
            write_gradient(k, i, g, at, n);
    }

    if (in_place >= 0 && (g == masked || k->factor[in_place] != 1.0f))
        write_gradient(k, in_place, g, at, n);
}

static void sum_arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_eltwise_sum_gradient_args *a = args;
    SW_ACTIVATION_OR_NULL(out, a, y, a->type, a->n);
    SW_ACTIVATION_OR_NULL(out, a, dy, a->type, a->n);
    SW_ACTIVATIONS_OR_NULL(out, a, dx, SW_ELTWISE_SRCS, a->type, a->n);
}

static int sum_gradient(const struct sw_host_launch *l, const void *args)
{
    return run_pieces(l, ((const struct sw_eltwise_sum_gradient_args *)args)->n, sum_piece, args);
}

const struct sw_op sw_op_eltwise_sum_gradient = {
    "eltwise_sum_backward", sizeof(struct sw_eltwise_sum_gradient_args), sum_arrays, sum_gradient};

static void one_piece(const void *args, int64_t at, int64_t n)
{
    const struct sw_eltwise_gradient_args *k = args;
    float g[PIECE];

    if (k->y)
        mask(values_at(k->y, at), values_at(k->dy, at), g, n);
    else
        scale_to(1.0f, values_at(k->dy, at), g, n);

    for (int i = 0; i < k->count; i++) {
        if (i == k->of)
            continue;

        if (k->kind == SW_ELTWISE_PRODUCT)
            product_pair(1, g, 1, values_at(k->x[i], at), g, n);
        else
            mask_smaller(values_at(k->x[k->of], at), values_at(k->x[i], at), i > k->of, g, n);
    }

    (k->add ? scale_add : scale_to)(1.0f, g, floats_at(k->dx, at), n);
}

static void gradient_arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_eltwise_gradient_args *a = args;
    SW_ACTIVATIONS_OR_NULL(out, a, x, SW_ELTWISE_SRCS, a->type, a->n);
    SW_ACTIVATION_OR_NULL(out, a, y, a->type, a->n);
    SW_ACTIVATION_OR_NULL(out, a, dy, a->type, a->n);
    SW_ACTIVATION_OR_NULL(out, a, dx, a->type, a->n);
}

static int gradient(const struct sw_host_launch *l, const void *args)
{
    return run_pieces(l, ((const struct sw_eltwise_gradient_args *)args)->n, one_piece, args);
}

const struct sw_op sw_op_eltwise_gradient = {
    "eltwise_backward", sizeof(struct sw_eltwise_gradient_args), gradient_arrays, gradient};
