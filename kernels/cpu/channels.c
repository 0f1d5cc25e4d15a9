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

/* ---- Sums ---- */

/* Sums one channel, whose pixels are adjacent: lanes are pixels. */
SW_KERNEL static void sum_planes(const struct sw_channels *k, const struct unit *u, const float *x,
                                 double *sum, double *square)
{
    double s[LANES] = {0}, q[LANES] = {0};
    int64_t whole = k->pixels / LANES * LANES;

    for (int64_t r = u->from; r < u->to; r++) {
        const float *v = x + u->at + r * k->row_stride;

        for (int64_t i = 0; i < whole; i += LANES) {
#pragma omp simd
            for (int j = 0; j < LANES; j++) {
                s[j] += (double)v[i + j];
                q[j] += (double)v[i + j] * (double)v[i + j];
            }
        }

        for (int64_t i = whole; i < k->pixels; i++) {
            s[i - whole] += (double)v[i];
            q[i - whole] += (double)v[i] * (double)v[i];
        }
    }

    *sum = *square = 0;
    for (int j = 0; j < LANES; j++) {
        *sum += s[j];
        *square += q[j];
    }
}

/* Returns the part of dy that a relu passes; all of it without a relu. */
SW_KERNEL_INLINE float passed(bool relu, float x, float mean, float factor, float bias, float dy)
{
    return !relu || factor * (x - mean) + bias > 0.0f ? dy : 0.0f;
}

SW_KERNEL_INLINE void sum_planes_masked(const struct sw_channels *k, const struct unit *u,
                                        bool relu, const float *x, float mean, float factor,
                                        float bias, const float *dy, double *sum, double *product)
{
    double s[LANES] = {0}, q[LANES] = {0};
    int64_t whole = k->pixels / LANES * LANES;

    for (int64_t r = u->from; r < u->to; r++) {
        const float *v = x + u->at + r * k->row_stride, *d = dy + u->at + r * k->row_stride;

        for (int64_t i = 0; i < whole; i += LANES) {
#pragma omp simd
            for (int j = 0; j < LANES; j++) {
                double g = (double)passed(relu, v[i + j], mean, factor, bias, d[i + j]);
                s[j] += g;
                q[j] += g * ((double)v[i + j] - (double)mean);
            }
        }

        for (int64_t i = whole; i < k->pixels; i++) {
            double g = (double)passed(relu, v[i], mean, factor, bias, d[i]);
            s[i - whole] += g;
            q[i - whole] += g * ((double)v[i] - (double)mean);
        }
    }

    *sum = *product = 0;
    for (int j = 0; j < LANES; j++) {
        *sum += s[j];
        *product += q[j];
    }
}

SW_KERNEL static void sum_planes_backward(const struct sw_channels *k, const struct unit *u,
                                          const struct sw_kernel_relu *relu, const float *x,
                                          float mean, const float *dy, double *sum, double *product)
{
    int64_t c = u->channel;

    if (relu)
        sum_planes_masked(k, u, true, x, mean, relu->factor[c], relu->bias[c], dy, sum, product);
    else
        sum_planes_masked(k, u, false, x, mean, 0, 0, dy, sum, product);
}

/* The coefficients of a group of channels; those of padding are zero, so that padding stays
 * zero. */
struct lanes {
    float v[LANES];
};

SW_KERNEL_INLINE struct lanes take(const float *from, int valid)
{
    struct lanes l = {{0}};
    for (int j = 0; j < valid; j++)
        l.v[j] = from[j];
    return l;
}

/* Sums a group of adjacent channels: lanes are channels. */
SW_KERNEL_INLINE void sum_lanes(const struct sw_channels *k, const struct unit *u, int width,
                                const float *x, double *sum, double *square)
{
    double s[LANES] = {0}, q[LANES] = {0};

    for (int64_t r = u->from; r < u->to; r++)
        for (int64_t p = 0; p < k->pixels; p++) {
            const float *v = x + u->at + r * k->row_stride + p * k->pixel_stride;

#pragma omp simd
            for (int j = 0; j < width; j++) {
                s[j] += (double)v[j];
                q[j] += (double)v[j] * (double)v[j];
            }
        }

    for (int j = 0; j < u->valid; j++) {
        sum[j] = s[j];
        square[j] = q[j];
    }
}

