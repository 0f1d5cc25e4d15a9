/* Sums over the rows of a matrix: the team computes a value per row, and the values are added in
 * row order, so that the sum does not depend on the number of threads. */
#pragma once

#include "kernels/cpu/kernel.h"

enum { SW_ROWS_AT_ONCE = 1024 }; /* values that are computed before they are added */

typedef double sw_row_fn(const void *user, int64_t row);

/* Returns the sum of fn over all rows. cost: of a row, in light operations. */
static inline double sw_sum_over_rows(int threads, int64_t rows, int64_t cost, sw_row_fn *fn,
                                      const void *user)
{
    double total = 0;

    for (int64_t first = 0; first < rows; first += SW_ROWS_AT_ONCE) {
        double value[SW_ROWS_AT_ONCE];
        int64_t n = rows - first < SW_ROWS_AT_ONCE ? rows - first : SW_ROWS_AT_ONCE;
        int team = sw_team_size(threads, n * cost);

#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
        for (int64_t i = 0; i < n; i++)
            value[i] = fn(user, first + i);
        for (int64_t i = 0; i < n; i++)
            total += value[i];
    }

    return total;
}
