/* Common macros and helpers of all CPU kernels.
 *
 * SW_KERNEL marks a function with a hot loop: on x86-64 the compiler generates three versions, for
 * AVX-512, AVX2 and the baseline, and the loader chooses one (an ifunc). Functions that it calls
 * must be inlined (SW_KERNEL_INLINE) to be compiled for each version. SW_KERNEL is empty on other
 * machines, and under the thread sanitizer, whose runtime is not initialized yet when ifuncs are
 * resolved.
 *
 * sw_team_size and sw_team_range divide an array among an OpenMP team; sw_team_each runs an
 * element-wise loop on it. */
#pragma once

#include <omp.h>
#include <stdbool.h>
#include <stdint.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define SW_KERNEL __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define SW_KERNEL
#endif

#if defined(__GNUC__)
#define SW_KERNEL_INLINE static inline __attribute__((always_inline))
#else
#define SW_KERNEL_INLINE static inline
#endif

/* Loads n floats into the cache ahead of their use: rows of a table that are visited in no order
 * would else be waited for. */
SW_KERNEL_INLINE void sw_load_ahead(const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i += 16)
        __builtin_prefetch(x + i);
}

/* Elements per thread below which another thread costs more than it saves. */
enum { SW_TEAM_GRAIN = 16384 };

struct sw_range {
    int64_t from, to;
};

/* Returns how many of `threads` threads are worth using for n elements, at least 1. */
static inline int sw_team_size(int threads, int64_t n)
{
    int64_t useful = n / SW_TEAM_GRAIN;
    if (useful > threads)
        useful = threads;
    return useful < 1 ? 1 : (int)useful;
}

/* Inside a parallel region: returns the calling thread's part of 0..n-1, divided at multiples of
 * `align`. */
static inline struct sw_range sw_team_range(int64_t n, int64_t align)
{
    int64_t team = omp_get_num_threads(), me = omp_get_thread_num();
    int64_t units = (n + align - 1) / align;
    struct sw_range r = {units * me / team * align, units * (me + 1) / team * align};

    if (r.from > n)
        r.from = n;
    if (r.to > n)
        r.to = n;

    return r;
}

enum { SW_LINE_FLOATS = 16 };

/* An element-wise loop over n elements from `from` on. */
typedef void sw_each_fn(const void *args, int64_t from, int64_t n);

/* Divides n elements of the loop among a team, at cache lines. */
static inline void sw_team_each(int threads, int64_t n, sw_each_fn *each, const void *args)
{
    int team = sw_team_size(threads, n);

#pragma omp parallel num_threads(team) if (team > 1)
    {
        struct sw_range r = sw_team_range(n, SW_LINE_FLOATS);
        each(args, r.from, r.to - r.from);
    }
}
