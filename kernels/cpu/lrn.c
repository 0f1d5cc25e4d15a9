/* Local response normalization across channels (Krizhevsky, Sutskever, Hinton 2012, section 3.3,
 * with Caffe's alpha / size), windows centered on the channel and clipped at the ends:
 *
 *   s_i = k + alpha / size sum_j x_j^2,   y_i = x_i s_i^-beta
 *   dx_i = dy_i s_i^-beta - 2 alpha beta / size x_i sum_j dy_j x_j s_j^-(beta + 1)
 *
 * The pixels are divided into pieces; the loop over channels runs within a piece.
 *
 * Within a channel the window is size x size pixels, and size^2 replaces size (Caffe's LRNLayer,
 * WITHIN_CHANNEL: squares, average pooling with zero padding, power, product; the pooling always
 * divides by the whole window). Sums over windows are computed from sums over their rows. */
#include "kernels/cpu/kernel.h"
#include "kernels/cpu/kernels.h"
#include <math.h>
#include <stddef.h>

enum { PIECE = 256, MOST_LANES = 16, MOST_HALF = 127 };

/* Computes s^-beta in place; 3/4, the value of AlexNet, is a special case. */
SW_KERNEL_INLINE void negative_power(float *restrict s, float beta, int64_t n)
{
    if (beta == 0.75f) {
#pragma omp simd
        for (int64_t p = 0; p < n; p++) {
            float root = sqrtf(s[p]);
            s[p] = 1.0f / (root * sqrtf(root));
        }
    } else {
        for (int64_t p = 0; p < n; p++)
            s[p] = powf(s[p], -beta);
    }
}

/* Returns the channels of the window around c. */
static struct sw_range window_of(const struct sw_kernel_lrn *l, int64_t c)
{
    int64_t half = (l->size - 1) / 2;
    struct sw_range r = {c - half > 0 ? c - half : 0,
                         c + half + 1 < l->channels ? c + half + 1 : l->channels};
    return r;
}

/* Computes n pixels of every channel of one row; pointers point to the first of them. */
SW_KERNEL static void forward_piece(const struct sw_kernel_lrn *l, int64_t n, const float *x,
                                    float *y, float *scale)
{
    float alpha = l->alpha / (float)l->size, s[PIECE];

    for (int64_t c = 0; c < l->channels; c++) {
        struct sw_range window = window_of(l, c);

        for (int64_t p = 0; p < n; p++)
            s[p] = 0;

        for (int64_t j = window.from; j < window.to; j++) {
#pragma omp simd
            for (int64_t p = 0; p < n; p++)
                s[p] += x[j * l->pixels + p] * x[j * l->pixels + p];
        }

#pragma omp simd
        for (int64_t p = 0; p < n; p++)
            s[p] = l->k + alpha * s[p];

        if (scale)
            for (int64_t p = 0; p < n; p++)
                scale[c * l->pixels + p] = s[p];

        negative_power(s, l->beta, n);

#pragma omp simd
        for (int64_t p = 0; p < n; p++)
            y[c * l->pixels + p] = x[c * l->pixels + p] * s[p];
    }
}

SW_KERNEL static void backward_piece(const struct sw_kernel_lrn *l, int64_t n, const float *x,
                                     const float *scale, const float *dy, float *ratio, float *dx)
{
    float factor = 2.0f * l->alpha * l->beta / (float)l->size, s[PIECE], sum[PIECE];

    for (int64_t c = 0; c < l->channels; c++) {
        int64_t at = c * l->pixels;

        for (int64_t p = 0; p < n; p++)
            s[p] = scale[at + p];
        negative_power(s, l->beta, n);

#pragma omp simd
        for (int64_t p = 0; p < n; p++) {
            dx[at + p] = dy[at + p] * s[p];
            ratio[at + p] = dx[at + p] * x[at + p] / scale[at + p];
        }
    }

    for (int64_t c = 0; c < l->channels; c++) {
        struct sw_range window = window_of(l, c);

        for (int64_t p = 0; p < n; p++)
            sum[p] = 0;

        for (int64_t j = window.from; j < window.to; j++) {
#pragma omp simd
            for (int64_t p = 0; p < n; p++)
                sum[p] += ratio[j * l->pixels + p];
        }

#pragma omp simd
        for (int64_t p = 0; p < n; p++)
            dx[c * l->pixels + p] -= factor * x[c * l->pixels + p] * sum[p];
    }
}

static int64_t pieces_of(const struct sw_kernel_lrn *l)
{
    return (l->pixels + PIECE - 1) / PIECE;
}

/* Returns the offset of piece i of all rows, and sets *n to its pixels. */
static int64_t piece_at(const struct sw_kernel_lrn *l, int64_t i, int64_t *n)
{
    int64_t pieces = pieces_of(l), first = i % pieces * PIECE;
    *n = l->pixels - first < PIECE ? l->pixels - first : PIECE;
    return i / pieces * l->channels * l->pixels + first;
}

void sw_kernel_lrn(int threads, const struct sw_kernel_lrn *l, const float *x, float *y,
                   float *scale)
{
    int team = sw_team_size(threads, l->rows * l->channels * l->pixels * l->size);

#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t i = 0; i < l->rows * pieces_of(l); i++) {
        int64_t n, at = piece_at(l, i, &n);
        forward_piece(l, n, x + at, y + at, scale ? scale + at : NULL);
    }
}

