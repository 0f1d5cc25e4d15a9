/* Convolution by cuDNN's graph API: a graph of one operation per pass, made once, for which the
 * library's heuristics name engines in their order of preference. The first one is taken that is
 * deterministic, computes in the precision that is asked for, and whose workspace is within the
 * limit: the same choice every time. With choices by measuring (device/tune.h) it may be another of
 * those, said by the heuristics' list, the place in it and the engine's number. Bias and relu are
 * kernels of our own.
 *
 * Where products round, factors are 16 bits with channels last, which tensor cores want, and fp32
 * is written; a pass for which no engine does that writes 16 bits, which are widened. Where there
 * is none at all for some pass, floats that are rounded before are multiplied as tf32, which loses
 * nothing of them.
 *
 * The only file that includes cudnn_backend.h. Its descriptors are reference-counted objects of the
 * library; a graph keeps the execution plan, everything else is let go when that is made. */
#include "base/os.h"
#include "device/cpu/cpu.h"
#include "device/cuda/libraries.h"
#include "device/cuda/ops.h"
#include "device/cuda/plan_private.h"
#include "device/tune.h"
#include <cuda_runtime_api.h>
#include <cudnn_backend.h>
#include <stdio.h>
#include <string.h>

enum {
    ALIGNMENT = 16,     /* of every array, in bytes: what an arena promises and more */
    MAX_ENGINES = 32,   /* suggestions that are looked at */
    WORKSPACE_MB = 512, /* of one pass, at most */
    ARRAYS = 3,         /* of an operation */
};

/* What an operation's arrays are called in a variant pack. */
enum { IMAGE = 1, FILTER, RESULT };

/* An execution plan and its workspace; plan NULL: the pass is not run. */
struct graph {
    cudnnBackendDescriptor_t plan; /* owned */
    int64_t workspace_bytes;
    bool halves; /* what it writes */
};

struct conv {
    struct sw_plan base;                              /* first member */
    struct sw_cuda_side src, weight, diff;            /* as passes read them */
    struct sw_cuda_side out_src, out_weight, out_dst; /* as they write them */
    enum sw_cuda_form form;                           /* of what they read */
    struct sw_conv_shape shape;
    struct graph forward, data, weights;
    size_t workspace_offset, sums_offset; /* in scratch; sums: of the bias' gradient */
    struct sw_kernel_channels dst_channels;
    bool bias, relu;
    const struct sw_tune_choice *choice; /* these two while it is made */
    struct sw_tune_ways *ways;           /* of one pass, when they are asked for; else NULL */
};

static struct conv *conv_of(struct sw_plan *p)
{
    return (struct conv *)(void *)p;
}

/* ---- Descriptors: the first error stays in *e, and everything after it does nothing ---- */

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

/* What the last window reaches beyond the input, where that is more than the padding before it: an
 * output that floor rounding gives needs no other padding than the same on both sides. */
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
    int64_t writes; /* which array */
    enum sw_tune_pass pass;
};

static const struct operation forward_operation = {
    "forward",
    CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
    RESULT,
    SW_TUNE_FORWARD,
};
static const struct operation data_operation = {
    "backward_data",
    CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
    IMAGE,
    SW_TUNE_DATA,
};
static const struct operation weights_operation = {
    "backward_weights",
    CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
    FILTER,
    SW_TUNE_WEIGHTS,
};

/* What an array of the operation is made of. */
static cudnnDataType_t type_of(const struct conv *c, const struct operation *o, int64_t array,
                               bool writes_halves)
{
    bool halves = array == o->writes ? writes_halves : c->form == SW_CUDA_HALVES;
    bool bf16 = sw_cuda_device_of(c->base.stream->dev)->precision == SW_PRECISION_BF16;
    return !halves ? CUDNN_DATA_FLOAT : bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
}

