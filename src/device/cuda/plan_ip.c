/* Inner product by cuBLASLt, whose forward product adds the bias and applies a relu as it writes:
 *
 *   forward            dst [N, M] = src [N, K] weight^T [K, M] + bias
 *   backward data      diff_src [N, K] = diff_dst [N, M] weight [M, K]
 *   backward weights   diff_weight [M, K] = diff_dst^T [M, N] src [N, K]
 *
 * In 16-bit precision the operands are 16-bit values: weights are converted by forward and saved
 * for backward. A source and a result of that type are read and written where they are; floats are
 * converted when they are read. The gradient of the weights is fp32. A product of cuBLASLt with a
 * 16-bit result reads its bias in 16 bits.
 *
 * By default the forward product uses cuBLASLt's first algorithm (light.h) and the other two use
 * cuBLAS, whose choice is the same every time. With measured algorithms (device/tune.h) each may
 * use any algorithm of cuBLASLt, or cuBLAS. */
#include "base/os.h"
#include "device/cpu/cpu.h"
#include "device/cuda/libraries.h"
#include "device/cuda/light.h"
#include "device/cuda/plan_private.h"
#include <cublasLt.h>
#include <stdio.h>
#include <string.h>

/* The name of a product by cuBLAS rather than cuBLASLt. */
static const char by_cublas[] = "cublas";

struct ip {
    struct sw_plan base;                                        /* first member */
    struct sw_cuda_side src, weight;                            /* operands for writing gradients */
    struct sw_cuda_side src_factor, weight_factor, diff_factor; /* operands that products read */
    struct sw_cuda_side bias_row;
    bool halves;                     /* whether the operands have 16-bit elements */
    int64_t rows, features, outputs; /* N, K, M */
    bool transposed;                 /* weights are stored as [K, M] */
    bool relu;
    struct sw_cuda_light *product[SW_TUNE_PASSES]; /* owned; NULL: cuBLAS computes the product */
};

static struct ip *ip_of(struct sw_plan *p)
{
    return (struct ip *)(void *)p;
}

/* ---- Products ---- */

/* The shape of the product of a pass, without arrays. */
static struct sw_product product_of(const struct ip *c, enum sw_tune_pass pass)
{
    int64_t pitch = c->transposed ? c->outputs : c->features; /* of the weights */
    int64_t lines = c->transposed ? c->features : c->outputs;

    switch (pass) {
    case SW_TUNE_FORWARD:
        return sw_product_of(c->rows, c->outputs, c->features, sw_stored(NULL, c->features),
                             (struct sw_factor_matrix){NULL, pitch, !c->transposed}, NULL,
                             c->outputs);
    case SW_TUNE_DATA:
        return sw_product_of(c->rows, c->features, c->outputs, sw_stored(NULL, c->outputs),
                             (struct sw_factor_matrix){NULL, pitch, c->transposed}, NULL,
                             c->features);
    default:
        return sw_product_of(lines, pitch, c->rows, sw_transposed(NULL, lines),
                             sw_stored(NULL, pitch), NULL, pitch);
    }
}

/* Is the result of the pass stored in 16 bits? */
static bool writes_halves(const struct ip *c, enum sw_tune_pass pass)
{
    enum sw_dtype type = pass == SW_TUNE_FORWARD ? c->base.dst.dtype
                         : pass == SW_TUNE_DATA  ? c->base.src.dtype
                                                 : SW_F32;
    return type != SW_F32;
}

/* Computes the product of a pass; only forward products of cuBLASLt read bias. */
static int multiply(struct ip *c, enum sw_tune_pass pass, const void *a, const void *b,
                    const void *bias, void *out, struct sw_err *err)
{
    if (c->product[pass])
        return sw_cuda_light_run(c->product[pass], a, b, bias, out, err);

    struct sw_product p = product_of(c, pass);
    p.a.at = a;
    p.b.at = b;
    p.c = out;

    return sw_cuda_multiply(c->base.stream, &p,
                            writes_halves(c, pass) ? SW_CUDA_HALF_PRODUCT
                            : c->halves            ? SW_CUDA_HALF_FACTORS
                                                   : SW_CUDA_FLOAT_FACTORS,
                            err);
}

