/* A tile of a matrix product, computed by a block of SW_THREADS: for products whose sizes only the
 * device knows, which a library cannot compute unless the host waits for them.
 *
 * Factors come to shared memory in steps of k, laid out as in memory and rounded to the precision,
 * while the loads of the next step are under way. A warp none of whose rows exist only copies,
 * since such products often have few rows and are limited by memory. The order of a sum depends on
 * k only. */
#pragma once

#include "kernels/cuda/tensor.cuh"

enum { SW_TILE_ROWS = 32, SW_TILE_COLUMNS = 64, SW_TILE_K = 32 };

/* A factor, from the first row or column of the tile on: element (i, k) is at[i * pitch + k] if k
 * is adjacent in memory, and at[k * pitch + i] otherwise. */
struct sw_tile_factor {
    const float *at;
    int64_t pitch;
};

/* rows and columns: those that exist from the first one of the tile on; further than the tile they
 * are not computed. */
struct sw_tile_product {
    struct sw_tile_factor a, b;
    int64_t rows, columns, k;
    enum sw_precision precision;
};

/* A step of one factor in shared memory. With this pitch, what the lanes of a warp read at once is
 * in different banks. */
template <bool K_IS_ADJACENT, int N> struct sw_tile_step {
    enum {
        BY_K = K_IS_ADJACENT,
        LINES = BY_K ? N : (int)SW_TILE_K,
        LENGTH = BY_K ? (int)SW_TILE_K : N,
        PITCH = LENGTH + (BY_K ? 4 : 8),
        FOURS = LENGTH / 4,
        EACH = LINES * FOURS / SW_THREADS, /* vectors of four that a thread copies */
    };
    alignas(16) float v[LINES * PITCH];

    __device__ __forceinline__ float get(int i, int k) const
    {
        return BY_K ? v[i * PITCH + k] : v[k * PITCH + i];
    }
};

static __device__ __forceinline__ int sw_at_most(int64_t n, int most)
{
    return n < most ? (int)n : most;
}

/* ---- Copies ---- */

static __device__ __forceinline__ float4 sw_first_four(const float *at, int exist, bool wide)
{
    if (wide && exist >= 4)
        return *(const float4 *)at;
    return float4{exist > 0 ? at[0] : 0.0f, exist > 1 ? at[1] : 0.0f, exist > 2 ? at[2] : 0.0f,
                  exist > 3 ? at[3] : 0.0f};
}

/* Loads this thread's vectors of the step that begins at `from` and has k that exist, for n rows or
 * columns. */
template <typename S>
static __device__ __forceinline__ void sw_fetch_step(const struct sw_tile_factor &f, int n,
                                                     int64_t from, int k, float4 *v)
{
    const int lines = S::BY_K ? n : k, length = S::BY_K ? k : n;
    const float *at = f.at + (S::BY_K ? from : from * f.pitch);
    const bool wide = f.pitch % 4 == 0 && (uintptr_t)at % sizeof(float4) == 0;

    for (int i = 0; i < S::EACH; i++) {
        const int place = (int)threadIdx.x + i * SW_THREADS, line = place / S::FOURS,
                  first = place % S::FOURS * 4;
        v[i] = line < lines ? sw_first_four(at + line * f.pitch + first, length - first, wide)
                            : float4{0, 0, 0, 0};
    }
}

template <typename S>
static __device__ __forceinline__ void sw_keep_step(const float4 *v, enum sw_precision p, S *to)
{
    for (int i = 0; i < S::EACH; i++) {
        const int place = (int)threadIdx.x + i * SW_THREADS, line = place / S::FOURS,
                  first = place % S::FOURS * 4;
        *(float4 *)(to->v + line * S::PITCH + first) =
            float4{sw_rounded(v[i].x, p), sw_rounded(v[i].y, p), sw_rounded(v[i].z, p),
                   sw_rounded(v[i].w, p)};
    }
}

/* ---- Products of a step ---- */

/* The sums of a thread: 2 by 4. On tensor cores a warp has 16 rows and two fragments of 8 columns,
 * else four rows, of which each thread has two columns. */
template <bool TENSOR> static __device__ __forceinline__ int sw_tile_first_row()
{
    const int warp = (int)threadIdx.x / 32;
    return TENSOR ? warp % 2 * 16 : warp * 4;
}

template <bool TENSOR> static __device__ __forceinline__ int sw_tile_row(int i)
{
    const int lane = (int)threadIdx.x % 32;
    return sw_tile_first_row<TENSOR>() + (TENSOR ? lane / 4 + i / 2 * 8 : i);
}

template <bool TENSOR> static __device__ __forceinline__ int sw_tile_column(int n, int i)
{
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    return TENSOR ? warp / 2 * 16 + n * 8 + lane % 4 * 2 + i % 2 : n * 32 + lane;
}