/* A graph of one operation. The library keeps what its descriptors refer to. */
static cudnnBackendDescriptor_t make_graph(cudnnStatus_t *e, const struct conv *c,
                                           const struct operation *o, bool writes_halves,
                                           cudnnHandle_t handle)
{
    cudnnBackendDescriptor_t part[5] = {NULL}, graph = NULL;
    const float alpha = 1, beta = 0;
    make_tensor(e, IMAGE, &c->src.used, type_of(c, o, IMAGE, writes_halves), &part[0]);
    make_tensor(e, FILTER, &c->weight.used, type_of(c, o, FILTER, writes_halves), &part[1]);
    make_tensor(e, RESULT, &c->base.dst, type_of(c, o, RESULT, writes_halves), &part[2]);
    make_convolution(e, &c->src.used, &c->shape, &part[3]);
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

/* Is the engine deterministic, and as precise as float, but for factors that may be rounded? */
static bool suits(cudnnBackendDescriptor_t config, bool tf32)
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
    /* A newer library than this was built with may know more notes: who has them is let go. */
    bool good = e == CUDNN_STATUS_SUCCESS && count <= CUDNN_NUMERICAL_NOTE_TYPE_COUNT;
    for (int64_t i = 0; i < count && good; i++)
        good = note[i] != CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC &&
               (tf32 || note[i] != CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS) &&
               note[i] != CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION &&
               note[i] != CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13;
    drop(engine);
    return good;
}

/* An execution plan of that engine; false when it does not work out. */
static bool try_engine(cudnnBackendDescriptor_t config, bool tf32, cudnnHandle_t handle,
                       struct graph *g)
{
    cudnnStatus_t e = CUDNN_STATUS_SUCCESS;
    cudnnBackendDescriptor_t plan = NULL;
    int64_t count = 0, bytes = 0;
    if (!suits(config, tf32))
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
    *g = (struct graph){.plan = plan, .workspace_bytes = bytes};
    return true;
}

/* "a3/12": the place in the list of a mode, and the engine's number. */
static void name_of(cudnnBackendDescriptor_t config, cudnnBackendHeurMode_t mode, int64_t place,
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
             (long long)place, (long long)(e == CUDNN_STATUS_SUCCESS ? number : -1));
    drop(engine);
}

/* What to do with the engines of a list. */
struct search {
    cudnnHandle_t handle;
    cudnnBackendHeurMode_t mode;
    bool tf32;
    const char *wanted;        /* the name of one; "": the first that will do */
    struct sw_tune_ways *ways; /* NULL, or all that will do are to be named */
};

/* Is it the one to take? */
static bool look_at(const struct search *q, cudnnBackendDescriptor_t config, int64_t place,
                    struct graph *g)
{
    char name[SW_TUNE_NAME];
    struct graph tried;
    if (q->wanted[0] || q->ways)
        name_of(config, q->mode, place, name);
    if (!q->ways && q->wanted[0] && strcmp(name, q->wanted) != 0)
        return false;
    if (!q->ways)
        return try_engine(config, q->tf32, q->handle, g);
    if (q->ways->count < SW_TUNE_WAYS && try_engine(config, q->tf32, q->handle, &tried)) {
        sw_tune_add_way(q->ways, name);
        drop(tried.plan);
    }
    return false;
}

/* The engine, of those that the heuristics of this mode name. */
static bool choose(cudnnBackendDescriptor_t graph, const struct search *q, struct graph *g)
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
        found = look_at(q, config[i], i, g);
    for (int i = 0; i < MAX_ENGINES; i++)
        drop(config[i]);
    drop(heuristics);
    return found;
}

