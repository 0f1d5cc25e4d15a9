/* Update control: computes the sums of squares of all gradients and decides about the update, in
 * the same order and with the same bits as the CPU (kernels/updaters/update_control.h). Compiled without
 * fused multiply-add; squares of floats are exact in double. */
#include "kernels/cuda/params.cuh"
#include "kernels/ops/update.h"
#include "kernels/updaters/update_control.h"
#include "kernels/updaters/finite.h"
#include "kernels/updaters/lars.h"

enum { MEASURE_THREADS = SW_UPDATE_CHUNK / SW_NORM_BLOCK * SW_NORM_LANES };

static __device__ __forceinline__ float clipped(float x, float limit, int *bad)
{
    if (!(limit > 0))
        return x; /* a value that is not finite makes its square not finite */
    *bad |= (int)sw_non_finite(x);
    return x < -limit ? -limit : x > limit ? limit : x;
}

/* A thread block measures a chunk of a parameter, with SW_NORM_LANES threads per block of the norm. */
static __global__ void measure(struct sw_measure_args a)
{
    __shared__ double lanes[MEASURE_THREADS];
    __shared__ int found[MEASURE_THREADS];

    const struct sw_update_numbers *k = &a.numbers[sw_find_param(a.numbers, a.params)];
    const float limit = a.limit * (float)a.known->loss_scale;
    const int lane = (int)threadIdx.x % SW_NORM_LANES, first = (int)threadIdx.x - lane;
    const int64_t chunk = (int64_t)blockIdx.x - k->first_chunk;
    const int64_t block = chunk * (SW_UPDATE_CHUNK / SW_NORM_BLOCK) + first / SW_NORM_LANES;
    const int64_t from = block * SW_NORM_BLOCK, left = k->count - from;
    const int n = left < SW_NORM_BLOCK ? (int)left : SW_NORM_BLOCK;
    const int whole = n > 0 ? n / SW_NORM_LANES * SW_NORM_LANES : 0;
    const float *x = a.x + k->first + from;
    double mine = 0;
    int bad = 0;

    for (int i = lane; i < whole; i += SW_NORM_LANES) {
        double v = (double)clipped(x[i], limit, &bad);
        mine += v * v;
    }

    for (int i = whole; i < n && lane == 0; i++) {
        double v = (double)clipped(x[i], limit, &bad);
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

        a.squares[k->first_square + block] = any ? (double)NAN : sum;
    }
}

static int launch_measure(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_measure_args *a = (const struct sw_measure_args *)args;

    if (a->chunks == 0)
        return (int)cudaSuccess;
    return SW_LAUNCH(measure, (unsigned)a->chunks, MEASURE_THREADS, l, *a);
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
    return SW_LAUNCH(totals, sw_blocks_of(a->arrays, 65535), SW_THREADS, l, a->squares, a->ends,
                     a->arrays, a->totals);
}

static __global__ void control(const double *squares, int params, double clip_norm,
                              const struct sw_update_control_input *known, struct sw_update_control_result *control)
{
    *control = sw_update_control(squares, params, *known, clip_norm);
}

static int launch_update_control(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_update_control_args *a = (const struct sw_update_control_args *)args;
    return SW_LAUNCH(control, 1, 1, l, a->squares, a->params, a->clip_norm, a->known, a->control);
}

static __global__ void rate(struct sw_rate_args a)
{
    for (int i = (int)threadIdx.x; i < a.params; i += SW_THREADS) {
        struct sw_update_numbers *n = &a.numbers[i];
        struct sw_sgd *k = (struct sw_sgd *)(void *)n->constants;
        *k = sw_lars_adapt(*k, n->trust, a.value_squares[n->total], a.gradient_squares[n->total],
                           a.control->scale);
    }
}

static int launch_rate(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_rate_args *a = (const struct sw_rate_args *)args;
    return SW_LAUNCH(rate, 1, SW_THREADS, l, *a);
}

SW_CUDA_KERNELS(update_control) = {{{&sw_op_measure, launch_measure, NULL},
                            {&sw_op_norm_totals, launch_totals, NULL},
                            {&sw_op_update_control, launch_update_control, NULL},
                            {&sw_op_rate, launch_rate, NULL},
                            {}}};
