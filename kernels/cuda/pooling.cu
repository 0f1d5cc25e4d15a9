/* Pooling; conventions in kernels/cpu/pooling.c. Each thread computes a pixel of the output, or in
 * the backward pass a pixel of the input, for which it adds the gradients of the windows in
 * row-major order. With channels last it computes a vector of n channels of the pixel. */
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

/* A window in n channels of a row, whose first pixel is *x. */
template <typename T> struct window {
    const T *x;
    int step, width;
    struct sw_window_part h, w; /* empty, or even negative, if all of it is padding */
};

/* Finds the largest values of a window; NaN is larger than all values, and the first of equal
 * values wins. */
template <typename T, int n>
static __device__ __forceinline__ void largest(const struct window<T> &a, float *best,
                                               int32_t *pixel)
{
    for (int j = 0; j < n; j++) {
        best[j] = -CUDART_INF_F;
        pixel[j] = (int)a.h.from * a.width + (int)a.w.from;
    }

    for (int y = (int)a.h.from; y < (int)a.h.to; y++)
        for (int x = (int)a.w.from; x < (int)a.w.to; x++) {
            float v[n];
            sw_load<T, n>(a.x, (y * a.width + x) * a.step, v);
            for (int j = 0; j < n; j++)
                if (v[j] > best[j] || (v[j] != v[j] && best[j] == best[j])) {
                    best[j] = v[j];
                    pixel[j] = y * a.width + x;
                }
        }
}

template <typename T, int n>
static __device__ __forceinline__ void average(const struct window<T> &a, float divisor, float *y)
{
    float sum[n] = {0.0f};

    for (int line = (int)a.h.from; line < (int)a.h.to; line++)
        for (int x = (int)a.w.from; x < (int)a.w.to; x++) {
            float v[n];
            sw_load<T, n>(a.x, (line * a.width + x) * a.step, v);
            for (int j = 0; j < n; j++)
                sum[j] += v[j];
        }

    for (int j = 0; j < n; j++)
        y[j] = sum[j] / divisor;
}

template <typename T, bool max, int n>
static __device__ __forceinline__ void forward_at(const struct pool &a, int64_t row, uint32_t i)
{
    const struct sw_cuda_pool &p = a.p;
    const int64_t at = row * p.out.row_stride + i;
    uint32_t c, o;
    int32_t pixel[n] = {0};
    float y[n] = {0.0f};

    sw_element_at(p.out, a.out, i, &c, &o);

    if (c < p.out.channels) {
        const uint32_t column = sw_divide_off(&a.out_w, &o);
        const struct window<T> w = {
            (const T *)p.x + row *p.in.row_stride + sw_channel_at(p.in, a.in, c),
                (int)p.in.pixel_stride, (int)p.w.in_w, sw_window_h(&p.w, o),
                sw_window_w(&p.w, column)
        };
        if (max)
            largest<T, n>(w, y, pixel);
        else
            average<T, n>(w, sw_window_divisor(&p.w, &w.h, &w.w, p.by), y);
    }

    sw_store<T, n>(p.y, at, y);
    if (max && p.index)
        sw_store_ints<n>(p.index + at, pixel);
}

template <typename T, bool max, int n> static __global__ void forward(struct pool a)
{
    const struct sw_channels &out = a.p.out;

    for (int64_t r = blockIdx.y; r < out.rows; r += gridDim.y)
        for (uint32_t i = sw_first_in_row() * n; i < out.row_stride; i += sw_stride_in_row() * n)
            forward_at<T, max, n>(a, r, i);
}

/* May a thread have n channels that are adjacent in all arrays? */
static bool is_wide(const struct sw_cuda_pool *p, int n)
{
    return p->in.lanes != 1 && !p->in.padded && p->out.lanes != 1 && !p->out.padded &&
           p->in.channels % n == 0 && p->in.pixel_stride % n == 0 && p->out.pixel_stride % n == 0 &&
           sw_is_wide(p->x) && sw_is_wide(p->y) && sw_is_wide(p->dy) && sw_is_wide(p->dx) &&
           sw_is_wide(p->index);
}

template <typename T, bool max>
static int start_forward(const struct sw_cuda_pool *p, const struct sw_cuda_launch *l)
{
    constexpr int n = sw_wide<T>;

    return is_wide(p, n)
               ? SW_LAUNCH((forward<T, max, n>), sw_row_grid(&p->out, n), SW_THREADS, l, pool_of(p))
               : SW_LAUNCH((forward<T, max, 1>), sw_row_grid(&p->out), SW_THREADS, l, pool_of(p));
}

