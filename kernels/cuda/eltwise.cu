/* Several arrays combined element by element, and the ways back; formulas in kernels/cpu/eltwise.c.
 * A thread has one element of all arrays, so any output may be one of the inputs. */
#include "kernels/cuda/cuda.cuh"

static __device__ __forceinline__ float combined(const struct sw_cuda_eltwise &e, int64_t i)
{
    float v = e.kind == SW_KERNEL_SUM ? e.factor[0] * e.x[0][i] : e.x[0][i];
    for (int k = 1; k < e.count; k++) {
        float x = e.x[k][i];
        if (e.kind == SW_KERNEL_SUM)
            v += e.factor[k] * x;
        else if (e.kind == SW_KERNEL_PRODUCT)
            v *= x;
        else
            v = v > x || v != v ? v : x;
    }
    return v;
}

static __global__ void forward(struct sw_cuda_eltwise e)
{
    for (int64_t i = sw_first(); i < e.n; i += sw_stride()) {
        float v = combined(e, i);
        e.y[i] = e.relu && 0.0f > v ? 0.0f : v;
    }
}

int sw_cuda_eltwise(const struct sw_cuda_eltwise *e, const struct sw_cuda_launch *l)
{
    SW_START(forward, sw_blocks_for(e->n, l), SW_THREADS, l, *e);
    return (int)cudaGetLastError();
}

/* What a relu behind lets through of the gradient. */
static __device__ __forceinline__ float passed(const struct sw_cuda_eltwise &e, int64_t i)
{
    return e.y && !(e.y[i] > 0.0f) ? 0.0f : e.dy[i];
}

static __global__ void sum_backward(struct sw_cuda_eltwise e)
{
    for (int64_t i = sw_first(); i < e.n; i += sw_stride()) {
        float g = passed(e, i);
        for (int k = 0; k < e.count; k++)
            if (e.dx[k])
                e.dx[k][i] = e.factor[k] * g + (e.adds >> k & 1 ? e.dx[k][i] : 0.0f);
    }
}

int sw_cuda_eltwise_sum_backward(const struct sw_cuda_eltwise *e, const struct sw_cuda_launch *l)
{
    SW_START(sum_backward, sw_blocks_for(e->n, l), SW_THREADS, l, *e);
    return (int)cudaGetLastError();
}

static __global__ void one_backward(struct sw_cuda_eltwise e)
{
    for (int64_t i = sw_first(); i < e.n; i += sw_stride()) {
        float g = passed(e, i);
        for (int k = 0; k < e.count; k++) {
            if (k == e.of)
                continue;
            float mine = e.kind == SW_KERNEL_MAX ? e.x[e.of][i] : 0.0f, other = e.x[k][i];
            if (e.kind == SW_KERNEL_PRODUCT)
                g *= other;
            else if (!(k > e.of ? mine >= other : mine > other))
                g = 0.0f;
        }
        float *dx = e.dx[e.of];
        dx[i] = g + (e.adds >> e.of & 1 ? dx[i] : 0.0f);
    }
}

int sw_cuda_eltwise_one_backward(const struct sw_cuda_eltwise *e, const struct sw_cuda_launch *l)
{
    SW_START(one_backward, sw_blocks_for(e->n, l), SW_THREADS, l, *e);
    return (int)cudaGetLastError();
}