SW_KERNEL_INLINE void sum_lanes_backward(const struct sw_channels *k, const struct unit *u,
                                         int width, const struct sw_kernel_relu *relu,
                                         const float *x, const float *mean, const float *dy,
                                         double *sum, double *product)
{
    double s[LANES] = {0}, q[LANES] = {0};
    struct lanes m = take(mean, u->valid), f = {{0}}, b = {{0}};

    if (relu) {
        f = take(relu->factor + u->channel, u->valid);
        b = take(relu->bias + u->channel, u->valid);
    }

    for (int64_t r = u->from; r < u->to; r++)
        for (int64_t p = 0; p < k->pixels; p++) {
            int64_t at = u->at + r * k->row_stride + p * k->pixel_stride;
            const float *v = x + at, *d = dy + at;

#pragma omp simd
            for (int j = 0; j < width; j++) {
                double g = (double)passed(relu, v[j], m.v[j], f.v[j], b.v[j], d[j]);
                s[j] += g;
                q[j] += g * ((double)v[j] - (double)m.v[j]);
            }
        }

    for (int j = 0; j < u->valid; j++) {
        sum[j] = s[j];
        product[j] = q[j];
    }
}

SW_KERNEL static void sum_group(const struct sw_channels *k, const struct unit *u, const float *x,
                                double *sum, double *square)
{
    if (u->width == 16)
        sum_lanes(k, u, 16, x, sum, square);
    else if (u->width == 8)
        sum_lanes(k, u, 8, x, sum, square);
    else
        sum_lanes(k, u, u->width, x, sum, square);
}

SW_KERNEL static void sum_group_backward(const struct sw_channels *k, const struct unit *u,
                                         const struct sw_kernel_relu *relu, const float *x,
                                         const float *mean, const float *dy, double *sum,
                                         double *product)
{
    if (u->width == 16 && relu)
        sum_lanes_backward(k, u, 16, relu, x, mean, dy, sum, product);
    else if (u->width == 16)
        sum_lanes_backward(k, u, 16, NULL, x, mean, dy, sum, product);
    else if (u->width == 8)
        sum_lanes_backward(k, u, 8, relu, x, mean, dy, sum, product);
    else
        sum_lanes_backward(k, u, u->width, relu, x, mean, dy, sum, product);
}

/* The two sums of every part are stored one after the other: [parts][2][channels]. */
static int64_t parts_of(const struct sw_channels *k)
{
    return k->rows < PARTS ? k->rows : PARTS;
}

static void add_parts(const struct sw_channels *k, const double *parts, double *sums)
{
    int64_t n = 2 * k->channels, count = parts_of(k);

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

void sw_kernel_channel_sums(int threads, const struct sw_channels *k, const float *x, double *parts,
                            double *sums)
{
    int team = team_of(k, threads);
    int64_t groups = groups_of(k), count = parts_of(k);

#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t i = 0; i < count * groups; i++) {
        int64_t part = i / groups;
        struct unit u =
            unit_of(k, i % groups, k->rows * part / count, k->rows * (part + 1) / count);
        double *sum = parts + part * 2 * k->channels + u.channel;

        if (k->lanes == 1)
            sum_planes(k, &u, x, sum, sum + k->channels);
        else
            sum_group(k, &u, x, sum, sum + k->channels);
    }

    add_parts(k, parts, sums);
}

void sw_kernel_channel_sums_backward(int threads, const struct sw_channels *k,
                                     const struct sw_kernel_relu *relu, const float *x,
                                     const float *mean, const float *inv_std, const float *dy,
                                     double *parts, double *sums)
{
    int team = team_of(k, threads);
    int64_t groups = groups_of(k), count = parts_of(k);

#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t i = 0; i < count * groups; i++) {
        int64_t part = i / groups;
        struct unit u =
            unit_of(k, i % groups, k->rows * part / count, k->rows * (part + 1) / count);
        double *sum = parts + part * 2 * k->channels + u.channel;
        const float *m = mean + u.channel;

        if (k->lanes == 1)
            sum_planes_backward(k, &u, relu, x, *m, dy, sum, sum + k->channels);
        else
            sum_group_backward(k, &u, relu, x, m, dy, sum, sum + k->channels);
    }

    add_parts(k, parts, sums);
    for (int64_t c = 0; c < k->channels; c++)
        sums[k->channels + c] *= (double)inv_std[c];
}

/* ---- Element by element ---- */

SW_KERNEL_INLINE float above_zero(float v)
{
    return 0.0f > v ? 0.0f : v; /* NaN passes */
}

SW_KERNEL static void normalize_plane(int64_t n, bool relu, const float *x, float mean,
                                      float factor, float bias, float *y)
{
    if (relu) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] = above_zero(factor * (x[i] - mean) + bias);
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] = factor * (x[i] - mean) + bias;
    }
}

/* The coefficients of one channel. */
struct gradient {
    float mean, a, b, c, factor, bias;
};

SW_KERNEL static void backward_plane(int64_t n, bool relu, struct gradient g, const float *x,
                                     const float *dy, float *dx)
{
    if (relu) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            dx[i] = g.a * passed(true, x[i], g.mean, g.factor, g.bias, dy[i]) - g.b -
                    g.c * (x[i] - g.mean);
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            dx[i] = g.a * dy[i] - g.b - g.c * (x[i] - g.mean);
    }
}

