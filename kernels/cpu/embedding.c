/* Lookup of table rows by tokens. If the list of output row r is t_1 .. t_n (without skipped
 * tokens): y_r = 1/n sum_i w_{t_i}, and the gradient dw_t = sum over r in order, over i with t_i =
 * t, of dy_r / n. The gradient is divided among threads by columns, so that one thread sums every
 * element in list order, however often a token occurs. */
#include "kernels/ops/embedding.h"
#include "kernels/cpu/kernel.h"
#include "kernels/cpu/kernels.h"
#include <string.h>

enum { COLUMNS = 16 }; /* a cache line, so that threads do not share cache lines */

static size_t token_bytes(const struct sw_token_lists *l)
{
    return sw_op_floats(l->rows * l->per_row * l->length);
}

static size_t matrix_bytes(const struct sw_token_lists *l, int64_t width)
{
    return sw_op_floats(l->rows * l->per_row * width);
}

int sw_tokens_report_bad(int64_t row, int64_t place, int64_t token, int64_t vocabulary,
                         struct sw_err *err)
{
    return sw_err_set(err, SW_ERR_INVALID,
                      "token %lld of row %lld is %lld, but the vocabulary has %lld (0..%lld)",
                      (long long)place, (long long)row, (long long)token, (long long)vocabulary,
                      (long long)vocabulary - 1);
}

static int check_tokens(const struct sw_token_lists *l, int64_t valid_rows, const int32_t *token,
                        struct sw_err *err)
{
    int64_t in_row = l->per_row * l->length;

    for (int64_t i = 0; i < valid_rows * in_row; i++)
        if ((token[i] < 0 || token[i] >= l->vocabulary) && token[i] != l->skip)
            return sw_tokens_report_bad(i / in_row, i % in_row, token[i], l->vocabulary, err);

    return SW_OK;
}

/* Returns the number of tokens of a list that are not skipped. */
static int64_t count_tokens(const struct sw_token_lists *l, const int32_t *token)
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

static void mean_of_list(const struct sw_token_lists *l, int64_t width, const int32_t *token,
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

static void arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_embedding_args *a = args;

    SW_ARRAY(out, a, token, token_bytes(&a->lists));
    SW_ARRAY(out, a, weight, sw_op_floats(a->lists.vocabulary * a->width));
    SW_ARRAY(out, a, step, sizeof *a->step);
    SW_ARRAY(out, a, y, matrix_bytes(&a->lists, a->width));
}

static int forward(const struct sw_host_launch *l, const void *args)
{
    const struct sw_embedding_args *a = args;
    const struct sw_token_lists *lists = &a->lists;
    const int64_t rows = sw_op_valid_rows(a->step, lists->rows), valid = rows * lists->per_row;
    const int64_t width = a->width;

    int rc = check_tokens(lists, rows, a->token, l->err);
    if (rc != SW_OK)
        return rc;

    int team = sw_team_size(l->threads, valid * lists->length * width);

#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t r = 0; r < valid; r++)
        mean_of_list(lists, width, a->token + r * lists->length, a->weight, a->y + r * width);
    sw_kernel_zero_rows(1, valid, lists->rows * lists->per_row, width, a->y);

    return SW_OK;
}

const struct sw_op sw_op_embedding = {"embedding", sizeof(struct sw_embedding_args), arrays,
                                      forward};

/* ---- Gradient ---- */

static void list_tokens(const struct sw_token_lists *l, int64_t rows, const int32_t *token,
                        struct sw_row_list *listed)
{
    sw_row_list_begin(listed);
    for (int64_t i = 0; i < rows * l->per_row * l->length && listed; i++)
        if (token[i] != l->skip)
            sw_row_list_add(listed, token[i]);
}

static void spread_list(const struct sw_embedding_gradient_args *a, struct sw_range columns,
                        const int32_t *token, const float *dy)
{
    const struct sw_token_lists *l = &a->lists;
    int64_t n = count_tokens(l, token);

    for (int64_t i = 0; i < l->length; i++)
        if (token[i] != l->skip)
            add_scaled(a->dweight + sw_row_list_find(a->listed, token[i]) * a->width + columns.from,
                       dy + columns.from, 1.0f / (float)n, columns.to - columns.from);
}

static void gradient_arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_embedding_gradient_args *a = args;

    SW_ARRAY(out, a, token, token_bytes(&a->lists));
    SW_ARRAY(out, a, dy, matrix_bytes(&a->lists, a->width));
    SW_ARRAY(out, a, step, sizeof *a->step);
    SW_ARRAY(out, a, dweight, sw_op_floats(a->lists.vocabulary * a->width));
}

static int gradient(const struct sw_host_launch *l, const void *args)
{
    const struct sw_embedding_gradient_args *a = args;
    const struct sw_token_lists *lists = &a->lists;
    const int64_t rows = sw_op_valid_rows(a->step, lists->rows), valid = rows * lists->per_row;
    const int64_t width = a->width, length = lists->length;

    int rc = check_tokens(lists, rows, a->token, l->err);
    if (rc != SW_OK)
        return rc;

    int team = sw_team_size(l->threads, valid * length * width);
    list_tokens(lists, rows, a->token, a->listed);
    sw_kernel_zero_rows(l->threads, 0, sw_row_list_count(a->listed, lists->vocabulary), width,
                        a->dweight);

#pragma omp parallel num_threads(team) if (team > 1)
    {
        struct sw_range columns = sw_team_range(width, COLUMNS);
        for (int64_t r = 0; r < valid && columns.from < columns.to; r++)
            spread_list(a, columns, a->token + r * length, a->dy + r * width);
    }

    return SW_OK;
}

const struct sw_op sw_op_embedding_gradient = {
    "embedding_backward", sizeof(struct sw_embedding_gradient_args), gradient_arrays, gradient};

/* ---- One-hot ---- */

static void onehot_arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_onehot_args *a = args;
    SW_ARRAY(out, a, token, token_bytes(&a->lists));
    SW_ARRAY(out, a, step, sizeof *a->step);
    SW_ARRAY(out, a, y, matrix_bytes(&a->lists, a->lists.vocabulary));
}

static int onehot(const struct sw_host_launch *l, const void *args)
{
    const struct sw_onehot_args *a = args;
    const struct sw_token_lists *lists = &a->lists;
    const int64_t rows = sw_op_valid_rows(a->step, lists->rows), valid = rows * lists->per_row;

    int rc = check_tokens(lists, rows, a->token, l->err);
    if (rc != SW_OK)
        return rc;

    sw_kernel_zero_rows(l->threads, 0, lists->rows * lists->per_row, lists->vocabulary, a->y);

    for (int64_t r = 0; r < valid; r++)
        if (a->token[r] != lists->skip)
            a->y[r * lists->vocabulary + a->token[r]] = 1;

    return SW_OK;
}

const struct sw_op sw_op_onehot = {"onehot", sizeof(struct sw_onehot_args), onehot_arrays, onehot};
