/* The best places of a row, by insertion into a sorted list of them: a value is mostly compared
 * with the last of the list only. */
#include "kernels/cpu/kernel.h"
#include "kernels/cpu/kernels.h"

/* Does a value at a later place come before b? */
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

void sw_kernel_argsort(int threads, int64_t rows, int64_t columns, int64_t top_k, const float *x,
                       int32_t *place)
{
    int team = sw_team_size(threads, rows * columns);
#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t r = 0; r < rows; r++)
        sort_row(columns, top_k, x + r * columns, place + r * top_k);
}
