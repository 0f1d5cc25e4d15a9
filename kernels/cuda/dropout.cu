/* Dropout and noise: the same random words as on the CPU (kernels/cpu/dropout.c), by the element's
 * number in a row, channels last. A thread has the four elements of one Philox block; of a part of
 * a feature, whose blocks are cut, one element. */
#include "kernels/cuda/normal.cuh"
#include "kernels/cuda/places.cuh"

static __device__ __forceinline__ float changed(const struct sw_kernel_dropout &d, uint32_t word,
                                                float normal, float x)
{
    if (d.std > 0)
        return x + d.std * normal;
    return word >= d.threshold ? x * d.scale : word < d.low_below ? d.low : d.high;
}

static __device__ __forceinline__ struct sw_philox4 draw(const struct sw_cuda_dropout &a, int64_t r,
                                                         uint32_t block, float *normal)
{
    uint32_t row = (uint32_t)a.step->first_row + (uint32_t)r;
    struct sw_philox4 w = sw_philox_at(a.d.key, a.step->step, row, block);
    if (a.d.std > 0) {
        sw_normal(w.v, normal);
        sw_normal(w.v + 2, normal + 2);
    }
    return w;
}

/* Neighbouring threads get neighbouring pixels where those are neighbours in memory. */
static __global__ void whole(struct sw_cuda_dropout a)
{
    uint32_t channels = (uint32_t)a.k.channels, pixels = (uint32_t)a.k.pixels;
    uint32_t features = channels * pixels, blocks = (features + 3) / 4;
    bool planes = a.k.lanes == 1 && channels % 4 == 0;
    for (int64_t r = blockIdx.y; r < a.k.rows; r += gridDim.y)
        for (uint32_t i = (uint32_t)sw_first(); i < blocks; i += (uint32_t)sw_stride()) {
            uint32_t block = planes ? i % pixels * (channels / 4) + i / pixels : i;
            float normal[4] = {0, 0, 0, 0};
            struct sw_philox4 w = draw(a, r, block, normal);
            for (uint32_t j = 0; j < 4 && 4 * block + j < features; j++) {
                uint32_t e = 4 * block + j;
                int64_t at = sw_offset(a.k, r, e % channels, e / channels);
                a.y[at] = changed(a.d, w.v[j], normal[j], a.x[at]);
            }
        }
}

static __global__ void part(struct sw_cuda_dropout a)
{
    uint32_t channels = (uint32_t)a.k.channels, features = channels * (uint32_t)a.k.pixels;
    for (int64_t r = blockIdx.y; r < a.k.rows; r += gridDim.y)
        for (uint32_t e = (uint32_t)sw_first(); e < features; e += (uint32_t)sw_stride()) {
            int64_t c = e % channels, pixel = e / channels;
            uint32_t number = (uint32_t)(a.first_channel + c + pixel * a.channels);
            int64_t at = sw_offset(a.k, r, c, pixel);
            float normal[4] = {0, 0, 0, 0};
            struct sw_philox4 w = draw(a, r, number / 4, normal);
            a.y[at] = changed(a.d, w.v[number % 4], normal[number % 4], a.x[at]);
        }
}

int sw_cuda_dropout(const struct sw_cuda_dropout *a, const struct sw_cuda_launch *l)
{
    bool is_part = a->channels && a->channels != a->k.channels;
    if (is_part)
        SW_START(part, sw_row_grid(&a->k), SW_THREADS, l, *a);
    else
        SW_START(whole, sw_row_grid(&a->k), SW_THREADS, l, *a);
    return (int)cudaGetLastError();
}