void sw_kernel_lrn_backward(int threads, const struct sw_kernel_lrn *l, const float *x,
                            const float *scale, const float *dy, float *ratio, float *dx)
{
    int team = sw_team_size(threads, l->rows * l->channels * l->pixels * l->size);

#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t i = 0; i < l->rows * pieces_of(l); i++) {
        int64_t n, at = piece_at(l, i, &n);
        backward_piece(l, n, x + at, scale + at, dy + at, ratio + at, dx + at);
    }
}

/* ---- within channels ---- */

/* Sets sum[i], i < n <= PIECE, to the sum of x or of its squares over the window around element
 * first + i of row h. */
SW_KERNEL_INLINE void sum_windows(const struct sw_kernel_lrn_within *l, const float *plane,
                                  bool squares, int64_t h, int64_t first, int64_t n, float *sum)
{
    int64_t half = (l->size - 1) / 2, row = l->width * l->lanes, reach = half * l->lanes;
    int64_t top = h > half ? h - half : 0,
            end = h + half + 1 < l->height ? h + half + 1 : l->height;
    float column[PIECE + 2 * MOST_HALF * MOST_LANES];
    int64_t from = first > reach ? 0 : reach - first; /* earlier elements are left of the plane */
    int64_t to = first + n + reach > row ? row - first + reach : n + 2 * reach;

    for (int64_t i = 0; i < n + 2 * reach; i++)
        column[i] = 0;

    for (int64_t y = top; y < end; y++) {
        const float *line = plane + y * row + first - reach;
#pragma omp simd
        for (int64_t i = from; i < to; i++)
            column[i] += squares ? line[i] * line[i] : line[i];
    }

    for (int64_t i = 0; i < n; i++)
        sum[i] = 0;

    for (int64_t d = 0; d < l->size; d++) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            sum[i] += column[i + d * l->lanes];
    }
}

SW_KERNEL static void within_plane(const struct sw_kernel_lrn_within *l, const float *x, float *y,
                                   float *scale)
{
    int64_t row = l->width * l->lanes;
    float alpha = l->alpha / (float)(l->size * l->size), s[PIECE];

    for (int64_t h = 0; h < l->height; h++)
        for (int64_t first = 0; first < row; first += PIECE) {
            int64_t n = row - first < PIECE ? row - first : PIECE, at = h * row + first;

            sum_windows(l, x, true, h, first, n, s);

#pragma omp simd
            for (int64_t i = 0; i < n; i++)
                s[i] = l->k + alpha * s[i];

            if (scale)
                for (int64_t i = 0; i < n; i++)
                    scale[at + i] = s[i];

            negative_power(s, l->beta, n);

#pragma omp simd
            for (int64_t i = 0; i < n; i++)
                y[at + i] = x[at + i] * s[i];
        }
}

SW_KERNEL static void within_plane_backward(const struct sw_kernel_lrn_within *l, const float *x,
                                            const float *scale, const float *dy, float *ratio,
                                            float *dx)
{
    int64_t row = l->width * l->lanes, all = l->height * row;
    float factor = 2.0f * l->alpha * l->beta / (float)(l->size * l->size), s[PIECE];

    for (int64_t at = 0; at < all; at += PIECE) {
        int64_t n = all - at < PIECE ? all - at : PIECE;

        for (int64_t i = 0; i < n; i++)
            s[i] = scale[at + i];
        negative_power(s, l->beta, n);

#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            dx[at + i] = dy[at + i] * s[i];
            ratio[at + i] = dx[at + i] * x[at + i] / scale[at + i];
        }
    }

    for (int64_t h = 0; h < l->height; h++)
        for (int64_t first = 0; first < row; first += PIECE) {
            int64_t n = row - first < PIECE ? row - first : PIECE, at = h * row + first;
            sum_windows(l, ratio, false, h, first, n, s);
#pragma omp simd
            for (int64_t i = 0; i < n; i++)
                dx[at + i] -= factor * x[at + i] * s[i];
        }
}

static int64_t plane_of(const struct sw_kernel_lrn_within *l)
{
    return l->height * l->width * l->lanes;
}

void sw_kernel_lrn_within(int threads, const struct sw_kernel_lrn_within *l, const float *x,
                          float *y, float *scale)
{
    int64_t plane = plane_of(l);
    int team = sw_team_size(threads, l->planes * plane * 2 * l->size);

#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t p = 0; p < l->planes; p++)
        within_plane(l, x + p * plane, y + p * plane, scale ? scale + p * plane : NULL);
}

void sw_kernel_lrn_within_backward(int threads, const struct sw_kernel_lrn_within *l,
                                   const float *x, const float *scale, const float *dy,
                                   float *ratio, float *dx)
{
    int64_t plane = plane_of(l);
    int team = sw_team_size(threads, l->planes * plane * 2 * l->size);

#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t p = 0; p < l->planes; p++)
        within_plane_backward(l, x + p * plane, scale + p * plane, dy + p * plane,
                              ratio + p * plane, dx + p * plane);
}
