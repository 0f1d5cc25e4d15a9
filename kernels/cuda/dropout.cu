/* Dropout and noise with the same random words as on the CPU (kernels/cpu/dropout.c), by the
 * element's number in a row, channels last. A thread computes the four elements of each Philox
 * block that it draws; in a shard, where blocks are incomplete, one element. */
#include "kernels/cuda/normal.cuh"
#include "kernels/cuda/places.cuh"
#include "kernels/cuda/wide.cuh"
#include "kernels/ops/dropout.h"

static __device__ __forceinline__ float changed(const struct sw_dropout &d, uint32_t word,
                                                float normal, float x)
{
    if (d.std > 0)
        return x + d.std * normal;
    return word >= d.threshold ? x * d.scale : word < d.low_below ? d.low : d.high;
}

static __device__ __forceinline__ struct sw_philox4 draw(const struct sw_dropout_args &a, int64_t r,
                                                         uint32_t block, float *normal)
{
    uint32_t row = (uint32_t)a.step->first_row + (uint32_t)r;
    struct sw_philox4 w = sw_philox_at(a.dropout.key, a.step->step, row, block);

    if (a.dropout.std > 0) {
        sw_normal(w.v, normal);
        sw_normal(w.v + 2, normal + 2);
    }

    return w;
}

/* Rows whose elements are stored in the order of their numbers: a thread has the n elements of n /
 * 4 Philox blocks. */
template <typename T, int n>
static __global__ void rows(struct sw_dropout_args a, int64_t count, int64_t features)
{
    for (int64_t r = blockIdx.y; r < count; r += gridDim.y)
        for (uint32_t i = sw_first_in_row() * n; i < features; i += sw_stride_in_row() * n) {
            float v[n];
            sw_load<T, n>(a.x, r * features + i, v);

            for (uint32_t block = 0; block < n / 4; block++) {
                float normal[4] = {0, 0, 0, 0};
                struct sw_philox4 w = draw(a, r, i / 4 + block, normal);
                for (int j = 0; j < 4; j++)
                    v[4 * block + j] = changed(a.dropout, w.v[j], normal[j], v[4 * block + j]);
            }

            sw_store<T, n>(a.y, r * features + i, v);
        }
}

/* Adjacent threads process adjacent pixels if these are adjacent in memory. */
template <typename T> static __global__ void whole(struct sw_dropout_args a, struct sw_channels k)
{
    uint32_t channels = (uint32_t)k.channels, pixels = (uint32_t)k.pixels;
    uint32_t features = channels * pixels, blocks = (features + 3) / 4;
    bool planes = k.lanes == 1 && channels % 4 == 0;
    const T *x = (const T *)a.x;

    for (int64_t r = blockIdx.y; r < k.rows; r += gridDim.y)
        for (uint32_t i = (uint32_t)sw_first(); i < blocks; i += (uint32_t)sw_stride()) {
            uint32_t block = planes ? i % pixels * (channels / 4) + i / pixels : i;
            float normal[4] = {0, 0, 0, 0};
            struct sw_philox4 w = draw(a, r, block, normal);

            for (uint32_t j = 0; j < 4 && 4 * block + j < features; j++) {
                uint32_t e = 4 * block + j;
                int64_t at = sw_offset(k, r, e % channels, e / channels);
                sw_round((T *)a.y + at, changed(a.dropout, w.v[j], normal[j], sw_value(x[at])));
            }
        }
}

template <typename T> static __global__ void part(struct sw_dropout_args a, struct sw_channels k)
{
    uint32_t channels = (uint32_t)k.channels, features = channels * (uint32_t)k.pixels;
    const T *x = (const T *)a.x;

    for (int64_t r = blockIdx.y; r < k.rows; r += gridDim.y)
        for (uint32_t e = (uint32_t)sw_first(); e < features; e += (uint32_t)sw_stride()) {
            int64_t c = e % channels, pixel = e / channels;
            uint32_t number = (uint32_t)(a.dropout.first_channel + c + pixel * a.dropout.channels);
            int64_t at = sw_offset(k, r, c, pixel);
            float normal[4] = {0, 0, 0, 0};
            struct sw_philox4 w = draw(a, r, number / 4, normal);
            sw_round((T *)a.y + at,
                     changed(a.dropout, w.v[number % 4], normal[number % 4], sw_value(x[at])));
        }
}

template <typename T>
static int start(const struct sw_dropout_args *a, const struct sw_channels *k,
                 const struct sw_cuda_launch *l)
{
    constexpr int n = sw_wide<T>;

    if (a->dropout.channels && a->dropout.channels != k->channels)
        return SW_LAUNCH(part<T>, sw_row_grid(k), SW_THREADS, l, *a, *k);
    if (sw_desc_is_channels_last(&a->desc) && k->row_stride % n == 0 && sw_is_wide(a->x) &&
        sw_is_wide(a->y))
        return SW_LAUNCH((rows<T, n>), sw_row_grid(k, n), SW_THREADS, l, *a, k->rows,
                         k->row_stride);

    return SW_LAUNCH(whole<T>, sw_row_grid(k), SW_THREADS, l, *a, *k);
}

static int launch_dropout(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_dropout_args *a = (const struct sw_dropout_args *)args;
    struct sw_channels k;
    if (!sw_cuda_channels(&a->desc, &k))
        return SW_CUDA_NO_KERNEL;

    cudaError_t answer = cudaSuccess;
    if (a->x != a->y && sw_desc_storage(&a->desc) != sw_desc_count(&a->desc))
        answer = cudaMemsetAsync(a->y, 0, sw_desc_bytes(&a->desc), l->stream);
    if (answer != cudaSuccess)
        return (int)answer;

    return SW_BY_TYPE(a->desc.dtype, start, a, &k, l);
}

SW_CUDA_KERNELS(dropout) = {{{&sw_op_dropout, launch_dropout, NULL}, {}}};
