/* The loops of batch normalization by channel (Ioffe and Szegedy, "Batch Normalization:
 * Accelerating Deep Network Training by Reducing Internal Covariate Shift", 2015, Algorithm 1 and
 * the gradients of section 3), in two halves each, between which the sums may be reduced over
 * workers:
 *
 *   sums      sum x, sum x^2                   y  = factor (x - mean) + bias
 *   backward  sum dy, sum dy (x - mean) / std  dx = a dy - b - c (x - mean)
 *
 * A relu can be fused: y becomes max(0, y), and dy is passed only where y > 0. Backward recomputes
 * y from x, so that it reads no other array.
 *
 * Sums are in double, so that the difference of the mean square and the squared mean is accurate to
 * the last bits of a float. The rows are divided into a fixed number of parts, whose sums are added
 * in order, so the result does not depend on the number of threads. */
#include "kernels/cpu/kernel.h"
#include "kernels/cpu/kernels.h"
#include <stddef.h>

enum { PARTS = SW_CHANNEL_PARTS, LANES = SW_CHANNEL_LANES };

/* A work item: rows from..to of a group of channels; its first element in row 0 is at `at`. */
struct unit {
    int64_t from, to, at, channel;
    int width; /* lanes that exist in storage, padding included */
    int valid; /* lanes that are channels */
};

static int64_t groups_of(const struct sw_channels *k)
{
    return (k->channels + k->lanes - 1) / k->lanes;
}

static struct unit unit_of(const struct sw_channels *k, int64_t group, int64_t from, int64_t to)
{
    struct unit u = {.from = from, .to = to, .at = group * k->group_stride};

    u.channel = group * k->lanes;

    int64_t left = k->channels - u.channel;
    u.valid = left < k->lanes ? (int)left : k->lanes;
    u.width = k->padded ? k->lanes : u.valid;

    return u;
}

/* Runs CALL(width, relu) for the lanes of a unit; the compiler specializes the common widths. */
#define SWITCH_LANES(u, relu, CALL)                                                                \
    if ((u)->width == 16 && (relu))                                                                \
        CALL(16, true);                                                                            \
    else if ((u)->width == 16)                                                                     \
        CALL(16, false);                                                                           \
    else if ((u)->width == 8)                                                                      \
        CALL(8, relu);                                                                             \
    else                                                                                           \
        CALL((u)->width, relu)

/* The coefficients of a group of channels; those of padding are zero, so that padding stays
 * zero. */
struct lanes {
    float v[LANES];
};

SW_KERNEL_INLINE struct lanes take(const struct unit *u, const float *from)
{
    struct lanes l = {{0}};
    for (int j = 0; j < u->valid; j++)
        l.v[j] = from[u->channel + j];
    return l;
}

/* Returns the part of dy that a relu passes; all of it without a relu. */
SW_KERNEL_INLINE float passed(bool relu, float x, float mean, float factor, float bias, float dy)
{
    return !relu || factor * (x - mean) + bias > 0.0f ? dy : 0.0f;
}

/* ---- Sums; back: of the gradient ---- */

SW_KERNEL_INLINE void add(bool back, float x, float mean, float g, double *sum, double *product)
{
    double v = back ? (double)g : (double)x;
    *sum += v;
    *product += v * (back ? (double)x - (double)mean : v);
}

/* Sums one channel, whose pixels are adjacent: lanes are pixels. */
SW_KERNEL_INLINE void sum_planes(const struct sw_channels *k, const struct unit *u,
                                 const struct sw_kernel_norm *a, bool back, bool relu, double *sum,
                                 double *product)
{
    const float mean = back ? a->mean[u->channel] : 0, factor = relu ? a->factor[u->channel] : 0;
    const float bias = relu ? a->bias[u->channel] : 0;
    double s[LANES] = {0}, q[LANES] = {0};
    int64_t whole = k->pixels / LANES * LANES;

    for (int64_t r = u->from; r < u->to; r++) {
        const float *x = a->x + u->at + r * k->row_stride;
        const float *dy = back ? a->dy + u->at + r * k->row_stride : x;

        for (int64_t i = 0; i < whole; i += LANES) {
#pragma omp simd
            for (int j = 0; j < LANES; j++)
                add(back, x[i + j], mean, passed(relu, x[i + j], mean, factor, bias, dy[i + j]),
                    &s[j], &q[j]);
        }

        for (int64_t i = whole; i < k->pixels; i++)
            add(back, x[i], mean, passed(relu, x[i], mean, factor, bias, dy[i]), &s[i - whole],
                &q[i - whole]);
    }

    *sum = *product = 0;
    for (int j = 0; j < LANES; j++) {
        *sum += s[j];
        *product += q[j];
    }
}

