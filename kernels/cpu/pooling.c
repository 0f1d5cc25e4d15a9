/* Pooling over windows of plain planes. A window is clipped at the border; an average divides by
 * the window's size clipped to the padded input only, as Caffe does. */
#include "kernels/cpu/kernel.h"
#include "kernels/cpu/kernels.h"
#include <string.h>

/* The part of a window along one axis that lies inside the input, and its length with padding. */
struct window {
    int64_t from, to, padded;
};

static struct window window_of(int64_t out, int64_t kernel, int64_t stride, int64_t pad, int64_t in)
{
    int64_t start = out * stride - pad, end = start + kernel;
    if (end > in + pad)
        end = in + pad;
    struct window w = {start > 0 ? start : 0, end < in ? end : in, end - start};
    return w;
}

static struct window window_h(const struct sw_kernel_windows *w, int64_t oh)
{
    return window_of(oh, w->kernel_h, w->stride_h, w->pad_h, w->in_h);
}

static struct window window_w(const struct sw_kernel_windows *w, int64_t ow)
{
    return window_of(ow, w->kernel_w, w->stride_w, w->pad_w, w->in_w);
}

static int64_t first_max(const float *plane, int64_t in_w, struct window h, struct window w)
{
    int64_t best = h.from * in_w + w.from;
    for (int64_t y = h.from; y < h.to; y++)
        for (int64_t x = w.from; x < w.to; x++) {
            float v = plane[y * in_w + x];
            if (v > plane[best] || (v != v && plane[best] == plane[best]))
                best = y * in_w + x;
        }
    return best;
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
        for (int64_t o = 0; o < out; o++) {
            int64_t best = first_max(x + p * in, w->in_w, window_h(w, o / w->out_w),
                                     window_w(w, o % w->out_w));
            y[p * out + o] = x[p * in + best];
            if (index)
                index[p * out + o] = (int32_t)best;
        }
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

static float average(const float *plane, int64_t in_w, struct window h, struct window w)
{
    float sum = 0;
    for (int64_t y = h.from; y < h.to; y++)
        for (int64_t x = w.from; x < w.to; x++)
            sum += plane[y * in_w + x];
    return sum / (float)(h.padded * w.padded);
}

void sw_kernel_avg_pool(int threads, const struct sw_kernel_windows *w, int64_t planes,
                        const float *x, float *y)
{
    int64_t in = w->in_h * w->in_w, out = w->out_h * w->out_w;
    int team = team_for(threads, w, planes);
#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t p = 0; p < planes; p++)
        for (int64_t o = 0; o < out; o++)
            y[p * out + o] =
                average(x + p * in, w->in_w, window_h(w, o / w->out_w), window_w(w, o % w->out_w));
}

static void spread(float *plane, int64_t in_w, struct window h, struct window w, float dy)
{
    float share = dy / (float)(h.padded * w.padded);
    for (int64_t y = h.from; y < h.to; y++)
        for (int64_t x = w.from; x < w.to; x++)
            plane[y * in_w + x] += share;
}

void sw_kernel_avg_pool_backward(int threads, const struct sw_kernel_windows *w, int64_t planes,
                                 const float *dy, float *dx)
{
    int64_t in = w->in_h * w->in_w, out = w->out_h * w->out_w;
    int team = team_for(threads, w, planes);
#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t p = 0; p < planes; p++) {
        memset(dx + p * in, 0, (size_t)in * sizeof *dx);
        for (int64_t o = 0; o < out; o++)
            spread(dx + p * in, w->in_w, window_h(w, o / w->out_w), window_w(w, o % w->out_w),
                   dy[p * out + o]);
    }
}
