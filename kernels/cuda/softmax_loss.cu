/* Softmax with cross-entropy by a label; formulas in kernels/cpu/softmax.c. A block has a row. */
#include "kernels/cuda/rows.cuh"
#include <math_constants.h>

/* prob may be x: the score at the label is read before the first element is written. */
static __global__ void forward(struct sw_cuda_loss a, uint64_t who, double *part,
                               struct sw_cuda_trouble *trouble)
{
    __shared__ float most[SW_THREADS];
    __shared__ double room[SW_THREADS];
    int64_t valid = sw_valid_steps(a.step, a.per_sample, a.rows), n = a.columns;
    double loss = 0, counted = 0;
    for (int64_t r = blockIdx.x; r < valid; r += gridDim.x) {
        const float *x = a.x + r * n;
        float *y = a.y + r * n, m = -CUDART_INF_F;
        int64_t label = a.label[r];
        bool counts = label != a.ignore && sw_label_fits(label, n, r, who, trouble);
        float at_label = counts ? x[label] : 0.0f;
        for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
            m = x[i] > m ? x[i] : m;
        m = sw_block_max(m, most);
        double sum = 0;
        for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
            float e = expf(x[i] - m);
            y[i] = e;
            sum += (double)e;
        }
        sum = sw_block_sum(sum, room);
        float scale = (float)(1.0 / sum);
        for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
            y[i] *= scale;
        loss += counts ? log(sum) - ((double)at_label - (double)m) : 0;
        counted += counts ? 1 : 0;
    }
    sw_put_part(part, loss, counted);
}

int sw_cuda_softmax_loss(const struct sw_cuda_loss *a, const struct sw_cuda_launch *l)
{
    unsigned blocks = sw_sum_blocks(a->rows);
    SW_START(forward, blocks, sw_threads_for(a->columns), l, *a, (uint64_t)(uintptr_t)a->who,
             l->partials, l->trouble);
    SW_START(sw_add_row_parts, 1, SW_THREADS, l, l->partials, blocks, a->weight, a->result);
    return (int)cudaGetLastError();
}

/* Without a label that counts there is nothing to scale. */
static __device__ __forceinline__ float scale_of(const struct sw_cuda_loss_gradient &a)
{
    double scale = (double)a.weight * (double)a.step->backward_scale;
    if (a.counted)
        scale = *a.counted > 0 ? scale * (double)a.batch_rows / *a.counted : 0;
    else if (a.per_sample > 1)
        scale /= (double)a.per_sample;
    return (float)scale;
}

static __global__ void backward(struct sw_cuda_loss_gradient a)
{
    int64_t valid = sw_valid_steps(a.step, a.per_sample, a.rows), n = a.columns;
    float scale = scale_of(a);
    for (int64_t i = sw_first(); i < a.rows * n; i += sw_stride()) {
        int64_t r = i / n, label = r < valid ? a.label[r] : a.ignore;
        bool counts = r < valid && label != a.ignore;
        a.dx[i] = counts ? scale * (a.y[i] - (label == i % n ? 1.0f : 0.0f)) : 0.0f;
    }
}

int sw_cuda_softmax_loss_backward(const struct sw_cuda_loss_gradient *a,
                                  const struct sw_cuda_launch *l)
{
    SW_START(backward, sw_blocks_for(a->rows * a->columns, l), SW_THREADS, l, *a);
    return (int)cudaGetLastError();
}
