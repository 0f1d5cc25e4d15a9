/* Copies a matrix into a block of a larger one. */
#include "kernels/ops/set_block.h"
#include "kernels/cpu/kernel.h"

static void arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_set_block_args *a = args;
    const bool empty = a->rows <= 0 || a->columns <= 0;

    SW_ARRAY(out, a, x, sw_op_matrix(a->rows, a->columns));
    SW_ARRAY(out, a, y, empty ? 0 : sw_op_floats((a->rows - 1) * a->width + a->columns));
}

static int set_block(const struct sw_host_launch *l, const void *args)
{
    const struct sw_set_block_args *a = args;
    const int64_t down = a->transposed ? 1 : a->columns, right = a->transposed ? a->rows : 1;
    int team = sw_team_size(l->threads, a->rows * a->columns);

#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t r = 0; r < a->rows; r++)
        for (int64_t c = 0; c < a->columns; c++)
            a->y[r * a->width + c] = a->x[r * down + c * right];

    return SW_OK;
}

const struct sw_op sw_op_set_block = {"set_block", sizeof(struct sw_set_block_args), arrays,
                                      set_block};
