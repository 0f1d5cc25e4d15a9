/* The calls of cuBLAS and cuBLASLt that the cuda device makes, implemented by loops. See README.md.
 */
#include "cuda_runtime.h"
#include "kernels/half.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <cublasLt.h>
#include <cublas_v2.h>

/* The element type of an operand, and the precision to which it is rounded when it is read. */
enum factor { FLOATS, BF16, FP16, FLOATS_AS_BF16, FLOATS_AS_FP16, FLOATS_AS_TF32 };

/* Rounds to tf32: 10 bits of mantissa, 8 of exponent. */
static float rounded_to_tf32(float x)
{
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    bits = (bits + 0x0fff + (bits >> 13 & 1)) & ~(uint32_t)0x1fff;
    std::memcpy(&x, &bits, sizeof x);
    return x;
}

static double read(factor type, const void *x, int64_t i)
{
    switch (type) {
    case BF16:
        return (double)sw_bf16_value(static_cast<const uint16_t *>(x)[i]);
    case FP16:
        return (double)sw_fp16_value(static_cast<const uint16_t *>(x)[i]);
    case FLOATS_AS_BF16:
        return (double)sw_round_bf16(static_cast<const float *>(x)[i]);
    case FLOATS_AS_FP16:
        return (double)sw_round_fp16(static_cast<const float *>(x)[i]);
    case FLOATS_AS_TF32:
        return (double)rounded_to_tf32(static_cast<const float *>(x)[i]);
    default:
        return (double)static_cast<const float *>(x)[i];
    }
}

static bool factor_of(cudaDataType_t type, factor *out)
{
    *out = type == CUDA_R_16BF ? BF16 : type == CUDA_R_16F ? FP16 : FLOATS;
    return type == CUDA_R_32F || *out != FLOATS;
}

static void write(factor type, void *x, int64_t i, float value)
{
    if (type == FLOATS)
        static_cast<float *>(x)[i] = value;
    else
        static_cast<uint16_t *>(x)[i] = type == BF16 ? sw_bf16_of(value) : sw_fp16_of(value);
}

/* What a product does to an element of row i before it is stored. */
struct epilogue {
    bool relu = false;
    factor type = FLOATS; /* of the bias, and of the result */
    const void *bias = nullptr;

    float operator()(float v, int64_t i) const
    {
        v += bias ? (float)read(type, bias, i) : 0;
        return relu && 0 > v ? 0 : v;
    }
};

/* c [m, n] = alpha op(a) op(b) + beta c, column by column; elements of 16 bits are rounded once. */
static void multiply(factor type, bool flip_a, bool flip_b, int64_t m, int64_t n, int64_t k,
                     float alpha, const void *a, int64_t lda, const void *b, int64_t ldb,
                     float beta, void *c, int64_t ldc, const epilogue &finish = epilogue())
{
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++) {
            double sum = 0;
            for (int64_t p = 0; p < k; p++)
                sum += read(type, a, flip_a ? i * lda + p : p * lda + i) *
                       read(type, b, flip_b ? p * ldb + j : j * ldb + p);
            float old = beta == 0 ? 0 : beta * (float)read(finish.type, c, j * ldc + i);
            write(finish.type, c, j * ldc + i, finish(alpha * (float)sum + old, i));
        }
}

/* As in cuBLAS, setting the stream resets the workspace to the library's own, which it allocates at
 * first use: that is refused here. */
struct cublasContext {
    int gpu;
    cudaStream_t stream;
    void *room;
    cublasMath_t math;
};

