/* Convolutions in cuDNN's graph API; the only file that includes cudnn_backend.h. Descriptors are
 * reference-counted objects of the library; a graph keeps the execution plan and releases all
 * others once that is created. The contract is in device/cuda/conv_graph.h. */
#include "device/cuda/conv_graph.h"
#include "device/cpu/cpu.h"
#include "device/cuda/libraries.h"
#include <cudnn_backend.h>
#include <stdio.h>
#include <string.h>

enum {
    ALIGNMENT = 16,     /* of every array, in bytes; arenas align at least so */
    MAX_ENGINES = 32,   /* maximum number of engines to try */
    WORKSPACE_MB = 512, /* maximum workspace of one pass */
    ARRAYS = 3,         /* arrays of an operation */
};

/* The ids of the arrays of an operation in a variant pack. */
enum { IMAGE = 1, FILTER, RESULT };

/* ---- Descriptors: the first error stays in *e, and later calls do nothing ---- */

static void create(cudnnStatus_t *e, cudnnBackendDescriptorType_t type,
                   cudnnBackendDescriptor_t *out)
{
    if (*e == CUDNN_STATUS_SUCCESS)
        *e = cudnnBackendCreateDescriptor(type, out);
}

static void set(cudnnStatus_t *e, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t count, const void *values)
{
    if (*e == CUDNN_STATUS_SUCCESS)
        *e = cudnnBackendSetAttribute(d, name, type, count, values);
}

