/* Inner product by cuBLASLt, whose forward product adds the bias and applies a relu as it writes:
 *
 *   forward            dst [N, M] = src [N, K] weight^T [K, M] + bias
 *   backward data      diff_src [N, K] = diff_dst [N, M] weight [M, K]
 *   backward weights   diff_weight [M, K] = diff_dst^T [M, N] src [N, K]
 *
 * Where products round, the factors are 16 bits: the weights from forward to backward, sources and
 * gradients as they are read. What comes out is fp32.
 *
 * The libraries count column by column, so they are asked for transposes. Which kernel is taken is
 * the library's first suggestion for the shape, which is the same every time. */
#include "base/os.h"
#include "device/cpu/cpu.h"
#include "device/cuda/libraries.h"
#include "device/cuda/plan_private.h"
#include <cublasLt.h>
#include <stdio.h>

enum { ALIGNMENT = 16 }; /* of every array, in bytes: what an arena promises and more */

struct ip {
    struct sw_plan base;                                        /* first member */
    struct sw_cuda_side src, weight;                            /* as gradients are written */
    struct sw_cuda_side src_factor, weight_factor, diff_factor; /* as products read */
    bool halves;                                                /* what those are */
    int64_t rows, features, outputs;                            /* N, K, M */
    bool turned;                                                /* weights are stored as [K, M] */
    bool relu;
    bool fused;                   /* the product adds bias and relu; else a kernel does */
    cublasLtMatmulDesc_t product; /* owned, as the layouts */
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algorithm;
};

static struct ip *ip_of(struct sw_plan *p)
{
    return (struct ip *)(void *)p;
}

/* ---- Passes ---- */

/* For shapes that the fused product does not take. */
static int forward_in_two(struct ip *c, const struct sw_plan_args *a, const void *src,
                          const void *weight, struct sw_err *err)
{
    struct sw_plan *p = &c->base;
    struct sw_cuda_launch l = sw_cuda_launch_of(p->stream);
    const struct sw_cuda_product m = {.halves = c->halves,
                                      .m = c->rows,
                                      .n = c->outputs,
                                      .k = c->features,
                                      .trans_b = !c->turned,
                                      .lda = c->features,
                                      .ldb = c->turned ? c->outputs : c->features,
                                      .ldc = c->outputs,
                                      .alpha = 1,
                                      .a = src,
                                      .b = weight,
                                      .c = a->dst};
    int rc = sw_cuda_multiply_matrices(p->stream, &m, err);
    if (rc != SW_OK || (!p->bias.ndim && !c->relu))
        return rc;
    return sw_cuda_plan_check(
        p, sw_cuda_add_row(c->rows, c->outputs, p->bias.ndim ? a->bias : NULL, c->relu, a->dst, &l),
        err);
}

static int forward(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    struct ip *c = ip_of(p);
    struct sw_cuda_stream *s = sw_cuda_stream_of(p->stream);
    const float one = 1, zero = 0;
    const void *src, *weight;
    int rc = sw_cuda_enter(s->device, err);
    if (rc == SW_OK)
        rc = sw_cuda_factor_in(p, &c->src_factor, a, a->src, false, &src, err);
    if (rc == SW_OK)
        rc = sw_cuda_factor_in(p, &c->weight_factor, a, a->weight, false, &weight, err);
    if (rc != SW_OK)
        return rc;
    if (!c->fused)
        return forward_in_two(c, a, src, weight, err);
    cublasStatus_t e = CUBLAS_STATUS_SUCCESS;
    if (p->bias.ndim)
        e = cublasLtMatmulDescSetAttribute(c->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &a->bias,
                                           sizeof a->bias);
    if (e == CUBLAS_STATUS_SUCCESS)
        e = cublasLtMatmul(s->light, c->product, &one, weight, c->a, src, c->b, &zero, a->dst, c->c,
                           a->dst, c->c, &c->algorithm, s->room, SW_CUDA_ROOM_BYTES, s->stream);
    return sw_cuda_check_blas(s, (int)e, "inner_product", err);
}

static int backward_data(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    struct ip *c = ip_of(p);
    struct sw_cuda_product m = {.halves = c->halves,
                                .m = c->rows,
                                .n = c->features,
                                .k = c->outputs,
                                .trans_b = c->turned,
                                .lda = c->outputs,
                                .ldb = c->turned ? c->outputs : c->features,
                                .ldc = c->features,
                                .alpha = 1,
                                .c = sw_cuda_side_out(&c->src, a, a->diff_src)};
    int rc = sw_cuda_factor_in(p, &c->diff_factor, a, a->diff_dst, a->diff_again, &m.a, err);
    if (rc == SW_OK)
        rc = sw_cuda_factor_in(p, &c->weight_factor, a, a->weight, c->weight_factor.saved, &m.b,
                               err);
    if (rc == SW_OK)
        rc = sw_cuda_multiply_matrices(p->stream, &m, err);
    return rc == SW_OK ? sw_cuda_side_done(p, &c->src, a, a->diff_src, err) : rc;
}

