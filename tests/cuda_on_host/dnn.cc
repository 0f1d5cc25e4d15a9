/* The calls of cuDNN's graph API that the cuda device makes: descriptors store their attributes,
 * and a plan of one convolution, with a bias and a relu or without, runs as loops over the
 * described dimensions and strides. See README.md. */
#include "cuda_runtime.h"
#include "kernels/half.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <cudnn.h>
#include <cudnn_backend.h>
#include <map>
#include <memory>
#include <vector>

namespace
{
/* Descriptors are reference-counted. */
struct object;
typedef std::shared_ptr<object> object_ref;

struct object {
    cudnnBackendDescriptorType_t type;
    bool finished = false;
    std::map<int, std::vector<int64_t>> numbers;
    std::map<int, std::vector<void *>> pointers;
    std::map<int, object_ref> objects;  /* the first of each attribute */
    std::vector<object_ref> operations; /* of an operation graph */

    bool has(int name) const
    {
        return numbers.count(name) || pointers.count(name) || objects.count(name);
    }
};

object_ref &of(cudnnBackendDescriptor_t d)
{
    return *static_cast<object_ref *>(d);
}

/* Attributes that must be set before a descriptor can be finalized. */
std::vector<int> needs(cudnnBackendDescriptorType_t type)
{
    switch (type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
        return {CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_ATTR_TENSOR_DATA_TYPE,
                CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_ATTR_TENSOR_STRIDES,
                CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT};
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
        return {CUDNN_ATTR_CONVOLUTION_COMP_TYPE,     CUDNN_ATTR_CONVOLUTION_CONV_MODE,
                CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS,  CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS,
                CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES,
                CUDNN_ATTR_CONVOLUTION_DILATIONS};
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
        return {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
        return {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY};
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
        return {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY};
    case CUDNN_BACKEND_POINTWISE_DESCRIPTOR:
        return {CUDNN_ATTR_POINTWISE_MODE, CUDNN_ATTR_POINTWISE_MATH_PREC};
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
        return {CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                CUDNN_ATTR_OPERATION_POINTWISE_YDESC};
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
        return {CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_ATTR_OPERATIONGRAPH_OPS};
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
        return {CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_ATTR_ENGINEHEUR_MODE};
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
        return {CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG};
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
        return {CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS};
    default:
        return {};
    }
}

/* An array converted to floats; if it was written, it is converted back. */
struct tensor {
    const std::vector<int64_t> &dim, &stride;
    int type;
    void *memory;
    std::vector<float> data;

    tensor(const object_ref &d, void *where)
        : dim(d->numbers.at(CUDNN_ATTR_TENSOR_DIMENSIONS)),
          stride(d->numbers.at(CUDNN_ATTR_TENSOR_STRIDES)),
          type((int)d->numbers.at(CUDNN_ATTR_TENSOR_DATA_TYPE)[0]), memory(where)
    {
        int64_t last = 0;
        for (int i = 0; i < 4; i++)
            last += (dim[i] - 1) * stride[i];
        data.resize((size_t)last + 1);
        const uint16_t *halves = static_cast<const uint16_t *>(memory);
        for (int64_t i = 0; i <= last; i++)
            data[i] = type == CUDNN_DATA_FLOAT      ? static_cast<const float *>(memory)[i]
                      : type == CUDNN_DATA_BFLOAT16 ? sw_bf16_value(halves[i])
                                                    : sw_fp16_value(halves[i]);
    }

    /* As tensor cores read floats. */
    void round()
    {
        if (type == CUDNN_DATA_FLOAT)
            for (float &value : data)
                value = sw_round_tf32(value);
    }

    void store() const
    {
        uint16_t *halves = static_cast<uint16_t *>(memory);
        for (size_t i = 0; i < data.size(); i++)
            if (type == CUDNN_DATA_FLOAT)
                static_cast<float *>(memory)[i] = data[i];
            else
                halves[i] = type == CUDNN_DATA_BFLOAT16 ? sw_bf16_of(data[i]) : sw_fp16_of(data[i]);
    }

    int64_t at(int64_t a, int64_t b, int64_t c, int64_t d) const
    {
        return a * stride[0] + b * stride[1] + c * stride[2] + d * stride[3];
    }
};

tensor tensor_of(const object &pack, const object_ref &d)
{
    const std::vector<int64_t> &ids = pack.numbers.at(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const std::vector<void *> &data = pack.pointers.at(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    void *found = nullptr;
    for (size_t i = 0; i < ids.size(); i++)
        if (ids[i] == d->numbers.at(CUDNN_ATTR_TENSOR_UNIQUE_ID)[0])
            found = data[i];
    if (!found || (uintptr_t)found % (uintptr_t)d->numbers.at(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)[0])
        std::abort();
    return tensor(d, found);
}

void fill_zero(tensor &t)
{
    for (int64_t a = 0; a < t.dim[0]; a++)
        for (int64_t b = 0; b < t.dim[1]; b++)
            for (int64_t c = 0; c < t.dim[2]; c++)
                for (int64_t d = 0; d < t.dim[3]; d++)
                    t.data[t.at(a, b, c, d)] = 0;
}

/* Adds every product of two elements to the array that the pass writes, which it returns. */
tensor &convolve(cudnnBackendDescriptorType_t pass, bool tensor_cores, const object &conv,
                 tensor &x, tensor &w, tensor &y)
{
    const std::vector<int64_t> &pad = conv.numbers.at(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
    const std::vector<int64_t> &stride = conv.numbers.at(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
    const std::vector<int64_t> &dilation = conv.numbers.at(CUDNN_ATTR_CONVOLUTION_DILATIONS);
    bool forward = pass == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
    bool data = pass == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
    int64_t per_group = w.dim[1], outputs_per_group = w.dim[0] / (x.dim[1] / per_group);
    tensor &written = forward ? y : data ? x : w;
    fill_zero(written);
    for (tensor *read : {&x, &w, &y})
        if (tensor_cores && read != &written)
            read->round();
    for (int64_t n = 0; n < y.dim[0]; n++)
        for (int64_t m = 0; m < y.dim[1]; m++)
            for (int64_t oh = 0; oh < y.dim[2]; oh++)
                for (int64_t ow = 0; ow < y.dim[3]; ow++)
                    for (int64_t c = 0; c < per_group; c++)
                        for (int64_t kh = 0; kh < w.dim[2]; kh++)
                            for (int64_t kw = 0; kw < w.dim[3]; kw++) {
                                int64_t h = oh * stride[0] - pad[0] + kh * dilation[0];
                                int64_t v = ow * stride[1] - pad[1] + kw * dilation[1];
                                if (h < 0 || h >= x.dim[2] || v < 0 || v >= x.dim[3])
                                    continue;
                                int64_t in = m / outputs_per_group * per_group + c;
                                float &px = x.data[x.at(n, in, h, v)];
                                float &pw = w.data[w.at(m, c, kh, kw)];
                                float &py = y.data[y.at(n, m, oh, ow)];
                                if (forward)
                                    py += px * pw;
                                else if (data)
                                    px += py * pw;
                                else
                                    pw += py * px;
                            }
    return written;
}

/* Adds a bias to every channel, and applies a relu. */
void finish(tensor &y, const tensor &bias, bool relu)
{
    for (int64_t n = 0; n < y.dim[0]; n++)
        for (int64_t m = 0; m < y.dim[1]; m++)
            for (int64_t h = 0; h < y.dim[2]; h++)
                for (int64_t w = 0; w < y.dim[3]; w++) {
                    float &v = y.data[y.at(n, m, h, w)];
                    v += bias.data[bias.at(0, m, 0, 0)];
                    v = relu && 0 > v ? 0 : v;
                }
}

/* Whether the output size matches padding, stride and kernel, which the library checks. */
bool fits(const object &conv, const std::vector<int64_t> &x, const std::vector<int64_t> &w,
          const std::vector<int64_t> &y)
{
    for (int i = 0; i < 2; i++) {
        int64_t before = conv.numbers.at(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS)[i];
        int64_t after = conv.numbers.at(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS)[i];
        int64_t stride = conv.numbers.at(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES)[i];
        int64_t dilation = conv.numbers.at(CUDNN_ATTR_CONVOLUTION_DILATIONS)[i];
        int64_t reach = dilation * (w[2 + i] - 1) + 1;
        if (after < 0 || before != after || /* engines take symmetric padding only */
            (x[2 + i] + before + after - reach) / stride + 1 != y[2 + i])
            return false;
    }
    return w[0] == y[1] && x[0] == y[0] && x[1] % w[1] == 0;
}

const int names[3][4] = {
    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY}};

const object &array_of(const object &operation, int name)
{
    return *operation.objects.at(name);
}

/* 16-bit engines support only channels last and no groups; forward may write floats, unless the
 * number of filters is divisible by 3; forward writes nothing else if that is divisible by 5, so
 * that all cases are tested. Gradients are written in 16 bits only, as by cuDNN 9. */
bool suits_halves(const object &operation, const int *name, int writes, const object &result)
{
    const object *array[3];
    bool any = false;
    for (int i = 0; i < 3; i++) {
        array[i] = i == writes ? &result : &array_of(operation, name[1 + i]);
        any = any || array[i]->numbers.at(CUDNN_ATTR_TENSOR_DATA_TYPE)[0] != CUDNN_DATA_FLOAT;
    }
    if (!any)
        return true;
    const std::vector<int64_t> &x = array[0]->numbers.at(CUDNN_ATTR_TENSOR_DIMENSIONS),
                               &w = array[1]->numbers.at(CUDNN_ATTR_TENSOR_DIMENSIONS);
    for (int i = 0; i < 3; i++) {
        bool floats = array[i]->numbers.at(CUDNN_ATTR_TENSOR_DATA_TYPE)[0] == CUDNN_DATA_FLOAT;
        if (array[i]->numbers.at(CUDNN_ATTR_TENSOR_STRIDES)[1] != 1 ||
            (floats && (i != writes || writes != 2 || w[0] % 3 == 0)) ||
            (!floats && i == writes && writes == 2 && w[0] % 5 == 0))
            return false;
    }
    return x[1] == w[1];
}

const int *names_of(cudnnBackendDescriptorType_t type)
{
    return type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR         ? names[0]
           : type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ? names[1]
                                                                                  : names[2];
}

int output_of(cudnnBackendDescriptorType_t type)
{
    return type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR         ? 2
           : type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ? 0
                                                                                  : 1;
}

bool is_virtual(const object &tensor)
{
    return tensor.has(CUDNN_ATTR_TENSOR_IS_VIRTUAL);
}

/* Whether the operations after a convolution add a bias of the type of the result and may apply a
 * relu, by virtual floats. There is no such engine if the number of filters is divisible by 7,
 * so that both cases are tested. */
bool suits_fusion(const object &graph)
{
    const std::vector<object_ref> &all = graph.operations;
    const int modes[] = {CUDNN_POINTWISE_ADD, CUDNN_POINTWISE_RELU_FWD};
    object_ref last = all[0]->objects.at(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y);

    for (size_t i = 1; i < all.size(); i++) {
        const object &operation = *all[i];
        if (i > 2 || operation.type != CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR ||
            operation.objects.at(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)
                    ->numbers.at(CUDNN_ATTR_POINTWISE_MODE)[0] != modes[i - 1] ||
            operation.objects.at(CUDNN_ATTR_OPERATION_POINTWISE_XDESC) != last ||
            !is_virtual(*last) || last->numbers.at(CUDNN_ATTR_TENSOR_DATA_TYPE)[0] != 0)
            return false;
        last = operation.objects.at(CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
    }

    const object &bias = *all[1]->objects.at(CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    const std::vector<int64_t> &dim = last->numbers.at(CUDNN_ATTR_TENSOR_DIMENSIONS);
    return !is_virtual(*last) && bias.numbers.at(CUDNN_ATTR_TENSOR_DIMENSIONS)[1] == dim[1] &&
           bias.numbers.at(CUDNN_ATTR_TENSOR_DATA_TYPE) ==
               last->numbers.at(CUDNN_ATTR_TENSOR_DATA_TYPE) &&
           dim[1] % 7 != 0;
}

/* The array that a graph writes, which is not that of its convolution if that is virtual. */
object_ref written_by(const object &graph)
{
    const object &first = *graph.operations.front(), &last = *graph.operations.back();
    return graph.operations.size() > 1
               ? last.objects.at(CUDNN_ATTR_OPERATION_POINTWISE_YDESC)
               : first.objects.at(names_of(first.type)[1 + output_of(first.type)]);
}

const std::vector<int64_t> &dims_of(const object &operation, int name)
{
    return operation.objects.at(name)->numbers.at(CUDNN_ATTR_TENSOR_DIMENSIONS);
}
} // namespace

extern "C" {

size_t cudnnGetVersion(void)
{
    return CUDNN_VERSION;
}

struct cudnnContext {
    cudaStream_t stream;
};

cudnnStatus_t cudnnCreate(cudnnHandle_t *out)
{
    void *own = nullptr; /* memory that the library allocates itself, outside of captures */
    if (cudaMalloc(&own, 1) != cudaSuccess)
        return CUDNN_STATUS_ALLOC_FAILED;
    (void)cudaFree(own);
    *out = new cudnnContext{nullptr};
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t h)
{
    delete h;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t h, cudaStream_t s)
{
    h->stream = s;
    return CUDNN_STATUS_SUCCESS;
}

const char *cudnnGetErrorString(cudnnStatus_t)
{
    return "cuDNN on the host refuses";
}

void cudnnGetLastErrorString(char *text, size_t bytes)
{
    if (bytes)
        text[0] = 0;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *out)
{
    object_ref *ref = new object_ref(std::make_shared<object>());
    (*ref)->type = type;
    *out = ref;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t d)
{
    delete static_cast<object_ref *>(d);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void *values)
{
    object &o = *of(d);
    if (o.finished)
        return CUDNN_STATUS_BAD_PARAM;
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
        object_ref &value = of(*static_cast<const cudnnBackendDescriptor_t *>(values));
        if ((count != 1 && name != CUDNN_ATTR_OPERATIONGRAPH_OPS) ||
            (!value->finished && value->type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR))
            return CUDNN_STATUS_BAD_PARAM;
        o.objects[name] = value;
        for (int64_t i = 0; i < count && name == CUDNN_ATTR_OPERATIONGRAPH_OPS; i++)
            o.operations.push_back(of(static_cast<const cudnnBackendDescriptor_t *>(values)[i]));
    } else if (type == CUDNN_TYPE_VOID_PTR || type == CUDNN_TYPE_HANDLE) {
        void *const *all = static_cast<void *const *>(values);
        o.pointers[name] = std::vector<void *>(all, all + count);
    } else if (type == CUDNN_TYPE_INT64) {
        const int64_t *all = static_cast<const int64_t *>(values);
        o.numbers[name] = std::vector<int64_t>(all, all + count);
    } else if (type == CUDNN_TYPE_FLOAT) {
        o.numbers[name] = {(int64_t) * static_cast<const float *>(values)};
    } else if (type == CUDNN_TYPE_BOOLEAN) {
        o.numbers[name] = {*static_cast<const bool *>(values)};
    } else { /* enumerations */
        o.numbers[name] = {*static_cast<const int *>(values)};
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t d)
{
    object &o = *of(d);
    for (int name : needs(o.type))
        if (!o.has(name))
            return CUDNN_STATUS_BAD_PARAM;
    if (o.type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) {
        const object &operation = *o.objects.at(CUDNN_ATTR_OPERATIONGRAPH_OPS);
        const int *name = names_of(operation.type);
        if (!fits(*operation.objects.at(name[0]), dims_of(operation, name[1]),
                  dims_of(operation, name[2]), dims_of(operation, name[3])) ||
            !suits_halves(operation, name, output_of(operation.type), *written_by(o)) ||
            (o.operations.size() > 1 && !suits_fusion(o)))
            return CUDNN_STATUS_NOT_SUPPORTED;
    }
    o.finished = true;
    return CUDNN_STATUS_SUCCESS;
}

/* Three engines, of which the first uses tensor cores: it rounds floats to tf32. The second is not
 * deterministic. Plans have small workspaces of different sizes. */
constexpr int64_t ENGINES = 3, WORKSPACE = 1000;

int64_t workspace_of(const object &plan)
{
    return WORKSPACE * plan.objects.at(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
                           ->numbers.at(CUDNN_ATTR_ENGINE_GLOBAL_INDEX)[0];
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, int64_t room, int64_t *count,
                                       void *values)
{
    object &o = *of(d);
    *count = 1;
    if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
        *count = room < ENGINES ? room : ENGINES;
        for (int64_t i = 0; i < *count; i++) {
            object &config = *of(static_cast<cudnnBackendDescriptor_t *>(values)[i]);
            config.numbers[CUDNN_ATTR_ENGINE_GLOBAL_INDEX] = {i + 1};
            config.objects[CUDNN_ATTR_ENGINECFG_ENGINE] =
                o.objects.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
        }
    } else if (name == CUDNN_ATTR_ENGINECFG_ENGINE) {
        of(*static_cast<cudnnBackendDescriptor_t *>(values))
            ->numbers[CUDNN_ATTR_ENGINE_GLOBAL_INDEX] =
            o.numbers.at(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
    } else if (name == CUDNN_ATTR_ENGINE_GLOBAL_INDEX) {
        *static_cast<int64_t *>(values) = o.numbers.at(name)[0];
    } else if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE) {
        int64_t engine = o.numbers.at(CUDNN_ATTR_ENGINE_GLOBAL_INDEX)[0];
        *count = engine <= 2;
        if (*count)
            *static_cast<cudnnBackendNumericalNote_t *>(values) =
                engine == 1 ? CUDNN_NUMERICAL_NOTE_TENSOR_CORE
                            : CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
    } else if (name == CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE) {
        *count = 0;
    } else if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
        *static_cast<int64_t *>(values) = workspace_of(o);
    } else {
        return CUDNN_STATUS_BAD_PARAM;
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t h, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t variants)
{
    const object &pack = *of(variants);
    if (!of(plan)->finished || !pack.finished)
        return CUDNN_STATUS_BAD_PARAM;
    cudaError_t e = cuda_on_host_do(h->stream, [pack, plan = of(plan)] {
        std::memset(pack.pointers.at(CUDNN_ATTR_VARIANT_PACK_WORKSPACE).at(0), 0xff,
                    (size_t)workspace_of(*plan));
        const object &config = *plan->objects.at(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
        const object &graph = *config.objects.at(CUDNN_ATTR_ENGINECFG_ENGINE);
        const object &operation = *graph.operations[0];
        const int *name = names_of(operation.type);
        bool fused = graph.operations.size() > 1;
        tensor x = tensor_of(pack, operation.objects.at(name[1]));
        tensor w = tensor_of(pack, operation.objects.at(name[2]));
        tensor y = tensor_of(pack, fused ? written_by(graph) : operation.objects.at(name[3]));
        tensor &result =
            convolve(operation.type, config.numbers.at(CUDNN_ATTR_ENGINE_GLOBAL_INDEX)[0] == 1,
                     *operation.objects.at(name[0]), x, w, y);
        if (fused)
            finish(result,
                   tensor_of(pack,
                             graph.operations[1]->objects.at(CUDNN_ATTR_OPERATION_POINTWISE_BDESC)),
                   graph.operations.size() > 2);
        result.store();
    });
    return e == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}
}