static bool prepare_writing(struct conv *c, const struct operation *o, bool writes_halves,
                            struct graph *g)
{
    cudnnStatus_t e = CUDNN_STATUS_SUCCESS;
    const struct sw_cuda_stream *s = sw_cuda_stream_of(c->base.stream);
    /* Nor does rounding to tf32 change floats that are rounded to 16 bits. */
    bool tf32 = s->device->precision == SW_PRECISION_TF32 || c->form == SW_CUDA_ROUNDED;
    struct search all = {.handle = s->dnn,
                         .mode = CUDNN_HEUR_MODE_A,
                         .tf32 = tf32,
                         .wanted = c->choice->name[o->pass],
                         .ways = c->ways};
    struct search rest = all;
    rest.mode = CUDNN_HEUR_MODE_FALLBACK;
    cudnnBackendDescriptor_t graph = make_graph(&e, c, o, writes_halves, s->dnn);
    bool found = e == CUDNN_STATUS_SUCCESS && choose(graph, &all, g);
    /* Of ways, those of the first list are enough where there are any. */
    if (e == CUDNN_STATUS_SUCCESS && !found && !(c->ways && c->ways->count > 0))
        found = choose(graph, &rest, g);
    drop(graph);
    g->halves = writes_halves;
    return found;
}

/* False: cuDNN has nothing for it. */
static bool prepare(struct conv *c, const struct operation *o, struct graph *g)
{
    return prepare_writing(c, o, false, g) ||
           (c->form == SW_CUDA_HALVES && prepare_writing(c, o, true, g));
}

/* ---- Passes ---- */

