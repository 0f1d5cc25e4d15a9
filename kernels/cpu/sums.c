/* Sums of plain matrices over rows, over columns and over all elements, and addition of a row to
 * all rows. */
#include "kernels/ops/sums.h"
#include "base/tree.h"
#include "kernels/cpu/kernel.h"
#include "kernels/cpu/kernels.h"

enum { COLUMNS = 64 };

/* ---- Rows ---- */

static void add_row_arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_row_args *a = args;
    SW_ARRAY(out, a, row, sw_op_floats(a->columns));
    SW_ARRAY(out, a, y, sw_op_floats(a->rows * a->columns));
}

static int add_row(const struct sw_host_launch *l, const void *args)
{
    const struct sw_row_args *a = args;
    sw_kernel_bias_columns(a->rows, a->columns, a->columns, a->row, false, a->y);
    return SW_OK;
}

const struct sw_op sw_op_add_row = {"add_row", sizeof(struct sw_row_args), add_row_arrays, add_row};

static void row_sums_arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_row_sums_args *a = args;
    SW_ARRAY(out, a, x, sw_op_matrix(a->rows, a->columns));
    SW_ARRAY(out, a, sum, sw_op_floats(a->rows));
}

static int row_sums(const struct sw_host_launch *l, const void *args)
{
    const struct sw_row_sums_args *a = args;
    int team = sw_team_size(l->threads, a->rows * a->columns);

#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t r = 0; r < a->rows; r++)
        a->sum[r] = (float)sw_kernel_sum(a->x + r * a->columns, a->columns);
    return SW_OK;
}

const struct sw_op sw_op_row_sums = {"row_sums", sizeof(struct sw_row_sums_args), row_sums_arrays,
                                     row_sums};

/* ---- Columns ---- */

static void sum_rows_arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_sum_rows_args *a = args;
    SW_ARRAY(out, a, x, sw_op_floats(a->rows * a->columns));
    SW_ARRAY(out, a, sum, sw_op_floats(a->columns));
}

static int sum_rows(const struct sw_host_launch *l, const void *args)
{
    const struct sw_sum_rows_args *a = args;
    sw_kernel_sum_columns(a->rows, a->columns, a->columns, a->x, a->sum);
    return SW_OK;
}

const struct sw_op sw_op_sum_rows = {"sum_rows", sizeof(struct sw_sum_rows_args), sum_rows_arrays,
                                     sum_rows};

SW_KERNEL static void weighted_row_sum_piece(int64_t rows, int64_t first_rows, int64_t columns,
                                             int64_t step, float first_factor, float shift,
                                             const float *x, float *sum)
{
    double total[COLUMNS] = {0};

    for (int64_t r = 0; r < rows; r++) {
        double factor = r < first_rows ? (double)first_factor : 1.0;
#pragma omp simd
        for (int64_t c = 0; c < columns; c++)
            total[c] += factor * (double)x[r * step + c];
    }

    for (int64_t c = 0; c < columns; c++)
        sum[c] = (float)(total[c] + (double)shift);
}

static void weighted_row_sum_arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_two_sums_args *a = args;
    SW_ARRAY(out, a, x, sw_op_matrix(a->rows, a->columns));
    SW_ARRAY(out, a, sum, sw_op_floats(a->columns));
}

static int weighted_row_sum(const struct sw_host_launch *l, const void *args)
{
    const struct sw_two_sums_args *a = args;

    for (int64_t c = 0; c < a->columns; c += COLUMNS) {
        int64_t n = a->columns - c < COLUMNS ? a->columns - c : COLUMNS;
        weighted_row_sum_piece(a->rows, a->first_rows, n, a->columns, a->first_factor, a->shift,
                               a->x + c, a->sum + c);
    }

    return SW_OK;
}

const struct sw_op sw_op_two_sums = {"two_sums", sizeof(struct sw_two_sums_args),
                                     weighted_row_sum_arrays, weighted_row_sum};

/* ---- All elements ---- */

static void total_arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_total_args *a = args;
    SW_ARRAY(out, a, x, sw_op_floats(a->n));
    SW_ARRAY(out, a, total, sizeof *a->total);
}

static int total(const struct sw_host_launch *l, const void *args)
{
    const struct sw_total_args *a = args;
    *a->total = sw_kernel_sum(a->x, a->n);
    return SW_OK;
}

const struct sw_op sw_op_total = {"total", sizeof(struct sw_total_args), total_arrays, total};

/* ---- Rows of workers ---- */

static void leaf_sums_arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_leaf_sums_args *a = args;
    int64_t elements = (int64_t)(a->leaves > 0 ? a->leaves - 1 : 0) * a->room + a->count;
    SW_ARRAY(out, a, rows, (size_t)elements * sizeof *a->rows);
    SW_ARRAY(out, a, sums, (size_t)a->count * sizeof *a->sums);
}

static int leaf_sums(const struct sw_host_launch *l, const void *args)
{
    const struct sw_leaf_sums_args *a = args;
    sw_tree_sum(a->rows, a->leaves, a->room, a->count, a->sums);
    return SW_OK;
}

const struct sw_op sw_op_leaf_sums = {"leaf_sums", sizeof(struct sw_leaf_sums_args),
                                      leaf_sums_arrays, leaf_sums};
