/* Matrix products by cuBLASLt. The library is column-major, so it computes the transpose, as in
 * libraries.c: c^T = op(b)^T op(a)^T, and a and b are swapped here. The columns of c are then rows,
 * along which the library adds a bias. The contract is in device/cuda/light.h. */
#include "device/cuda/light.h"
#include "base/os.h"
#include <cublasLt.h>
#include <stdio.h>
#include <string.h>

enum {
    ALIGNMENT = 16, /* of every array, in bytes; arenas align at least so */
    LINE_BYTES = 64,
};

struct sw_cuda_light {
    struct sw_cuda_stream *stream; /* borrowed */
    bool bias, writes_halves;
    cublasLtMatmulDesc_t product; /* owned, as are the layouts */
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algorithm;
};

static cublasLtEpilogue_t epilogue_of(const struct sw_cuda_light_args *args)
{
    if (args->relu)
        return args->bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    return args->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

static cudaDataType_t type_of(bool halves, enum sw_precision precision)
{
    return !halves ? CUDA_R_32F : precision == SW_PRECISION_BF16 ? CUDA_R_16BF : CUDA_R_16F;
}

/* Describes a row-major matrix [rows, columns], or its transpose if it is stored transposed. */
static cublasStatus_t lay_out(cudaDataType_t type, bool flipped, int64_t rows, int64_t columns,
                              int64_t pitch, cublasLtMatrixLayout_t *out)
{
    return cublasLtMatrixLayoutCreate(out, type, (uint64_t)(flipped ? rows : columns),
                                      (uint64_t)(flipped ? columns : rows), pitch);
}

static cublasStatus_t describe_product(struct sw_cuda_light *l,
                                       const struct sw_cuda_light_args *args)
{
    const struct sw_product *p = &args->product;
    cublasComputeType_t compute = l->stream->device->precision == SW_PRECISION_TF32
                                      ? CUBLAS_COMPUTE_32F_FAST_TF32
                                      : CUBLAS_COMPUTE_32F;
    cublasOperation_t of_a = p->b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t of_b = p->a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = epilogue_of(args);

    /* The heuristics depend on the alignment of the bias. */
    const void *some_bias = (const char *)l->stream->room + LINE_BYTES;
    cublasStatus_t e = cublasLtMatmulDescCreate(&l->product, compute, CUDA_R_32F);

    if (e == CUBLAS_STATUS_SUCCESS)
        e = cublasLtMatmulDescSetAttribute(l->product, CUBLASLT_MATMUL_DESC_TRANSA, &of_a,
                                           sizeof of_a);

    if (e == CUBLAS_STATUS_SUCCESS)
        e = cublasLtMatmulDescSetAttribute(l->product, CUBLASLT_MATMUL_DESC_TRANSB, &of_b,
                                           sizeof of_b);

    if (e == CUBLAS_STATUS_SUCCESS)
        e = cublasLtMatmulDescSetAttribute(l->product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                           sizeof epilogue);

    if (e == CUBLAS_STATUS_SUCCESS && l->bias)
        e = cublasLtMatmulDescSetAttribute(l->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                           &some_bias, sizeof some_bias);

    return e;
}

static cublasStatus_t describe(struct sw_cuda_light *l, const struct sw_cuda_light_args *args)
{
    const struct sw_product *p = &args->product;
    cudaDataType_t type = type_of(args->halves, l->stream->device->precision);
    cublasStatus_t e = describe_product(l, args);

    if (e == CUBLAS_STATUS_SUCCESS)
        e = lay_out(type, p->b.transposed, p->k, p->n, p->b.pitch, &l->a);
    if (e == CUBLAS_STATUS_SUCCESS)
        e = lay_out(type, p->a.transposed, p->m, p->k, p->a.pitch, &l->b);
    if (e == CUBLAS_STATUS_SUCCESS)
        e = lay_out(args->writes_halves ? type : CUDA_R_32F, false, p->m, p->n, p->pitch, &l->c);

    return e;
}

/* ---- Suggestions ---- */

static cublasStatus_t set_preferences(const struct sw_cuda_light *l,
                                      cublasLtMatmulPreference_t preference)
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

    /* A product that is split along k is summed before it is rounded. */
    uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    if (l->writes_halves && e == CUBLAS_STATUS_SUCCESS)
        e = cublasLtMatmulPreferenceSetAttribute(
            preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions, sizeof reductions);

    return e;
}

/* Gets at most `most` algorithms from the heuristics; returns their number. */
static int get_suggestions(const struct sw_cuda_light *l, int most,
                           cublasLtMatmulHeuristicResult_t *found)
{
    cublasLtMatmulPreference_t preference = NULL;
    int count = 0, good = 0;
    cublasStatus_t e = cublasLtMatmulPreferenceCreate(&preference);

    if (e == CUBLAS_STATUS_SUCCESS)
        e = set_preferences(l, preference);

    if (e == CUBLAS_STATUS_SUCCESS)
        e = cublasLtMatmulAlgoGetHeuristic(l->stream->lt, l->product, l->a, l->b, l->c, l->c,
                                           preference, most, found, &count);

    if (preference)
        (void)cublasLtMatmulPreferenceDestroy(preference);

    for (int i = 0; i < count && e == CUBLAS_STATUS_SUCCESS; i++)
        if (found[i].state == CUBLAS_STATUS_SUCCESS)
            found[good++] = found[i];

    return good;
}

