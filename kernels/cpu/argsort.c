/* Finds the largest values of a row by insertion into a sorted list; most values are compared only
 * with the last one of the list. */
#include "kernels/ops/argsort.h"
#include "kernels/cpu/kernel.h"

/* Does a, at a later position than b, come before b? */
static bool before(float a, float b)
{
    return a > b || (b != b && a == a);
}

static void sort_row(int64_t columns, int64_t top_k, const float *x, int32_t *place)
{
    int64_t n = 0;

    for (int64_t c = 0; c < columns; c++) {
        if (n == top_k && !before(x[c], x[place[n - 1]]))
            continue;

        int64_t i = n < top_k ? n++ : n - 1;
        for (; i > 0 && before(x[c], x[place[i - 1]]); i--)
            place[i] = place[i - 1];
        place[i] = (int32_t)c;
    }
}

static void arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_argsort_args *a = args;
    SW_ARRAY(out, a, x, sw_op_floats(a->rows * a->columns));
    SW_ARRAY(out, a, place, sw_op_floats(a->rows * a->top_k));
}

static int argsort(const struct sw_host_launch *l, const void *args)
{
    const struct sw_argsort_args *a = args;
    int team = sw_team_size(l->threads, a->rows * a->columns);

#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t r = 0; r < a->rows; r++)
        sort_row(a->columns, a->top_k, a->x + r * a->columns, a->place + r * a->top_k);
    return SW_OK;
}

const struct sw_op sw_op_argsort = {"argsort", sizeof(struct sw_argsort_args), arrays, argsort};
