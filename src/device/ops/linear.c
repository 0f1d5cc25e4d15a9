#include "device/ops/linear.h"
#include "device/cpu/rounded.h"
#include "kernels/cpu/kernels.h"

/* Tiles of fixed size, so that how a product is cut depends on its shape only. */
enum { ROW_TILE = 128, COLUMN_TILE = 256 };

/* ---- Matrix product ---- */

static void gemm_spans(const void *args, size_t *bytes)
{
    const struct sw_gemm_args *g = args;
    bytes[0] = sw_op_floats(g->m * g->k);
    bytes[1] = sw_op_floats(g->k * g->n);
    bytes[2] = sw_op_floats(g->m * g->n);
}

static void gemm_tile(const struct sw_gemm_args *g, enum sw_precision precision, int64_t row,
                      int64_t column)
{
    int64_t lda = g->trans_a ? g->m : g->k, ldb = g->trans_b ? g->k : g->n;
    int64_t rows = g->m - row < ROW_TILE ? g->m - row : ROW_TILE;
    int64_t columns = g->n - column < COLUMN_TILE ? g->n - column : COLUMN_TILE;
    const float *a = g->a + (g->trans_a ? row : row * lda);
    const float *b = g->b + (g->trans_b ? column * ldb : column);
    sw_cpu_gemm(precision, g->trans_a, g->trans_b, rows, columns, g->k, g->alpha, a, lda, b, ldb,
                g->beta, g->c + row * g->n + column, g->n);
}

static int gemm_products(int threads, enum sw_precision precision, const void *args,
                         struct sw_err *err)
{
    const struct sw_gemm_args *g = args;
    int64_t down = (g->m + ROW_TILE - 1) / ROW_TILE,
            across = (g->n + COLUMN_TILE - 1) / COLUMN_TILE;
    (void)err;
    precision = g->exact ? SW_PRECISION_FP32 : precision;
#pragma omp parallel for num_threads(threads) if (threads > 1 && down * across > 1)
    for (int64_t i = 0; i < down * across; i++)
        gemm_tile(g, precision, i / across * ROW_TILE, i % across * COLUMN_TILE);
    return SW_OK;
}

static int gemm_cpu(int threads, const void *args, struct sw_err *err)
{
    return gemm_products(threads, SW_PRECISION_FP32, args, err);
}

static const struct sw_op_pointer gemm_pointers[] = {
    SW_OP_POINTER(struct sw_gemm_args, a),
    SW_OP_POINTER(struct sw_gemm_args, b),
    SW_OP_POINTER(struct sw_gemm_args, c),
    {0},
};

const struct sw_op sw_op_gemm = {
    .name = "gemm",
    .args_bytes = sizeof(struct sw_gemm_args),
    .pointers = gemm_pointers,
    .spans = gemm_spans,
    .cpu = gemm_cpu,
    .products = gemm_products,
};

/* ---- y = alpha x + beta y ---- */

static void combine_spans(const void *args, size_t *bytes)
{
    const struct sw_combine_args *a = args;
    bytes[0] = bytes[1] = sw_op_floats(a->n);
}

static int combine_cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_combine_args *a = args;
    (void)err;
    sw_kernel_combine(threads, a->alpha, a->x, a->beta, a->y, a->n);
    return SW_OK;
}

static const struct sw_op_pointer combine_pointers[] = {
    SW_OP_POINTER(struct sw_combine_args, x),
    SW_OP_POINTER(struct sw_combine_args, y),
    {0},
};

const struct sw_op sw_op_combine = {
    .name = "combine",
    .args_bytes = sizeof(struct sw_combine_args),
    .pointers = combine_pointers,
    .spans = combine_spans,
    .cpu = combine_cpu,
};

/* ---- Products of elements ---- */

static void multiply_spans(const void *args, size_t *bytes)
{
    const struct sw_multiply_args *a = args;
    bytes[0] = bytes[1] = bytes[2] = sw_op_floats(a->n);
}

static int multiply_cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_multiply_args *a = args;
    (void)err;
    sw_kernel_multiply(threads, a->a, a->b, a->y, a->n);
    return SW_OK;
}

static const struct sw_op_pointer multiply_pointers[] = {
    SW_OP_POINTER(struct sw_multiply_args, a),
    SW_OP_POINTER(struct sw_multiply_args, b),
    SW_OP_POINTER(struct sw_multiply_args, y),
    {0},
};

const struct sw_op sw_op_multiply = {
    .name = "multiply",
    .args_bytes = sizeof(struct sw_multiply_args),
    .pointers = multiply_pointers,
    .spans = multiply_spans,
    .cpu = multiply_cpu,
};

/* ---- Rows ---- */

static void add_row_spans(const void *args, size_t *bytes)
{
    const struct sw_row_args *a = args;
    bytes[0] = sw_op_floats(a->columns);
    bytes[1] = sw_op_floats(a->rows * a->columns);
}

static int add_row_cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_row_args *a = args;
    (void)threads, (void)err;
    sw_kernel_bias_columns(a->rows, a->columns, a->columns, a->row, false, a->y);
    return SW_OK;
}

static const struct sw_op_pointer add_row_pointers[] = {
    SW_OP_POINTER(struct sw_row_args, row),
    SW_OP_POINTER(struct sw_row_args, y),
    {0},
};

const struct sw_op sw_op_add_row = {
    .name = "add_row",
    .args_bytes = sizeof(struct sw_row_args),
    .pointers = add_row_pointers,
    .spans = add_row_spans,
    .cpu = add_row_cpu,
};

static void sum_rows_spans(const void *args, size_t *bytes)
{
    const struct sw_sum_rows_args *a = args;
    bytes[0] = sw_op_floats(a->rows * a->columns);
    bytes[1] = sw_op_floats(a->columns);
}

static int sum_rows_cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_sum_rows_args *a = args;
    (void)threads, (void)err;
    sw_kernel_sum_columns(a->rows, a->columns, a->columns, a->x, a->sum);
    return SW_OK;
}

static const struct sw_op_pointer sum_rows_pointers[] = {
    SW_OP_POINTER(struct sw_sum_rows_args, x),
    SW_OP_POINTER(struct sw_sum_rows_args, sum),
    {0},
};

const struct sw_op sw_op_sum_rows = {
    .name = "sum_rows",
    .args_bytes = sizeof(struct sw_sum_rows_args),
    .pointers = sum_rows_pointers,
    .spans = sum_rows_spans,
    .cpu = sum_rows_cpu,
};

/* ---- The sum of everything ---- */

static void total_spans(const void *args, size_t *bytes)
{
    const struct sw_total_args *a = args;
    bytes[0] = sw_op_floats(a->n);
    bytes[1] = sizeof *a->total;
}

static int total_cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_total_args *a = args;
    (void)threads, (void)err;
    *a->total = sw_kernel_sum(a->x, a->n);
    return SW_OK;
}

static const struct sw_op_pointer total_pointers[] = {
    SW_OP_POINTER(struct sw_total_args, x),
    SW_OP_POINTER(struct sw_total_args, total),
    {0},
};

const struct sw_op sw_op_total = {
    .name = "total",
    .args_bytes = sizeof(struct sw_total_args),
    .pointers = total_pointers,
    .spans = total_spans,
    .cpu = total_cpu,
};
