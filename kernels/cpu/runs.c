/* Copies of equally long runs that lie a stride apart on either side, or of single elements that
 * do; added to what is there where asked. */
#include "kernels/cpu/kernel.h"
#include "kernels/cpu/kernels.h"
#include <string.h>

enum { PIECE = 4096 }; /* floats that one thread copies at a time: long runs are shared too */

SW_KERNEL static void add(float *restrict y, const float *restrict x, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] += x[i];
}

void sw_kernel_copy_runs(int threads, const struct sw_kernel_runs *k)
{
    int64_t pieces = (k->run + PIECE - 1) / PIECE;
    int team = sw_team_size(threads, k->rows * k->run);
#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t i = 0; i < k->rows * pieces; i++) {
        int64_t row = i / pieces, at = i % pieces * PIECE;
        int64_t n = k->run - at < PIECE ? k->run - at : PIECE;
        const float *x = k->src + row * k->src_stride + at;
        float *y = k->dst + row * k->dst_stride + at;
        if (k->add)
            add(y, x, n);
        else
            memcpy(y, x, (size_t)n * sizeof *y);
    }
}

void sw_kernel_copy_strided(int64_t n, const float *x, int64_t x_stride, float *y, int64_t y_stride,
                            bool is_added)
{
    for (int64_t i = 0; i < n; i++)
        y[i * y_stride] = x[i * x_stride] + (is_added ? y[i * y_stride] : 0.0f);
}