/* ---- Passes ---- */

static int forward(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    struct ip *c = ip_of(p);
    struct sw_cuda_launch l = sw_cuda_launch_of(p->stream);
    const void *src, *weight, *bias;

    int rc = sw_cuda_side_in(p, &c->src_factor, a, a->src, false, &src, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_cuda_side_in(p, &c->weight_factor, a, a->weight, false, &weight, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_cuda_side_in(p, &c->bias_row, a, a->bias, false, &bias, err);
    if (rc != SW_OK)
        return rc;
    rc = multiply(c, SW_TUNE_FORWARD, src, weight, bias, a->dst, err);
    if (rc != SW_OK)
        return rc;
    if (c->product[SW_TUNE_FORWARD] || (!p->bias.ndim && !c->relu))
        return SW_OK;

    return sw_cuda_plan_check(p,
                              sw_cuda_add_row(c->rows, c->outputs, p->bias.ndim ? a->bias : NULL,
                                              c->relu, p->dst.dtype, a->dst, &l),
                              err);
}

static int backward_data(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    struct ip *c = ip_of(p);
    const void *diff, *weight;

    int rc = sw_cuda_side_in(p, &c->diff_factor, a, a->diff_dst, a->diff_again, &diff, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_cuda_side_in(p, &c->weight_factor, a, a->weight, c->weight_factor.saved, &weight, err);
    if (rc != SW_OK)
        return rc;
    rc = multiply(c, SW_TUNE_DATA, diff, weight, NULL, sw_cuda_side_out(&c->src, a, a->diff_src),
                  err);
    if (rc != SW_OK)
        return rc;

    return sw_cuda_side_done(p, &c->src, a, a->diff_src, err);
}

static int backward_weights(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    struct ip *c = ip_of(p);
    struct sw_cuda_launch l = sw_cuda_launch_of(p->stream);
    const void *src, *diff;

    int rc = sw_cuda_side_in(p, &c->src_factor, a, a->src, false, &src, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_cuda_side_in(p, &c->diff_factor, a, a->diff_dst, false, &diff, err);
    if (rc != SW_OK)
        return rc;
    rc = multiply(c, SW_TUNE_WEIGHTS, c->transposed ? src : diff, c->transposed ? diff : src, NULL,
                  sw_cuda_side_out(&c->weight, a, a->diff_weight), err);
    if (rc != SW_OK)
        return rc;
    rc = sw_cuda_side_done(p, &c->weight, a, a->diff_weight, err);
    if (rc != SW_OK)
        return rc;
    if (!p->bias.ndim)
        return SW_OK;

    return sw_cuda_plan_check(
        p, sw_cuda_sum_rows(c->rows, c->outputs, p->dst.dtype, a->diff_dst, a->diff_bias, &l), err);
}

static void free_plan(struct sw_plan *p)
{
    struct ip *c = ip_of(p);
    for (int pass = 0; pass < SW_TUNE_PASSES; pass++)
        sw_cuda_light_free(c->product[pass]);
    sw_free(c);
}

static const struct sw_plan_ops ops = {.forward = forward,
                                       .backward_data = backward_data,
                                       .backward_weights = backward_weights,
                                       .free = free_plan};

/* ---- Making ---- */

static struct sw_cuda_light_args lt_args_of(const struct ip *c, enum sw_tune_pass pass,
                                            const char *wanted)
{
    bool forward_pass = pass == SW_TUNE_FORWARD;

    return (struct sw_cuda_light_args){.product = product_of(c, pass),
                                       .halves = c->halves,
                                       .writes_halves = writes_halves(c, pass),
                                       .bias = forward_pass && c->base.bias.ndim,
                                       .relu = forward_pass && c->relu,
                                       .wanted = wanted};
}

static int prepare(struct ip *c, enum sw_tune_pass pass, const char *wanted, struct sw_err *err)
{
    const struct sw_cuda_light_args lt = lt_args_of(c, pass, wanted);
    if (wanted[0] ? strcmp(wanted, by_cublas) == 0 : pass != SW_TUNE_FORWARD)
        return SW_OK;

    int rc = sw_cuda_light_new(c->base.stream, &lt, &c->product[pass], err);
    if (rc != SW_OK)
        return rc;
    if (!wanted[0] || c->product[pass])
        return SW_OK;

    return sw_err_set(err, SW_ERR_UNSUPPORTED,
                      "cuBLASLt has no algorithm %s for this matrix product", wanted);
}

static int prepare_passes(struct ip *c, const struct sw_tune_choice *choice,
                          struct sw_plan_passes passes, struct sw_err *err)
{
    const bool requested[SW_TUNE_PASSES] = {true, passes.backward_data, passes.backward_weights};

    for (int pass = 0; pass < SW_TUNE_PASSES; pass++)
        if (requested[pass]) {
            int rc = prepare(c, (enum sw_tune_pass)pass, choice->name[pass], err);
            if (rc != SW_OK)
                return rc;
        }

    return SW_OK;
}

/* The bias of cuBLASLt has the type of the result. */
static void lay_out_bias(struct ip *c)
{
    struct sw_plan *p = &c->base;
    bool converted = p->bias.ndim && c->product[SW_TUNE_FORWARD] && p->dst.dtype != SW_F32;

    sw_cuda_factor_init(p, &c->bias_row, &p->bias, &p->bias,
                        converted ? SW_CUDA_HALVES : SW_CUDA_FLOATS, false);
}

/* Lays out the operands. Only converted weights are saved for backward; sources and gradients are
 * converted when they are read. */
static void lay_out(struct ip *c, const struct sw_desc *plain, const struct sw_desc *matrix,
                    struct sw_plan_passes passes)
{
    struct sw_plan *p = &c->base;
    const struct sw_desc *weight = c->transposed ? &p->weight : matrix;

    sw_cuda_side_init(p, &c->src, &p->src, plain);
    sw_cuda_side_init(p, &c->weight, &p->weight, weight);
    c->src_factor = c->src;
    c->weight_factor = c->weight;

    c->diff_factor = (struct sw_cuda_side){.given = p->dst, .used = p->dst};
    if (!c->halves)
        return;

    sw_cuda_factor_init(p, &c->src_factor, &p->src, plain, SW_CUDA_HALVES, false);
    sw_cuda_factor_init(p, &c->weight_factor, &p->weight, weight, SW_CUDA_HALVES,
                        passes.training && passes.backward_data);
    if (passes.backward_data || passes.backward_weights)
        sw_cuda_factor_init(p, &c->diff_factor, &p->dst, &p->dst, SW_CUDA_HALVES, false);
}

/* Allocates and lays out the plan, without its products. */
static struct ip *begin(const struct sw_plan_request *q, struct sw_plan_passes passes)
{
    const struct sw_desc *src = q->src;
    const struct sw_ip_shape *shape = q->shape.ip;
    struct ip *c = sw_calloc(1, sizeof *c);
    if (!c)
        return NULL;

    struct sw_plan *p = &c->base;
    c->rows = src->dim[0];
    c->features = sw_desc_features(src);
    c->outputs = shape->outputs;
    c->transposed = sw_plan_is_transposed(shape->weight_layout);
    c->relu = shape->fuse_relu;
    c->halves = sw_precision_is_half(sw_cuda_device_of(q->stream->dev)->precision);

    const int64_t weight[] = {c->outputs, c->features}, dst[] = {c->rows, c->outputs};
    struct sw_desc plain = sw_desc_plain(src->dtype, src->ndim, src->dim);
    struct sw_desc matrix = sw_desc_plain(SW_F32, 2, weight);
    *p = (struct sw_plan){.ops = &ops, .stream = q->stream, .src = *src};
    p->weight = shape->weight_layout ? *shape->weight_layout : matrix;
    if (shape->bias)
        p->bias = sw_desc_plain(SW_F32, 1, weight);
    p->dst = sw_desc_plain(q->dst_type, 2, dst);
    p->backward_reads_src = passes.backward_weights;
    lay_out(c, &plain, &matrix, passes);

    return c;
}

static int make_plan(void *user, const struct sw_tune_choice *choice, struct sw_plan_passes passes,
                     struct sw_plan **out, struct sw_err *err)
{
    const struct sw_plan_request *q = user;
    enum sw_precision precision = sw_cuda_device_of(q->stream->dev)->precision;
    const char *forward_name = choice->name[SW_TUNE_FORWARD];
    struct ip *c = begin(q, passes);
    if (!c)
        return sw_err_nomem(err, "inner_product plan", sizeof *c);

    struct sw_plan *p = &c->base;
    int rc = prepare_passes(c, choice, passes, err);
    lay_out_bias(c);
    snprintf(p->algorithm, sizeof p->algorithm, "%s%s%s%s%s%.20s",
             c->product[SW_TUNE_FORWARD] ? "cublaslt" : by_cublas, c->relu ? ":relu" : "",
             precision == SW_PRECISION_FP32 ? "" : ":",
             precision == SW_PRECISION_FP32 ? "" : sw_precision_name(precision),
             forward_name[0] ? ":" : "", forward_name);
    if (rc != SW_OK) {
        free_plan(p);
        return rc;
    }

    *out = p;
    return SW_OK;
}

/* Lists the algorithms of a pass, the default first. */
static void list_candidates(void *user, const struct sw_tune_choice *chosen, enum sw_tune_pass pass,
                            struct sw_tune_candidates *out)
{
    const struct sw_plan_passes passes = {.backward_data = pass == SW_TUNE_DATA,
                                          .backward_weights = pass == SW_TUNE_WEIGHTS};
    struct ip *c = begin(user, passes);
    if (!c)
        return;

    const struct sw_cuda_light_args lt = lt_args_of(c, pass, "");
    if (pass != SW_TUNE_FORWARD)
        sw_tune_add_candidate(out, by_cublas);
    sw_cuda_light_list(c->base.stream, &lt, out);
    sw_tune_add_candidate(out, by_cublas);
    free_plan(&c->base);
}

static int tuned_plan(const struct sw_plan_request *q, struct sw_plan **out, struct sw_err *err)
{
    const struct sw_ip_shape *shape = q->shape.ip;
    char text[128], what[SW_TUNE_KEY / 2], library[48];

    snprintf(what, sizeof what, "inner_product of %s to %lld%s%s%s%s%s", sw_desc_text(q->src, text),
             (long long)shape->outputs, shape->bias ? " bias" : "", shape->fuse_relu ? " relu" : "",
             sw_plan_is_transposed(shape->weight_layout) ? " turned" : "",
             q->dst_type != SW_F32 ? " in " : "",
             q->dst_type != SW_F32 ? sw_dtype_name(q->dst_type) : "");
    snprintf(library, sizeof library, "cuBLASLt %zu", cublasLtGetVersion());

    const struct sw_cuda_tuned tuned = {
        .what = what, .library = library, .make = make_plan, .list = list_candidates};
    return sw_cuda_tuned_plan(q, &tuned, out, err);
}

int sw_cuda_inner_product(const struct sw_plan_request *q, struct sw_plan **out, struct sw_err *err)
{
    struct sw_plan_request user = *q;
    const struct sw_tune_choice rule = {0};
    if (!sw_cuda_reads_types(q))
        return SW_ERR_UNSUPPORTED;
    return q->stream->dev->tune ? tuned_plan(q, out, err)
                                : make_plan(&user, &rule, q->passes, out, err);
}
