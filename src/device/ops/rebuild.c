/* Computes gradients of a fully connected layer from their factors, in tiles of fixed size. The
 * contract is in device/ops/rebuild.h. */
#include "device/ops/rebuild.h"

#include "device/cpu/rounded.h"
#include "kernels/cpu/kernels.h"

enum { ROW_TILE = 128, COLUMN_TILE = 512, BIAS_TILE = 64 };

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void sw_rebuild_weight(enum sw_precision precision, const struct sw_rebuild *f, float *dw)
{
    int64_t down = (f->outputs + ROW_TILE - 1) / ROW_TILE,
            across = (f->inputs + COLUMN_TILE - 1) / COLUMN_TILE;

#pragma omp parallel for schedule(dynamic) if (down * across > 1)
    for (int64_t i = 0; i < down * across; i++) {
        int64_t m = i / across * ROW_TILE, k = i % across * COLUMN_TILE;
        sw_cpu_gemm(precision, sw_product_of(least(ROW_TILE, f->outputs - m),
                                             least(COLUMN_TILE, f->inputs - k), f->rows,
                                             sw_transposed(f->dy + m, f->dy_step),
                                             sw_stored(f->x + k, f->inputs), dw + m * f->inputs + k,
                                             f->inputs));
    }
}

void sw_rebuild_bias(const float *dy, int64_t dy_step, int64_t rows, int64_t outputs, float *db)
{
#pragma omp parallel for schedule(static) if (outputs > BIAS_TILE)
    for (int64_t j = 0; j < outputs; j += BIAS_TILE)
        sw_kernel_sum_columns(rows, least(BIAS_TILE, outputs - j), dy_step, dy + j, db + j);
}