static int backward_weights(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    struct ip *c = ip_of(p);
    struct sw_cuda_launch l = sw_cuda_launch_of(p->stream);
    const void *src, *diff;
    int rc = sw_cuda_factor_in(p, &c->src_factor, a, a->src, false, &src, err);
    if (rc == SW_OK)
        rc = sw_cuda_factor_in(p, &c->diff_factor, a, a->diff_dst, false, &diff, err);
    if (rc != SW_OK)
        return rc;
    bool turned = c->turned;
    struct sw_cuda_product m = {.halves = c->halves,
                                .m = turned ? c->features : c->outputs,
                                .n = turned ? c->outputs : c->features,
                                .k = c->rows,
                                .trans_a = true,
                                .lda = turned ? c->features : c->outputs,
                                .ldb = turned ? c->outputs : c->features,
                                .ldc = turned ? c->outputs : c->features,
                                .alpha = 1,
                                .a = turned ? src : diff,
                                .b = turned ? diff : src,
                                .c = sw_cuda_side_out(&c->weight, a, a->diff_weight)};
    rc = sw_cuda_multiply_matrices(p->stream, &m, err);
    if (rc == SW_OK)
        rc = sw_cuda_side_done(p, &c->weight, a, a->diff_weight, err);
    if (rc == SW_OK && p->bias.ndim)
        rc = sw_cuda_plan_check(
            p, sw_cuda_sum_rows(c->rows, c->outputs, a->diff_dst, a->diff_bias, &l), err);
    return rc;
}

static void free_plan(struct sw_plan *p)
{
    struct ip *c = ip_of(p);
    if (c->product)
        (void)cublasLtMatmulDescDestroy(c->product);
    cublasLtMatrixLayout_t layouts[] = {c->a, c->b, c->c};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (layouts[i])
            (void)cublasLtMatrixLayoutDestroy(layouts[i]);
    sw_free(c);
}

static const struct sw_plan_ops ops = {.forward = forward,
                                       .backward_data = backward_data,
                                       .backward_weights = backward_weights,
                                       .free = free_plan};

/* ---- Making ---- */

/* dst^T [M, N] = weight [M, K] src^T [K, N], column by column: src and dst are that already, and
 * weight is unless it is stored row by row. */
static cublasStatus_t describe(struct ip *c, cublasLtEpilogue_t epilogue)
{
    const struct sw_cuda_stream *s = sw_cuda_stream_of(c->base.stream);
    enum sw_precision precision = s->device->precision;
    cublasComputeType_t compute =
        precision == SW_PRECISION_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    cudaDataType_t type = !c->halves                       ? CUDA_R_32F
                          : precision == SW_PRECISION_BF16 ? CUDA_R_16BF
                                                           : CUDA_R_16F;
    const void *some_bias = s->room; /* whose alignment the library looks at when it chooses */
    cublasOperation_t flip = c->turned ? CUBLAS_OP_N : CUBLAS_OP_T;
    uint64_t m = (uint64_t)c->outputs, n = (uint64_t)c->rows, k = (uint64_t)c->features;
    cublasStatus_t e = cublasLtMatmulDescCreate(&c->product, compute, CUDA_R_32F);
    if (e == CUBLAS_STATUS_SUCCESS)
        e = cublasLtMatmulDescSetAttribute(c->product, CUBLASLT_MATMUL_DESC_TRANSA, &flip,
                                           sizeof flip);
    if (e == CUBLAS_STATUS_SUCCESS)
        e = cublasLtMatmulDescSetAttribute(c->product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                           sizeof epilogue);
    if (e == CUBLAS_STATUS_SUCCESS && c->base.bias.ndim)
        e = cublasLtMatmulDescSetAttribute(c->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                           &some_bias, sizeof some_bias);
    if (e == CUBLAS_STATUS_SUCCESS)
        e = c->turned ? cublasLtMatrixLayoutCreate(&c->a, type, m, k, c->outputs)
                      : cublasLtMatrixLayoutCreate(&c->a, type, k, m, c->features);
    if (e == CUBLAS_STATUS_SUCCESS)
        e = cublasLtMatrixLayoutCreate(&c->b, type, k, n, c->features);
    if (e == CUBLAS_STATUS_SUCCESS)
        e = cublasLtMatrixLayoutCreate(&c->c, CUDA_R_32F, m, n, c->outputs);
    return e;
}

