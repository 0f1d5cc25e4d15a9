/* Common parts of all CUDA kernels: launches, loops over a grid, sums over a block, and reports of
 * invalid data. */
#pragma once

#include "kernels/cuda/kernels.h"
#include <cuda_runtime.h>

enum { SW_THREADS = 256 }; /* threads per block, also the maximum for block sums; a power of 2 */

/* Launches a kernel; the host runtime for tests defines it differently. */
#ifndef SW_START
#define SW_START(kernel, blocks, threads, launch, ...)                                             \
    kernel<<<blocks, threads, 0, (launch)->stream>>>(__VA_ARGS__)
#endif

/* Launches a kernel and returns the enum cudaError of the launch. */
#define SW_LAUNCH(...) (SW_START(__VA_ARGS__), (int)cudaGetLastError())

/* Keeps a loop over a grid as it is: the compiler would divide 64-bit numbers for the iterations of
 * its unrolled loop. */
#ifndef SW_ROLLED
#define SW_ROLLED _Pragma("unroll 1")
#endif

#ifndef SW_CLOCK
#define SW_CLOCK(ns) asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns))
#endif
static __device__ __forceinline__ int64_t sw_clock_ns()
{
    int64_t ns;
    SW_CLOCK(ns);
    return ns;
}

/* The rows of a file: SW_CUDA_KERNELS(stem) = {{{&sw_op_x, launch_x}, {}}}; */
#define SW_CUDA_KERNELS(stem)                                                                      \
    extern const struct sw_cuda_kernels sw_cuda_kernels_##stem;                                    \
    const struct sw_cuda_kernels sw_cuda_kernels_##stem

/* Returns the blocks for a grid-stride loop over n elements: enough to keep the GPU busy. */
static inline unsigned sw_blocks_for(int64_t n, const struct sw_cuda_launch *l)
{
    int64_t blocks = (n + SW_THREADS - 1) / SW_THREADS, most = (int64_t)l->processors * 32;
    blocks = blocks < most ? blocks : most;
    return (unsigned)(blocks > 0 ? blocks : 1);
}

/* Returns the blocks for a loop over rows, at most `most`. */
static inline unsigned sw_blocks_of(int64_t rows, int64_t most)
{
    return (unsigned)(rows < 1 ? 1 : rows < most ? rows : most);
}

/* Returns the threads per block for a row of n elements. */
static inline unsigned sw_threads_for(int64_t n)
{
    unsigned threads = 32;
    while (threads < SW_THREADS && threads < n)
        threads *= 2;
    return threads;
}

/* How the threads of a grid divide rows among them, without dividing indices: `wide` adjacent
 * threads, a power of 2, take a row. */
struct sw_row_walk {
    int64_t row, row_step, column;
};

static __device__ __forceinline__ struct sw_row_walk sw_walk_rows(unsigned wide)
{
    const unsigned rows = blockDim.x / wide;
    struct sw_row_walk w = {(int64_t)blockIdx.x * rows + threadIdx.x / wide,
                            (int64_t)gridDim.x * rows, threadIdx.x % wide};
    return w;
}

/* Returns the blocks of SW_THREADS threads for rows of which `wide` threads take one each. */
static inline unsigned sw_walk_blocks(int64_t rows, unsigned wide, const struct sw_cuda_launch *l)
{
    const int64_t together = SW_THREADS / wide;
    return sw_blocks_of((rows + together - 1) / together, (int64_t)l->processors * 32);
}

