/* The cuBLAS and cuDNN handles of a stream, their error messages, and matrix products with cuBLAS.
 * Handles are created at first use, never during the capture of a CUDA graph. Only the owner of the
 * stream calls. The contract is in device/cuda/libraries.h. */
#include "device/cuda/libraries.h"
#include "base/os.h"
#include "device/cuda/conv_engine.h"
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

int sw_cuda_check_blas(struct sw_cuda_stream *s, int status, const char *what, struct sw_err *err)
{
    cublasStatus_t e = (cublasStatus_t)status;
    if (e == CUBLAS_STATUS_SUCCESS)
        return SW_OK;

    int rc = sw_cuda_check(s->device, (int)cudaPeekAtLastError(), what, err);
    if (rc != SW_OK) /* an earlier CUDA error is the cause */
        return rc;

    return sw_err_set(err, e == CUBLAS_STATUS_ALLOC_FAILED ? SW_ERR_NOMEM : SW_ERR_LIBRARY,
                      "%s: %s: cuBLAS: %s", s->base.dev->name, what, cublasGetStatusString(e));
}

int sw_cuda_check_dnn(struct sw_cuda_stream *s, int status, const char *what, struct sw_err *err)
{
    cudnnStatus_t e = (cudnnStatus_t)status;
    char text[512] = "";

    if (e == CUDNN_STATUS_SUCCESS)
        return SW_OK;

    cudnnGetLastErrorString(text, sizeof text);
    return sw_err_set(err, e == CUDNN_STATUS_ALLOC_FAILED ? SW_ERR_NOMEM : SW_ERR_LIBRARY,
                      "%s: %s: cuDNN: %s%s%s", s->base.dev->name, what, cudnnGetErrorString(e),
                      text[0] ? ": " : "", text);
}

/* Products accumulate in fp32, even if the library splits k. */
static cublasMath_t math_mode(enum sw_precision precision)
{
    return precision == SW_PRECISION_TF32 ? CUBLAS_TF32_TENSOR_OP_MATH
           : sw_precision_is_half(precision)
               ? (cublasMath_t)(CUBLAS_DEFAULT_MATH |
                                CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)
               : CUBLAS_DEFAULT_MATH;
}

/* Allocates the workspace. With a workspace per handle cuBLAS is deterministic and allocates
 * nothing during calls. It is zeroed, so that checkers of uninitialized reads find none in the
 * libraries. */
int sw_cuda_need_room(struct sw_cuda_stream *s, struct sw_err *err)
{
    void *room = NULL;
    if (s->room)
        return SW_OK;

    int rc = sw_cuda_capture_refuse(s, "allocating a workspace", err);
    if (rc != SW_OK)
        return rc;

    cudaError_t e = cudaMalloc(&room, SW_CUDA_ROOM_BYTES);
    if (e == cudaSuccess)
        e = cudaMemsetAsync(room, 0, SW_CUDA_ROOM_BYTES, s->stream);

    if (e == cudaSuccess)
        s->room = room;
    else
        (void)cudaFree(room);

    return sw_cuda_check(s->device, (int)e, "allocating a workspace", err);
}

/* Creates the cuBLAS handle and stores it only if all its settings succeed. The workspace is set
 * after the stream, since setting the stream resets it. */
