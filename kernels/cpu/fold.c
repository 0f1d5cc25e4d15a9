/* Sums of several arrays in the order of the reduction tree of base/tree.h. */
#include "kernels/cpu/fold.h"
#include "kernels/cpu/kernel.h"
#include "kernels/ops/fold.h"
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

const float *sw_kernel_fold_piece(const struct sw_fold_inputs *f, int64_t from, int64_t n,
                                  float *out, float *room)
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

void sw_kernel_fold(int threads, const struct sw_fold_inputs *f, float *out, int64_t n)
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

static void arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_fold_args *a = args;
    for (int i = 0; i < SW_FOLD_INPUTS; i++)
        sw_op_array(out, "x", &a->x[i], false, i < a->count ? sw_op_floats(a->n) : 0);
    SW_ARRAY(out, a, y, sw_op_floats(a->n));
}

static int fold(const struct sw_host_launch *l, const void *args)
{
    const struct sw_fold_args *a = args;
    const struct sw_fold_inputs sum = {.in = a->x, .ends = a->ends, .count = a->count};
    sw_kernel_fold(l->threads, &sum, a->y, a->n);
    return SW_OK;
}

const struct sw_op sw_op_fold = {"fold", sizeof(struct sw_fold_args), arrays, fold};
