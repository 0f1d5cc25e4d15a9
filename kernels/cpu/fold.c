#include "kernels/cpu/fold.h"

#include "kernels/cpu/kernel.h"
#include <string.h>

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF /* GCC's -std=c17 already means this */
#endif

SW_KERNEL static void add(float *out, const float *x, const float *y, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        out[i] = x[i] + y[i];
}

const float *sw_kernel_fold_piece(const struct sw_terms *f, int64_t from, int64_t n, float *out,
                                  float *room)
{
    const float *stack[SW_TREE_DEPTH];
    int depth = 0, begin = 0, leaves = f->ends ? f->ends[f->count - 1] : f->count;
    for (int t = 0; t < f->count; t++) {
        int end = f->ends ? f->ends[t] : t + 1;
        stack[depth++] = f->in[t] + from;
        for (int a = sw_tree_adds(leaves, begin, end); a > 0; a--) {
            depth--;
            float *sum = depth == 1 ? out : room + (depth - 2) * SW_FOLD_PIECE;
            add(sum, stack[depth - 1], stack[depth], n);
            stack[depth - 1] = sum;
        }
        begin = end;
    }
    return stack[0];
}

void sw_kernel_fold(int threads, const struct sw_terms *f, float *out, int64_t n)
{
    int team = sw_team_size(threads, n);
#pragma omp parallel num_threads(team) if (team > 1)
    {
        float room[SW_FOLD_ROOM];
        struct sw_range r = sw_team_range(n, SW_FOLD_PIECE);
        for (int64_t from = r.from, count; from < r.to; from += count) {
            count = r.to - from < SW_FOLD_PIECE ? r.to - from : SW_FOLD_PIECE;
            const float *sum = sw_kernel_fold_piece(f, from, count, out + from, room);
            if (sum != out + from)
                memcpy(out + from, sum, (size_t)count * sizeof *sum);
        }
    }
}