/* Sums a group of adjacent channels: lanes are channels. */
SW_KERNEL_INLINE void sum_lanes(const struct sw_channels *k, const struct unit *u, int width,
                                const struct sw_kernel_norm *a, bool back, bool relu, double *sum,
                                double *product)
{
    const struct lanes none = {{0}}, m = back ? take(u, a->mean) : none;
    const struct lanes f = relu ? take(u, a->factor) : none, b = relu ? take(u, a->bias) : none;
    double s[LANES] = {0}, q[LANES] = {0};

    for (int64_t r = u->from; r < u->to; r++)
        for (int64_t p = 0; p < k->pixels; p++) {
            int64_t at = u->at + r * k->row_stride + p * k->pixel_stride;
            const float *x = a->x + at, *dy = back ? a->dy + at : x;

#pragma omp simd
            for (int j = 0; j < width; j++)
                add(back, x[j], m.v[j], passed(relu, x[j], m.v[j], f.v[j], b.v[j], dy[j]), &s[j],
                    &q[j]);
        }

    for (int j = 0; j < u->valid; j++) {
        sum[j] = s[j];
        product[j] = q[j];
    }
}

SW_KERNEL static void sum_forward(const struct sw_channels *k, const struct unit *u,
                                  const struct sw_kernel_norm *a, double *sum, double *product)
{
#define CALL(width, relu) sum_lanes(k, u, width, a, false, false, sum, product)
    if (k->lanes == 1)
        sum_planes(k, u, a, false, false, sum, product);
    else
        SWITCH_LANES(u, false, CALL);
#undef CALL
}

SW_KERNEL static void sum_backward(const struct sw_channels *k, const struct unit *u,
                                   const struct sw_kernel_norm *a, double *sum, double *product)
{
#define CALL(width, relu) sum_lanes(k, u, width, a, true, relu, sum, product)
    if (k->lanes == 1 && a->relu)
        sum_planes(k, u, a, true, true, sum, product);
    else if (k->lanes == 1)
        sum_planes(k, u, a, true, false, sum, product);
    else
        SWITCH_LANES(u, a->relu, CALL);
#undef CALL
}

/* The two sums of every part are stored one after the other: [parts][2][channels]. */
static void add_parts(const struct sw_channels *k, int64_t count, const double *parts, double *sums)
{
    int64_t n = 2 * k->channels;

    for (int64_t i = 0; i < n; i++)
        sums[i] = 0;

    for (int64_t p = 0; p < count; p++)
        for (int64_t i = 0; i < n; i++)
            sums[i] += parts[p * n + i];
}

static int team_of(const struct sw_channels *k, int threads)
{
    return sw_team_size(threads, k->rows * k->channels * k->pixels);
}

void sw_kernel_channel_sums(int threads, const struct sw_channels *k,
                            const struct sw_kernel_norm *a, double *parts, double *sums)
{
    int team = team_of(k, threads);
    int64_t groups = groups_of(k), count = k->rows < PARTS ? k->rows : PARTS;

#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t i = 0; i < count * groups; i++) {
        int64_t part = i / groups;
        struct unit u =
            unit_of(k, i % groups, k->rows * part / count, k->rows * (part + 1) / count);
        double *sum = parts + part * 2 * k->channels + u.channel;

        (a->dy ? sum_backward : sum_forward)(k, &u, a, sum, sum + k->channels);
    }

    add_parts(k, count, parts, sums);
    for (int64_t c = 0; c < k->channels && a->dy; c++)
        sums[k->channels + c] *= (double)a->inv_std[c];
}

/* ---- Element by element ---- */

SW_KERNEL_INLINE float above_zero(float v)
{
    return 0.0f > v ? 0.0f : v; /* NaN passes */
}

