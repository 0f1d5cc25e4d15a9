/* Softmax along one dimension of a plain array, viewed as [rows, classes, places]; formulas in
 * kernels/cpu/softmax.c. If classes are adjacent there is one block per row, else one thread per
 * place. */
#include "kernels/cuda/softmax.cuh"
#include "kernels/ops/softmax.h"

static __global__ void rows_forward(int64_t rows, int64_t n, const float *x, float *y)
{
    __shared__ float most[SW_THREADS];
    __shared__ double room[SW_THREADS];

    for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
        float *to = y + r * n, m;
        double sum = sw_block_exp(x + r * n, n, to, &m, most, room);

        float scale = (float)(1.0 / sum);
        for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
            to[i] *= scale;
    }
}

static __global__ void rows_backward(int64_t rows, int64_t n, const float *y, const float *dy,
                                     float *dx)
{
    __shared__ double room[SW_THREADS];

    for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
        int64_t at = r * n;
        double sum = 0;

        for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
            sum += (double)(y[at + i] * dy[at + i]);

        float dot = (float)sw_block_sum(sum, room);
        for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
            dx[at + i] = y[at + i] * (dy[at + i] - dot);
    }
}

static __global__ void places_forward(int64_t rows, int64_t classes, int64_t places, const float *x,
                                      float *y)
{
    for (int64_t i = sw_first(); i < rows * places; i += sw_stride()) {
        int64_t at = i / places * classes * places + i % places;
        float m = x[at];
        double sum = 0;

        for (int64_t c = 1; c < classes; c++)
            m = x[at + c * places] > m ? x[at + c * places] : m;

        for (int64_t c = 0; c < classes; c++) {
            float e = expf(x[at + c * places] - m);
            y[at + c * places] = e;
            sum += (double)e;
        }

        float scale = (float)(1.0 / sum);
        for (int64_t c = 0; c < classes; c++)
            y[at + c * places] *= scale;
    }
}

static __global__ void places_backward(int64_t rows, int64_t classes, int64_t places,
                                       const float *y, const float *dy, float *dx)
{
    for (int64_t i = sw_first(); i < rows * places; i += sw_stride()) {
        int64_t at = i / places * classes * places + i % places;
        double sum = 0;

        for (int64_t c = 0; c < classes; c++)
            sum += (double)(y[at + c * places] * dy[at + c * places]);
        for (int64_t c = 0; c < classes; c++)
            dx[at + c * places] = y[at + c * places] * (dy[at + c * places] - (float)sum);
    }
}

static int launch_forward(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_softmax_args *a = (const struct sw_softmax_args *)args;

    return a->places == 1
               ? SW_LAUNCH(rows_forward, sw_blocks_of(a->rows, 65535), sw_threads_for(a->classes),
                           l, a->rows, a->classes, a->x, a->y)
               : SW_LAUNCH(places_forward, sw_blocks_for(a->rows * a->places, l), SW_THREADS, l,
                           a->rows, a->classes, a->places, a->x, a->y);
}

static int launch_backward(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_softmax_args *a = (const struct sw_softmax_args *)args;

    return a->places == 1
               ? SW_LAUNCH(rows_backward, sw_blocks_of(a->rows, 65535), sw_threads_for(a->classes),
                           l, a->rows, a->classes, (const float *)a->y, a->dy, a->dx)
               : SW_LAUNCH(places_backward, sw_blocks_for(a->rows * a->places, l), SW_THREADS, l,
                           a->rows, a->classes, a->places, (const float *)a->y, a->dy, a->dx);
}

SW_CUDA_KERNELS(softmax) = {
    {{&sw_op_softmax, launch_forward, NULL}, {&sw_op_softmax_gradient, launch_backward, NULL}, {}}};
