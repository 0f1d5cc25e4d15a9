/* Reduces and clips gradients and computes their sums of squares block by block, in parallel over
 * blocks. Sums of squares always use LANES partial sums in double, whatever the vector width of the
 * machine, so a norm has the same bits on every machine and for every number of threads. */
#include "optim/gather.h"
#include "kernels/cpu/kernel.h"
#include <math.h>
#include <string.h>

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF /* GCC's -std=c17 already means this */
#endif

enum {
    LANES = SW_NORM_LANES,
    TASK_BLOCKS = 16, /* blocks per task of a thread: 64 KiB of each array */
};

SW_KERNEL bool sw_gather_clip(float *out, const float *x, float limit, int64_t n)
{
    uint32_t bad = 0;

#pragma omp simd reduction(| : bad)
    for (int64_t i = 0; i < n; i++) {
        float v = x[i];
        bad |= !(v - v == 0); /* infinity - infinity and NaN are not 0 */
        out[i] = v < -limit ? -limit : v > limit ? limit : v;
    }

    return bad;
}

/* Always uses LANES partial sums, whatever the vector width of the machine. */
SW_KERNEL static double sum_of_squares(const float *x, int64_t n)
{
    double lane[LANES] = {0}, sum = 0;
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES)
#pragma omp simd
        for (int l = 0; l < LANES; l++)
            lane[l] += (double)x[i + l] * (double)x[i + l];

    for (; i < n; i++)
        lane[0] += (double)x[i] * (double)x[i];
    for (int l = 0; l < LANES; l++)
        sum += lane[l];

    return sum;
}

/* Returns false if a gradient is not finite. Squares of floats do not overflow a double. */
static bool gather_block(const struct sw_gather_args *a, int64_t block)
{
    int64_t from = block * SW_GATHER_BLOCK, left = a->count - from;
    int64_t n = left < SW_GATHER_BLOCK ? left : SW_GATHER_BLOCK;
    float *g = a->gradient + from;
    float room[SW_FOLD_ROOM];
    bool bad = false;

    sw_kernel_fold_piece(&a->sum, from, n, g, room);
    if (a->clip_value > 0)
        bad = sw_gather_clip(g, g, a->clip_value, n);
    a->squares[block] = bad ? (double)NAN : sum_of_squares(g, n);
    if (a->value)
        a->value_squares[block] = sum_of_squares(a->value + from, n);

    return isfinite(a->squares[block]);
}

void sw_gather_sum(const struct sw_fold_inputs *sum, float *out, int64_t n)
{
    int64_t pieces = (n + SW_FOLD_PIECE - 1) / SW_FOLD_PIECE;

#pragma omp parallel for schedule(static) if (pieces > 1)
    for (int64_t p = 0; p < pieces; p++) {
        int64_t from = p * SW_FOLD_PIECE, left = n - from;
        int64_t count = left < SW_FOLD_PIECE ? left : SW_FOLD_PIECE;
        float room[SW_FOLD_ROOM];
        const float *piece = sw_kernel_fold_piece(sum, from, count, out + from, room);
        if (piece != out + from)
            memcpy(out + from, piece, (size_t)count * sizeof *out);
    }
}

bool sw_gather(const struct sw_gather_args *a)
{
    int64_t blocks = (a->count + SW_GATHER_BLOCK - 1) / SW_GATHER_BLOCK;
    bool good = true;

#pragma omp parallel for schedule(static, TASK_BLOCKS) reduction(&& : good) if (blocks > TASK_BLOCKS)
    for (int64_t b = 0; b < blocks; b++)
        good = gather_block(a, b) && good;
    return good;
}

void sw_gather_measure(const float *x, int64_t n, float limit, double *squares)
{
    int64_t blocks = sw_norm_blocks(n);

#pragma omp parallel for schedule(static, TASK_BLOCKS) if (blocks > TASK_BLOCKS)
    for (int64_t b = 0; b < blocks; b++) {
        const float *from = x + b * SW_GATHER_BLOCK;
        int64_t left = n - b * SW_GATHER_BLOCK,
                count = left < SW_GATHER_BLOCK ? left : SW_GATHER_BLOCK;
        float clipped[SW_GATHER_BLOCK];
        bool bad = limit > 0 && sw_gather_clip(clipped, from, limit, count);
        squares[b] = bad ? (double)NAN : sum_of_squares(limit > 0 ? clipped : from, count);
    }
}
