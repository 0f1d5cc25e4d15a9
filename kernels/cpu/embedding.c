/* Rows of a table picked by tokens. With the list of output row r being t_1 .. t_n (those that are
 * not skipped): y_r = 1/n sum_i w_{t_i}, and the gradient dw_t = sum over r in order, over i with
 * t_i = t, of dy_r / n. The gradient is divided among threads by columns, so that every element is
 * added up by one thread in list order, however often a token comes. */
#include "kernels/cpu/kernel.h"
#include "kernels/cpu/kernels.h"
#include <string.h>

enum { COLUMNS = 16 }; /* a cache line: threads do not meet in one */

/* Tokens of a list that are not skipped. */
static int64_t count_tokens(const struct sw_kernel_lists *l, const int32_t *token)
{
    int64_t n = 0;
    for (int64_t i = 0; i < l->length; i++)
        n += token[i] != l->skip;
    return n;
}

SW_KERNEL static void add_scaled(float *restrict y, const float *restrict x, float factor,
                                 int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] += factor * x[i];
}

static void mean_of_list(const struct sw_kernel_lists *l, int64_t width, const int32_t *token,
                         const float *weight, float *y)
{
    int64_t n = count_tokens(l, token);
    memset(y, 0, (size_t)width * sizeof *y);
    for (int64_t i = 0; i < l->length; i++)
        if (token[i] != l->skip)
            add_scaled(y, weight + token[i] * width, 1.0f, width);
    for (int64_t c = 0; n > 1 && c < width; c++)
        y[c] /= (float)n;
}

void sw_kernel_embedding(int threads, const struct sw_kernel_lists *l, int64_t width,
                         const int32_t *token, const float *weight, float *y)
{
    int team = sw_team_size(threads, l->valid * l->length * width);
#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t r = 0; r < l->valid; r++)
        mean_of_list(l, width, token + r * l->length, weight, y + r * width);
    memset(y + l->valid * width, 0, (size_t)((l->lists - l->valid) * width) * sizeof *y);
}

static void spread_list(const struct sw_kernel_lists *l, int64_t width, struct sw_range columns,
                        const int32_t *token, const float *dy, float *dweight)
{
    int64_t n = count_tokens(l, token);
    for (int64_t i = 0; i < l->length; i++)
        if (token[i] != l->skip)
            add_scaled(dweight + token[i] * width + columns.from, dy + columns.from,
                       1.0f / (float)n, columns.to - columns.from);
}

void sw_kernel_embedding_backward(int threads, const struct sw_kernel_lists *l, int64_t width,
                                  const int32_t *token, const float *dy, float *dweight)
{
    int team = sw_team_size(threads, l->valid * l->length * width);
    sw_kernel_zero(threads, dweight, l->vocabulary * width * (int64_t)sizeof *dweight);
#pragma omp parallel num_threads(team) if (team > 1)
    {
        struct sw_range columns = sw_team_range(width, COLUMNS);
        for (int64_t r = 0; r < l->valid && columns.from < columns.to; r++)
            spread_list(l, width, columns, token + r * l->length, dy + r * width, dweight);
    }
}

void sw_kernel_onehot(int threads, const struct sw_kernel_lists *l, const int32_t *token, float *y)
{
    sw_kernel_zero(threads, y, l->lists * l->vocabulary * (int64_t)sizeof *y);
    for (int64_t r = 0; r < l->valid; r++)
        if (token[r] != l->skip)
            y[r * l->vocabulary + token[r]] = 1;
}