/* sum += a b over the first `steps` k, a multiple of 8, on tensor cores. */
template <typename A, typename B>
static __device__ __forceinline__ void sw_add_step_of_fragments(const A &a, const B &b, int steps,
                                                                float (*sum)[4])
{
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, t = lane % 4;
    const int row = sw_tile_first_row<true>() + lane / 4, column = warp / 2 * 16 + lane / 4;

    SW_ROLLED
    for (int k = t; k < steps; k += 8) {
        const float of_a[4] = {a.get(row, k), a.get(row + 8, k), a.get(row, k + 4),
                               a.get(row + 8, k + 4)};

        for (int n = 0; n < 2; n++) {
            const float of_b[2] = {b.get(column + n * 8, k), b.get(column + n * 8, k + 4)};
            SW_MULTIPLY_FRAGMENTS(sum[n], of_a, of_b);
        }
    }
}

/* Reads row or column i for four k from k on. */
template <typename S>
static __device__ __forceinline__ void sw_read_four_k(const S &s, int i, int k, float *v)
{
    if constexpr (S::BY_K) {
        const float4 in = *(const float4 *)(s.v + i * S::PITCH + k);
        v[0] = in.x;
        v[1] = in.y;
        v[2] = in.z;
        v[3] = in.w;
    } else {
        for (int j = 0; j < 4; j++)
            v[j] = s.get(i, k + j);
    }
}

/* The same without tensor cores. */
template <typename A, typename B>
static __device__ __forceinline__ void sw_add_step_of_floats(const A &a, const B &b, int steps,
                                                             float (*sum)[4])
{
    SW_ROLLED
    for (int k = 0; k < steps; k += 4) {
        float of_a[4][4], of_b[2][4];

        for (int i = 0; i < 4; i++)
            sw_read_four_k(a, sw_tile_row<false>(i), k, of_a[i]);
        for (int n = 0; n < 2; n++)
            sw_read_four_k(b, sw_tile_column<false>(n, 0), k, of_b[n]);

        for (int j = 0; j < 4; j++)
            for (int n = 0; n < 2; n++)
                for (int i = 0; i < 4; i++)
                    sum[n][i] += of_a[i][j] * of_b[n][j];
    }
}

/* ---- The tile ---- */

/* Calls store.set(row, column, sum) for the rows and columns of the tile that exist. All threads of
 * the block call it; it uses 28 KiB of shared memory. */
template <bool TENSOR, bool A_BY_K, bool B_BY_K, typename S>
static __device__ __forceinline__ void sw_multiply_tile(const struct sw_tile_product &p,
                                                        const S &store)
{
    typedef struct sw_tile_step<A_BY_K, SW_TILE_ROWS> step_a;
    typedef struct sw_tile_step<B_BY_K, SW_TILE_COLUMNS> step_b;
    __shared__ step_a a[2];
    __shared__ step_b b[2];

    float4 next_a[step_a::EACH], next_b[step_b::EACH];
    float sum[2][4] = {};
    const int rows = sw_at_most(p.rows, SW_TILE_ROWS),
              columns = sw_at_most(p.columns, SW_TILE_COLUMNS);
    const bool has_rows = sw_tile_first_row<TENSOR>() < rows;
    int k = sw_at_most(p.k, SW_TILE_K), now = 0;

    sw_fetch_step<step_a>(p.a, rows, 0, k, next_a);
    sw_fetch_step<step_b>(p.b, columns, 0, k, next_b);
    __syncthreads(); /* all threads have read the steps of the previous tile */

    for (int64_t next = SW_TILE_K; k > 0; next += SW_TILE_K, now ^= 1) {
        const int steps = (k + 7) / 8 * 8; /* zeros follow */

        /* All threads have read what was here, the step before the last one. */
        sw_keep_step(next_a, p.precision, &a[now]);
        sw_keep_step(next_b, p.precision, &b[now]);
        __syncthreads();

        k = sw_at_most(p.k - next, SW_TILE_K);
        if (k > 0) {
            sw_fetch_step<step_a>(p.a, rows, next, k, next_a);
            sw_fetch_step<step_b>(p.b, columns, next, k, next_b);
        }

        if (has_rows && TENSOR)
            sw_add_step_of_fragments(a[now], b[now], steps, sum);
        else if (has_rows)
            sw_add_step_of_floats(a[now], b[now], steps, sum);
    }

    for (int n = 0; n < 2; n++)
        for (int i = 0; i < 4; i++) {
            const int row = sw_tile_row<TENSOR>(i), column = sw_tile_column<TENSOR>(n, i);
            if (row < rows && column < columns)
                store.set(row, column, sum[n][i]);
        }
}