/* Writes the name of an algorithm: index, kernel, tile, split-k and stages. */
static void name_of(const cublasLtMatmulAlgo_t *algorithm, int index, char name[SW_TUNE_NAME])
{
    static const cublasLtMatmulAlgoConfigAttributes_t attributes[] = {
        CUBLASLT_ALGO_CONFIG_ID, CUBLASLT_ALGO_CONFIG_TILE_ID, CUBLASLT_ALGO_CONFIG_SPLITK_NUM,
        CUBLASLT_ALGO_CONFIG_STAGES_ID};
    int n = snprintf(name, SW_TUNE_NAME, "%d/", index);

    for (size_t i = 0; i < sizeof attributes / sizeof *attributes && n < SW_TUNE_NAME; i++) {
        int value = -1;
        size_t written;

        if (cublasLtMatmulAlgoConfigGetAttribute(algorithm, attributes[i], &value, sizeof value,
                                                 &written) != CUBLAS_STATUS_SUCCESS)
            value = -1;

        n += snprintf(name + n, SW_TUNE_NAME - (size_t)n, "%s%d", i ? "-" : "", value);
    }
}

/* Chooses an algorithm; false if there is none, or none of that name. */
static bool choose(struct sw_cuda_light *l, const char *wanted)
{
    cublasLtMatmulHeuristicResult_t found[SW_TUNE_CANDIDATES];
    int count = get_suggestions(l, wanted[0] ? SW_TUNE_CANDIDATES : 1, found);

    for (int i = 0; i < count; i++) {
        char name[SW_TUNE_NAME];

        name_of(&found[i].algo, i, name);
        if (!wanted[0] || strcmp(name, wanted) == 0) {
            l->algorithm = found[i].algo;
            return true;
        }
    }

    return false;
}

/* ---- Life ---- */

void sw_cuda_light_free(struct sw_cuda_light *l)
{
    if (!l)
        return;

    cublasLtMatrixLayout_t layouts[] = {l->a, l->b, l->c};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (layouts[i])
            (void)cublasLtMatrixLayoutDestroy(layouts[i]);

    if (l->product)
        (void)cublasLtMatmulDescDestroy(l->product);
    sw_free(l);
}

/* Describes the product, without an algorithm. */
static int begin(struct sw_stream *stream, const struct sw_cuda_light_args *args,
                 struct sw_cuda_light **out, struct sw_err *err)
{
    struct sw_cuda_stream *s = sw_cuda_stream_of(stream);

    int rc = sw_cuda_enter(s->device, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_cuda_need_blas(s, err);
    if (rc != SW_OK)
        return rc;

    struct sw_cuda_light *l = sw_calloc(1, sizeof *l);
    if (!l)
        return sw_err_nomem(err, "matrix product", sizeof *l);

    l->stream = s;
    l->bias = args->bias;
    l->writes_halves = args->writes_halves;

    rc = sw_cuda_check_blas(s, (int)describe(l, args), "matrix product", err);
    if (rc == SW_OK)
        *out = l;
    else
        sw_cuda_light_free(l);

    return rc;
}

int sw_cuda_light_new(struct sw_stream *s, const struct sw_cuda_light_args *args,
                      struct sw_cuda_light **out, struct sw_err *err)
{
    struct sw_cuda_light *l = NULL;

    int rc = begin(s, args, &l, err);
    if (rc != SW_OK)
        return rc;

    if (!choose(l, args->wanted)) {
        sw_cuda_light_free(l);
        l = NULL;
    }

    *out = l;
    return SW_OK;
}

void sw_cuda_light_list(struct sw_stream *s, const struct sw_cuda_light_args *args,
                        struct sw_tune_candidates *out)
{
    cublasLtMatmulHeuristicResult_t found[SW_TUNE_CANDIDATES];
    struct sw_cuda_light *l = NULL;
    struct sw_err ignored; /* on error no candidates are listed */
    int count =
        begin(s, args, &l, &ignored) == SW_OK ? get_suggestions(l, SW_TUNE_CANDIDATES, found) : 0;

    for (int i = 0; i < count; i++) {
        char name[SW_TUNE_NAME];
        name_of(&found[i].algo, i, name);
        sw_tune_add_candidate(out, name);
    }

    sw_cuda_light_free(l);
}

int sw_cuda_light_run(struct sw_cuda_light *l, const void *a, const void *b, const void *bias,
                      void *c, struct sw_err *err)
{
    struct sw_cuda_stream *s = l->stream;
    const float one = 1, zero = 0;
    cublasStatus_t e = CUBLAS_STATUS_SUCCESS;

    int rc = sw_cuda_enter(s->device, err);
    if (rc != SW_OK)
        return rc;

    if (l->bias)
        e = cublasLtMatmulDescSetAttribute(l->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                           sizeof bias);

    if (e == CUBLAS_STATUS_SUCCESS)
        e = cublasLtMatmul(s->lt, l->product, &one, b, l->a, a, l->b, &zero, c, l->c, c, l->c,
                           &l->algorithm, s->room, SW_CUDA_ROOM_BYTES, s->stream);

    return sw_cuda_check_blas(s, (int)e, "matrix product", err);
}
