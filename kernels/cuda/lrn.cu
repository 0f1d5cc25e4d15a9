/* Local response normalization across and within channels; formulas in kernels/cpu/lrn.c. Each
 * thread computes one element and reads its whole window; the caches serve overlapping reads. */
#include "kernels/cuda/places.cuh"
#include "kernels/cuda/wide.cuh"

/* Returns s^-beta; 3/4, the value of AlexNet, is a special case. */
static __device__ __forceinline__ float negative_power(float s, float beta)
{
    if (beta == 0.75f) {
        float root = sqrtf(s);
        return 1.0f / (root * sqrtf(root));
    }
    return powf(s, -beta);
}

static __device__ __forceinline__ int64_t clip(int64_t i, int64_t end)
{
    return i < 0 ? 0 : i > end ? end : i;
}

/* The arguments, and what divides indices. */
struct lrn {
    struct sw_cuda_lrn a;
    struct sw_places places;
    struct sw_divisor width;
};

static struct lrn lrn_of(const struct sw_cuda_lrn *a)
{
    struct lrn n = {*a, sw_places_of(&a->k), sw_divisor_of(a->width)};
    return n;
}

/* Returns the sum of v or of its squares over the window around an element. */
template <typename T>
static __device__ float sum_window(const struct lrn &n, const T *v, bool squares, int64_t r,
                                   uint32_t c, uint32_t pixel)
{
    const struct sw_cuda_lrn &a = n.a;
    uint32_t line = pixel, column = sw_divide_off(&n.width, &line);
    int64_t half = (a.size - 1) / 2, h = line, w = column;
    bool within = a.within_channel;
    int64_t c0 = within ? c : clip(c - half, a.k.channels);
    int64_t c1 = within ? c + 1 : clip(c + half + 1, a.k.channels);
    int64_t y0 = within ? clip(h - half, a.height) : h;
    int64_t y1 = within ? clip(h + half + 1, a.height) : h + 1;
    int64_t x0 = within ? clip(w - half, a.width) : w;
    int64_t x1 = within ? clip(w + half + 1, a.width) : w + 1;
    float sum = 0.0f;

    for (int64_t j = c0; j < c1; j++) {
        const T *here = v + r * a.k.row_stride + sw_channel_at(a.k, n.places, (uint32_t)j);

        for (int64_t y = y0; y < y1; y++)
            for (int64_t x = x0; x < x1; x++) {
                float e = sw_value(here[(y * a.width + x) * a.k.pixel_stride]);
                sum += squares ? e * e : e;
            }
    }

    return sum;
}

template <typename T> static __global__ void forward(struct lrn n)
{
    const struct sw_cuda_lrn &a = n.a;
    const T *x = (const T *)a.x;

    for (int64_t r = blockIdx.y; r < a.k.rows; r += gridDim.y)
        for (uint32_t i = sw_first_in_row(); i < a.k.row_stride; i += sw_stride_in_row()) {
            uint32_t c, pixel;
            int64_t at = r * a.k.row_stride + i;

            sw_element_at(a.k, n.places, i, &c, &pixel);

            float scale = a.bias;
            if (c < a.k.channels)
                scale += a.alpha * sum_window(n, x, true, r, c, pixel);
            sw_round((T *)a.y + at, sw_value(x[at]) * negative_power(scale, a.beta));
            if (a.scale)
                a.scale[at] = scale;
        }
}

template <typename T>
static int start_forward(const struct sw_cuda_lrn *a, const struct sw_cuda_launch *l)
{
    return SW_LAUNCH(forward<T>, sw_row_grid(&a->k), SW_THREADS, l, lrn_of(a));
}

int sw_cuda_lrn(const struct sw_cuda_lrn *a, const struct sw_cuda_launch *l)
{
    return SW_BY_TYPE(a->type, start_forward, a, l);
}

template <typename T> static __global__ void ratios(struct sw_cuda_lrn a)
{
    const T *x = (const T *)a.x, *dy = (const T *)a.dy;

    for (int64_t r = blockIdx.y; r < a.k.rows; r += gridDim.y)
        SW_ROLLED
    for (int64_t i = sw_first(); i < a.k.row_stride; i += sw_stride()) {
        int64_t at = r * a.k.row_stride + i;
        float power = negative_power(a.scale[at], a.beta);
        a.ratio[at] = sw_value(dy[at]) * power * sw_value(x[at]) / a.scale[at];
    }
}

template <typename T> static __global__ void backward(struct lrn n)
{
    const struct sw_cuda_lrn &a = n.a;
    const T *x = (const T *)a.x, *dy = (const T *)a.dy;
    float factor = 2.0f * a.alpha * a.beta;

    for (int64_t r = blockIdx.y; r < a.k.rows; r += gridDim.y)
        for (uint32_t i = sw_first_in_row(); i < a.k.row_stride; i += sw_stride_in_row()) {
            uint32_t c, pixel;
            int64_t at = r * a.k.row_stride + i;
            sw_element_at(a.k, n.places, i, &c, &pixel);

            float sum = c < a.k.channels ? sum_window(n, a.ratio, false, r, c, pixel) : 0.0f;
            sw_round((T *)a.dx + at, sw_value(dy[at]) * negative_power(a.scale[at], a.beta) -
                                         factor * sw_value(x[at]) * sum);
        }
}

template <typename T>
static int start_backward(const struct sw_cuda_lrn *a, const struct sw_cuda_launch *l)
{
    SW_START(ratios<T>, sw_row_grid(&a->k), SW_THREADS, l, *a);
    return SW_LAUNCH(backward<T>, sw_row_grid(&a->k), SW_THREADS, l, lrn_of(a));
}

int sw_cuda_lrn_backward(const struct sw_cuda_lrn *a, const struct sw_cuda_launch *l)
{
    return SW_BY_TYPE(a->type, start_backward, a, l);
}
