#include "device/ops/embedding.h"
#include "kernels/cpu/kernels.h"

static size_t token_bytes(const struct sw_token_lists *l)
{
    return sw_op_floats(l->rows * l->per_row * l->length);
}

static size_t matrix_bytes(const struct sw_token_lists *l, int64_t width)
{
    return sw_op_floats(l->rows * l->per_row * width);
}

int sw_tokens_say_bad(int64_t row, int64_t place, int64_t token, int64_t vocabulary,
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
            return sw_tokens_say_bad(i / in_row, i % in_row, token[i], l->vocabulary, err);
    return SW_OK;
}

/* Lists of the valid rows, of all rows, as the kernels want them. */
static struct sw_kernel_lists kernel_lists(const struct sw_token_lists *l, int64_t valid_rows)
{
    return (struct sw_kernel_lists){.valid = valid_rows * l->per_row,
                                    .lists = l->rows * l->per_row,
                                    .length = l->length,
                                    .vocabulary = l->vocabulary,
                                    .skip = l->skip};
}

/* ---- Forward ---- */

static void forward_spans(const void *args, size_t *bytes)
{
    const struct sw_embedding_args *a = args;
    bytes[0] = token_bytes(&a->lists);
    bytes[1] = sw_op_floats(a->lists.vocabulary * a->width);
    bytes[2] = sizeof *a->step;
    bytes[3] = matrix_bytes(&a->lists, a->width);
}

static int forward_cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_embedding_args *a = args;
    int64_t valid = sw_op_valid_rows(a->step, a->lists.rows);
    struct sw_kernel_lists lists = kernel_lists(&a->lists, valid);
    int rc = check_tokens(&a->lists, valid, a->token, err);
    if (rc == SW_OK)
        sw_kernel_embedding(threads, &lists, a->width, a->token, a->weight, a->y);
    return rc;
}

static const struct sw_op_pointer forward_pointers[] = {
    SW_OP_POINTER(struct sw_embedding_args, token),
    SW_OP_POINTER(struct sw_embedding_args, weight),
    SW_OP_POINTER(struct sw_embedding_args, step),
    SW_OP_POINTER(struct sw_embedding_args, y),
    {0},
};

const struct sw_op sw_op_embedding_forward = {
    .name = "embedding",
    .args_bytes = sizeof(struct sw_embedding_args),
    .pointers = forward_pointers,
    .spans = forward_spans,
    .cpu = forward_cpu,
};

/* ---- Backward ---- */

static void gradient_spans(const void *args, size_t *bytes)
{
    const struct sw_embedding_gradient_args *a = args;
    bytes[0] = token_bytes(&a->lists);
    bytes[1] = matrix_bytes(&a->lists, a->width);
    bytes[2] = sizeof *a->step;
    bytes[3] = sw_op_floats(a->lists.vocabulary * a->width);
}

static int gradient_cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_embedding_gradient_args *a = args;
    int64_t valid = sw_op_valid_rows(a->step, a->lists.rows);
    struct sw_kernel_lists lists = kernel_lists(&a->lists, valid);
    int rc = check_tokens(&a->lists, valid, a->token, err);
    if (rc == SW_OK)
        sw_kernel_embedding_backward(threads, &lists, a->width, a->token, a->dy, a->dweight);
    return rc;
}

static const struct sw_op_pointer gradient_pointers[] = {
    SW_OP_POINTER(struct sw_embedding_gradient_args, token),
    SW_OP_POINTER(struct sw_embedding_gradient_args, dy),
    SW_OP_POINTER(struct sw_embedding_gradient_args, step),
    SW_OP_POINTER(struct sw_embedding_gradient_args, dweight),
    {0},
};

const struct sw_op sw_op_embedding_gradient = {
    .name = "embedding_backward",
    .args_bytes = sizeof(struct sw_embedding_gradient_args),
    .pointers = gradient_pointers,
    .spans = gradient_spans,
    .cpu = gradient_cpu,
};

/* ---- One-hot ---- */

static void onehot_spans(const void *args, size_t *bytes)
{
    const struct sw_onehot_args *a = args;
    bytes[0] = token_bytes(&a->lists);
    bytes[1] = sizeof *a->step;
    bytes[2] = matrix_bytes(&a->lists, a->lists.vocabulary);
}

static int onehot_cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_onehot_args *a = args;
    int64_t valid = sw_op_valid_rows(a->step, a->lists.rows);
    struct sw_kernel_lists lists = kernel_lists(&a->lists, valid);
    int rc = check_tokens(&a->lists, valid, a->token, err);
    if (rc == SW_OK)
        sw_kernel_onehot(threads, &lists, a->token, a->y);
    return rc;
}

static const struct sw_op_pointer onehot_pointers[] = {
    SW_OP_POINTER(struct sw_onehot_args, token),
    SW_OP_POINTER(struct sw_onehot_args, step),
    SW_OP_POINTER(struct sw_onehot_args, y),
    {0},
};

const struct sw_op sw_op_onehot_forward = {
    .name = "onehot",
    .args_bytes = sizeof(struct sw_onehot_args),
    .pointers = onehot_pointers,
    .spans = onehot_spans,
    .cpu = onehot_cpu,
};
