/* Pooling; conventions in kernels/cpu/pooling.c. Each thread computes a pixel of the output, or in
 * the backward pass a pixel of the input, for which it adds the gradients of the windows in
 * row-major order. */
#include "kernels/cuda/places.cuh"
#include <math_constants.h>

/* Returns the largest value of a window; NaN is larger than all values, and the first of equal
 * values wins. */
static __device__ float largest(const struct sw_cuda_pool &p, int64_t r, int64_t c,
                                const struct sw_window_part &h, const struct sw_window_part &w,
                                int32_t *pixel)
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
                                const struct sw_window_part &h, const struct sw_window_part &w)
{
    float sum = 0.0f;

    for (int64_t y = h.from; y < h.to; y++)
        for (int64_t x = w.from; x < w.to; x++)
            sum += p.x[sw_offset(p.in, r, c, y * p.w.in_w + x)];

    return sum / sw_window_divisor(&p.w, &h, &w, p.by);
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
                struct sw_window_part h = sw_window_h(&p.w, o / p.w.out_w),
                                      w = sw_window_w(&p.w, o % p.w.out_w);
                y = max ? largest(p, r, c, h, w, &pixel) : average(p, r, c, h, w);
            }

            p.y[at] = y;
            if (max && p.index)
                p.index[at] = pixel;
        }
}

int sw_cuda_max_pool(const struct sw_cuda_pool *p, const struct sw_cuda_launch *l)
{
    return SW_LAUNCH(forward<true>, sw_row_grid(&p->out), SW_THREADS, l, *p);
}

int sw_cuda_avg_pool(const struct sw_cuda_pool *p, const struct sw_cuda_launch *l)
{
    return SW_LAUNCH(forward<false>, sw_row_grid(&p->out), SW_THREADS, l, *p);
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
                    struct sw_window_part h = sw_window_h(&k, y), w = sw_window_w(&k, x);

                    if (!max)
                        sum += p.dy[at] / sw_window_divisor(&k, &h, &w, p.by);
                    else if (p.index[at] == pixel)
                        sum += p.dy[at];
                }

            p.dx[r * p.in.row_stride + i] = sum;
        }
}

int sw_cuda_max_pool_backward(const struct sw_cuda_pool *p, const struct sw_cuda_launch *l)
{
    return SW_LAUNCH(backward<true>, sw_row_grid(&p->in), SW_THREADS, l, *p);
}

int sw_cuda_avg_pool_backward(const struct sw_cuda_pool *p, const struct sw_cuda_launch *l)
{
    return SW_LAUNCH(backward<false>, sw_row_grid(&p->in), SW_THREADS, l, *p);
}
