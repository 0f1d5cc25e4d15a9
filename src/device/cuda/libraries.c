#include "device/cuda/libraries.h"
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

int sw_cuda_check_blas(struct sw_cuda_stream *s, int answer, const char *what, struct sw_err *err)
{
    cublasStatus_t e = (cublasStatus_t)answer;
    if (e == CUBLAS_STATUS_SUCCESS)
        return SW_OK;
    int rc = sw_cuda_check(s->device, (int)cudaPeekAtLastError(), what, err);
    if (rc != SW_OK) /* the cause is not the library's */
        return rc;
    return sw_err_set(err, e == CUBLAS_STATUS_ALLOC_FAILED ? SW_ERR_NOMEM : SW_ERR_LIBRARY,
                      "%s: %s: cuBLAS: %s", s->base.dev->name, what, cublasGetStatusString(e));
}

int sw_cuda_check_dnn(struct sw_cuda_stream *s, int answer, const char *what, struct sw_err *err)
{
    cudnnStatus_t e = (cudnnStatus_t)answer;
    char text[512] = "";
    if (e == CUDNN_STATUS_SUCCESS)
        return SW_OK;
    cudnnGetLastErrorString(text, sizeof text);
    return sw_err_set(err, e == CUDNN_STATUS_ALLOC_FAILED ? SW_ERR_NOMEM : SW_ERR_LIBRARY,
                      "%s: %s: cuDNN: %s%s%s", s->base.dev->name, what, cudnnGetErrorString(e),
                      text[0] ? ": " : "", text);
}

/* With a room of its own for each handle cuBLAS gives the same bits every time, and allocates
 * nothing when it is called. */
int sw_cuda_need_blas(struct sw_cuda_stream *s, struct sw_err *err)
{
    if (s->blas)
        return SW_OK;
    int rc = sw_cuda_check(s->device, (int)cudaMalloc(&s->blas_room, SW_CUDA_BLAS_BYTES),
                           "the workspace of cuBLAS", err);
    if (rc != SW_OK)
        return rc;
    cublasStatus_t e = cublasLtCreate(&s->light);
    if (e == CUBLAS_STATUS_SUCCESS)
        e = cublasCreate(&s->blas);
    if (e == CUBLAS_STATUS_SUCCESS)
        e = cublasSetStream(s->blas, s->stream);
    if (e == CUBLAS_STATUS_SUCCESS)
        e = cublasSetMathMode(s->blas,
                              s->device->tf32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH);
    if (e == CUBLAS_STATUS_SUCCESS)
        e = cublasSetWorkspace(s->blas, s->blas_room, SW_CUDA_BLAS_BYTES);
    return sw_cuda_check_blas(s, (int)e, "opening cuBLAS", err);
}

int sw_cuda_need_dnn(struct sw_cuda_stream *s, struct sw_err *err)
{
    if (s->dnn)
        return SW_OK;
    cudnnStatus_t e = cudnnCreate(&s->dnn);
    if (e == CUDNN_STATUS_SUCCESS)
        e = cudnnSetStream(s->dnn, s->stream);
    return sw_cuda_check_dnn(s, (int)e, "opening cuDNN", err);
}

void sw_cuda_libraries_free(struct sw_cuda_stream *s)
{
    if (s->dnn)
        (void)cudnnDestroy(s->dnn);
    if (s->blas)
        (void)cublasDestroy(s->blas);
    if (s->light)
        (void)cublasLtDestroy(s->light);
    (void)cudaFree(s->blas_room);
}

/* cuBLAS counts column by column: it is asked for the transpose, c^T = op(b)^T op(a)^T. */
int sw_cuda_multiply_matrices(struct sw_stream *stream, const struct sw_cuda_product *p,
                              struct sw_err *err)
{
    struct sw_cuda_stream *s = sw_cuda_stream_of(stream);
    int rc = sw_cuda_enter(s->device, err);
    if (rc == SW_OK)
        rc = sw_cuda_need_blas(s, err);
    if (rc != SW_OK || p->m == 0 || p->n == 0)
        return rc;
    cublasStatus_t e = cublasSgemm_64(
        s->blas, p->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N, p->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N,
        p->n, p->m, p->k, &p->alpha, p->b, p->ldb, p->a, p->lda, &p->beta, p->c, p->ldc);
    return sw_cuda_check_blas(s, (int)e, "a matrix product", err);
}
