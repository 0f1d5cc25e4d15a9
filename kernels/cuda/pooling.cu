/* Pooling; conventions in kernels/cpu/pooling.c. Each thread computes a pixel of the output, or in
 * the backward pass a pixel of the input, for which it adds the gradients of the windows in
 * row-major order. */
#include "kernels/cuda/places.cuh"
#include <math_constants.h>

/* The part of a window along one axis that is inside the input, and its length with padding. */
struct window {
    int64_t from, to, padded;
};

static __device__ __forceinline__ struct window window_of(int64_t out, int64_t kernel,
                                                          int64_t stride, int64_t pad, int64_t in)
{
    int64_t start = out * stride - pad, end = start + kernel;

    if (end > in + pad)
        end = in + pad;

    struct window w = {start > 0 ? start : 0, end < in ? end : in, end - start};
    return w;
}

static __device__ __forceinline__ struct window window_h(const struct sw_kernel_windows &w,
                                                         int64_t o)
{
    return window_of(o, w.kernel_h, w.stride_h, w.pad_h, w.in_h);
}

static __device__ __forceinline__ struct window window_w(const struct sw_kernel_windows &w,
                                                         int64_t o)
{
    return window_of(o, w.kernel_w, w.stride_w, w.pad_w, w.in_w);
}

static __device__ __forceinline__ int64_t length_of(const struct window &w, int64_t kernel,
                                                    enum sw_kernel_divisor by)
{
    return by == SW_KERNEL_PADDED ? w.padded : by == SW_KERNEL_INSIDE ? w.to - w.from : kernel;
}

static __device__ __forceinline__ float divisor_of(const struct sw_cuda_pool &p,
                                                   const struct window &h, const struct window &w)
{
    return (float)(length_of(h, p.w.kernel_h, p.by) * length_of(w, p.w.kernel_w, p.by));
}

/* Returns the largest value of a window; NaN is larger than all values, and the first of equal
 * values wins. */
static __device__ float largest(const struct sw_cuda_pool &p, int64_t r, int64_t c,
                                const struct window &h, const struct window &w, int32_t *pixel)
{
    float best = -CUDART_INF_F;
    int64_t at = h.from * p.w.in_w + w.from;

    for (int64_t y = h.from; y < h.to; y++)
        for (int64_t x = w.from; x < w.to; x++) {
            float v = p.x[sw_offset(p.in, r, c, y * p.w.in_w + x)];
            if (v > best || (v != v && best == best)) {
                best = v;
                at = y * p.w.in_w + x;
            }
        }

    *pixel = (int32_t)at;
    return best;
}

static __device__ float average(const struct sw_cuda_pool &p, int64_t r, int64_t c,
                                const struct window &h, const struct window &w)
{
    float sum = 0.0f;

    for (int64_t y = h.from; y < h.to; y++)
        for (int64_t x = w.from; x < w.to; x++)
            sum += p.x[sw_offset(p.in, r, c, y * p.w.in_w + x)];

    return sum / divisor_of(p, h, w);
}

template <bool max> static __global__ void forward(struct sw_cuda_pool p)
{
    for (int64_t r = blockIdx.y; r < p.out.rows; r += gridDim.y)
        for (int64_t i = sw_first(); i < p.out.row_stride; i += sw_stride()) {
            int64_t c, o, at = r * p.out.row_stride + i;
            int32_t pixel = 0;
            float y = 0.0f;

            sw_element_at(p.out, (uint32_t)i, &c, &o);

            if (c < p.out.channels) {
                struct window h = window_h(p.w, o / p.w.out_w), w = window_w(p.w, o % p.w.out_w);
                y = max ? largest(p, r, c, h, w, &pixel) : average(p, r, c, h, w);
            }

            p.y[at] = y;
            if (max && p.index)
                p.index[at] = pixel;
        }
}

int sw_cuda_max_pool(const struct sw_cuda_pool *p, const struct sw_cuda_launch *l)
{
    SW_START(forward<true>, sw_row_grid(&p->out), SW_THREADS, l, *p);
    return (int)cudaGetLastError();
}

int sw_cuda_avg_pool(const struct sw_cuda_pool *p, const struct sw_cuda_launch *l)
{
    SW_START(forward<false>, sw_row_grid(&p->out), SW_THREADS, l, *p);
    return (int)cudaGetLastError();
}

/* Sets the range of outputs along one axis whose windows contain input pixel i. */
static __device__ __forceinline__ void outputs_of(int64_t i, int64_t kernel, int64_t stride,
                                                  int64_t pad, int64_t out, int64_t *from,
                                                  int64_t *to)
{
    int64_t low = i + pad - kernel + 1;

    *from = low > 0 ? (low + stride - 1) / stride : 0;
    *to = (i + pad) / stride + 1;
    if (*to > out)
        *to = out;
}

template <bool max> static __global__ void backward(struct sw_cuda_pool p)
{
    const struct sw_kernel_windows &k = p.w;

    for (int64_t r = blockIdx.y; r < p.in.rows; r += gridDim.y)
        for (int64_t i = sw_first(); i < p.in.row_stride; i += sw_stride()) {
            int64_t c, pixel, y0, y1, x0, x1;
            float sum = 0.0f;

            sw_element_at(p.in, (uint32_t)i, &c, &pixel);
            outputs_of(pixel / k.in_w, k.kernel_h, k.stride_h, k.pad_h, k.out_h, &y0, &y1);
            outputs_of(pixel % k.in_w, k.kernel_w, k.stride_w, k.pad_w, k.out_w, &x0, &x1);

            for (int64_t y = y0; y < y1 && c < p.in.channels; y++)
                for (int64_t x = x0; x < x1; x++) {
                    int64_t at = sw_offset(p.out, r, c, y * k.out_w + x);
                    if (!max)
                        sum += p.dy[at] / divisor_of(p, window_h(k, y), window_w(k, x));
                    else if (p.index[at] == pixel)
                        sum += p.dy[at];
                }

            p.dx[r * p.in.row_stride + i] = sum;
        }
}

int sw_cuda_max_pool_backward(const struct sw_cuda_pool *p, const struct sw_cuda_launch *l)
{
    SW_START(backward<true>, sw_row_grid(&p->in), SW_THREADS, l, *p);
    return (int)cudaGetLastError();
}

int sw_cuda_avg_pool_backward(const struct sw_cuda_pool *p, const struct sw_cuda_launch *l)
{
    SW_START(backward<false>, sw_row_grid(&p->in), SW_THREADS, l, *p);
    return (int)cudaGetLastError();
}