static __device__ __forceinline__ int64_t sw_first(void)
{
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

static __device__ __forceinline__ int64_t sw_stride(void)
{
    return (int64_t)gridDim.x * blockDim.x;
}

/* Calls each(args, i) for i < n: one element per thread. */
template <typename A, void each(const A &, int64_t)>
static __global__ void sw_each_element(A args, int64_t n)
{
    for (int64_t i = sw_first(); i < n; i += sw_stride())
        each(args, i);
}

template <typename A, void each(const A &, int64_t)>
static int sw_start_each(const A &args, int64_t n, const struct sw_cuda_launch *l)
{
    return SW_LAUNCH((sw_each_element<A, each>), sw_blocks_for(n, l), SW_THREADS, l, args, n);
}

/* Calls each(args, r, c) for r < rows and c < columns. */
template <typename A, void each(const A &, int64_t, int64_t)>
static __global__ void sw_each_of_rows(A args, int64_t rows, int64_t columns, unsigned wide)
{
    const struct sw_row_walk w = sw_walk_rows(wide);

    for (int64_t r = w.row; r < rows; r += w.row_step)
        for (int64_t c = w.column; c < columns; c += wide)
            each(args, r, c);
}

template <typename A, void each(const A &, int64_t, int64_t)>
static int sw_start_rows(const A &args, int64_t rows, int64_t columns,
                         const struct sw_cuda_launch *l)
{
    const unsigned wide = sw_threads_for(columns);
    return SW_LAUNCH((sw_each_of_rows<A, each>), sw_walk_blocks(rows, wide, l), SW_THREADS, l, args,
                     rows, columns, wide);
}

/* The launcher of an operation on n elements. */
template <typename A, void each(const A &, int64_t)>
static int sw_launch_each(const struct sw_cuda_launch *l, const void *args)
{
    const A *a = (const A *)args;
    return sw_start_each<A, each>(*a, a->n, l);
}

template <typename T> static __device__ __forceinline__ T sw_add(T a, T b)
{
    return a + b;
}

template <typename T> static __device__ __forceinline__ T sw_larger(T a, T b)
{
    return b > a ? b : a;
}

/* The sum or the maximum over the threads of a block, returned to all of them, in a fixed order.
 * room has SW_THREADS elements and may be reused immediately. The block size is a power of 2. */
template <typename T, T both(T, T)>
static __device__ __forceinline__ T sw_block_reduce(T value, T *room)
{
    unsigned t = threadIdx.x;

    room[t] = value;
    __syncthreads();

    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (t < half)
            room[t] = both(room[t], room[t + half]);
        __syncthreads();
    }

    T all = room[0];
    __syncthreads();
    return all;
}

template <typename T> static __device__ __forceinline__ T sw_block_sum(T value, T *room)
{
    return sw_block_reduce<T, sw_add<T>>(value, room);
}

template <typename T> static __device__ __forceinline__ T sw_block_max(T value, T *room)
{
    return sw_block_reduce<T, sw_larger<T>>(value, room);
}

/* Returns how many threads of the block before this one have `is`, and sets *all to how many of
 * them have it. room has an element per warp and may be reused immediately by this function. */
static __device__ __forceinline__ unsigned sw_block_rank(bool is, unsigned *room, unsigned *all)
{
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const unsigned votes = __ballot_sync(0xffffffffu, is);
    unsigned before = __popc(votes & ((1u << lane) - 1));

    __syncthreads(); /* all have read it */
    if (lane == 0)
        room[warp] = __popc(votes);
    __syncthreads();

    *all = 0;
    for (unsigned w = 0; w < blockDim.x / 32; w++) {
        before += w < warp ? room[w] : 0;
        *all += room[w];
    }

    return before;
}

/* Returns the blocks of a kernel that sums rows: one partial sum per block. */
static inline unsigned sw_sum_blocks(int64_t rows)
{
    return sw_blocks_of(rows, 1024);
}

/* Reports invalid data; only the first report is kept. */
static __device__ inline void sw_report_invalid(struct sw_cuda_trouble *t, int found, uint64_t who,
                                                int64_t row, int64_t column, int64_t limit,
                                                double value)
{
    if (t->found || atomicCAS(&t->owner, 0, 1) != 0)
        return;

    t->who = who;
    t->row = row;
    t->column = column;
    t->limit = limit;
    t->value = value;
    __threadfence_system();
    t->found = found;
}

/* Is the label of a row a valid class? An invalid label is reported and must not be used as an
 * index. */
static __device__ __forceinline__ bool sw_label_fits(int64_t label, int64_t classes, int64_t row,
                                                     uint64_t who, struct sw_cuda_trouble *t)
{
    if (label >= 0 && label < classes)
        return true;
    sw_report_invalid(t, SW_FOUND_LABEL, who, row, 0, classes, (double)label);
    return false;
}