int sw_cuda_need_blas(struct sw_cuda_stream *s, struct sw_err *err)
{
    cublasHandle_t blas = NULL;
    cublasStatus_t e = CUBLAS_STATUS_SUCCESS;

    if (s->blas)
        return SW_OK;

    int rc = sw_cuda_need_room(s, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_cuda_capture_refuse(s, "opening cuBLAS", err);
    if (rc != SW_OK)
        return rc;

    if (!s->lt)
        e = cublasLtCreate(&s->lt);
    if (e == CUBLAS_STATUS_SUCCESS)
        e = cublasCreate(&blas);
    if (e == CUBLAS_STATUS_SUCCESS)
        e = cublasSetStream(blas, s->stream);
    if (e == CUBLAS_STATUS_SUCCESS)
        e = cublasSetMathMode(blas, math_mode(s->device->precision));
    if (e == CUBLAS_STATUS_SUCCESS)
        e = cublasSetWorkspace(blas, s->room, SW_CUDA_ROOM_BYTES);

    if (e == CUBLAS_STATUS_SUCCESS)
        s->blas = blas;
    else if (blas)
        (void)cublasDestroy(blas);

    return sw_cuda_check_blas(s, (int)e, "opening cuBLAS", err);
}

int sw_cuda_need_dnn(struct sw_cuda_stream *s, struct sw_err *err)
{
    cudnnHandle_t dnn = NULL;
    if (s->dnn)
        return SW_OK;

    int rc = sw_cuda_capture_refuse(s, "opening cuDNN", err);
    if (rc != SW_OK)
        return rc;

    cudnnStatus_t e = cudnnCreate(&dnn);
    if (e == CUDNN_STATUS_SUCCESS)
        e = cudnnSetStream(dnn, s->stream);

    if (e != CUDNN_STATUS_SUCCESS) {
        if (dnn)
            (void)cudnnDestroy(dnn);
        return sw_cuda_check_dnn(s, (int)e, "opening cuDNN", err);
    }

    struct sw_cuda_conv_gpu *gpu = sw_calloc(1, sizeof *gpu);
    if (!gpu) {
        (void)cudnnDestroy(dnn);
        return sw_err_nomem(err, "cuDNN's convolutions", sizeof *gpu);
    }

    *gpu =
        (struct sw_cuda_conv_gpu){.handle = dnn,
                                  .precision = s->device->precision,
                                  .avoid_winograd = s->device->base.avoid_winograd,
                                  .workspace_bytes = sw_cuda_conv_workspace(s->device->capacity)};
    s->dnn = dnn;
    s->conv = gpu;
    return SW_OK;
}

void sw_cuda_libraries_free(struct sw_cuda_stream *s)
{
    sw_free(s->conv);
    if (s->dnn)
        (void)cudnnDestroy(s->dnn);
    if (s->blas)
        (void)cublasDestroy(s->blas);
    if (s->lt)
        (void)cublasLtDestroy(s->lt);
    (void)cudaFree(s->room);
}

/* Computes a product with 16-bit operands, with floats that cuBLAS rounds to 16 bits, or in fp32
 * although the handle would round. */
static cublasStatus_t gemm_ex(struct sw_cuda_stream *s, const struct sw_product *p,
                              enum sw_cuda_factors f, cublasOperation_t of_a,
                              cublasOperation_t of_b)
{
    bool bf16 = s->device->precision == SW_PRECISION_BF16;
    bool halves = f == SW_CUDA_HALF_FACTORS || f == SW_CUDA_HALF_PRODUCT;
    cudaDataType_t type = !halves ? CUDA_R_32F : bf16 ? CUDA_R_16BF : CUDA_R_16F;
    cudaDataType_t product = f == SW_CUDA_HALF_PRODUCT ? type : CUDA_R_32F;
    cublasComputeType_t compute = halves                       ? CUBLAS_COMPUTE_32F
                                  : f == SW_CUDA_EXACT_FACTORS ? CUBLAS_COMPUTE_32F_PEDANTIC
                                  : bf16                       ? CUBLAS_COMPUTE_32F_FAST_16BF
                                                               : CUBLAS_COMPUTE_32F_FAST_16F;

    return cublasGemmEx_64(s->blas, of_b, of_a, p->n, p->m, p->k, &p->alpha, p->b.at, type,
                           p->b.pitch, p->a.at, type, p->a.pitch, &p->beta, p->c, product, p->pitch,
                           compute, CUBLAS_GEMM_DEFAULT);
}

/* cuBLAS is column-major, so it computes the transpose: c^T = op(b)^T op(a)^T. */
int sw_cuda_multiply(struct sw_stream *stream, const struct sw_product *p, enum sw_cuda_factors f,
                     struct sw_err *err)
{
    struct sw_cuda_stream *s = sw_cuda_stream_of(stream);

    int rc = sw_cuda_enter(s->device, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_cuda_need_blas(s, err);
    if (rc != SW_OK)
        return rc;
    if (p->m == 0 || p->n == 0)
        return SW_OK;

    cublasOperation_t of_a = p->a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t of_b = p->b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    enum sw_precision precision = s->device->precision;
    bool use_gemm_ex = sw_precision_is_half(precision) ||
                       (f == SW_CUDA_EXACT_FACTORS && precision == SW_PRECISION_TF32);
    cublasStatus_t e =
        use_gemm_ex ? gemm_ex(s, p, f, of_a, of_b)
                    : cublasSgemm_64(s->blas, of_b, of_a, p->n, p->m, p->k, &p->alpha, p->b.at,
                                     p->b.pitch, p->a.at, p->a.pitch, &p->beta, p->c, p->pitch);

    return sw_cuda_check_blas(s, (int)e, "matrix product", err);
}
