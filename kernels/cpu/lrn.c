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

/* Returns the elements of a window. */
static float window(const struct sw_kernel_lrn *l)
{
    return (float)(l->within_channel ? l->size * l->size : l->size);
}

/* From the sums of squares s over the windows of n adjacent elements: their outputs, and their
 * scales unless NULL. Overwrites s. */
SW_KERNEL_INLINE void outputs(const struct sw_kernel_lrn *l, int64_t n, float *restrict s,
                              const float *x, float *y, float *scale)
{
    float alpha = l->alpha / window(l);

#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        s[i] = l->k + alpha * s[i];

    if (scale)
        for (int64_t i = 0; i < n; i++)
            scale[i] = s[i];

    negative_power(s, l->beta, n);

#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * s[i];
}

/* Sets dx = dy scale^-beta and ratio = dx x / scale for n <= PIECE adjacent elements. */
SW_KERNEL_INLINE void ratios(const struct sw_kernel_lrn *l, int64_t n, const float *x,
                             const float *scale, const float *dy, float *ratio, float *dx)
{
    float s[PIECE];

    for (int64_t i = 0; i < n; i++)
        s[i] = scale[i];
    negative_power(s, l->beta, n);

#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        dx[i] = dy[i] * s[i];
        ratio[i] = dx[i] * x[i] / scale[i];
    }
}

/* ---- Across channels ---- */

static int64_t pixels_of(const struct sw_kernel_lrn *l)
{
    return l->height * l->width;
}

/* Sets sum to the sum of x or of its squares over the channels of the window around c. */
SW_KERNEL_INLINE void sum_channels(const struct sw_kernel_lrn *l, const float *x, bool squares,
                                   int64_t c, int64_t n, float *restrict sum)
{
    int64_t half = (l->size - 1) / 2, pixels = pixels_of(l), from = c - half > 0 ? c - half : 0;
    int64_t to = c + half + 1 < l->channels ? c + half + 1 : l->channels;

    for (int64_t p = 0; p < n; p++)
        sum[p] = 0;

    for (int64_t j = from; j < to; j++) {
        const float *v = x + j * pixels;
#pragma omp simd
        for (int64_t p = 0; p < n; p++)
            sum[p] += squares ? v[p] * v[p] : v[p];
    }
}

/* Computes n pixels of every channel of one row; pointers point to the first of them. */
SW_KERNEL static void forward_piece(const struct sw_kernel_lrn *l, int64_t n, const float *x,
                                    float *y, float *scale)
{
    float s[PIECE];

    for (int64_t c = 0; c < l->channels; c++) {
        int64_t at = c * pixels_of(l);
        sum_channels(l, x, true, c, n, s);
        outputs(l, n, s, x + at, y + at, scale ? scale + at : NULL);
    }
}

SW_KERNEL static void backward_piece(const struct sw_kernel_lrn *l, int64_t n, const float *x,
                                     const float *scale, const float *dy, float *ratio, float *dx)
{
    float factor = 2.0f * l->alpha * l->beta / window(l), sum[PIECE];
    int64_t pixels = pixels_of(l);

    for (int64_t at = 0; at < l->channels * pixels; at += pixels)
        ratios(l, n, x + at, scale + at, dy + at, ratio + at, dx + at);

    for (int64_t c = 0; c < l->channels; c++) {
        int64_t at = c * pixels;
        sum_channels(l, ratio, false, c, n, sum);
#pragma omp simd
        for (int64_t p = 0; p < n; p++)
            dx[at + p] -= factor * x[at + p] * sum[p];
    }
}

/* ---- Within channels ---- */

/* Sets sum[i], i < n <= PIECE, to the sum of x or of its squares over the window around element
 * first + i of row h. */
SW_KERNEL_INLINE void sum_windows(const struct sw_kernel_lrn *l, const float *plane, bool squares,
                                  int64_t h, int64_t first, int64_t n, float *sum)
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

SW_KERNEL static void within_plane(const struct sw_kernel_lrn *l, const float *x, float *y,
                                   float *scale)
{
    int64_t row = l->width * l->lanes;
    float s[PIECE];

    for (int64_t h = 0; h < l->height; h++)
        for (int64_t first = 0; first < row; first += PIECE) {
            int64_t n = row - first < PIECE ? row - first : PIECE, at = h * row + first;
            sum_windows(l, x, true, h, first, n, s);
            outputs(l, n, s, x + at, y + at, scale ? scale + at : NULL);
        }
}

SW_KERNEL static void within_plane_backward(const struct sw_kernel_lrn *l, const float *x,
                                            const float *scale, const float *dy, float *ratio,
                                            float *dx)
{
    int64_t row = l->width * l->lanes, all = l->height * row;
    float factor = 2.0f * l->alpha * l->beta / window(l), s[PIECE];

    for (int64_t at = 0; at < all; at += PIECE)
        ratios(l, all - at < PIECE ? all - at : PIECE, x + at, scale + at, dy + at, ratio + at,
               dx + at);

    for (int64_t h = 0; h < l->height; h++)
        for (int64_t first = 0; first < row; first += PIECE) {
            int64_t n = row - first < PIECE ? row - first : PIECE, at = h * row + first;
            sum_windows(l, ratio, false, h, first, n, s);
#pragma omp simd
            for (int64_t i = 0; i < n; i++)
                dx[at + i] -= factor * x[at + i] * s[i];
        }
}

/* ---- Whole arrays ---- */

/* The elements of a row, or within channels of a plane. */
static int64_t plane_of(const struct sw_kernel_lrn *l)
{
    return pixels_of(l) * (l->within_channel ? l->lanes : l->channels);
}

static int team_of(int threads, const struct sw_kernel_lrn *l)
{
    int64_t cost = l->within_channel ? 2 * l->size : l->size;
    return sw_team_size(threads, l->planes * plane_of(l) * cost);
}

/* Pieces of pixels per row; a plane is one piece. */
static int64_t pieces_of(const struct sw_kernel_lrn *l)
{
    return l->within_channel ? 1 : (pixels_of(l) + PIECE - 1) / PIECE;
}

/* Returns the offset of piece i of all rows, and sets *n to its pixels. */
static int64_t piece_at(const struct sw_kernel_lrn *l, int64_t i, int64_t *n)
{
    int64_t pieces = pieces_of(l), first = i % pieces * PIECE;
    *n = pixels_of(l) - first < PIECE ? pixels_of(l) - first : PIECE;
    return i / pieces * plane_of(l) + first;
}

void sw_kernel_lrn(int threads, const struct sw_kernel_lrn *l, const float *x, float *y,
                   float *scale)
{
    int team = team_of(threads, l);

#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t i = 0; i < l->planes * pieces_of(l); i++) {
        int64_t n, at = piece_at(l, i, &n);
        float *kept = scale ? scale + at : NULL;

        if (l->within_channel)
            within_plane(l, x + at, y + at, kept);
        else
            forward_piece(l, n, x + at, y + at, kept);
    }
}

void sw_kernel_lrn_backward(int threads, const struct sw_kernel_lrn *l, const float *x,
                            const float *scale, const float *dy, float *ratio, float *dx)
{
    int team = team_of(threads, l);

#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t i = 0; i < l->planes * pieces_of(l); i++) {
        int64_t n, at = piece_at(l, i, &n);

        if (l->within_channel)
            within_plane_backward(l, x + at, scale + at, dy + at, ratio + at, dx + at);
        else
            backward_piece(l, n, x + at, scale + at, dy + at, ratio + at, dx + at);
    }
}
