/* Rounds floats to shorter formats, stored as floats or in 16 bits, and reads 16 bits. */
#include "kernels/half.h"
#include "kernels/cpu/kernel.h"
#include "kernels/cpu/kernels.h"

SW_KERNEL static void round_tf32(const float *x, float *y, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = sw_round_tf32(x[i]);
}

SW_KERNEL static void round_bf16(const float *x, float *y, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = sw_round_bf16(x[i]);
}

SW_KERNEL static void round_fp16(const float *x, float *y, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = sw_round_fp16(x[i]);
}

void sw_kernel_round(enum sw_precision to, const float *x, float *y, int64_t n)
{
    if (to == SW_PRECISION_TF32)
        round_tf32(x, y, n);
    else if (to == SW_PRECISION_BF16)
        round_bf16(x, y, n);
    else
        round_fp16(x, y, n);
}

void sw_kernel_round_all(int threads, enum sw_precision to, const float *x, float *y, int64_t n)
{
    int team = sw_team_size(threads, n);

#pragma omp parallel num_threads(team) if (team > 1)
    {
        struct sw_range r = sw_team_range(n, SW_LINE_FLOATS);
        sw_kernel_round(to, x + r.from, y + r.from, r.to - r.from);
    }
}

/* ---- Stored in 16 bits ---- */

SW_KERNEL static void to_bf16(const float *x, uint16_t *y, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = sw_bf16_of(x[i]);
}

SW_KERNEL static void to_fp16(const float *x, uint16_t *y, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = sw_fp16_of(x[i]);
}

SW_KERNEL static void from_bf16(const uint16_t *x, float *y, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = sw_bf16_value(x[i]);
}

SW_KERNEL static void from_fp16(const uint16_t *x, float *y, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = sw_fp16_value(x[i]);
}

void sw_kernel_to_halves(int threads, enum sw_dtype to, const float *x, uint16_t *y, int64_t n)
{
    int team = sw_team_size(threads, n);

#pragma omp parallel num_threads(team) if (team > 1)
    {
        struct sw_range r = sw_team_range(n, 2 * SW_LINE_FLOATS);
        (to == SW_BF16 ? to_bf16 : to_fp16)(x + r.from, y + r.from, r.to - r.from);
    }
}

void sw_kernel_from_halves(int threads, enum sw_dtype from, const uint16_t *x, float *y, int64_t n)
{
    int team = sw_team_size(threads, n);

#pragma omp parallel num_threads(team) if (team > 1)
    {
        struct sw_range r = sw_team_range(n, 2 * SW_LINE_FLOATS);
        (from == SW_BF16 ? from_bf16 : from_fp16)(x + r.from, y + r.from, r.to - r.from);
    }
}
