/* Sums over rows, over columns and over all elements, and addition of a row to all rows. The shape
 * alone determines the parts of a sum, which are added in order and in double. */
#include "kernels/cuda/cuda.cuh"
#include "kernels/ops/sums.h"

enum { COLUMNS = 32, LINES = SW_THREADS / COLUMNS };

/* A block has 32 columns and 8 threads per column, which divide its rows. */
static __global__ void sum_rows(int64_t rows, int64_t columns, const float *x, float *sum)
{
    __shared__ double room[SW_THREADS];

    unsigned column = threadIdx.x % COLUMNS, line = threadIdx.x / COLUMNS;
    for (int64_t first = (int64_t)blockIdx.x * COLUMNS; first < columns;
         first += (int64_t)gridDim.x * COLUMNS) {
        int64_t c = first + column;
        double mine = 0;

        for (int64_t r = line; r < rows && c < columns; r += LINES)
            mine += (double)x[r * columns + c];
        room[threadIdx.x] = mine;
        __syncthreads();

        for (unsigned half = LINES / 2; half > 0; half /= 2) {
            if (line < half)
                room[threadIdx.x] += room[threadIdx.x + half * COLUMNS];
            __syncthreads();
        }

        if (line == 0 && c < columns)
            sum[c] = (float)room[column];
        __syncthreads();
    }
}

int sw_cuda_sum_rows(int64_t rows, int64_t columns, const float *x, float *sum,
                     const struct sw_cuda_launch *l)
{
    unsigned blocks = sw_blocks_of((columns + COLUMNS - 1) / COLUMNS, 65535);
    return SW_LAUNCH(sum_rows, blocks, SW_THREADS, l, rows, columns, x, sum);
}

static int launch_sum_rows(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_sum_rows_args *a = (const struct sw_sum_rows_args *)args;
    return sw_cuda_sum_rows(a->rows, a->columns, a->x, a->sum, l);
}

static __global__ void sum_parts(const float *x, int64_t n, double *part)
{
    __shared__ double room[SW_THREADS];

    double mine = 0;
    for (int64_t i = sw_first(); i < n; i += sw_stride())
        mine += (double)x[i];

    double sum = sw_block_sum(mine, room);
    if (threadIdx.x == 0)
        part[blockIdx.x] = sum;
}

static __global__ void add_parts(const double *part, unsigned parts, double *total)
{
    double sum = 0;
    for (unsigned i = 0; i < parts; i++)
        sum += part[i];
    *total = sum;
}

static int launch_total(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_total_args *a = (const struct sw_total_args *)args;
    unsigned parts = sw_sum_blocks((a->n + SW_THREADS - 1) / SW_THREADS);

    SW_START(sum_parts, parts, SW_THREADS, l, a->x, a->n, l->partials);
    return SW_LAUNCH(add_parts, 1, 1, l, l->partials, parts, a->total);
}

static __global__ void row_sums(int64_t rows, int64_t columns, const float *x, float *sum)
{
    __shared__ double room[SW_THREADS];

    for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
        double mine = 0;

        for (int64_t c = threadIdx.x; c < columns; c += blockDim.x)
            mine += (double)x[r * columns + c];

        double all = sw_block_sum(mine, room);
        if (threadIdx.x == 0)
            sum[r] = (float)all;
    }
}

static int launch_row_sums(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_row_sums_args *a = (const struct sw_row_sums_args *)args;
    return SW_LAUNCH(row_sums, sw_blocks_of(a->rows, 65535), sw_threads_for(a->columns), l, a->rows,
                     a->columns, a->x, a->sum);
}

/* Adjacent threads process adjacent columns. */
static __global__ void weighted_row_sum(int64_t rows, int64_t first_rows, int64_t columns,
                                        float first_factor, float shift, const float *x, float *sum)
{
    for (int64_t c = sw_first(); c < columns; c += sw_stride()) {
        double total = 0;
        for (int64_t r = 0; r < rows; r++)
            total += (r < first_rows ? (double)first_factor : 1.0) * (double)x[r * columns + c];
        sum[c] = (float)(total + (double)shift);
    }
}

static int launch_weighted_row_sum(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_two_sums_args *a = (const struct sw_two_sums_args *)args;
    return SW_LAUNCH(weighted_row_sum, sw_blocks_for(a->columns, l), SW_THREADS, l, a->rows,
                     a->first_rows, a->columns, a->first_factor, a->shift, a->x, a->sum);
}

/* NaN passes a relu, so that divergence is detected. */
static __global__ void add_row(int64_t n, int64_t columns, const float *row, bool relu, float *y)
{
    for (int64_t i = sw_first(); i < n; i += sw_stride()) {
        float v = y[i] + (row ? row[i % columns] : 0.0f);
        y[i] = relu && 0.0f > v ? 0.0f : v;
    }
}

int sw_cuda_add_row(int64_t rows, int64_t columns, const float *row, bool relu, float *y,
                    const struct sw_cuda_launch *l)
{
    int64_t n = rows * columns;
    return SW_LAUNCH(add_row, sw_blocks_for(n, l), SW_THREADS, l, n, columns, row, relu, y);
}

static int launch_add_row(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_row_args *a = (const struct sw_row_args *)args;
    return sw_cuda_add_row(a->rows, a->columns, a->row, false, a->y, l);
}

SW_CUDA_KERNELS(sums) = {{{&sw_op_add_row, launch_add_row, NULL},
                          {&sw_op_sum_rows, launch_sum_rows, NULL},
                          {&sw_op_row_sums, launch_row_sums, NULL},
                          {&sw_op_two_sums, launch_weighted_row_sum, NULL},
                          {&sw_op_total, launch_total, NULL},
                          {}}};
