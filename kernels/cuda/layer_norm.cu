/* Layer normalization of the rows of a plain matrix; formulas in kernels/cpu/layer_norm.c. One
 * block per row; sums over rows have 32 columns per block and 8 threads per column. */
#include "kernels/cuda/cuda.cuh"
#include "kernels/ops/layer_norm.h"

enum { COLUMNS = 32, LINES = SW_THREADS / COLUMNS };

static __global__ void forward(struct sw_layer_norm_args k)
{
    __shared__ double room[SW_THREADS];

    for (int64_t r = blockIdx.x; r < k.rows; r += gridDim.x) {
        const float *x = k.x + r * k.n;
        float *y = k.y + r * k.n;
        double sum = 0, square = 0;

        for (int64_t i = threadIdx.x; i < k.n; i += blockDim.x)
            sum += (double)x[i];

        double middle = sw_block_sum(sum, room) / (double)k.n;
        for (int64_t i = threadIdx.x; i < k.n; i += blockDim.x) {
            double d = (double)x[i] - middle;
            square += d * d;
        }

        double variance = sw_block_sum(square, room) / (double)k.n;
        float mean = (float)middle, inv_std = (float)(1.0 / sqrt(variance + (double)k.eps));
        if (threadIdx.x == 0) {
            k.moments[2 * r] = mean;
            k.moments[2 * r + 1] = inv_std;
        }

        for (int64_t i = threadIdx.x; i < k.n; i += blockDim.x)
            y[i] = k.scale[i] * ((x[i] - mean) * inv_std) + k.bias[i];
    }
}

static int launch_forward(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_layer_norm_args *k = (const struct sw_layer_norm_args *)args;
    return SW_LAUNCH(forward, sw_blocks_of(k->rows, 65535), sw_threads_for(k->n), l, *k);
}

static __global__ void columns(struct sw_layer_norm_args k)
{
    __shared__ double scale[SW_THREADS], bias[SW_THREADS];

    unsigned t = threadIdx.x, column = t % COLUMNS, line = t / COLUMNS;
    for (int64_t first = (int64_t)blockIdx.x * COLUMNS; first < k.n;
         first += (int64_t)gridDim.x * COLUMNS) {
        int64_t c = first + column;

        scale[t] = bias[t] = 0;
        for (int64_t r = line; r < k.rows && c < k.n; r += LINES) {
            float dy = k.dy[r * k.n + c];
            float xhat = (k.x[r * k.n + c] - k.moments[2 * r]) * k.moments[2 * r + 1];
            scale[t] += (double)(dy * xhat);
            bias[t] += (double)dy;
        }

        __syncthreads();

        for (unsigned half = LINES / 2; half > 0; half /= 2) {
            if (line < half) {
                scale[t] += scale[t + half * COLUMNS];
                bias[t] += bias[t + half * COLUMNS];
            }

            __syncthreads();
        }

        if (line == 0 && c < k.n) {
            k.dscale[c] = (float)scale[t];
            k.dbias[c] = (float)bias[t];
        }

        __syncthreads();
    }
}

static __global__ void backward(struct sw_layer_norm_args k)
{
    __shared__ double room[SW_THREADS];

    for (int64_t r = blockIdx.x; r < k.rows; r += gridDim.x) {
        const float *x = k.x + r * k.n, *dy = k.dy + r * k.n;
        float *dx = k.dx + r * k.n, mean = k.moments[2 * r], inv_std = k.moments[2 * r + 1];
        double sum = 0, product = 0;

        for (int64_t i = threadIdx.x; i < k.n; i += blockDim.x) {
            float g = k.scale[i] * dy[i];
            sum += (double)g;
            product += (double)g * (double)((x[i] - mean) * inv_std);
        }

        float of_g = (float)(sw_block_sum(sum, room) / (double)k.n);
        float of_x = (float)(sw_block_sum(product, room) / (double)k.n);
        for (int64_t i = threadIdx.x; i < k.n; i += blockDim.x)
            dx[i] = (k.scale[i] * dy[i] - of_g - (x[i] - mean) * inv_std * of_x) * inv_std;
    }
}

/* dscale and dbias come first: dx may be dy. */
static int launch_backward(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_layer_norm_args *k = (const struct sw_layer_norm_args *)args;
    unsigned blocks = sw_blocks_of((k->n + COLUMNS - 1) / COLUMNS, 65535);

    SW_START(columns, blocks, SW_THREADS, l, *k);
    if (k->dx)
        SW_START(backward, sw_blocks_of(k->rows, 65535), sw_threads_for(k->n), l, *k);

    return (int)cudaGetLastError();
}

SW_CUDA_KERNELS(layer_norm) = {{{&sw_op_layer_norm, launch_forward, NULL},
                                {&sw_op_layer_norm_gradient, launch_backward, NULL},
                                {}}};
