/* Local response normalisation across channels (Krizhevsky, Sutskever, Hinton 2012, section 3.3,
 * with Caffe's alpha / size), windows centred on the channel and clipped at the ends:
 *
 *   s_i = k + alpha / size sum_j x_j^2,   y_i = x_i s_i^-beta
 *   dx_i = dy_i s_i^-beta - 2 alpha beta / size x_i sum_j dy_j x_j s_j^-(beta + 1)
 *
 * Work is cut into pieces of pixels; a piece walks the channels. */
#include "kernels/cpu/kernel.h"
#include "kernels/cpu/kernels.h"
#include <math.h>
#include <stddef.h>

enum { PIECE = 256 };

/* s^-beta in place; 3/4 is what AlexNet uses. */
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

/* Channels of the window around c. */
static struct sw_range window_of(const struct sw_kernel_lrn *l, int64_t c)
{
    int64_t half = (l->size - 1) / 2;
    struct sw_range r = {c - half > 0 ? c - half : 0,
                         c + half + 1 < l->channels ? c + half + 1 : l->channels};
    return r;
}

/* n pixels of every channel of one row; pointers are at the first of them. */
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

/* Offset of piece i of all rows, and its pixels in *n. */
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
