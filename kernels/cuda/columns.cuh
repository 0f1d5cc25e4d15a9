/* Sums over the rows of a matrix, per column, in two stages: blocks add parts of the rows, whose
 * number depends only on the shape, and then the parts are added in a fixed order. */
#pragma once

#include "kernels/cuda/cuda.cuh"

/* 32 columns per block and 8 threads per column, each with several loads under way. */
enum { SW_COLUMNS = 32, SW_LINES = SW_THREADS / SW_COLUMNS, SW_FLIGHT = 8, SW_MOST_BLOCKS = 1024 };

/* Adds the values of the lines; line 0 gets the sums. */
static __device__ __forceinline__ void sw_add_lines(double *room)
{
    const unsigned t = threadIdx.x;

    __syncthreads();
    for (unsigned half = SW_THREADS / 2; half >= SW_COLUMNS; half /= 2) {
        if (t < half)
            room[t] += room[t + half];
        __syncthreads();
    }
}

/* term.get(r, c, v) sets the n numbers that row r adds to column c; term.set(k, c, sum) stores sum
 * k of column c. part NULL: there is one part. */
template <int n, typename T>
static __global__ void sw_add_rows(T term, int64_t rows, int64_t columns, int64_t each,
                                   double *part)
{
    __shared__ double room[SW_THREADS];

    const unsigned t = threadIdx.x;
    const int64_t c = (int64_t)blockIdx.x * SW_COLUMNS + t % SW_COLUMNS, from = blockIdx.y * each,
                  to = from + each < rows ? from + each : rows;
    double sum[n] = {}, v[SW_FLIGHT][n];
    int64_t r = from + t / SW_COLUMNS;
    for (; c < columns && r + (SW_FLIGHT - 1) * SW_LINES < to; r += SW_FLIGHT * SW_LINES) {
        for (int i = 0; i < SW_FLIGHT; i++)
            term.get(r + i * SW_LINES, c, v[i]);
        for (int i = 0; i < SW_FLIGHT; i++)
            for (int k = 0; k < n; k++)
                sum[k] += v[i][k];
    }

    for (; c < columns && r < to; r += SW_LINES) {
        term.get(r, c, v[0]);
        for (int k = 0; k < n; k++)
            sum[k] += v[0][k];
    }

    for (int k = 0; k < n; k++) {
        room[t] = sum[k];
        sw_add_lines(room);
        if (t < SW_COLUMNS && c < columns && part)
            part[((int64_t)blockIdx.y * n + k) * columns + c] = room[t];
        else if (t < SW_COLUMNS && c < columns)
            term.set(k, c, room[t]);
        __syncthreads();
    }
}

template <int n, typename T>
static __global__ void sw_add_column_parts(T term, int64_t columns, unsigned parts,
                                           const double *part)
{
    __shared__ double room[SW_THREADS];

    const unsigned t = threadIdx.x;
    const int64_t c = (int64_t)blockIdx.x * SW_COLUMNS + t % SW_COLUMNS;
    for (int k = 0; k < n; k++) {
        double sum = 0;

        for (unsigned p = t / SW_COLUMNS; p < parts && c < columns; p += SW_LINES)
            sum += part[((int64_t)p * n + k) * columns + c];

        room[t] = sum;
        sw_add_lines(room);
        if (t < SW_COLUMNS && c < columns)
            term.set(k, c, room[t]);
        __syncthreads();
    }
}

/* Many columns keep a GPU busy with one part. */
template <int n, typename T>
static int sw_sum_columns(const T &term, int64_t rows, int64_t columns,
                          const struct sw_cuda_launch *l)
{
    const unsigned groups = (unsigned)((columns + SW_COLUMNS - 1) / SW_COLUMNS);
    unsigned parts = 1;

    while (2 * parts * groups <= SW_MOST_BLOCKS && 2 * parts * n * columns <= SW_CUDA_PARTIALS &&
           2 * parts * SW_LINES * SW_FLIGHT <= rows)
        parts *= 2;

    const int64_t each = (rows + parts - 1) / parts;
    SW_START((sw_add_rows<n, T>), dim3(groups, parts, 1), SW_THREADS, l, term, rows, columns, each,
             parts > 1 ? l->partials : (double *)NULL);
    if (parts == 1)
        return (int)cudaGetLastError();

    return SW_LAUNCH((sw_add_column_parts<n, T>), groups, SW_THREADS, l, term, columns, parts,
                     l->partials);
}
