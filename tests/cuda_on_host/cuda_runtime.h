/* Replaces NVIDIA's header of this name for kernels that are compiled for the host. See README.md
 * of this folder. */
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>

#undef __shared__
#define __shared__ static /* one block runs at a time */

struct cuda_on_host_place {
    unsigned x, y, z;
};
extern cuda_on_host_place threadIdx, blockIdx, blockDim, gridDim;

/* A grid; `name` is for messages. Blocks that run together may wait for each other; else one block
 * runs after the other. */
struct cuda_on_host_launch {
    const char *name;
    dim3 grid, block;
    bool together;
    size_t shared_bytes;
};
/* Runs one thread's function for all threads. */
typedef void cuda_on_host_thread(const void *closure);
void cuda_on_host_run(const cuda_on_host_launch &l, cuda_on_host_thread *run, const void *closure);
void __syncthreads();
void __syncwarp();

/* Runs it immediately or, if the stream is captured, at every launch of the graph. Refuses streams
 * of other devices than the calling thread's current one. */
cudaError_t cuda_on_host_do(cudaStream_t s, const std::function<void()> &what);
/* Sets the last error of the calling thread, by which launches report errors. */
cudaError_t cuda_on_host_fail(cudaError_t e);

template <class F, class... A>
static inline cudaError_t cuda_on_host_start(cudaStream_t s, const cuda_on_host_launch &l,
                                             const F &thread, A... arguments)
{
    auto bound = [thread, arguments...] { thread(arguments...); };
    return cuda_on_host_do(s, [=] {
        cuda_on_host_run(
            l, [](const void *f) { (*static_cast<const decltype(bound) *>(f))(); }, &bound);
    });
}

/* Arguments are copied, as by a launch. */
#define SW_START(kernel, blocks, threads, launch, ...)                                             \
    (void)cuda_on_host_start((launch)->stream, {#kernel, blocks, threads, false, 0},               \
                             [](auto... a) { kernel(a...); }, __VA_ARGS__)

/* kernels/cuda/together.cuh and tensor.cuh */
#define SW_START_TOGETHER(kernel, blocks, bytes, launch, args)                                     \
    (int)cuda_on_host_start((launch)->stream, {#kernel, blocks, SW_THREADS, true, bytes},          \
                            [run = kernel](auto a) { run(a); }, args)
#define SW_SHARED_FLOATS(name) float *name = static_cast<float *>(cuda_on_host_shared())
#define SW_PAUSE() cuda_on_host_pause()
#define SW_MULTIPLY_FRAGMENTS(c, a, b) cuda_on_host_multiply(c, a, b)
void *cuda_on_host_shared();
void cuda_on_host_pause();
/* mma.m16n8k8 of tf32: the layout of the PTX manual; bits that the hardware ignores are ignored. */
void cuda_on_host_multiply(float c[4], const float a[4], const float b[2]);

#undef __launch_bounds__
#define __launch_bounds__(...)

/* ---- Functions for kernels ---- */

#define SW_ROLLED
#define SW_FP16_OF(h, x) (h = sw_fp16_of(x))
#define SW_FP16_VALUE(x, h) (x = sw_fp16_value(h))
#define SW_STORE_WIDE(to, word) std::memcpy(to, word, sizeof word)

#define SW_CLOCK(ns)                                                                               \
    (ns = std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count())

static inline float __int_as_float(int bits)
{
    float f;
    std::memcpy(&f, &bits, sizeof f);
    return f;
}

static inline float normcdff(float x)
{
    return (float)(0.5 * std::erfc(-(double)x * 0.70710678118654752440));
}

static inline void sincospif(float x, float *sine, float *cosine)
{
    *sine = (float)std::sin((double)x * 3.14159265358979323846);
    *cosine = (float)std::cos((double)x * 3.14159265358979323846);
}

static inline int atomicCAS(int *at, int expected, int value)
{
    int old = *at;
    if (old == expected)
        *at = value;
    return old;
}

static inline float atomicAdd(float *at, float value)
{
    float old = *at;
    *at = old + value;
    return old;
}

static inline unsigned atomicAdd(unsigned *at, unsigned value)
{
    unsigned old = *at;
    *at = old + value;
    return old;
}

static inline int __popc(unsigned bits)
{
    return __builtin_popcount(bits);
}

/* All threads of the warp call these together. */
unsigned __ballot_sync(unsigned mask, int is);
float __shfl_xor_sync(unsigned mask, float value, int lanes);

template <class T> static inline T __ldcg(const T *at)
{
    return *at;
}

static inline void __threadfence()
{
}

static inline void __threadfence_system()
{
}