static void set_descriptor(cudnnStatus_t *e, cudnnBackendDescriptor_t d,
                           cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value)
{
    set(e, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void finish(cudnnStatus_t *e, cudnnBackendDescriptor_t d)
{
    if (*e == CUDNN_STATUS_SUCCESS)
        *e = cudnnBackendFinalize(d);
}

static void drop(cudnnBackendDescriptor_t d)
{
    if (d)
        (void)cudnnBackendDestroyDescriptor(d);
}

static void make_tensor(cudnnStatus_t *e, int64_t id, const struct sw_desc *d, cudnnDataType_t type,
                        cudnnBackendDescriptor_t *out)
{
    int64_t alignment = ALIGNMENT;

    create(e, CUDNN_BACKEND_TENSOR_DESCRIPTOR, out);
    set(e, *out, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set(e, *out, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(e, *out, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, d->dim);
    set(e, *out, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, d->stride);
    set(e, *out, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    finish(e, *out);
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

    create(e, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, out);
    set(e, *out, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(e, *out, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    set(e, *out, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &dims);
    set(e, *out, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, dims, before);
    set(e, *out, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, dims, after);
    set(e, *out, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, dims, strides);
    set(e, *out, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, dims, dilations);
    finish(e, *out);
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
            RESULT,
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
            IMAGE,
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
            FILTER,
        },
};

/* The element type of an array of the operation. */
static cudnnDataType_t type_of(const struct sw_cuda_conv_question *q, const struct operation *o,
                               int64_t array, bool writes_halves)
{
    bool halves = array == o->writes ? writes_halves : q->halves;
    bool bf16 = sw_cuda_device_of(q->stream->dev)->precision == SW_PRECISION_BF16;
    return !halves ? CUDNN_DATA_FLOAT : bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
}

/* Creates a graph of one operation. The library keeps the descriptors that others refer to. */
static cudnnBackendDescriptor_t make_graph(cudnnStatus_t *e, const struct sw_cuda_conv_question *q,
                                           const struct operation *o, bool writes_halves,
                                           cudnnHandle_t handle)
{
    cudnnBackendDescriptor_t part[5] = {NULL}, graph = NULL;
    const float alpha = 1, beta = 0;

    make_tensor(e, IMAGE, q->src, type_of(q, o, IMAGE, writes_halves), &part[0]);
    make_tensor(e, FILTER, q->weight, type_of(q, o, FILTER, writes_halves), &part[1]);
    make_tensor(e, RESULT, q->dst, type_of(q, o, RESULT, writes_halves), &part[2]);
    make_convolution(e, q->src, q->shape, &part[3]);
    create(e, o->type, &part[4]);
    set_descriptor(e, part[4], o->image, part[0]);
    set_descriptor(e, part[4], o->filter, part[1]);
    set_descriptor(e, part[4], o->result, part[2]);
    set_descriptor(e, part[4], o->convolution, part[3]);
    set(e, part[4], o->alpha, CUDNN_TYPE_FLOAT, 1, &alpha);
    set(e, part[4], o->beta, CUDNN_TYPE_FLOAT, 1, &beta);
    finish(e, part[4]);
    create(e, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, &graph);
    set(e, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    set_descriptor(e, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, part[4]);
    finish(e, graph);
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        drop(part[i]);

    return graph;
}

/* ---- Choosing an engine ---- */

static bool is_winograd(cudnnBackendNumericalNote_t note)
{
    return note == CUDNN_NUMERICAL_NOTE_WINOGRAD ||
           note == CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4 ||
           note == CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6;
}

/* Whether the engine is deterministic, as precise as fp32 (tf32: inputs may be rounded), and does
 * not use Winograd's algorithm if the device avoids it. */
static bool is_suitable(cudnnBackendDescriptor_t config, bool tf32, bool avoid_winograd)
{
    cudnnStatus_t e = CUDNN_STATUS_SUCCESS;
    cudnnBackendDescriptor_t engine = NULL;
    cudnnBackendNumericalNote_t note[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    int64_t count = 0;

    create(&e, CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine);

    if (e == CUDNN_STATUS_SUCCESS)
        e = cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &engine);

    if (e == CUDNN_STATUS_SUCCESS)
        e = cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                     CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT,
                                     &count, note);

    /* A newer library may return more notes than this build knows; such an engine is skipped. */
    bool good = e == CUDNN_STATUS_SUCCESS && count <= CUDNN_NUMERICAL_NOTE_TYPE_COUNT;
    for (int64_t i = 0; i < count && good; i++)
        good = note[i] != CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC &&
               (tf32 || note[i] != CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS) &&
               note[i] != CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION &&
               note[i] != CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13 &&
               !(avoid_winograd && is_winograd(note[i]));

    drop(engine);
    return good;
}

/* Makes an execution plan of that engine; false if that fails. */
static bool try_engine(cudnnBackendDescriptor_t config, bool tf32, bool avoid_winograd,
                       cudnnHandle_t handle, struct sw_cuda_conv_graph *g)
{
    cudnnStatus_t e = CUDNN_STATUS_SUCCESS;
    cudnnBackendDescriptor_t plan = NULL;
    int64_t count = 0, bytes = 0;

    if (!is_suitable(config, tf32, avoid_winograd))
        return false;

    create(&e, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan);
    set(&e, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    set_descriptor(&e, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    finish(&e, plan);

    if (e == CUDNN_STATUS_SUCCESS)
        e = cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                     CUDNN_TYPE_INT64, 1, &count, &bytes);

    if (e != CUDNN_STATUS_SUCCESS || bytes > (int64_t)WORKSPACE_MB << 20) {
        drop(plan);
        return false;
    }

    *g = (struct sw_cuda_conv_graph){.plan = plan, .workspace_bytes = bytes};
    return true;
}

/* Writes the name "a3/12": the mode, the index in its list, and the number of the engine. */
static void name_of(cudnnBackendDescriptor_t config, cudnnBackendHeurMode_t mode, int64_t index,
                    char name[SW_TUNE_NAME])
{
    cudnnStatus_t e = CUDNN_STATUS_SUCCESS;
    cudnnBackendDescriptor_t engine = NULL;
    int64_t count = 0, number = -1;

    create(&e, CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine);

    if (e == CUDNN_STATUS_SUCCESS)
        e = cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &engine);

    if (e == CUDNN_STATUS_SUCCESS)
        e = cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1,
                                     &count, &number);

    snprintf(name, SW_TUNE_NAME, "%c%lld/%lld", mode == CUDNN_HEUR_MODE_A ? 'a' : 'f',
             (long long)index, (long long)(e == CUDNN_STATUS_SUCCESS ? number : -1));
    drop(engine);
}

/* A search through the engines of a list. */
struct search {
    cudnnHandle_t handle;
    cudnnBackendHeurMode_t mode;
    bool tf32, avoid_winograd;
    const char *wanted; /* the name of an engine; "": the first suitable one */
    struct sw_tune_candidates
        *candidates; /* not NULL: collects the names of all suitable engines */
};

/* Checks one engine: true if it is the one to use. */
static bool try_candidate(const struct search *q, cudnnBackendDescriptor_t config, int64_t index,
                          struct sw_cuda_conv_graph *g)
{
    char name[SW_TUNE_NAME];
    struct sw_cuda_conv_graph tried;

    if (q->wanted[0] || q->candidates)
        name_of(config, q->mode, index, name);
    if (!q->candidates && q->wanted[0] && strcmp(name, q->wanted) != 0)
        return false;
    if (!q->candidates)
        return try_engine(config, q->tf32, q->avoid_winograd, q->handle, g);

    if (q->candidates->count < SW_TUNE_CANDIDATES &&
        try_engine(config, q->tf32, q->avoid_winograd, q->handle, &tried)) {
        sw_tune_add_candidate(q->candidates, name);
        drop(tried.plan);
    }

    return false;
}

/* Chooses an engine from the list of the heuristics in this mode. */
static bool choose(cudnnBackendDescriptor_t graph, const struct search *q,
                   struct sw_cuda_conv_graph *g)
{
    cudnnStatus_t e = CUDNN_STATUS_SUCCESS;
    cudnnBackendDescriptor_t heuristics = NULL, config[MAX_ENGINES] = {NULL};
    int64_t count = 0;
    bool found = false;

    create(&e, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, &heuristics);
    set_descriptor(&e, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    set(&e, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &q->mode);
    finish(&e, heuristics);
    for (int i = 0; i < MAX_ENGINES; i++)
        create(&e, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &config[i]);

    if (e == CUDNN_STATUS_SUCCESS)
        e = cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                     CUDNN_TYPE_BACKEND_DESCRIPTOR, MAX_ENGINES, &count, config);

    for (int64_t i = 0; i < count && i < MAX_ENGINES && e == CUDNN_STATUS_SUCCESS && !found; i++)
        found = try_candidate(q, config[i], i, g);
    for (int i = 0; i < MAX_ENGINES; i++)
        drop(config[i]);
    drop(heuristics);

    return found;
}

/* Searches the engines of the heuristics and then the fallback list: with candidates NULL stores
 * the chosen one in *g, else lists names. */
static bool search_engines(const struct sw_cuda_conv_question *q, enum sw_tune_pass pass,
                           bool writes_halves, struct sw_tune_candidates *candidates,
                           struct sw_cuda_conv_graph *g)
{
    cudnnStatus_t e = CUDNN_STATUS_SUCCESS;
    const struct sw_cuda_stream *s = sw_cuda_stream_of(q->stream);
    const struct search all = {.handle = s->dnn,
                               .mode = CUDNN_HEUR_MODE_A,
                               .tf32 = q->tf32,
                               .avoid_winograd = q->stream->dev->avoid_winograd,
                               .wanted = q->wanted,
                               .candidates = candidates};
    struct search rest = all;

    rest.mode = CUDNN_HEUR_MODE_FALLBACK;

    cudnnBackendDescriptor_t graph = make_graph(&e, q, &operations[pass], writes_halves, s->dnn);
    bool found = e == CUDNN_STATUS_SUCCESS && choose(graph, &all, g);

    /* For candidates the first list is sufficient unless it is empty. */
    if (e == CUDNN_STATUS_SUCCESS && !found && !(candidates && candidates->count > 0))
        found = choose(graph, &rest, g);
    drop(graph);

    return found;
}

bool sw_cuda_conv_graph_make(const struct sw_cuda_conv_question *q, enum sw_tune_pass pass,
                             bool writes_halves, struct sw_cuda_conv_graph *g)
{
    bool found = search_engines(q, pass, writes_halves, NULL, g);
    g->halves = writes_halves;
    return found;
}

void sw_cuda_conv_graph_list(const struct sw_cuda_conv_question *q, enum sw_tune_pass pass,
                             bool writes_halves, struct sw_tune_candidates *out)
{
    struct sw_cuda_conv_graph none = {0};
    (void)search_engines(q, pass, writes_halves, out, &none);
}

void sw_cuda_conv_graph_drop(struct sw_cuda_conv_graph *g)
{
    drop(g->plan);
    *g = (struct sw_cuda_conv_graph){0};
}

/* ---- Running ---- */

int sw_cuda_conv_graph_run(const struct sw_cuda_conv_graph *g, enum sw_tune_pass pass,
                           struct sw_stream *stream, const struct sw_cuda_conv_arrays *a,
                           struct sw_err *err)
{
    struct sw_cuda_stream *s = sw_cuda_stream_of(stream);
    const int64_t ids[ARRAYS] = {IMAGE, FILTER, RESULT};
    const void *arrays[ARRAYS] = {a->image, a->filter, a->result};
    cudnnBackendDescriptor_t pack = NULL;
    cudnnStatus_t e = CUDNN_STATUS_SUCCESS;

    int rc = sw_cuda_enter(s->device, err);
    if (rc != SW_OK)
        return rc;

    create(&e, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
    set(&e, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, ARRAYS, ids);
    set(&e, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, ARRAYS, arrays);
    set(&e, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &a->workspace);
    finish(&e, pack);
    if (e == CUDNN_STATUS_SUCCESS)
        e = cudnnBackendExecute(s->dnn, g->plan, pack);
    drop(pack);

    return e == CUDNN_STATUS_SUCCESS ? SW_OK
                                     : sw_cuda_check_dnn(s, (int)e, operations[pass].name, err);
}
