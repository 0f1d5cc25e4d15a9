/* Tensor arithmetic for programs that use the library directly. Each function checks types and
 * shapes and then queues one device operation (device/op.h). Random numbers are generated on the
 * host, so that they are the same on every device. The contract is in tensor/math.h. */
#include "tensor/math.h"
#include "device/op.h"
#include "kernels/ops/elementwise.h"
#include "kernels/ops/gemm.h"
#include "kernels/ops/sums.h"

#include "base/hash.h"
#include "base/os.h"
#include "tensor/fill.h"

/* ---- Checks of operands ---- */

static int check_plain(const char *who, const struct sw_tensor *t, struct sw_err *err)
{
    char text[128];

    if (t->desc.dtype == SW_F32 && sw_desc_is_plain(&t->desc))
        return SW_OK;
    return sw_err_set(err, SW_ERR_INVALID, "%s: a tensor is %s; only plain f32 is supported", who,
                      sw_desc_text(&t->desc, text));
}

/* x and y have the same shape. */
static int check_same(const char *who, const struct sw_tensor *x, const struct sw_tensor *y,
                      struct sw_err *err)
{
    char a[128], b[128];

    int rc = check_plain(who, x, err);
    if (rc != SW_OK)
        return rc;
    rc = check_plain(who, y, err);
    if (rc != SW_OK)
        return rc;
    if (!sw_desc_same_shape(&x->desc, &y->desc))
        return sw_err_set(err, SW_ERR_INVALID, "%s: the tensor shapes %s and %s differ", who,
                          sw_desc_text(&x->desc, a), sw_desc_text(&y->desc, b));

    return SW_OK;
}

/* row is [M] and matrix [N, M]. */
static int check_row(const char *who, const struct sw_tensor *row, const struct sw_tensor *matrix,
                     struct sw_err *err)
{
    char a[128], b[128];

    int rc = check_plain(who, row, err);
    if (rc != SW_OK)
        return rc;
    rc = check_plain(who, matrix, err);
    if (rc != SW_OK)
        return rc;
    if (row->desc.ndim != 1 || matrix->desc.ndim != 2 || row->desc.dim[0] != matrix->desc.dim[1])
        return sw_err_set(err, SW_ERR_INVALID, "%s: a row of %s does not fit a matrix of %s", who,
                          sw_desc_text(&row->desc, a), sw_desc_text(&matrix->desc, b));

    return SW_OK;
}

int sw_tensor_zeros(struct sw_device *device, int ndim, const int64_t *dim, const char *what,
                    struct sw_tensor **out, struct sw_err *err)
{
    struct sw_desc desc = sw_desc_plain(SW_F32, ndim, dim);
    return sw_tensor_new(device, &desc, what, out, err);
}

/* ---- Random numbers: generated on the host, identical on every device ---- */

struct distribution {
    void (*fill)(struct sw_philox key, uint64_t chunk, double a, double b, float *out);
    double a, b; /* its two parameters */
};

static int fill(struct sw_stream *s, struct sw_tensor *t, uint64_t seed, const char *name,
                struct distribution of, struct sw_err *err)
{
    int rc = check_plain("random numbers", t, err);
    if (rc != SW_OK)
        return rc;

    struct sw_philox key = sw_philox_stream(seed, SW_PURPOSE_INIT, sw_hash_name(name));
    int64_t chunks = (sw_desc_count(&t->desc) + SW_FILL_CHUNK - 1) / SW_FILL_CHUNK;
    float *plain = sw_calloc((size_t)chunks * SW_FILL_CHUNK, sizeof *plain);
    if (!plain)
        return sw_err_nomem(err, name, (size_t)chunks * SW_FILL_CHUNK * sizeof *plain);

    for (int64_t c = 0; c < chunks; c++)
        of.fill(key, (uint64_t)c, of.a, of.b, plain + c * SW_FILL_CHUNK);
    rc = sw_tensor_write(t, s, plain, err);
    sw_free(plain);

    return rc;
}

int sw_tensor_gaussian(struct sw_stream *s, struct sw_tensor *t, uint64_t seed, const char *name,
                       double mean, double std, struct sw_err *err)
{
    return fill(s, t, seed, name, (struct distribution){sw_fill_gaussian, mean, std}, err);
}

int sw_tensor_uniform(struct sw_stream *s, struct sw_tensor *t, uint64_t seed, const char *name,
                      double low, double high, struct sw_err *err)
{
    return fill(s, t, seed, name, (struct distribution){sw_fill_uniform, low, high}, err);
}

/* ---- Operations ---- */

