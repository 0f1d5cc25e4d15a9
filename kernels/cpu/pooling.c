/* Pooling over windows of plain planes. A window is clipped at the border; the caller chooses the
 * divisor of an average. */
#include "kernels/cpu/window.h"
#include <string.h>

enum { PIECE = 64 }; /* output columns per loop */

/* Maxima and their positions for n <= PIECE columns of one output row. Every column scans its
 * window in row-major order; the loop over columns is vectorized. */
SW_KERNEL static void max_of_row(const struct sw_kernel_windows *w, const float *plane, int64_t oh,
                                 int64_t first, int64_t n, float *restrict best,
                                 int32_t *restrict at)
{
    struct sw_window_part h = sw_window_h(w, oh);
    int64_t step = w->stride_w;

    for (int64_t i = 0; i < n; i++) {
        best[i] = -__builtin_inff();
        at[i] = (int32_t)(h.from * w->in_w + sw_window_w(w, first + i).from);
    }

    for (int64_t y = h.from; y < h.to; y++)
        for (int64_t j = 0; j < w->kernel_w; j++) {
            struct sw_range inside = sw_columns_inside(w, j - w->pad_w);
            int64_t from = inside.from > first ? inside.from - first : 0;
            int64_t to = inside.to < first + n ? inside.to - first : n;
            int64_t base = y * w->in_w + j - w->pad_w + first * step;

#pragma omp simd
            for (int64_t i = from; i < to; i++) {
                float v = plane[base + i * step], b = best[i];
                bool take = v > b || (v != v && b == b);
                best[i] = take ? v : b;
                at[i] = take ? (int32_t)(base + i * step) : at[i];
            }
        }
}

static void max_of_plane(const struct sw_kernel_windows *w, const float *plane, float *y,
                         int32_t *index)
{
    for (int64_t oh = 0; oh < w->out_h; oh++)
        for (int64_t first = 0; first < w->out_w; first += PIECE) {
            float best[PIECE];
            int32_t at[PIECE];
            int64_t n = w->out_w - first < PIECE ? w->out_w - first : PIECE;

            max_of_row(w, plane, oh, first, n, best, at);
            memcpy(y + oh * w->out_w + first, best, (size_t)n * sizeof *y);
            if (index)
                memcpy(index + oh * w->out_w + first, at, (size_t)n * sizeof *index);
        }
}

static int team_for(int threads, const struct sw_kernel_windows *w, int64_t planes)
{
    return sw_team_size(threads, planes * w->out_h * w->out_w * w->kernel_h * w->kernel_w);
}

void sw_kernel_max_pool(int threads, const struct sw_kernel_windows *w, int64_t planes,
                        const float *x, float *y, int32_t *index)
{
    int64_t in = w->in_h * w->in_w, out = w->out_h * w->out_w;
    int team = team_for(threads, w, planes);

#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t p = 0; p < planes; p++)
        max_of_plane(w, x + p * in, y + p * out, index ? index + p * out : NULL);
}

void sw_kernel_max_pool_backward(int threads, const struct sw_kernel_windows *w, int64_t planes,
                                 const float *dy, const int32_t *index, float *dx)
{
    int64_t in = w->in_h * w->in_w, out = w->out_h * w->out_w;
    int team = team_for(threads, w, planes);

#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t p = 0; p < planes; p++) {
        memset(dx + p * in, 0, (size_t)in * sizeof *dx);
        for (int64_t o = 0; o < out; o++)
            dx[p * in + index[p * out + o]] += dy[p * out + o];
    }
}

/* Sets the window of output pixel o along both axes, and returns its divisor. */
static float find_window(const struct sw_kernel_windows *k, int64_t o, enum sw_pool_divisor by,
                         struct sw_window_part *h, struct sw_window_part *w)
{
    *h = sw_window_h(k, o / k->out_w);
    *w = sw_window_w(k, o % k->out_w);
    return sw_window_divisor(k, h, w, by);
}

static float average(const struct sw_kernel_windows *k, const float *plane, int64_t o,
                     enum sw_pool_divisor by)
{
    struct sw_window_part h, w;
    float sum = 0, divisor = find_window(k, o, by, &h, &w);

    for (int64_t y = h.from; y < h.to; y++)
        for (int64_t x = w.from; x < w.to; x++)
            sum += plane[y * k->in_w + x];

    return sum / divisor;
}

void sw_kernel_avg_pool(int threads, const struct sw_kernel_windows *w, int64_t planes,
                        enum sw_pool_divisor by, const float *x, float *y)
{
    int64_t in = w->in_h * w->in_w, out = w->out_h * w->out_w;
    int team = team_for(threads, w, planes);

#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t p = 0; p < planes; p++)
        for (int64_t o = 0; o < out; o++)
            y[p * out + o] = average(w, x + p * in, o, by);
}

static void spread(const struct sw_kernel_windows *k, float *plane, int64_t o,
                   enum sw_pool_divisor by, float dy)
{
    struct sw_window_part h, w;
    float share = dy / find_window(k, o, by, &h, &w);

    for (int64_t y = h.from; y < h.to; y++)
        for (int64_t x = w.from; x < w.to; x++)
            plane[y * k->in_w + x] += share;
}

void sw_kernel_avg_pool_backward(int threads, const struct sw_kernel_windows *w, int64_t planes,
                                 enum sw_pool_divisor by, const float *dy, float *dx)
{
    int64_t in = w->in_h * w->in_w, out = w->out_h * w->out_w;
    int team = team_for(threads, w, planes);

#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t p = 0; p < planes; p++) {
        memset(dx + p * in, 0, (size_t)in * sizeof *dx);
        for (int64_t o = 0; o < out; o++)
            spread(w, dx + p * in, o, by, dy[p * out + o]);
    }
}
