/* Sums of absolute and squared errors, of targets and of their squares, per column or over all
 * columns. Rows are added in order by one thread, so the sums do not depend on the team. */
#include "kernels/ops/target_error.h"
#include "kernels/cpu/kernel.h"
#include <math.h>
#include <string.h>

static void arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_target_error_args *a = args;

    SW_ARRAY(out, a, x, sw_op_matrix(a->rows, a->columns));
    SW_ARRAY(out, a, target, sw_op_matrix(a->rows, a->columns));
    SW_ARRAY(out, a, step, sizeof *a->step);
    SW_ARRAY(out, a, pairs,
             (size_t)(SW_ERROR_PAIRS * sw_target_error_groups(a)) * sizeof *a->pairs);
}

static void add(struct sw_result *pairs, double x, double t)
{
    const double d = x - t;

    pairs[SW_ERROR_ABSOLUTE].sum += fabs(d);
    pairs[SW_ERROR_ABSOLUTE].weight++;
    pairs[SW_ERROR_SQUARED].sum += d * d;
    pairs[SW_ERROR_SQUARED].weight++;
    pairs[SW_ERROR_TARGET].sum += t;
    pairs[SW_ERROR_TARGET].weight += t * t;
}

static int run(const struct sw_host_launch *l, const void *args)
{
    const struct sw_target_error_args *a = args;
    const int64_t rows = sw_op_valid_rows(a->step, a->rows), groups = sw_target_error_groups(a);

    memset(a->pairs, 0, (size_t)(SW_ERROR_PAIRS * groups) * sizeof *a->pairs);

    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < a->columns; c++)
            add(a->pairs + SW_ERROR_PAIRS * (a->by_column ? c : 0),
                (double)a->x[r * a->columns + c], (double)a->target[r * a->columns + c]);

    return SW_OK;
}

const struct sw_op sw_op_target_error = {"target_error", sizeof(struct sw_target_error_args),
                                         arrays, run};