int sw_tensor_gemm(struct sw_stream *s, struct sw_gemm_form form, const struct sw_tensor *a,
                   const struct sw_tensor *b, struct sw_tensor *c, struct sw_err *err)
{
    const bool trans_a = form.trans_a, trans_b = form.trans_b;
    const struct sw_tensor *all[] = {a, b, c};
    char text[3][128];

    for (int i = 0; i < 3; i++) {
        int rc = check_plain("gemm", all[i], err);
        if (rc != SW_OK)
            return rc;
        sw_desc_text(&all[i]->desc, text[i]);
    }

    const int64_t *da = a->desc.dim, *db = b->desc.dim, *dc = c->desc.dim;
    bool matrices = a->desc.ndim == 2 && b->desc.ndim == 2 && c->desc.ndim == 2;
    if (!matrices || da[trans_a] != dc[0] || da[!trans_a] != db[trans_b] || db[!trans_b] != dc[1])
        return sw_err_set(err, SW_ERR_INVALID, "gemm: %s%s times %s%s is not %s", text[0],
                          trans_a ? " transposed" : "", text[1], trans_b ? " transposed" : "",
                          text[2]);

    const struct sw_gemm_args args = {.trans_a = trans_a,
                                      .trans_b = trans_b,
                                      .m = dc[0],
                                      .n = dc[1],
                                      .k = da[!trans_a],
                                      .alpha = form.alpha,
                                      .beta = form.beta,
                                      .a = a->data,
                                      .b = b->data,
                                      .c = c->data};
    return sw_op_run(s, &sw_op_gemm, &args, err);
}

int sw_tensor_combine(struct sw_stream *s, float alpha, const struct sw_tensor *x, float beta,
                      struct sw_tensor *y, struct sw_err *err)
{
    int rc = check_same("combine", x, y, err);
    if (rc != SW_OK)
        return rc;

    const struct sw_combine_args args = {
        .n = sw_desc_count(&y->desc), .alpha = alpha, .beta = beta, .x = x->data, .y = y->data};
    return sw_op_run(s, &sw_op_combine, &args, err);
}

int sw_tensor_multiply(struct sw_stream *s, const struct sw_tensor *a, const struct sw_tensor *b,
                       struct sw_tensor *y, struct sw_err *err)
{
    int rc = check_same("multiply", a, y, err);
    if (rc != SW_OK)
        return rc;
    rc = check_same("multiply", b, y, err);
    if (rc != SW_OK)
        return rc;

    const struct sw_multiply_args args = {
        .n = sw_desc_count(&y->desc), .a = a->data, .b = b->data, .y = y->data};
    return sw_op_run(s, &sw_op_multiply, &args, err);
}

int sw_tensor_add_row(struct sw_stream *s, const struct sw_tensor *row, struct sw_tensor *y,
                      struct sw_err *err)
{
    int rc = check_row("add_row", row, y, err);
    if (rc != SW_OK)
        return rc;

    const struct sw_row_args args = {
        .rows = y->desc.dim[0], .columns = row->desc.dim[0], .row = row->data, .y = y->data};
    return sw_op_run(s, &sw_op_add_row, &args, err);
}

int sw_tensor_sum_rows(struct sw_stream *s, const struct sw_tensor *x, struct sw_tensor *row,
                       struct sw_err *err)
{
    int rc = check_row("sum_rows", row, x, err);
    if (rc != SW_OK)
        return rc;

    const struct sw_sum_rows_args args = {
        .rows = x->desc.dim[0], .columns = row->desc.dim[0], .x = x->data, .sum = row->data};
    return sw_op_run(s, &sw_op_sum_rows, &args, err);
}

int sw_tensor_activation(struct sw_stream *s, enum sw_activation f, float alpha,
                         const struct sw_tensor *x, struct sw_tensor *y, struct sw_err *err)
{
    int rc = check_same("activation", x, y, err);
    if (rc != SW_OK)
        return rc;
    return sw_op_activation(s, f, alpha, x->data, y->data, sw_desc_count(&y->desc), err);
}

int sw_tensor_sum(struct sw_stream *s, const struct sw_tensor *x, double *sum, struct sw_err *err)
{
    void *total = NULL;
    double value = 0;

    int rc = check_plain("sum", x, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_device_alloc(s->dev, sizeof(double), "the sum of a tensor", &total, err);
    if (rc != SW_OK)
        return rc;

    const struct sw_total_args args = {.n = sw_desc_count(&x->desc), .x = x->data, .total = total};
    rc = sw_op_run(s, &sw_op_total, &args, err);
    if (rc == SW_OK)
        rc = sw_copy(s, &value, total, sizeof value, err);

    /* Wait after an error, too: no queued operation may write `value` after the return. */
    int waited = sw_stream_wait(s, rc == SW_OK ? err : NULL);
    sw_device_free(s->dev, total, sizeof(double));
    rc = rc == SW_OK ? waited : rc;
    if (rc == SW_OK)
        *sum = value;

    return rc;
}
