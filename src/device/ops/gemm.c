/* The gemm operation on the CPU, in tiles. */
#include "kernels/ops/gemm.h"
#include "device/cpu/rounded.h"

/* Tiles have a fixed size, so that they depend on the shape only. */
enum { ROW_TILE = 128, COLUMN_TILE = 256 };

static void arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_gemm_args *g = args;
    SW_ARRAY(out, g, a, sw_op_floats(g->m * g->k));
    SW_ARRAY(out, g, b, sw_op_floats(g->k * g->n));
    SW_ARRAY(out, g, c, sw_op_floats(g->m * g->n));
}

static void multiply_tile(const struct sw_gemm_args *g, enum sw_precision precision, int64_t row,
                          int64_t column)
{
    int64_t lda = g->trans_a ? g->m : g->k, ldb = g->trans_b ? g->k : g->n;
    int64_t rows = g->m - row < ROW_TILE ? g->m - row : ROW_TILE;
    int64_t columns = g->n - column < COLUMN_TILE ? g->n - column : COLUMN_TILE;
    const float *a = g->a + (g->trans_a ? row : row * lda);
    const float *b = g->b + (g->trans_b ? column * ldb : column);

    sw_cpu_gemm(precision,
                sw_product_scaled(sw_product_of(rows, columns, g->k,
                                                (struct sw_factor_matrix){a, lda, g->trans_a},
                                                (struct sw_factor_matrix){b, ldb, g->trans_b},
                                                g->c + row * g->n + column, g->n),
                                  g->alpha, g->beta));
}

static int gemm(const struct sw_host_launch *l, const void *args)
{
    const struct sw_gemm_args *g = args;
    const enum sw_precision precision = g->exact ? SW_PRECISION_FP32 : l->precision;
    int64_t down = (g->m + ROW_TILE - 1) / ROW_TILE,
            across = (g->n + COLUMN_TILE - 1) / COLUMN_TILE;

#pragma omp parallel for num_threads(l->threads) if (l->threads > 1 && down * across > 1)
    for (int64_t i = 0; i < down * across; i++)
        multiply_tile(g, precision, i / across * ROW_TILE, i % across * COLUMN_TILE);
    return SW_OK;
}

const struct sw_op sw_op_gemm = {"gemm", sizeof(struct sw_gemm_args), arrays, gemm};