SW_KERNEL_INLINE void normalize_lanes(const struct sw_channels *k, const struct unit *u, int width,
                                      bool relu, const float *x, const float *mean,
                                      const float *factor, const float *bias, float *y)
{
    struct lanes m = take(mean, u->valid), f = take(factor, u->valid), b = take(bias, u->valid);

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

SW_KERNEL_INLINE void backward_lanes(const struct sw_channels *k, const struct unit *u, int width,
                                     const struct sw_kernel_relu *relu, const float *x,
                                     const float *mean, const float *a, const float *b,
                                     const float *c, const float *dy, float *dx)
{
    struct lanes m = take(mean, u->valid), la = take(a, u->valid), lb = take(b, u->valid),
                 lc = take(c, u->valid), rf = {{0}}, rb = {{0}};

    if (relu) {
        rf = take(relu->factor + u->channel, u->valid);
        rb = take(relu->bias + u->channel, u->valid);
    }

    for (int64_t r = u->from; r < u->to; r++)
        for (int64_t p = 0; p < k->pixels; p++) {
            int64_t at = u->at + r * k->row_stride + p * k->pixel_stride;

#pragma omp simd
            for (int j = 0; j < width; j++) {
                float v = x[at + j];
                float g = passed(relu, v, m.v[j], rf.v[j], rb.v[j], dy[at + j]);
                dx[at + j] = la.v[j] * g - lb.v[j] - lc.v[j] * (v - m.v[j]);
            }
        }
}

SW_KERNEL static void normalize_group(const struct sw_channels *k, const struct unit *u, bool relu,
                                      const float *x, const float *mean, const float *factor,
                                      const float *bias, float *y)
{
    if (u->width == 16 && relu)
        normalize_lanes(k, u, 16, true, x, mean, factor, bias, y);
    else if (u->width == 16)
        normalize_lanes(k, u, 16, false, x, mean, factor, bias, y);
    else if (u->width == 8)
        normalize_lanes(k, u, 8, relu, x, mean, factor, bias, y);
    else
        normalize_lanes(k, u, u->width, relu, x, mean, factor, bias, y);
}

SW_KERNEL static void backward_group(const struct sw_channels *k, const struct unit *u,
                                     const struct sw_kernel_relu *relu, const float *x,
                                     const float *mean, const float *a, const float *b,
                                     const float *c, const float *dy, float *dx)
{
    if (u->width == 16 && relu)
        backward_lanes(k, u, 16, relu, x, mean, a, b, c, dy, dx);
    else if (u->width == 16)
        backward_lanes(k, u, 16, NULL, x, mean, a, b, c, dy, dx);
    else if (u->width == 8)
        backward_lanes(k, u, 8, relu, x, mean, a, b, c, dy, dx);
    else
        backward_lanes(k, u, u->width, relu, x, mean, a, b, c, dy, dx);
}

void sw_kernel_channel_normalise(int threads, const struct sw_channels *k, bool relu,
                                 const float *x, const float *mean, const float *factor,
                                 const float *bias, float *y)
{
    int team = team_of(k, threads);
    int64_t groups = groups_of(k);

#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t i = 0; i < k->rows * groups; i++) {
        struct unit u = unit_of(k, i % groups, i / groups, i / groups + 1);
        int64_t c = u.channel, at = u.at + u.from * k->row_stride;

        if (k->lanes == 1)
            normalize_plane(k->pixels, relu, x + at, mean[c], factor[c], bias[c], y + at);
        else
            normalize_group(k, &u, relu, x, mean + c, factor + c, bias + c, y);
    }
}

void sw_kernel_channel_backward(int threads, const struct sw_channels *k,
                                const struct sw_kernel_relu *relu, const float *x,
                                const float *mean, const float *a, const float *b, const float *c,
                                const float *dy, float *dx)
{
    int team = team_of(k, threads);
    int64_t groups = groups_of(k);

#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t i = 0; i < k->rows * groups; i++) {
        struct unit u = unit_of(k, i % groups, i / groups, i / groups + 1);
        int64_t n = u.channel, at = u.at + u.from * k->row_stride;
        struct gradient g = {.mean = mean[n], .a = a[n], .b = b[n], .c = c[n]};

        if (relu) {
            g.factor = relu->factor[n];
            g.bias = relu->bias[n];
        }

        if (k->lanes == 1)
            backward_plane(k->pixels, relu, g, x + at, dy + at, dx + at);
        else
            backward_group(k, &u, relu, x, mean + n, a + n, b + n, c + n, dy, dx);
    }
}
