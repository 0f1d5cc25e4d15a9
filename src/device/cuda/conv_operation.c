/* The operations of a convolution: one per pass, and for a fused one those of bias and relu. The
 * contract is in device/cuda/conv_operation.h. */
#include "device/cuda/conv_operation.h"
#include "device/cpu/cpu.h"
#include "device/cuda/conv_layout.h"

enum { ALIGNMENT = 16 /* of every array, in bytes; arenas align at least so */ };

/* A virtual tensor is an intermediate result that is not stored. */
static void make_tensor(cudnnStatus_t *e, int64_t id, const struct sw_desc *d, cudnnDataType_t type,
                        bool virtual, cudnnBackendDescriptor_t *out)
{
    int64_t alignment = ALIGNMENT;

    sw_dnn_create(e, CUDNN_BACKEND_TENSOR_DESCRIPTOR, out);
    sw_dnn_set(e, *out, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    sw_dnn_set(e, *out, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    sw_dnn_set(e, *out, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, d->dim);
    sw_dnn_set(e, *out, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, d->stride);
    sw_dnn_set(e, *out, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    if (virtual)
        sw_dnn_set(e, *out, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &virtual);
    sw_dnn_finish(e, *out);
}

/* The padding after the input: what the last window needs, but the same as the padding before it if
 * floor rounding results in the same output size. */
static int64_t padding_after(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t pad,
                             int64_t dilation)
{
    int64_t after = sw_conv_pad_after(in, out, kernel, stride, pad, dilation);
    return after <= pad && pad - after < stride ? pad : after;
}

static void make_convolution(cudnnStatus_t *e, const struct sw_desc *src,
                             const struct sw_conv_shape *c, cudnnBackendDescriptor_t *out)
{
    const int64_t dims = 2, before[] = {c->pad_h, c->pad_w};
    const int64_t strides[] = {c->stride_h, c->stride_w};
    const int64_t dilations[] = {c->dilation_h, c->dilation_w};
    const int64_t after[] = {
        padding_after(src->dim[2], c->out_h, c->kernel_h, c->stride_h, c->pad_h, c->dilation_h),
        padding_after(src->dim[3], c->out_w, c->kernel_w, c->stride_w, c->pad_w, c->dilation_w)};
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;

    sw_dnn_create(e, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, out);
    sw_dnn_set(e, *out, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    sw_dnn_set(e, *out, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    sw_dnn_set(e, *out, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &dims);
    sw_dnn_set(e, *out, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, dims, before);
    sw_dnn_set(e, *out, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, dims, after);
    sw_dnn_set(e, *out, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, dims, strides);
    sw_dnn_set(e, *out, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, dims, dilations);
    sw_dnn_finish(e, *out);
}

/* ---- Operations: one per pass, which differ in names only ---- */

struct operation {
    const char *name;
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t alpha, beta, convolution, image, filter, result;
    int64_t writes; /* the array that is written */
};

static const struct operation operations[SW_TUNE_PASSES] = {
    [SW_TUNE_FORWARD] =
        {
            "forward",
            CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
            SW_CUDA_CONV_RESULT,
        },
    [SW_TUNE_DATA] =
        {
            "backward_data",
            CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
            SW_CUDA_CONV_IMAGE,
        },
    [SW_TUNE_WEIGHTS] =
        {
            "backward_weights",
            CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
            SW_CUDA_CONV_FILTER,
        },
};

static cudnnDataType_t half_type(const struct sw_cuda_conv_question *q)
{
    return q->gpu->precision == SW_PRECISION_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
}

/* The element type of an array of the operation. */
static cudnnDataType_t type_of(const struct sw_cuda_conv_question *q, const struct operation *o,
                               int64_t array)
{
    bool halves = array == o->writes ? q->writes_halves : q->halves;
    return halves ? half_type(q) : CUDNN_DATA_FLOAT;
}

/* The operation on `result`. The library keeps the descriptors that others refer to. */
static cudnnBackendDescriptor_t make_pass(cudnnStatus_t *e, const struct sw_cuda_conv_question *q,
                                          cudnnBackendDescriptor_t result)
{
    const struct operation *o = &operations[q->pass];
    cudnnBackendDescriptor_t part[3] = {NULL}, pass = NULL;
    const float alpha = 1, beta = 0;

    make_tensor(e, SW_CUDA_CONV_IMAGE, q->src, type_of(q, o, SW_CUDA_CONV_IMAGE), false, &part[0]);
    make_tensor(e, SW_CUDA_CONV_FILTER, q->weight, type_of(q, o, SW_CUDA_CONV_FILTER), false,
                &part[1]);
    make_convolution(e, q->src, q->shape, &part[2]);
    sw_dnn_create(e, o->type, &pass);
    sw_dnn_set_descriptor(e, pass, o->image, part[0]);
    sw_dnn_set_descriptor(e, pass, o->filter, part[1]);
    sw_dnn_set_descriptor(e, pass, o->result, result);
    sw_dnn_set_descriptor(e, pass, o->convolution, part[2]);
    sw_dnn_set(e, pass, o->alpha, CUDNN_TYPE_FLOAT, 1, &alpha);
    sw_dnn_set(e, pass, o->beta, CUDNN_TYPE_FLOAT, 1, &beta);
    sw_dnn_finish(e, pass);
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        sw_dnn_drop(part[i]);

    return pass;
}

/* y = x + b, or y = relu(x) without b. */
static cudnnBackendDescriptor_t make_pointwise(cudnnStatus_t *e, cudnnBackendDescriptor_t x,
                                               cudnnBackendDescriptor_t b,
                                               cudnnBackendDescriptor_t y)
{
    cudnnBackendDescriptor_t function = NULL, operation = NULL;
    cudnnPointwiseMode_t mode = b ? CUDNN_POINTWISE_ADD : CUDNN_POINTWISE_RELU_FWD;
    cudnnDataType_t type = CUDNN_DATA_FLOAT;

    sw_dnn_create(e, CUDNN_BACKEND_POINTWISE_DESCRIPTOR, &function);
    sw_dnn_set(e, function, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    sw_dnn_set(e, function, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type);
    sw_dnn_finish(e, function);
    sw_dnn_create(e, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, &operation);
    sw_dnn_set_descriptor(e, operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, function);
    sw_dnn_set_descriptor(e, operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b)
        sw_dnn_set_descriptor(e, operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    sw_dnn_set_descriptor(e, operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    sw_dnn_finish(e, operation);
    sw_dnn_drop(function);

    return operation;
}

enum { MOST_OPERATIONS = 3 };

/* The pass with bias and relu; returns the number of operations. */
static int make_fused(cudnnStatus_t *e, const struct sw_cuda_conv_question *q,
                      cudnnBackendDescriptor_t result,
                      cudnnBackendDescriptor_t operation[MOST_OPERATIONS])
{
    const int64_t dim[] = {1, q->shape->outputs, 1, 1};
    const struct sw_desc bias = sw_cuda_channels_last(dim);
    cudnnBackendDescriptor_t product = NULL, sum = NULL, row = NULL;
    bool relu = q->shape->fuse_relu;

    make_tensor(e, SW_CUDA_CONV_ARRAYS + 1, q->dst, CUDNN_DATA_FLOAT, true, &product);
    if (relu)
        make_tensor(e, SW_CUDA_CONV_ARRAYS + 2, q->dst, CUDNN_DATA_FLOAT, true, &sum);
    make_tensor(e, SW_CUDA_CONV_BIAS, &bias, q->halves ? half_type(q) : CUDNN_DATA_FLOAT, false,
                &row);
    operation[0] = make_pass(e, q, product);
    operation[1] = make_pointwise(e, product, row, relu ? sum : result);
    if (relu)
        operation[2] = make_pointwise(e, sum, NULL, result);
    sw_dnn_drop(product);
    sw_dnn_drop(sum);
    sw_dnn_drop(row);

    return relu ? 3 : 2;
}

cudnnBackendDescriptor_t sw_cuda_conv_operation(cudnnStatus_t *e,
                                                const struct sw_cuda_conv_question *q)
{
    const struct operation *o = &operations[q->pass];
    cudnnBackendDescriptor_t operation[MOST_OPERATIONS] = {NULL}, result = NULL, graph = NULL;
    int64_t count = 1;

    make_tensor(e, SW_CUDA_CONV_RESULT, q->dst, type_of(q, o, SW_CUDA_CONV_RESULT), false, &result);
    if (q->fused)
        count = make_fused(e, q, result, operation);
    else
        operation[0] = make_pass(e, q, result);

    sw_dnn_create(e, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, &graph);
    if (q->gpu->handle)
        sw_dnn_set(e, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1,
                   &q->gpu->handle);
    sw_dnn_set(e, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count,
               operation);
    sw_dnn_finish(e, graph);
    sw_dnn_drop(result);
    for (int i = 0; i < MOST_OPERATIONS; i++)
        sw_dnn_drop(operation[i]);

    return graph;
}

const char *sw_cuda_conv_pass_name(enum sw_tune_pass pass)
{
    return operations[pass].name;
}
