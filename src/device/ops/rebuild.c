/* The rebuild operation on the CPU, in tiles of fixed size, so that they depend on the shape only.
 */
#include "kernels/ops/rebuild.h"

#include "device/cpu/rounded.h"
#include "kernels/cpu/kernels.h"

enum { ROW_TILE = 128, COLUMN_TILE = 512, BIAS_TILE = 64 };

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_rebuild_args *a = args;

    SW_ARRAY_OR_NULL(out, a, x, sw_op_matrix(a->rows, a->inputs));
    SW_ARRAY(out, a, dy, a->rows > 0 ? sw_op_floats((a->rows - 1) * a->dy_step + a->outputs) : 0);
    SW_ARRAY(out, a, out, a->x ? sw_op_matrix(a->outputs, a->inputs) : sw_op_floats(a->outputs));
}

static void rebuild_weight(const struct sw_host_launch *l, const struct sw_rebuild_args *a)
{
    int64_t down = (a->outputs + ROW_TILE - 1) / ROW_TILE,
            across = (a->inputs + COLUMN_TILE - 1) / COLUMN_TILE;

#pragma omp parallel for num_threads(l->threads) schedule(dynamic) if (down * across > 1)
    for (int64_t i = 0; i < down * across; i++) {
        int64_t m = i / across * ROW_TILE, k = i % across * COLUMN_TILE;
        sw_cpu_gemm(l->precision, sw_product_of(least(ROW_TILE, a->outputs - m),
                                                least(COLUMN_TILE, a->inputs - k), a->rows,
                                                sw_transposed(a->dy + m, a->dy_step),
                                                sw_stored(a->x + k, a->inputs),
                                                a->out + m * a->inputs + k, a->inputs));
    }
}

static void rebuild_bias(const struct sw_host_launch *l, const struct sw_rebuild_args *a)
{
#pragma omp parallel for num_threads(l->threads) schedule(static) if (a->outputs > BIAS_TILE)
    for (int64_t j = 0; j < a->outputs; j += BIAS_TILE)
        sw_kernel_sum_columns(a->rows, least(BIAS_TILE, a->outputs - j), a->dy_step, a->dy + j,
                              a->out + j);
}

static int rebuild(const struct sw_host_launch *l, const void *args)
{
    const struct sw_rebuild_args *a = args;

    if (a->x)
        rebuild_weight(l, a);
    else
        rebuild_bias(l, a);
    return SW_OK;
}

const struct sw_op sw_op_rebuild = {"rebuild", sizeof(struct sw_rebuild_args), arrays, rebuild};
