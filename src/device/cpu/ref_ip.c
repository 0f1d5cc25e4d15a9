/* Inner product by matrix products in tiles of fixed size:
 *
 *   forward            dst [N, M] = src [N, K] weight^T [K, M] + bias
 *   backward data      diff_src [N, K] = diff_dst [N, M] weight [M, K]
 *   backward weights   diff_weight [M, K] = diff_dst^T [M, N] src [N, K]
 *
 * Weights are stored row-major, or as [K, M] if they are tied to another layer's and used
 * transposed. */
#include "base/os.h"
#include "device/cpu/blas.h"
#include "device/cpu/ref.h"
#include "kernels/cpu/kernels.h"

enum {
    ROW_TILE = 256,
    OUTPUT_TILE = 128,
    FEATURE_TILE = 512,
    BIAS_TILE = 64,
};

struct ip {
    struct sw_ref_plan ref;
    int64_t rows, features, outputs; /* N, K, M */
    bool bias, relu;
    bool transposed; /* weights are stored as [K, M] */
};

/* A tile of a matrix; task numbers run along the columns first. */
struct tile {
    int64_t row, rows, column, columns;
};

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static struct tile tile_of(int64_t task, int64_t rows, int64_t row_tile, int64_t columns,
                           int64_t column_tile)
{
    int64_t across = ceil_div(columns, column_tile);
    struct tile t = {.row = task / across * row_tile, .column = task % across * column_tile};

    t.rows = rows - t.row < row_tile ? rows - t.row : row_tile;
    t.columns = columns - t.column < column_tile ? columns - t.column : column_tile;
    return t;
}

static int64_t tile_count(int64_t rows, int64_t row_tile, int64_t columns, int64_t column_tile)
{
    return ceil_div(rows, row_tile) * ceil_div(columns, column_tile);
}

/* The offset of the weight from feature k to output m, and the step from row to row. */
static int64_t weight_at(const struct ip *c, int64_t m, int64_t k)
{
    return c->transposed ? k * c->outputs + m : m * c->features + k;
}

static int64_t weight_step(const struct ip *c)
{
    return c->transposed ? c->outputs : c->features;
}

static int forward(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    const struct ip *c = (const struct ip *)p;
    const float *src = sw_ref_source(&c->ref, a);
    int64_t n = c->rows, m = c->outputs, k = c->features;

#pragma omp parallel for num_threads(c->ref.threads) schedule(dynamic)
    for (int64_t i = 0; i < tile_count(n, ROW_TILE, m, OUTPUT_TILE); i++) {
        struct tile t = tile_of(i, n, ROW_TILE, m, OUTPUT_TILE);
        float *dst = (float *)a->dst + t.row * m + t.column;

        sw_cpu_sgemm(sw_product_of(t.rows, t.columns, k, sw_stored(src + t.row * k, k),
                                   (struct sw_factor_matrix){a->weight + weight_at(c, t.column, 0),
                                                             weight_step(c), !c->transposed},
                                   dst, m));
        sw_kernel_bias_columns(t.rows, t.columns, m, c->bias ? a->bias + t.column : NULL, c->relu,
                               dst);
    }

    return SW_OK;
}

static int backward_data(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    const struct ip *c = (const struct ip *)p;
    float *diff = sw_ref_diff(&c->ref, a);
    int64_t n = c->rows, m = c->outputs, k = c->features;

#pragma omp parallel for num_threads(c->ref.threads) schedule(dynamic)
    for (int64_t i = 0; i < tile_count(n, ROW_TILE, k, FEATURE_TILE); i++) {
        struct tile t = tile_of(i, n, ROW_TILE, k, FEATURE_TILE);
        sw_cpu_sgemm(sw_product_of(t.rows, t.columns, m,
                                   sw_stored((const float *)a->diff_dst + t.row * m, m),
                                   (struct sw_factor_matrix){a->weight + weight_at(c, 0, t.column),
                                                             weight_step(c), c->transposed},
                                   diff + t.row * k + t.column, k));
    }

    sw_ref_diff_done(&c->ref, a);
    return SW_OK;
}

/* A tile of the weights' gradient: outputs are the tile's rows, features its columns. */
static void weight_tile(const struct ip *c, const struct tile *t, const float *src,
                        const float *diff_dst, float *diff_weight)
{
    const struct sw_factor_matrix dy = {diff_dst + t->row, c->outputs, !c->transposed};
    const struct sw_factor_matrix x = {src + t->column, c->features, c->transposed};
    float *to = diff_weight + weight_at(c, t->row, t->column);

    if (c->transposed)
        sw_cpu_sgemm(sw_product_of(t->columns, t->rows, c->rows, x, dy, to, weight_step(c)));
    else
        sw_cpu_sgemm(sw_product_of(t->rows, t->columns, c->rows, dy, x, to, weight_step(c)));
}

static int backward_weights(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    const struct ip *c = (const struct ip *)p;
    const float *src = sw_ref_source(&c->ref, a);
    int64_t n = c->rows, m = c->outputs, k = c->features;

#pragma omp parallel for num_threads(c->ref.threads) schedule(dynamic)
    for (int64_t i = 0; i < tile_count(m, OUTPUT_TILE, k, FEATURE_TILE); i++) {
        struct tile t = tile_of(i, m, OUTPUT_TILE, k, FEATURE_TILE);
        weight_tile(c, &t, src, a->diff_dst, a->diff_weight);
    }

    if (!c->bias)
        return SW_OK;

#pragma omp parallel for num_threads(c->ref.threads) schedule(static)
    for (int64_t j = 0; j < m; j += BIAS_TILE)
        sw_kernel_sum_columns(n, m - j < BIAS_TILE ? m - j : BIAS_TILE, m,
                              (const float *)a->diff_dst + j, a->diff_bias + j);

    return SW_OK;
}

static const struct sw_plan_ops ops = {
    .forward = forward,
    .backward_data = backward_data,
    .backward_weights = backward_weights,
    .free = sw_ref_plan_free,
};

int sw_ref_inner_product(const struct sw_plan_request *q, struct sw_plan **out, struct sw_err *err)
{
    const struct sw_desc *src = q->src;
    const struct sw_ip_shape *shape = q->shape.ip;
    bool transposed = sw_plan_is_transposed(shape->weight_layout);

    int rc = transposed ? SW_OK : sw_ref_check_weight_layout(shape->weight_layout, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_blas_hold_stream(q->stream, err);
    if (rc != SW_OK)
        return rc;

    struct ip *c = sw_ref_plan_new(sizeof *c, &ops, q, "sgemm:openblas");
    if (!c)
        return sw_err_nomem(err, "inner_product plan", sizeof *c);

    struct sw_plan *p = &c->ref.base;
    c->rows = src->dim[0];
    c->features = sw_desc_features(src);
    c->outputs = shape->outputs;
    c->bias = shape->bias;
    c->relu = shape->fuse_relu;
    c->transposed = transposed;

    const int64_t weight[] = {c->outputs, c->features}, dst[] = {c->rows, c->outputs};
    p->weight = transposed ? *shape->weight_layout : sw_desc_plain(SW_F32, 2, weight);
    if (shape->bias)
        p->bias = sw_desc_plain(SW_F32, 1, weight);
    p->dst = sw_desc_plain(SW_F32, 2, dst);
    p->backward_reads_src = q->passes.backward_weights;
    *out = p;

    return SW_OK;
}
