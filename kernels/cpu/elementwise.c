/* Element-wise work bound by memory: copy, zero, y += x, and the test for finite values. A float is
 * infinite or not a number when its eight exponent bits are all ones (IEEE 754). */
#include "kernels/cpu/kernel.h"
#include "kernels/cpu/kernels.h"
#include <string.h>

enum {
    LINE_BYTES = 64,
    LINE_FLOATS = 16,
    CHECK_FLOATS = 8192, /* between looks at whether something was found */
};

void sw_kernel_copy(int threads, void *dst, const void *src, int64_t bytes)
{
    int team = sw_team_size(threads, bytes / 16);
#pragma omp parallel num_threads(team) if (team > 1)
    {
        struct sw_range r = sw_team_range(bytes, LINE_BYTES);
        if (r.to > r.from)
            memcpy((char *)dst + r.from, (const char *)src + r.from, (size_t)(r.to - r.from));
    }
}

void sw_kernel_zero(int threads, void *dst, int64_t bytes)
{
    int team = sw_team_size(threads, bytes / 16);
#pragma omp parallel num_threads(team) if (team > 1)
    {
        struct sw_range r = sw_team_range(bytes, LINE_BYTES);
        if (r.to > r.from)
            memset((char *)dst + r.from, 0, (size_t)(r.to - r.from));
    }
}

SW_KERNEL static void add(float *restrict y, const float *restrict x, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] += x[i];
}

void sw_kernel_add(int threads, float *y, const float *x, int64_t n)
{
    int team = sw_team_size(threads, n);
#pragma omp parallel num_threads(team) if (team > 1)
    {
        struct sw_range r = sw_team_range(n, LINE_FLOATS);
        add(y + r.from, x + r.from, r.to - r.from);
    }
}

SW_KERNEL static bool block_is_finite(const float *x, int64_t n)
{
    uint32_t bad = 0;
#pragma omp simd reduction(| : bad)
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bad |= (bits & 0x7f800000u) == 0x7f800000u;
    }
    return !bad;
}

static bool range_is_finite(const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i += CHECK_FLOATS) {
        int64_t left = n - i;
        if (!block_is_finite(x + i, left < CHECK_FLOATS ? left : CHECK_FLOATS))
            return false;
    }
    return true;
}

bool sw_kernel_all_finite(int threads, const float *x, int64_t n)
{
    int team = sw_team_size(threads, n);
    bool finite = true;
#pragma omp parallel num_threads(team) if (team > 1) reduction(&& : finite)
    {
        struct sw_range r = sw_team_range(n, LINE_FLOATS);
        finite = finite && range_is_finite(x + r.from, r.to - r.from);
    }
    return finite;
}

SW_KERNEL static void floats(float *restrict y, const int32_t *restrict x, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = (float)x[i];
}

void sw_kernel_floats(int threads, float *y, const int32_t *x, int64_t n)
{
    int team = sw_team_size(threads, n);
#pragma omp parallel num_threads(team) if (team > 1)
    {
        struct sw_range r = sw_team_range(n, LINE_FLOATS);
        floats(y + r.from, x + r.from, r.to - r.from);
    }
}