static int execute(struct conv *c, const struct graph *g, const struct operation *o,
                   const struct sw_plan_args *a, const void *image, const void *filter,
                   const void *result, struct sw_err *err)
{
    struct sw_cuda_stream *s = sw_cuda_stream_of(c->base.stream);
    const int64_t ids[ARRAYS] = {IMAGE, FILTER, RESULT};
    const void *arrays[ARRAYS] = {image, filter, result};
    const void *workspace = g->workspace_bytes ? sw_cuda_at(a, c->workspace_offset) : NULL;
    cudnnBackendDescriptor_t pack = NULL;
    cudnnStatus_t e = CUDNN_STATUS_SUCCESS;
    int rc = sw_cuda_enter(s->device, err);
    if (rc != SW_OK)
        return rc;
    create(&e, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
    set(&e, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, ARRAYS, ids);
    set(&e, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, ARRAYS, arrays);
    set(&e, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    finish(&e, pack);
    if (e == CUDNN_STATUS_SUCCESS)
        e = cudnnBackendExecute(s->dnn, g->plan, pack);
    drop(pack);
    return e == CUDNN_STATUS_SUCCESS ? SW_OK : sw_cuda_check_dnn(s, (int)e, o->name, err);
}

static int forward(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    struct conv *c = conv_of(p);
    struct sw_cuda_launch l = sw_cuda_launch_of(p->stream);
    const void *src, *weight;
    int rc = sw_cuda_factor_in(p, &c->src, a, a->src, false, &src, err);
    if (rc == SW_OK)
        rc = sw_cuda_factor_in(p, &c->weight, a, a->weight, false, &weight, err);
    if (rc == SW_OK)
        rc = execute(c, &c->forward, &forward_operation, a, src, weight,
                     sw_cuda_product_out(&c->out_dst, a, a->dst), err);
    if (rc == SW_OK)
        rc = sw_cuda_product_done(p, &c->out_dst, a, a->dst, err);
    if (rc == SW_OK && (c->bias || c->relu))
        rc = sw_cuda_plan_check(p,
                                sw_cuda_channel_bias(&c->dst_channels, a->dst,
                                                     c->bias ? a->bias : NULL, c->relu, a->dst, &l),
                                err);
    return rc;
}

static int backward_data(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    struct conv *c = conv_of(p);
    const void *weight, *diff;
    int rc = sw_cuda_factor_in(p, &c->weight, a, a->weight, c->weight.saved, &weight, err);
    if (rc == SW_OK)
        rc = sw_cuda_factor_in(p, &c->diff, a, a->diff_dst, a->diff_again, &diff, err);
    if (rc == SW_OK)
        rc = execute(c, &c->data, &data_operation, a,
                     sw_cuda_product_out(&c->out_src, a, a->diff_src), weight, diff, err);
    return rc == SW_OK ? sw_cuda_product_done(p, &c->out_src, a, a->diff_src, err) : rc;
}

static int bias_gradient(struct conv *c, const struct sw_plan_args *a, struct sw_err *err)
{
    struct sw_cuda_launch l = sw_cuda_launch_of(c->base.stream);
    double *sums = sw_cuda_at(a, c->sums_offset), *parts = sums + 2 * c->shape.outputs + 1;
    return sw_cuda_plan_check(
        &c->base,
        sw_cuda_channel_sums(&c->dst_channels, a->diff_dst, NULL, parts, sums, a->diff_bias, &l),
        err);
}

static int backward_weights(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    struct conv *c = conv_of(p);
    const void *src, *diff;
    int rc = sw_cuda_factor_in(p, &c->src, a, a->src, false, &src, err);
    if (rc == SW_OK)
        rc = sw_cuda_factor_in(p, &c->diff, a, a->diff_dst, false, &diff, err);
    if (rc == SW_OK)
        rc = execute(c, &c->weights, &weights_operation, a, src,
                     sw_cuda_product_out(&c->out_weight, a, a->diff_weight), diff, err);
    if (rc == SW_OK)
        rc = sw_cuda_product_done(p, &c->out_weight, a, a->diff_weight, err);
    return rc == SW_OK && c->bias ? bias_gradient(c, a, err) : rc;
}

static void drop_graphs(struct conv *c)
{
    struct graph *all[] = {&c->forward, &c->data, &c->weights};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        drop(all[i]->plan);
        *all[i] = (struct graph){0};
    }
}

static void free_plan(struct sw_plan *p)
{
    drop_graphs(conv_of(p));
    sw_free(p);
}

static const struct sw_plan_ops ops = {.forward = forward,
                                       .backward_data = backward_data,
                                       .backward_weights = backward_weights,
                                       .free = free_plan};

/* ---- Making ---- */

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* What passes write has the layout that others read it in; as floats it may be the same copy. */
static void lay_out_results(struct conv *c)
{
    struct sw_plan *p = &c->base;
    const struct {
        const struct graph *by;
        const struct sw_cuda_side *read;
        const struct sw_desc *given, *used;
        struct sw_cuda_side *out;
    } all[] = {
        {&c->forward, &c->diff, &p->dst, &p->dst, &c->out_dst},
        {&c->data, &c->src, &p->src, &c->src.used, &c->out_src},
        {&c->weights, &c->weight, &p->weight, &c->weight.used, &c->out_weight},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        enum sw_cuda_form form = all[i].by->halves ? SW_CUDA_HALVES : SW_CUDA_FLOATS;
        if (!all[i].by->plan)
            continue;
        if (form == SW_CUDA_FLOATS && all[i].read->form == SW_CUDA_FLOATS)
            *all[i].out = *all[i].read;
        else
            sw_cuda_factor_init(p, all[i].out, all[i].given, all[i].used, form, false);
    }
}

/* The filters of a channels-last image have neighbouring channels, too. */
static void lay_out(struct conv *c, bool last, struct sw_plan_passes passes)
{
    const struct sw_desc *src = &c->base.src;
    const struct sw_conv_shape *s = &c->shape;
    const int64_t dst[] = {src->dim[0], s->outputs, s->out_h, s->out_w};
    const int64_t weight[] = {s->outputs, src->dim[1] / s->groups, s->kernel_h, s->kernel_w};
    struct sw_desc used_src =
        last ? sw_cuda_channels_last(src->dim) : sw_desc_plain(SW_F32, 4, src->dim);
    struct sw_desc used_weight =
        last ? sw_cuda_channels_last(weight) : sw_desc_plain(SW_F32, 4, weight);
    c->base.weight = s->weight_layout ? *s->weight_layout : used_weight;
    c->base.dst = last ? sw_cuda_channels_last(dst) : sw_desc_plain(SW_F32, 4, dst);
    if (s->bias)
        c->base.bias = sw_desc_plain(SW_F32, 1, &s->outputs);
    c->base.scratch_bytes = c->base.saved_bytes = 0;
    sw_cuda_factor_init(&c->base, &c->src, src, &used_src, c->form, false);
    sw_cuda_factor_init(&c->base, &c->weight, &c->base.weight, &used_weight, c->form,
                        c->form != SW_CUDA_FLOATS && passes.training && passes.backward_data);
    c->diff = (struct sw_cuda_side){.given = c->base.dst, .used = c->base.dst};
    if (passes.backward_data || passes.backward_weights)
        sw_cuda_factor_init(&c->base, &c->diff, &c->base.dst, &c->base.dst, c->form, false);
}

static void plan_rooms(struct conv *c)
{
    int64_t bytes = larger(c->forward.workspace_bytes,
                           larger(c->data.workspace_bytes, c->weights.workspace_bytes));
    size_t doubles = (2 + 2 * SW_KERNEL_CHANNEL_PARTS) * (size_t)c->shape.outputs + 1;
    if (bytes)
        c->workspace_offset = sw_cuda_reserve(&c->base, (size_t)bytes);
    if (c->bias && c->weights.plan)
        c->sums_offset = sw_cuda_reserve(&c->base, doubles * sizeof(double));
}

/* False: some pass has no engine. */
static bool prepare_passes(struct conv *c, struct sw_plan_passes passes)
{
    return prepare(c, &forward_operation, &c->forward) &&
           (!passes.backward_data || prepare(c, &data_operation, &c->data)) &&
           (!passes.backward_weights || prepare(c, &weights_operation, &c->weights));
}

static bool is_channels_last(const struct sw_desc *d)
{
    return sw_desc_is_channels_last(d) && !sw_desc_is_plain(d);
}

/* In one form and layout. False: that does not work out. */
static bool try_form(struct conv *c, enum sw_cuda_form form, bool last,
                     struct sw_plan_passes passes)
{
    struct sw_plan *p = &c->base;
    enum sw_precision precision = sw_cuda_device_of(p->stream->dev)->precision;
    c->form = form;
    lay_out(c, last, passes);
    if (!sw_cuda_channels(&p->dst, &c->dst_channels) || !prepare_passes(c, passes)) {
        drop_graphs(c);
        return false;
    }
    lay_out_results(c);
    snprintf(p->algorithm, sizeof p->algorithm, "cudnn:%s%s%s%s%s%.20s", last ? "nhwc" : "nchw",
             precision == SW_PRECISION_FP32 ? "" : ":",
             precision == SW_PRECISION_FP32 ? "" : sw_precision_name(precision),
             form == SW_CUDA_ROUNDED ? ":as-tf32" : "", c->choice->name[0][0] ? ":" : "",
             c->choice->name[0]);
    return true;
}

static bool try_forms(struct conv *c, struct sw_plan_passes passes)
{
    bool last = is_channels_last(&c->base.src);
    if (!sw_precision_is_half(sw_cuda_device_of(c->base.stream->dev)->precision))
        return try_form(c, SW_CUDA_FLOATS, last, passes);
    return try_form(c, SW_CUDA_HALVES, true, passes) || try_form(c, SW_CUDA_ROUNDED, last, passes);
}

/* What is asked of the maker below. */
struct question {
    struct sw_stream *stream;
    const struct sw_desc *src;
    const struct sw_conv_shape *shape;
};

static struct conv *begin(const struct question *q, const struct sw_tune_choice *choice,
                          struct sw_plan_passes passes)
{
    struct conv *c = sw_calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->base = (struct sw_plan){.ops = &ops,
                               .stream = q->stream,
                               .src = *q->src,
                               .backward_reads_src = passes.backward_weights};
    c->shape = *q->shape;
    c->bias = q->shape->bias;
    c->relu = q->shape->fuse_relu;
    c->choice = choice;
    return c;
}

static int make_plan(void *user, const struct sw_tune_choice *choice, struct sw_plan_passes passes,
                     struct sw_plan **out, struct sw_err *err)
{
    struct conv *c = begin(user, choice, passes);
    if (!c)
        return sw_err_nomem(err, "convolution plan", sizeof *c);
    bool works = try_forms(c, passes);
    c->shape.weight_layout = NULL; /* the caller's, for now only */
    c->choice = NULL;
    if (!works) {
        free_plan(&c->base);
        return sw_err_set(err, SW_ERR_UNSUPPORTED, "cuDNN has no convolution of this shape");
    }
    plan_rooms(c);
    *out = &c->base;
    return SW_OK;
}

/* In the form that the rule takes; ways in another form are none of the same results. */
static void list_ways(void *user, const struct sw_tune_choice *taken, enum sw_tune_pass pass,
                      struct sw_tune_ways *out)
{
    static const struct operation *const operations[] = {&forward_operation, &data_operation,
                                                         &weights_operation};
    const struct sw_plan_passes passes = {.backward_data = pass == SW_TUNE_DATA,
                                          .backward_weights = pass == SW_TUNE_WEIGHTS};
    struct conv *c = begin(user, taken, passes);
    struct graph none = {0};
    if (!c)
        return;
    if (try_forms(c, passes)) {
        const struct graph *rule[] = {&c->forward, &c->data, &c->weights};
        c->ways = out;
        (void)prepare_writing(c, operations[pass], rule[pass]->halves, &none);
    }
    free_plan(&c->base);
}

/* GPUs of one model choose the same. */
static void name_model(const struct sw_cuda_device *d, char *out, size_t bytes)
{
    struct cudaDeviceProp prop;
    bool known = cudaGetDeviceProperties(&prop, d->gpu) == cudaSuccess;
    snprintf(out, bytes, "%.80s with %d processors", known ? prop.name : "cuda", d->processors);
}

static int tuned_plan(struct question *q, struct sw_plan_passes passes, struct sw_plan **out,
                      struct sw_err *err)
{
    struct sw_cuda_device *d = sw_cuda_stream_of(q->stream)->device;
    struct sw_buf key = {0};
    char model[SW_TUNE_KEY / 4], text[128];
    name_model(d, model, sizeof model);
    sw_buf_printf(&key, "convolution of %s to ", sw_desc_text(q->src, text));
    sw_tune_key_conv(&key, q->shape);
    sw_buf_printf(&key, " with factors of %s on %s, cuDNN %zu", sw_precision_name(d->precision),
                  model, cudnnGetVersion());
    const struct sw_tune_maker maker = {
        .key = sw_buf_text(&key), .user = q, .make = make_plan, .list = list_ways};
    int rc = key.failed ? sw_err_nomem(err, "a convolution", SW_TUNE_KEY)
                        : sw_tune_plan(q->stream, passes, &maker, out, err);
    sw_buf_fini(&key);
    return rc;
}

int sw_cuda_convolution(struct sw_stream *s, const struct sw_desc *src,
                        const struct sw_conv_shape *shape, struct sw_plan_passes passes,
                        struct sw_plan **out, struct sw_err *err)
{
    struct sw_cuda_stream *stream = sw_cuda_stream_of(s);
    struct question q = {.stream = s, .src = src, .shape = shape};
    const struct sw_tune_choice rule = {0};
    int rc = sw_conv_check(src, shape, err);
    if (rc == SW_OK)
        rc = sw_cuda_enter(stream->device, err);
    if (rc == SW_OK)
        rc = sw_cuda_need_dnn(stream, err);
    if (rc != SW_OK)
        return rc;
    rc = s->dev->tune ? tuned_plan(&q, passes, out, err) : make_plan(&q, &rule, passes, out, err);
    return rc == SW_ERR_UNSUPPORTED ? sw_cuda_bridge_convolution(s, src, shape, passes, out, err)
                                    : rc;
}
