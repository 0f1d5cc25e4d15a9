/* Sums that are not by channels: over rows, over everything, and counts of labels. Each is cut into
 * parts by its shape alone and added up in their order, in double. */
#include "kernels/cuda/cuda.cuh"

enum { COLUMNS = 32, LINES = SW_THREADS / COLUMNS };

/* A block has 32 columns, and 8 threads share the rows of each. */
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
    SW_START(sum_rows, blocks, SW_THREADS, l, rows, columns, x, sum);
    return (int)cudaGetLastError();
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

int sw_cuda_total(const float *x, int64_t n, double *total, const struct sw_cuda_launch *l)
{
    unsigned parts = sw_sum_blocks((n + SW_THREADS - 1) / SW_THREADS);
    SW_START(sum_parts, parts, SW_THREADS, l, x, n, l->partials);
    SW_START(add_parts, 1, 1, l, l->partials, parts, total);
    return (int)cudaGetLastError();
}

static __global__ void count_labels(const int32_t *label, int64_t rows, int64_t per_sample,
                                    int64_t ignore, const struct sw_step *step, double *count)
{
    __shared__ double room[SW_THREADS];
    int64_t valid = sw_valid_steps(step, per_sample, rows);
    double mine = 0;
    for (int64_t r = threadIdx.x; r < valid; r += blockDim.x)
        mine += label[r] != ignore ? 1 : 0;
    double sum = sw_block_sum(mine, room);
    if (threadIdx.x == 0)
        *count = sum;
}

int sw_cuda_count_labels(const int32_t *label, int64_t rows, int64_t per_sample, int64_t ignore,
                         const struct sw_step *step, double *count, const struct sw_cuda_launch *l)
{
    SW_START(count_labels, 1, SW_THREADS, l, label, rows, per_sample, ignore, step, count);
    return (int)cudaGetLastError();
}