template <typename T>
static int start_max(const struct sw_cuda_pool *p, const struct sw_cuda_launch *l)
{
    return start_forward<T, true>(p, l);
}

template <typename T>
static int start_average(const struct sw_cuda_pool *p, const struct sw_cuda_launch *l)
{
    return start_forward<T, false>(p, l);
}

int sw_cuda_max_pool(const struct sw_cuda_pool *p, const struct sw_cuda_launch *l)
{
    return SW_BY_TYPE(p->type, start_max, p, l);
}

int sw_cuda_avg_pool(const struct sw_cuda_pool *p, const struct sw_cuda_launch *l)
{
    return SW_BY_TYPE(p->type, start_average, p, l);
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

/* Adds the gradients of the window of output element `at` to those of n channels of a pixel. */
template <typename T, bool max, int n>
static __device__ __forceinline__ void add_gradients(const struct sw_cuda_pool &p, int64_t at,
                                                     uint32_t pixel, float divisor, float *sum)
{
    float dy[n];

    sw_load<T, n>(p.dy, at, dy);
    if (max) {
        const struct sw_vector<int32_t, n> index = sw_vector_at<int32_t, n>(p.index, at);
        for (int j = 0; j < n; j++)
            if (index.v[j] == (int32_t)pixel)
                sum[j] += dy[j];
    } else {
        for (int j = 0; j < n; j++)
            sum[j] += dy[j] / divisor;
    }
}

template <typename T, bool max, int n>
static __device__ __forceinline__ void backward_at(const struct pool &a, int64_t row, uint32_t i)
{
    const struct sw_cuda_pool &p = a.p;
    const struct sw_kernel_windows &k = p.w;
    const uint32_t width = (uint32_t)k.out_w, step = (uint32_t)p.out.pixel_stride;
    uint32_t c, pixel, y0, y1, x0, x1;
    float sum[n] = {0.0f};

    sw_element_at(p.in, a.in, i, &c, &pixel);

    uint32_t line = pixel, column = sw_divide_off(&a.in_w, &line);
    outputs_of(line + (uint32_t)k.pad_h, k.kernel_h, a.stride_h, k.out_h, &y0, &y1);
    outputs_of(column + (uint32_t)k.pad_w, k.kernel_w, a.stride_w, k.out_w, &x0, &x1);

    const int64_t first = row * p.out.row_stride + sw_channel_at(p.out, a.out, c);
    for (uint32_t y = y0; y < y1 && c < p.in.channels; y++)
        for (uint32_t x = x0; x < x1; x++) {
            struct sw_window_part h = sw_window_h(&k, y), w = sw_window_w(&k, x);
            float divisor = max ? 1.0f : sw_window_divisor(&k, &h, &w, p.by);

            add_gradients<T, max, n>(p, first + (y * width + x) * step, pixel, divisor, sum);
        }

    sw_store<T, n>(p.dx, row * p.in.row_stride + i, sum);
}

template <typename T, bool max, int n> static __global__ void backward(struct pool a)
{
    const struct sw_channels &in = a.p.in;

    for (int64_t r = blockIdx.y; r < in.rows; r += gridDim.y)
        for (uint32_t i = sw_first_in_row() * n; i < in.row_stride; i += sw_stride_in_row() * n)
            backward_at<T, max, n>(a, r, i);
}

template <typename T, bool max>
static int start_backward(const struct sw_cuda_pool *p, const struct sw_cuda_launch *l)
{
    constexpr int n = sw_wide<T>;

    return is_wide(p, n)
               ? SW_LAUNCH((backward<T, max, n>), sw_row_grid(&p->in, n), SW_THREADS, l, pool_of(p))
               : SW_LAUNCH((backward<T, max, 1>), sw_row_grid(&p->in), SW_THREADS, l, pool_of(p));
}

template <typename T>
static int start_max_backward(const struct sw_cuda_pool *p, const struct sw_cuda_launch *l)
{
    return start_backward<T, true>(p, l);
}

template <typename T>
static int start_average_backward(const struct sw_cuda_pool *p, const struct sw_cuda_launch *l)
{
    return start_backward<T, false>(p, l);
}

int sw_cuda_max_pool_backward(const struct sw_cuda_pool *p, const struct sw_cuda_launch *l)
{
    return SW_BY_TYPE(p->type, start_max_backward, p, l);
}

int sw_cuda_avg_pool_backward(const struct sw_cuda_pool *p, const struct sw_cuda_launch *l)
{
    return SW_BY_TYPE(p->type, start_average_backward, p, l);
}