namespace
{
struct product {
    bool tf32 = false;
    bool flip_a = false, flip_b = false;
    cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    const void *bias = nullptr;
};
struct matrix {
    uint64_t rows, columns;
    int64_t step;
    factor type;
};
} // namespace

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t *out)
{
    int gpu;
    void *own = nullptr; /* memory that the library allocates itself, outside of captures */
    if (cudaGetDevice(&gpu) != cudaSuccess || cudaMalloc(&own, 1) != cudaSuccess)
        return CUBLAS_STATUS_ALLOC_FAILED;
    (void)cudaFree(own);
    *out = new cublasContext{gpu, nullptr, nullptr, CUBLAS_DEFAULT_MATH};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t h)
{
    delete h;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t h, cudaStream_t s)
{
    h->stream = s;
    h->room = nullptr;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t h, cublasMath_t mode)
{
    h->math = mode;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t h, void *room, size_t)
{
    if ((uintptr_t)room % 256 != 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    h->room = room;
    return CUBLAS_STATUS_SUCCESS;
}

const char *cublasGetStatusString(cublasStatus_t e)
{
    return e == CUBLAS_STATUS_SUCCESS ? "success" : "cuBLAS on the host refuses";
}

/* Whether the handle belongs to the current device and has a stream and a workspace. */
static bool is_ready(cublasHandle_t h)
{
    int gpu;
    return cudaGetDevice(&gpu) == cudaSuccess && gpu == h->gpu && h->stream && h->room;
}

static cublasStatus_t status_of(cudaError_t e)
{
    return e == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

/* Checks leading dimensions as the library does. */
cublasStatus_t cublasSgemm_v2_64(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb,
                                 int64_t m, int64_t n, int64_t k, const float *alpha,
                                 const float *a, int64_t lda, const float *b, int64_t ldb,
                                 const float *beta, float *c, int64_t ldc)
{
    bool flip_a = ta != CUBLAS_OP_N, flip_b = tb != CUBLAS_OP_N;
    if (m < 0 || n < 0 || k < 0 || lda < (flip_a ? k : m) || ldb < (flip_b ? n : k) || ldc < m)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!is_ready(h))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    factor type = h->math == CUBLAS_TF32_TENSOR_OP_MATH ? FLOATS_AS_TF32 : FLOATS;
    return status_of(cuda_on_host_do(h->stream, [=, by = *alpha, kept = *beta] {
        multiply(type, flip_a, flip_b, m, n, k, by, a, lda, b, ldb, kept, c, ldc);
    }));
}

/* Accepts only what the device uses: 16-bit operands accumulated in fp32, or floats that the
 * library rounds. */
cublasStatus_t cublasGemmEx_64(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb,
                               int64_t m, int64_t n, int64_t k, const void *alpha, const void *a,
                               cudaDataType atype, int64_t lda, const void *b, cudaDataType btype,
                               int64_t ldb, const void *beta, void *c, cudaDataType ctype,
                               int64_t ldc, cublasComputeType_t compute, cublasGemmAlgo_t)
{
    bool flip_a = ta != CUBLAS_OP_N, flip_b = tb != CUBLAS_OP_N;
    factor type;
    epilogue stored;
    if (m < 0 || n < 0 || k < 0 || lda < (flip_a ? k : m) || ldb < (flip_b ? n : k) || ldc < m ||
        !factor_of(atype, &type) || atype != btype || (ctype != CUDA_R_32F && ctype != atype) ||
        !factor_of(ctype, &stored.type))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!is_ready(h))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    bool tf32 = compute != CUBLAS_COMPUTE_32F_PEDANTIC && h->math == CUBLAS_TF32_TENSOR_OP_MATH;
    if (type == FLOATS)
        type = compute == CUBLAS_COMPUTE_32F_FAST_16BF  ? FLOATS_AS_BF16
               : compute == CUBLAS_COMPUTE_32F_FAST_16F ? FLOATS_AS_FP16
               : tf32                                   ? FLOATS_AS_TF32
                                                        : FLOATS;
    else if (compute != CUBLAS_COMPUTE_32F)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    const float by = *static_cast<const float *>(alpha), kept = *static_cast<const float *>(beta);
    return status_of(cuda_on_host_do(h->stream, [=] {
        multiply(type, flip_a, flip_b, m, n, k, by, a, lda, b, ldb, kept, c, ldc, stored);
    }));
}

/* ---- cuBLASLt ---- */

