/* Running a convolution of cuDNN (conv_engine.h) on a stream. */
#include "device/cuda/conv_graph.h"
#include "device/cuda/libraries.h"
#include <cudnn.h>

static cudnnStatus_t fill(cudnnBackendDescriptor_t pack, bool fused,
                          const struct sw_cuda_conv_arrays *a)
{
    const int64_t ids[SW_CUDA_CONV_ARRAYS] = {SW_CUDA_CONV_IMAGE, SW_CUDA_CONV_FILTER,
                                              SW_CUDA_CONV_RESULT, SW_CUDA_CONV_BIAS};
    const void *arrays[SW_CUDA_CONV_ARRAYS] = {a->image, a->filter, a->result, a->bias};
    const int64_t count = fused ? SW_CUDA_CONV_ARRAYS : SW_CUDA_CONV_ARRAYS - 1;

    cudnnStatus_t e = cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
                                               CUDNN_TYPE_INT64, count, ids);
    if (e == CUDNN_STATUS_SUCCESS)
        e = cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                                     CUDNN_TYPE_VOID_PTR, count, arrays);
    if (e == CUDNN_STATUS_SUCCESS)
        e = cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR,
                                     1, &a->workspace);

    return e == CUDNN_STATUS_SUCCESS ? cudnnBackendFinalize(pack) : e;
}

int sw_cuda_conv_graph_run(const struct sw_cuda_conv_graph *g, struct sw_stream *stream,
                           const struct sw_cuda_conv_arrays *a, struct sw_err *err)
{
    struct sw_cuda_stream *s = sw_cuda_stream_of(stream);
    cudnnBackendDescriptor_t pack = NULL;

    int rc = sw_cuda_enter(s->device, err);
    if (rc != SW_OK)
        return rc;

    cudnnStatus_t e = cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
    if (e == CUDNN_STATUS_SUCCESS)
        e = fill(pack, g->fused, a);
    if (e == CUDNN_STATUS_SUCCESS)
        e = cudnnBackendExecute(s->dnn, g->plan, pack);
    if (pack)
        (void)cudnnBackendDestroyDescriptor(pack);

    return e == CUDNN_STATUS_SUCCESS ? SW_OK : sw_cuda_check_dnn(s, (int)e, g->name, err);
}
