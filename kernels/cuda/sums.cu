/* Sums over rows, over columns and over all elements, and addition of a row to all rows. The shape
 * alone determines the parts of a sum, which are added in order and in double. */
#include "base/tree.h"
#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/wide.cuh"
#include "kernels/ops/sums.h"

template <typename T> struct rows_term {
    int64_t columns;
    const T *x;
    float *sum;

    __device__ void get(int64_t r, int64_t c, double *v) const
    {
        *v = (double)sw_value(x[r * columns + c]);
    }
    __device__ void set(int, int64_t c, double total) const
    {
        sum[c] = (float)total;
    }
};

template <typename T>
static int sum_rows(int64_t rows, int64_t columns, const void *x, float *sum,
                    const struct sw_cuda_launch *l)
{
    const struct rows_term<T> t = {
        columns, (const T *)x, sum
    };
    return sw_sum_columns<1>(t, rows, columns, l);
}

int sw_cuda_sum_rows(int64_t rows, int64_t columns, enum sw_dtype type, const void *x, float *sum,
                     const struct sw_cuda_launch *l)
{
    return SW_BY_TYPE(type, sum_rows, rows, columns, x, sum, l);
}

static int launch_sum_rows(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_sum_rows_args *a = (const struct sw_sum_rows_args *)args;
    return sw_cuda_sum_rows(a->rows, a->columns, SW_F32, a->x, a->sum, l);
}

static __global__ void sum_parts(const float *x, int64_t n, double *part)
{
    __shared__ double room[SW_THREADS];

    double mine = 0;
    SW_ROLLED
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

struct two_sums_term {
    struct sw_two_sums_args a;

    __device__ void get(int64_t r, int64_t c, double *v) const
    {
        *v = (r < a.first_rows ? (double)a.first_factor : 1.0) * (double)a.x[r * a.columns + c];
    }
    __device__ void set(int, int64_t c, double total) const
    {
        a.sum[c] = (float)(total + (double)a.shift);
    }
};

static int launch_weighted_row_sum(const struct sw_cuda_launch *l, const void *args)
{
    const struct two_sums_term t = {*(const struct sw_two_sums_args *)args};
    return sw_sum_columns<1>(t, t.a.rows, t.a.columns, l);
}

/* A thread has n columns. NaN passes a relu, so that divergence is detected. */
template <typename T, int n>
static __global__ void add_row(int64_t rows, int64_t columns, const float *row, bool relu, T *y)
{
    for (int64_t r = blockIdx.y; r < rows; r += gridDim.y)
        SW_ROLLED
    for (int64_t c = sw_first() * n; c < columns; c += sw_stride() * n) {
        float v[n], add[n] = {};

        sw_load<T, n>(y, r * columns + c, v);
        if (row)
            sw_load<float, n>(row, c, add);
        for (int j = 0; j < n; j++) {
            v[j] += add[j];
            v[j] = relu && 0.0f > v[j] ? 0.0f : v[j];
        }
        sw_store<T, n>(y, r * columns + c, v);
    }
}

template <typename T>
static int start_add_row(int64_t rows, int64_t columns, const float *row, bool relu, void *y,
                         const struct sw_cuda_launch *l)
{
    const bool wide = columns % sw_wide<T> == 0 && sw_is_wide(row) && sw_is_wide(y);
    const int64_t each = wide ? columns / sw_wide<T> : columns;
    const unsigned threads = sw_threads_for(each);
    const dim3 grid(sw_blocks_of((each + threads - 1) / threads, 1024), sw_blocks_of(rows, 65535),
                    1);

    return wide ? SW_LAUNCH((add_row<T, sw_wide<T>>), grid, threads, l, rows, columns, row, relu,
                            (T *)y)
                : SW_LAUNCH((add_row<T, 1>), grid, threads, l, rows, columns, row, relu, (T *)y);
}

int sw_cuda_add_row(int64_t rows, int64_t columns, const float *row, bool relu, enum sw_dtype type,
                    void *y, const struct sw_cuda_launch *l)
{
    return SW_BY_TYPE(type, start_add_row, rows, columns, row, relu, y, l);
}

static int launch_add_row(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_row_args *a = (const struct sw_row_args *)args;
    return sw_cuda_add_row(a->rows, a->columns, a->row, false, SW_F32, a->y, l);
}

/* adds[t] additions follow after row t is pushed onto the stack. */
struct leaf_program {
    int adds[SW_LEAF_SUMS];
};

static __global__ void leaf_sums(struct sw_leaf_sums_args a, struct leaf_program p)
{
    for (int64_t c = sw_first(); c < a.count; c += sw_stride()) {
        double stack[SW_TREE_DEPTH];
        int depth = 1;

        stack[0] = a.rows[c]; /* nothing is added after the first row */

        for (int t = 1; t < a.leaves; t++) {
            stack[depth++] = a.rows[(int64_t)t * a.room + c];
            for (int k = p.adds[t]; k > 0; k--, depth--)
                stack[depth - 2] += stack[depth - 1];
        }

        a.sums[c] = stack[0];
    }
}

static int launch_leaf_sums(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_leaf_sums_args *a = (const struct sw_leaf_sums_args *)args;
    struct leaf_program p = {};

    if (a->leaves > SW_LEAF_SUMS)
        return SW_CUDA_NO_KERNEL;

    for (int t = 0; t < a->leaves; t++)
        p.adds[t] = sw_tree_adds(a->leaves, t, t + 1);
    return SW_LAUNCH(leaf_sums, sw_blocks_for(a->count, l), SW_THREADS, l, *a, p);
}

SW_CUDA_KERNELS(sums) = {{{&sw_op_add_row, launch_add_row, NULL},
                          {&sw_op_sum_rows, launch_sum_rows, NULL},
                          {&sw_op_row_sums, launch_row_sums, NULL},
                          {&sw_op_two_sums, launch_weighted_row_sum, NULL},
                          {&sw_op_total, launch_total, NULL},
                          {&sw_op_leaf_sums, launch_leaf_sums, NULL},
                          {}}};
