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

/* Runs one thread's function for all threads; `name` is for messages. */
typedef void cuda_on_host_thread(const void *closure);
void cuda_on_host_run(dim3 grid, dim3 block, const char *name, cuda_on_host_thread *run,
                      const void *closure);
void __syncthreads();

/* Runs it immediately or, if the stream is captured, at every launch of the graph. Refuses streams
 * of other devices than the calling thread's current one. */
cudaError_t cuda_on_host_do(cudaStream_t s, const std::function<void()> &what);
/* Sets the last error of the calling thread, by which launches report errors. */
cudaError_t cuda_on_host_fail(cudaError_t e);

template <class F, class... A>
static inline void cuda_on_host_start(cudaStream_t s, dim3 grid, dim3 block, const char *name,
                                      const F &thread, A... arguments)
{
    auto bound = [thread, arguments...] { thread(arguments...); };
    (void)cuda_on_host_do(s, [=] {
        cuda_on_host_run(
            grid, block, name, [](const void *f) { (*static_cast<const decltype(bound) *>(f))(); },
            &bound);
    });
}

/* Arguments are copied, as by a launch. */
#define SW_START(kernel, blocks, threads, launch, ...)                                             \
    cuda_on_host_start((launch)->stream, blocks, threads, #kernel,                                 \
                       [](auto... a) { kernel(a...); }, __VA_ARGS__)

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

static inline void __threadfence_system()
{
}
