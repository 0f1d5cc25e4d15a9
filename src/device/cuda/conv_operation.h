/* A convolution as a graph of operations in cuDNN's graph API, of which conv_engine.h asks for an
 * engine. Descriptors are reference-counted objects of the library: one keeps those that it refers
 * to. Internal to device/cuda; one owner, the worker of the stream. */
#pragma once

#include "device/cuda/conv_engine.h"
#include <cudnn.h>

/* ---- Descriptors: the first error stays in *e, and later calls do nothing ---- */

static inline void sw_dnn_create(cudnnStatus_t *e, cudnnBackendDescriptorType_t type,
                                 cudnnBackendDescriptor_t *out)
{
    if (*e == CUDNN_STATUS_SUCCESS)
        *e = cudnnBackendCreateDescriptor(type, out);
}

static inline void sw_dnn_set(cudnnStatus_t *e, cudnnBackendDescriptor_t d,
                              cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                              int64_t count, const void *values)
{
    if (*e == CUDNN_STATUS_SUCCESS)
        *e = cudnnBackendSetAttribute(d, name, type, count, values);
}

static inline void sw_dnn_set_descriptor(cudnnStatus_t *e, cudnnBackendDescriptor_t d,
                                         cudnnBackendAttributeName_t name,
                                         cudnnBackendDescriptor_t value)
{
    sw_dnn_set(e, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static inline void sw_dnn_get(cudnnStatus_t *e, cudnnBackendDescriptor_t d,
                              cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                              int64_t room, int64_t *count, void *values)
{
    if (*e == CUDNN_STATUS_SUCCESS)
        *e = cudnnBackendGetAttribute(d, name, type, room, count, values);
}

static inline void sw_dnn_finish(cudnnStatus_t *e, cudnnBackendDescriptor_t d)
{
    if (*e == CUDNN_STATUS_SUCCESS)
        *e = cudnnBackendFinalize(d);
}

static inline void sw_dnn_drop(cudnnBackendDescriptor_t d)
{
    if (d)
        (void)cudnnBackendDestroyDescriptor(d);
}

/* ---- Operations ---- */

/* Creates the graph; the caller drops it. */
cudnnBackendDescriptor_t sw_cuda_conv_operation(cudnnStatus_t *e,
                                                const struct sw_cuda_conv_question *q);
const char *sw_cuda_conv_pass_name(enum sw_tune_pass pass); /* "backward_data"; static */