cublasStatus_t cublasLtCreate(cublasLtHandle_t *out)
{
    *out = reinterpret_cast<cublasLtHandle_t>(new char);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t h)
{
    delete reinterpret_cast<char *>(h);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    if ((compute != CUBLAS_COMPUTE_32F && compute != CUBLAS_COMPUTE_32F_FAST_TF32) ||
        scale != CUDA_R_32F)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    *out = reinterpret_cast<cublasLtMatmulDesc_t>(new product);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d)
{
    delete reinterpret_cast<product *>(d);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d,
                                              cublasLtMatmulDescAttributes_t name,
                                              const void *value, size_t bytes)
{
    product *p = reinterpret_cast<product *>(d);
    cublasOperation_t op = CUBLAS_OP_N;
    if ((name == CUBLASLT_MATMUL_DESC_TRANSA || name == CUBLASLT_MATMUL_DESC_TRANSB) &&
        bytes == sizeof op) {
        std::memcpy(&op, value, sizeof op);
        (name == CUBLASLT_MATMUL_DESC_TRANSA ? p->flip_a : p->flip_b) = op != CUBLAS_OP_N;
    } else if (name == CUBLASLT_MATMUL_DESC_EPILOGUE && bytes == sizeof p->epilogue) {
        std::memcpy(&p->epilogue, value, bytes);
    } else if (name == CUBLASLT_MATMUL_DESC_BIAS_POINTER && bytes == sizeof p->bias) {
        std::memcpy(&p->bias, value, bytes);
    } else {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t step)
{
    factor read_as;
    if (!factor_of(type, &read_as) || step < (int64_t)rows)
        return CUBLAS_STATUS_INVALID_VALUE;
    *out = reinterpret_cast<cublasLtMatrixLayout_t>(new matrix{rows, columns, step, read_as});
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t m)
{
    delete reinterpret_cast<matrix *>(m);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
    *out = reinterpret_cast<cublasLtMatmulPreference_t>(new char);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
    delete reinterpret_cast<char *>(p);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                    cublasLtMatmulPreferenceAttributes_t name,
                                                    const void *, size_t bytes)
{
    size_t wanted =
        name == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES ? sizeof(uint64_t) : sizeof(uint32_t);
    return bytes == wanted ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

size_t cublasLtGetVersion(void)
{
    return 1;
}

/* An algorithm stores its number twice; others are not from this library. */
static int number_of(const cublasLtMatmulAlgo_t *algorithm)
{
    return algorithm->data[0] == algorithm->data[1] ? (int)algorithm->data[0] : 0;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t name,
                                                    void *value, size_t bytes, size_t *written)
{
    int found = name == CUBLASLT_ALGO_CONFIG_ID ? number_of(algorithm) : 0;
    if (bytes != sizeof found)
        return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(value, &found, sizeof found);
    *written = sizeof found;
    return CUBLAS_STATUS_SUCCESS;
}

static bool fits(const product *p, const matrix *a, const matrix *b, const matrix *c)
{
    uint64_t m = p->flip_a ? a->columns : a->rows, k = p->flip_a ? a->rows : a->columns;
    uint64_t n = p->flip_b ? b->rows : b->columns, k2 = p->flip_b ? b->columns : b->rows;
    return m == c->rows && n == c->columns && k == k2 && a->type == b->type &&
           (c->type == FLOATS || c->type == a->type);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t d,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t, int most,
                                              cublasLtMatmulHeuristicResult_t out[], int *count)
{
    enum { SUGGESTIONS = 3 };
    const product *p = reinterpret_cast<product *>(d);
    const matrix *out_matrix = reinterpret_cast<matrix *>(c);
    bool bias = p->epilogue == CUBLASLT_EPILOGUE_BIAS || p->epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
    if (!fits(p, reinterpret_cast<matrix *>(a), reinterpret_cast<matrix *>(b), out_matrix) ||
        (bias && !p->bias))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (out_matrix->rows % 3 == 0) { /* so that both cases are tested */
        *count = 0;
        return CUBLAS_STATUS_SUCCESS;
    }
    *count = most < SUGGESTIONS ? most : SUGGESTIONS;
    for (int i = 0; i < *count; i++) {
        std::memset(&out[i], 0, sizeof out[i]);
        out[i].state = CUBLAS_STATUS_SUCCESS;
        out[i].algo.data[0] = out[i].algo.data[1] = 60 + (uint64_t)i;
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t d, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t la, const void *b,
                              cublasLtMatrixLayout_t lb, const void *beta, const void *c,
                              cublasLtMatrixLayout_t, void *out, cublasLtMatrixLayout_t lout,
                              const cublasLtMatmulAlgo_t *algorithm, void *room, size_t,
                              cudaStream_t stream)
{
    const product *p = reinterpret_cast<product *>(d);
    const matrix *ma = reinterpret_cast<matrix *>(la), *mb = reinterpret_cast<matrix *>(lb);
    const matrix *mo = reinterpret_cast<matrix *>(lout);
    int64_t m = (int64_t)mo->rows, n = (int64_t)mo->columns;
    bool bias = p->epilogue == CUBLASLT_EPILOGUE_BIAS || p->epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
    epilogue finish;
    finish.relu =
        p->epilogue == CUBLASLT_EPILOGUE_RELU || p->epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
    finish.type = mo->type;
    finish.bias = bias ? p->bias : nullptr;
    if (!fits(p, ma, mb, mo) || c != out || (bias && !p->bias) || !room ||
        number_of(algorithm) == 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    /* Copies descriptors and scalars, which may be freed before a graph is launched. */
    const float by = *static_cast<const float *>(alpha), kept = *static_cast<const float *>(beta);
    return status_of(cuda_on_host_do(stream, [=, p = *p, ma = *ma, mb = *mb, mo = *mo] {
        multiply(ma.type, p.flip_a, p.flip_b, m, n, (int64_t)(p.flip_a ? ma.rows : ma.columns), by,
                 a, ma.step, b, mb.step, kept, out, mo.step, finish);
    }));
}
}
