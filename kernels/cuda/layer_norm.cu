/* Layer normalization of the rows of a plain matrix; formulas in kernels/cpu/layer_norm.c. One
 * block per row; gradients of the columns are sums over the rows. */
#include "kernels/cuda/columns.cuh"
#include "kernels/ops/layer_norm.h"

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

/* The gradients of scale and bias. */
struct columns_term {
    struct sw_layer_norm_args k;

    __device__ void get(int64_t r, int64_t c, double *v) const
    {
        float dy = k.dy[r * k.n + c];
        float xhat = (k.x[r * k.n + c] - k.moments[2 * r]) * k.moments[2 * r + 1];
        v[0] = (double)(dy * xhat);
        v[1] = (double)dy;
    }
    __device__ void set(int which, int64_t c, double sum) const
    {
        (which == 0 ? k.dscale : k.dbias)[c] = (float)sum;
    }
};

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
    const struct columns_term t = {*k};
    int answer = sw_sum_columns<2>(t, k->rows, k->n, l);
    if (answer || !k->dx)
        return answer;

    return SW_LAUNCH(backward, sw_blocks_of(k->rows, 65535), sw_threads_for(k->n), l, *k);
}

SW_CUDA_KERNELS(layer_norm) = {{{&sw_op_layer_norm, launch_forward, NULL},
                                {&sw_op_layer_norm_gradient, launch_backward, NULL},
                                {}}};
