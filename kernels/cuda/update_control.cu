/* Update control: computes the sums of squares of all gradients and decides about the update, in
 * the same order and with the same bits as the CPU (kernels/updaters/update_control.h). Compiled without
 * fused multiply-add; squares of floats are exact in double. */
#include "kernels/cuda/cuda.cuh"
#include "kernels/ops/update.h"
#include "kernels/updaters/update_control.h"
#include "kernels/updaters/finite.h"
#include "kernels/updaters/lars.h"

/* SW_NORM_BLOCK blocks that a thread block sums at a time, with one thread per lane. */
enum { NORM_BLOCKS = SW_THREADS / SW_NORM_LANES };

static __device__ __forceinline__ float clipped(float x, float limit, int *bad)
{
    if (!(limit > 0))
        return x; /* a value that is not finite makes its square not finite */
    *bad |= (int)sw_non_finite(x);
    return x < -limit ? -limit : x > limit ? limit : x;
}

static __global__ void measure(const float *x, int64_t count, float clip,
                               const struct sw_update_control_input *known, double *squares)
{
    __shared__ double lanes[SW_THREADS];
    __shared__ int found[SW_THREADS];

    const float limit = clip * (float)known->loss_scale;
    const int lane = (int)threadIdx.x % SW_NORM_LANES, first = (int)threadIdx.x - lane;
    for (int64_t set = blockIdx.x; set * NORM_BLOCKS * SW_NORM_BLOCK < count; set += gridDim.x) {
        int64_t block = set * NORM_BLOCKS + first / SW_NORM_LANES, from = block * SW_NORM_BLOCK;
        int64_t left = count - from, n = left < SW_NORM_BLOCK ? left : (int64_t)SW_NORM_BLOCK;
        int64_t whole = n > 0 ? n / SW_NORM_LANES * SW_NORM_LANES : 0;
        double mine = 0;
        int bad = 0;

        for (int64_t i = lane; i < whole; i += SW_NORM_LANES) {
            double v = (double)clipped(x[from + i], limit, &bad);
            mine += v * v;
        }

        for (int64_t i = whole; i < n && lane == 0; i++) {
            double v = (double)clipped(x[from + i], limit, &bad);
            mine += v * v;
        }

        lanes[threadIdx.x] = mine;
        found[threadIdx.x] = bad;
        __syncthreads();

        if (lane == 0 && n > 0) {
            double sum = 0;
            int any = 0;

            for (int l = 0; l < SW_NORM_LANES; l++) {
                sum += lanes[first + l];
                any |= found[first + l];
            }

            squares[block] = any ? (double)NAN : sum;
        }

        __syncthreads();
    }
}

static int launch_measure(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_measure_args *a = (const struct sw_measure_args *)args;
    int64_t sets = (sw_norm_blocks(a->count) + NORM_BLOCKS - 1) / NORM_BLOCKS;

    SW_START(measure, sw_blocks_of(sets, (int64_t)l->processors * 8), SW_THREADS, l, a->x, a->count,
             a->limit, a->known, a->squares);
    return (int)cudaGetLastError();
}

/* One thread block per array: each thread sums groups of blocks, and the first thread adds the
 * groups. */
static __global__ void totals(const double *squares, const int64_t *ends, int arrays, double *total)
{
    __shared__ double room[SW_THREADS];

    for (int a = (int)blockIdx.x; a < arrays; a += (int)gridDim.x) {
        int64_t from = a > 0 ? ends[a - 1] : 0, blocks = ends[a] - from;
        double sum = 0;

        for (int64_t first = 0; first < blocks; first += (int64_t)SW_THREADS * SW_NORM_GROUP) {
            int64_t b = first + (int64_t)threadIdx.x * SW_NORM_GROUP;

            room[threadIdx.x] = b < blocks ? sw_norm_group(squares + from + b, blocks - b) : 0;
            __syncthreads();

            int64_t groups = (blocks - first + SW_NORM_GROUP - 1) / SW_NORM_GROUP;
            for (int g = 0; g < SW_THREADS && g < groups && threadIdx.x == 0; g++)
                sum += room[g];
            __syncthreads();
        }

        if (threadIdx.x == 0)
            total[a] = sum;
    }
}

static int launch_totals(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_norm_totals_args *a = (const struct sw_norm_totals_args *)args;
    SW_START(totals, sw_blocks_of(a->arrays, 65535), SW_THREADS, l, a->squares, a->ends, a->arrays,
             a->totals);
    return (int)cudaGetLastError();
}

static __global__ void control(const double *squares, int params, double clip_norm,
                              const struct sw_update_control_input *known, struct sw_update_control_result *control)
{
    *control = sw_update_control(squares, params, *known, clip_norm);
}

static int launch_update_control(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_update_control_args *a = (const struct sw_update_control_args *)args;
    SW_START(control, 1, 1, l, a->squares, a->params, a->clip_norm, a->known, a->control);
    return (int)cudaGetLastError();
}

static __global__ void rate(struct sw_rate_args a)
{
    struct sw_sgd *k = (struct sw_sgd *)(void *)a.numbers->constants;
    *k = sw_lars_adapt(*k, a.numbers->trust, *a.value_squares, *a.gradient_squares,
                       a.control->scale);
}

static int launch_rate(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_rate_args *a = (const struct sw_rate_args *)args;
    SW_START(rate, 1, 1, l, *a);
    return (int)cudaGetLastError();
}

SW_CUDA_KERNELS(update_control) = {{{&sw_op_measure, launch_measure, NULL},
                            {&sw_op_norm_totals, launch_totals, NULL},
                            {&sw_op_update_control, launch_update_control, NULL},
                            {&sw_op_rate, launch_rate, NULL},
                            {}}};
