/* Rounds floats to shorter formats, but stores them as floats. */
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
