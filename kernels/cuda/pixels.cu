/* The pixels of a batch to floats. A row of the grid takes an image. A thread converts 16 aligned
 * bytes of the result, most of the traffic; neighbors read neighboring bytes. It divides
 * twice, in 32 bits, to find its first pixel, and counts from there. */
#include "kernels/cuda/cuda.cuh"
#include "kernels/ops/pixels.h"

/* Values that are written at once. */
template <typename T> struct alignas(16) sw_pixels_pack {
    static const int count = 16 / (int)sizeof(T);
    T value[count];
};

/* A pixel of the result: its channel, line and column, and the number of its line in the image. */
struct place {
    int32_t channel, line, column, lines;
};

static __device__ __forceinline__ struct place place_of(const struct sw_pixels_args &a, int32_t at)
{
    struct place p;

    p.lines = (int32_t)((uint32_t)at / (uint32_t)a.width);
    p.column = at - p.lines * (int32_t)a.width;
    p.channel = (int32_t)((uint32_t)p.lines / (uint32_t)a.height);
    p.line = p.lines - p.channel * (int32_t)a.height;

    return p;
}

static __device__ __forceinline__ void go_on(const struct sw_pixels_args &a, struct place *p)
{
    if (++p->column < a.width)
        return;

    p->column = 0;
    p->lines++;
    if (++p->line < a.height)
        return;

    p->line = 0;
    p->channel++;
}

static __device__ __forceinline__ float convert(const struct sw_pixels_args &a,
                                                const struct sw_pixels_head &head,
                                                const unsigned char *x, const struct place &p)
{
    const int32_t width = (int32_t)a.width;
    const int32_t column = head.mirrored ? width - 1 - p.column : p.column;
    const float value = (float)x[p.lines * width + column];

    if (a.mean_image) {
        const int64_t line = p.channel * a.mean_height + head.top + p.line;
        return (value - a.mean_image[line * a.mean_width + head.left + column]) * a.gain[p.channel];
    }

    const bool inside = p.line >= head.first_line && p.line < head.end_line &&
                        column >= head.first_column && column < head.end_column;
    return inside ? (value - a.mean[p.channel]) * a.gain[p.channel] : 0;
}

/* Writes the values of an image from `first` on that exist: the ends of an image need not be
 * aligned. */
template <typename T>
static __device__ __forceinline__ void convert_pack(const struct sw_pixels_args &a,
                                                    const struct sw_pixels_head &head,
                                                    const unsigned char *__restrict__ x,
                                                    int32_t first, int32_t count,
                                                    T *__restrict__ y)
{
    typedef struct sw_pixels_pack<T> pack;
    struct place p = place_of(a, first < 0 ? 0 : first);
    pack out;

    if (first >= 0 && first + pack::count <= count) {
        for (int i = 0; i < pack::count; i++, go_on(a, &p))
            out.value[i] = (T)convert(a, head, x, p);
        *(pack *)(y + first) = out;
        return;
    }

    for (int32_t at = first < 0 ? 0 : first; at < first + pack::count && at < count; at++) {
        y[at] = (T)convert(a, head, x, p);
        go_on(a, &p);
    }
}

template <typename T> static __global__ void pixels(struct sw_pixels_args a, T *y)
{
    const int32_t size = sw_pixels_pack<T>::count;
    const int32_t count = (int32_t)(a.channels * a.height * a.width);

    for (int64_t row = blockIdx.y; row < a.rows; row += gridDim.y) {
        const unsigned char *x = a.x + row * a.row_bytes;
        const struct sw_pixels_head head = *(const struct sw_pixels_head *)x;
        const int32_t skew = (int32_t)(row * count % size);

        for (int64_t first = sw_first() * size - skew; first < count; first += sw_stride() * size)
            convert_pack(a, head, x + sizeof head, (int32_t)first, count, y + row * count);
    }
}

static int launch_pixels(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_pixels_args *a = (const struct sw_pixels_args *)args;
    const int64_t size = sw_pixels_pack<float>::count;
    const int64_t count = a->channels * a->height * a->width;

    if (count > INT32_MAX - 2 * size)
        return SW_CUDA_NO_KERNEL;
    if (a->rows == 0 || count == 0)
        return (int)cudaSuccess;

    const dim3 grid(sw_blocks_of((count / size + 2 + SW_THREADS - 1) / SW_THREADS, 1024),
                    sw_blocks_of(a->rows, 65535), 1);
    return SW_LAUNCH(pixels<float>, grid, SW_THREADS, l, *a, a->y);
}

SW_CUDA_KERNELS(pixels) = {{{&sw_op_pixels, launch_pixels, NULL}, {}}};