SW_KERNEL_INLINE void normalize_plane(const struct sw_channels *k, const struct unit *u,
                                      const struct sw_kernel_norm *a, bool relu)
{
    const float mean = a->mean[u->channel], factor = a->factor[u->channel];
    const float bias = a->bias[u->channel];
    const float *x = a->x + u->at + u->from * k->row_stride;
    float *y = a->out + u->at + u->from * k->row_stride;

#pragma omp simd
    for (int64_t i = 0; i < k->pixels; i++) {
        float v = factor * (x[i] - mean) + bias;
        y[i] = relu ? above_zero(v) : v;
    }
}

SW_KERNEL_INLINE void normalize_lanes(const struct sw_channels *k, const struct unit *u, int width,
                                      const struct sw_kernel_norm *a, bool relu)
{
    const struct lanes m = take(u, a->mean), f = take(u, a->factor), b = take(u, a->bias);
    const float *x = a->x;
    float *y = a->out;

    for (int64_t r = u->from; r < u->to; r++)
        for (int64_t p = 0; p < k->pixels; p++) {
            int64_t at = u->at + r * k->row_stride + p * k->pixel_stride;

#pragma omp simd
            for (int j = 0; j < width; j++) {
                float v = f.v[j] * (x[at + j] - m.v[j]) + b.v[j];
                y[at + j] = relu ? above_zero(v) : v;
            }
        }
}

SW_KERNEL static void normalize(const struct sw_channels *k, const struct unit *u,
                                const struct sw_kernel_norm *a)
{
#define CALL(width, relu) normalize_lanes(k, u, width, a, relu)
    if (k->lanes == 1 && a->relu)
        normalize_plane(k, u, a, true);
    else if (k->lanes == 1)
        normalize_plane(k, u, a, false);
    else
        SWITCH_LANES(u, a->relu, CALL);
#undef CALL
}

SW_KERNEL_INLINE void backward_plane(const struct sw_channels *k, const struct unit *u,
                                     const struct sw_kernel_norm *n, bool relu)
{
    const float mean = n->mean[u->channel], factor = relu ? n->factor[u->channel] : 0;
    const float bias = relu ? n->bias[u->channel] : 0, a = n->a[u->channel];
    const float b = n->b[u->channel], c = n->c[u->channel];
    const int64_t at = u->at + u->from * k->row_stride;
    const float *x = n->x + at, *dy = n->dy + at;
    float *dx = n->out + at;

#pragma omp simd
    for (int64_t i = 0; i < k->pixels; i++)
        dx[i] = a * passed(relu, x[i], mean, factor, bias, dy[i]) - b - c * (x[i] - mean);
}

SW_KERNEL_INLINE void backward_lanes(const struct sw_channels *k, const struct unit *u, int width,
                                     const struct sw_kernel_norm *n, bool relu)
{
    const struct lanes none = {{0}}, m = take(u, n->mean), a = take(u, n->a), b = take(u, n->b);
    const struct lanes c = take(u, n->c), rf = relu ? take(u, n->factor) : none;
    const struct lanes rb = relu ? take(u, n->bias) : none;
    const float *x = n->x, *dy = n->dy;
    float *dx = n->out;

    for (int64_t r = u->from; r < u->to; r++)
        for (int64_t p = 0; p < k->pixels; p++) {
            int64_t at = u->at + r * k->row_stride + p * k->pixel_stride;

#pragma omp simd
            for (int j = 0; j < width; j++) {
                float v = x[at + j];
                float g = passed(relu, v, m.v[j], rf.v[j], rb.v[j], dy[at + j]);
                dx[at + j] = a.v[j] * g - b.v[j] - c.v[j] * (v - m.v[j]);
            }
        }
}

SW_KERNEL static void backward(const struct sw_channels *k, const struct unit *u,
                               const struct sw_kernel_norm *a)
{
#define CALL(width, relu) backward_lanes(k, u, width, a, relu)
    if (k->lanes == 1 && a->relu)
        backward_plane(k, u, a, true);
    else if (k->lanes == 1)
        backward_plane(k, u, a, false);
    else
        SWITCH_LANES(u, a->relu, CALL);
#undef CALL
}

void sw_kernel_channel_apply(int threads, const struct sw_channels *k,
                             const struct sw_kernel_norm *a)
{
    int team = team_of(k, threads);
    int64_t groups = groups_of(k);

#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t i = 0; i < k->rows * groups; i++) {
        struct unit u = unit_of(k, i % groups, i / groups, i / groups + 1);
        (a->dy ? backward : normalize)(k, &u, a);
    }
}
