/* Pooling; conventions in kernels/cpu/pooling.c. Each thread computes a pixel of the output, or in
 * the backward pass a pixel of the input, for which it adds the gradients of the windows in
 * row-major order. */
#include "kernels/cuda/places.cuh"
#include "kernels/cuda/wide.cuh"
#include <math_constants.h>

/* The arguments, and what divides indices. */
struct pool {
    struct sw_cuda_pool p;
    struct sw_places in, out;
    struct sw_divisor in_w, out_w, stride_h, stride_w;
};

static struct pool pool_of(const struct sw_cuda_pool *p)
{
    struct pool a = {*p,
                     sw_places_of(&p->in),
                     sw_places_of(&p->out),
                     sw_divisor_of(p->w.in_w),
                     sw_divisor_of(p->w.out_w),
                     sw_divisor_of(p->w.stride_h),
                     sw_divisor_of(p->w.stride_w)};
    return a;
}

/* A window in a channel of a row, whose first pixel is *x. */
template <typename T> struct window {
    const T *x;
    int step, width;
    struct sw_window_part h, w; /* empty, or even negative, if all of it is padding */
};

/* Returns the largest value of a window; NaN is larger than all values, and the first of equal
 * values wins. */
template <typename T>
static __device__ __forceinline__ float largest(const struct window<T> &a, int32_t *pixel)
{
    float best = -CUDART_INF_F;
    int at = (int)a.h.from * a.width + (int)a.w.from;

    for (int y = (int)a.h.from; y < (int)a.h.to; y++)
        for (int x = (int)a.w.from; x < (int)a.w.to; x++) {
            float v = sw_value(a.x[(y * a.width + x) * a.step]);
            if (v > best || (v != v && best == best)) {
                best = v;
                at = y * a.width + x;
            }
        }

    *pixel = at;
    return best;
}

template <typename T> static __device__ __forceinline__ float sum_of(const struct window<T> &a)
{
    float sum = 0.0f;

    for (int y = (int)a.h.from; y < (int)a.h.to; y++)
        for (int x = (int)a.w.from; x < (int)a.w.to; x++)
            sum += sw_value(a.x[(y * a.width + x) * a.step]);

    return sum;
}

template <typename T, bool max> static __global__ void forward(struct pool a)
{
    const struct sw_cuda_pool &p = a.p;

    for (int64_t r = blockIdx.y; r < p.out.rows; r += gridDim.y)
        for (uint32_t i = sw_first_in_row(); i < p.out.row_stride; i += sw_stride_in_row()) {
            int64_t at = r * p.out.row_stride + i;
            uint32_t c, o;
            int32_t pixel = 0;
            float y = 0.0f;

            sw_element_at(p.out, a.out, i, &c, &o);

            if (c < p.out.channels) {
                const uint32_t column = sw_divide_off(&a.out_w, &o);
                const struct window<T> w = {
                    (const T *)p.x + r *p.in.row_stride + sw_channel_at(p.in, a.in, c),
                        (int)p.in.pixel_stride, (int)p.w.in_w, sw_window_h(&p.w, o),
                        sw_window_w(&p.w, column)
                };
                y = max ? largest(w, &pixel)
                        : sum_of(w) / sw_window_divisor(&p.w, &w.h, &w.w, p.by);
            }

            sw_round((T *)p.y + at, y);
            if (max && p.index)
                p.index[at] = pixel;
        }
}

template <typename T>
static int start_forward(const struct sw_cuda_pool *p, bool max, const struct sw_cuda_launch *l)
{
    return max ? SW_LAUNCH((forward<T, true>), sw_row_grid(&p->out), SW_THREADS, l, pool_of(p))
               : SW_LAUNCH((forward<T, false>), sw_row_grid(&p->out), SW_THREADS, l, pool_of(p));
}

int sw_cuda_max_pool(const struct sw_cuda_pool *p, const struct sw_cuda_launch *l)
{
    return SW_BY_TYPE(p->type, start_forward, p, true, l);
}

int sw_cuda_avg_pool(const struct sw_cuda_pool *p, const struct sw_cuda_launch *l)
{
    return SW_BY_TYPE(p->type, start_forward, p, false, l);
}

/* Sets the range of outputs along one axis whose windows contain input pixel i - pad. */
static __device__ __forceinline__ void outputs_of(uint32_t i, int64_t kernel,
                                                  const struct sw_divisor &stride, int64_t out,
                                                  uint32_t *from, uint32_t *to)
{
    const uint32_t size = (uint32_t)kernel, last = sw_divide(&stride, i) + 1;

    *from = i + 1 > size ? sw_divide(&stride, i - size + stride.by) : 0;
    *to = last < (uint32_t)out ? last : (uint32_t)out;
}

template <typename T, bool max> static __global__ void backward(struct pool a)
{
    const struct sw_cuda_pool &p = a.p;
    const struct sw_kernel_windows &k = p.w;
    const uint32_t width = (uint32_t)k.out_w, step = (uint32_t)p.out.pixel_stride;
    const T *dy = (const T *)p.dy;

    for (int64_t r = blockIdx.y; r < p.in.rows; r += gridDim.y)
        for (uint32_t i = sw_first_in_row(); i < p.in.row_stride; i += sw_stride_in_row()) {
            uint32_t c, pixel, y0, y1, x0, x1;
            float sum = 0.0f;

            sw_element_at(p.in, a.in, i, &c, &pixel);

            uint32_t line = pixel, column = sw_divide_off(&a.in_w, &line);
            outputs_of(line + (uint32_t)k.pad_h, k.kernel_h, a.stride_h, k.out_h, &y0, &y1);
            outputs_of(column + (uint32_t)k.pad_w, k.kernel_w, a.stride_w, k.out_w, &x0, &x1);

            const int64_t first = r * p.out.row_stride + sw_channel_at(p.out, a.out, c);
            for (uint32_t y = y0; y < y1 && c < p.in.channels; y++)
                for (uint32_t x = x0; x < x1; x++) {
                    const int64_t at = first + (y * width + x) * step;
                    struct sw_window_part h = sw_window_h(&k, y), w = sw_window_w(&k, x);

                    if (!max)
                        sum += sw_value(dy[at]) / sw_window_divisor(&k, &h, &w, p.by);
                    else if (p.index[at] == (int32_t)pixel)
                        sum += sw_value(dy[at]);
                }

            sw_round((T *)p.dx + r * p.in.row_stride + i, sum);
        }
}

template <typename T>
static int start_backward(const struct sw_cuda_pool *p, bool max, const struct sw_cuda_launch *l)
{
    return max ? SW_LAUNCH((backward<T, true>), sw_row_grid(&p->in), SW_THREADS, l, pool_of(p))
               : SW_LAUNCH((backward<T, false>), sw_row_grid(&p->in), SW_THREADS, l, pool_of(p));
}

int sw_cuda_max_pool_backward(const struct sw_cuda_pool *p, const struct sw_cuda_launch *l)
{
    return SW_BY_TYPE(p->type, start_backward, p, true, l);
}

int sw_cuda_avg_pool_backward(const struct sw_cuda_pool *p, const struct sw_cuda_launch *l)
{
    return SW_BY_TYPE(p->type, start_backward, p, false, l);
}