static cublasStatus_t prefer(cublasLtMatmulPreference_t preference)
{
    static const cublasLtMatmulPreferenceAttributes_t sides[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    uint64_t room = SW_CUDA_ROOM_BYTES;
    uint32_t alignment = ALIGNMENT;
    cublasStatus_t e = cublasLtMatmulPreferenceSetAttribute(
        preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room, sizeof room);
    for (size_t i = 0; i < sizeof sides / sizeof *sides && e == CUBLAS_STATUS_SUCCESS; i++)
        e = cublasLtMatmulPreferenceSetAttribute(preference, sides[i], &alignment,
                                                 sizeof alignment);
    return e;
}

/* The library's first suggestion. False: it has none. */
static bool choose(struct ip *c, struct sw_cuda_stream *s)
{
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t found;
    int count = 0;
    cublasStatus_t e = cublasLtMatmulPreferenceCreate(&preference);
    if (e == CUBLAS_STATUS_SUCCESS)
        e = prefer(preference);
    if (e == CUBLAS_STATUS_SUCCESS)
        e = cublasLtMatmulAlgoGetHeuristic(s->light, c->product, c->a, c->b, c->c, c->c, preference,
                                           1, &found, &count);
    if (preference)
        (void)cublasLtMatmulPreferenceDestroy(preference);
    if (e != CUBLAS_STATUS_SUCCESS || count == 0)
        return false;
    c->algorithm = found.algo;
    return true;
}

static cublasLtEpilogue_t epilogue_of(const struct sw_ip_shape *shape)
{
    if (shape->fuse_relu)
        return shape->bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    return shape->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

/* Is it the transpose of a plain matrix, and not plain itself? */
static bool is_turned(const struct sw_desc *layout)
{
    if (!layout || sw_desc_is_plain(layout))
        return false;
    struct sw_desc other = sw_desc_transposed(layout, 0, 1);
    return sw_desc_is_plain(&other);
}

static int make(struct ip *c, const struct sw_ip_shape *shape, struct sw_err *err)
{
    struct sw_cuda_stream *s = sw_cuda_stream_of(c->base.stream);
    int rc = sw_cuda_enter(s->device, err);
    if (rc == SW_OK)
        rc = sw_cuda_need_blas(s, err);
    if (rc == SW_OK)
        rc = sw_cuda_check_blas(s, (int)describe(c, epilogue_of(shape)), "inner_product", err);
    if (rc == SW_OK)
        c->fused = choose(c, s);
    return rc;
}

/* The weights are what backward reads again; sources and gradients are converted when they are
 * read. */
static void lay_out(struct ip *c, const struct sw_desc *plain, const struct sw_desc *matrix,
                    struct sw_plan_passes passes)
{
    struct sw_plan *p = &c->base;
    const struct sw_desc *weight = c->turned ? &p->weight : matrix;
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

int sw_cuda_inner_product(struct sw_stream *s, const struct sw_desc *src,
                          const struct sw_ip_shape *shape, struct sw_plan_passes passes,
                          struct sw_plan **out, struct sw_err *err)
{
    int rc = sw_ip_check(src, shape, err);
    if (rc != SW_OK)
        return rc;
    struct ip *c = sw_calloc(1, sizeof *c);
    if (!c)
        return sw_err_nomem(err, "inner_product plan", sizeof *c);
    struct sw_plan *p = &c->base;
    enum sw_precision precision = sw_cuda_device_of(s->dev)->precision;
    c->rows = src->dim[0];
    c->features = sw_desc_features(src);
    c->outputs = shape->outputs;
    c->turned = is_turned(shape->weight_layout);
    c->relu = shape->fuse_relu;
    c->halves = sw_precision_is_half(precision);
    const int64_t weight[] = {c->outputs, c->features}, dst[] = {c->rows, c->outputs};
    struct sw_desc plain = sw_desc_plain(SW_F32, src->ndim, src->dim);
    struct sw_desc matrix = sw_desc_plain(SW_F32, 2, weight);
    *p = (struct sw_plan){.ops = &ops, .stream = s, .src = *src};
    p->weight = shape->weight_layout ? *shape->weight_layout : matrix;
    if (shape->bias)
        p->bias = sw_desc_plain(SW_F32, 1, weight);
    p->dst = sw_desc_plain(SW_F32, 2, dst);
    p->backward_reads_src = passes.backward_weights;
    lay_out(c, &plain, &matrix, passes);
    rc = make(c, shape, err);
    snprintf(p->algorithm, sizeof p->algorithm, "%s%s%s%s", c->fused ? "cublaslt" : "cublas",
             shape->fuse_relu ? ":relu" : "", precision == SW_PRECISION_FP32 ? "" : ":",
             precision == SW_PRECISION_FP32 ? "" : sw_precision_name(precision));
    if (rc != SW_OK) {
        free_plan(p);
        return rc;
    }
    *out = p;
    return SW_OK;
}
