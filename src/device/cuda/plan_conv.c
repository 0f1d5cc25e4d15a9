/* Convolution by cuDNN's graph API (conv_engine.h), one graph per pass, made once. With measured
 * algorithms (device/tune.h) a pass may use any suitable engine.
 *
 * Activations keep the layout of the computation (conv_layout.h) from layer to layer.
 *
 * In 16-bit precision, operands and results are 16-bit values, since the library has compiled
 * engines only for these. A source and a result of that type are read and written where they are;
 * floats are converted in scratch. If a pass has no such engine, its result is fp32; and if it has
 * no 16-bit engine at all, operands are rounded to 16-bit precision, stored as floats and
 * multiplied in tf32, which does not round them further.
 *
 * Bias and relu are part of the forward graph if its operands and its result have one type and the
 * library has a compiled engine for that, which reads the bias in this type. Else they are a
 * kernel. */
#include "base/os.h"
#include "device/cpu/cpu.h"
#include "device/cuda/conv_graph.h"
#include "device/cuda/libraries.h"
#include "device/cuda/plan_private.h"
#include <cudnn.h>
#include <stdio.h>

struct conv {
    struct sw_plan base;                              /* first member */
    struct sw_cuda_side src, weight, bias_row, diff;  /* operands that passes read */
    struct sw_cuda_side out_src, out_weight, out_dst; /* results that passes write */
    enum sw_cuda_form form;                           /* form of the operands */
    struct sw_cuda_conv_layouts used;                 /* layouts of the computation, as f32 */
    struct sw_conv_shape shape;
    struct sw_cuda_conv_graph *graph[SW_TUNE_PASSES]; /* NULL: the pass is not run */
    size_t workspace_offset, sums_offset;             /* in scratch; sums: for the bias gradient */
    struct sw_channels dst_channels;
    enum sw_dtype dst_type;
    const struct sw_tune_choice *choice; /* set only during creation */
};

static struct conv *conv_of(struct sw_plan *p)
{
    return (struct conv *)(void *)p;
}

/* ---- Passes ---- */

static int execute(struct conv *c, enum sw_tune_pass pass, const struct sw_plan_args *a,
                   struct sw_cuda_conv_arrays arrays, struct sw_err *err)
{
    const struct sw_cuda_conv_graph *g = c->graph[pass];

    arrays.workspace = g->workspace_bytes ? sw_cuda_at(a, c->workspace_offset) : NULL;
    return sw_cuda_conv_graph_run(g, c->base.stream, &arrays, err);
}

/* Adds the bias and applies the relu to the result at x, unless the graph has done so. */
static int finish(struct conv *c, const struct sw_plan_args *a, enum sw_dtype type, void *x,
                  struct sw_err *err)
{
    const struct sw_conv_shape *s = &c->shape;
    struct sw_cuda_launch l = sw_cuda_launch_of(c->base.stream);
    if (c->graph[SW_TUNE_FORWARD]->fused || (!s->bias && !s->fuse_relu))
        return SW_OK;

    return sw_cuda_plan_check(&c->base,
                              sw_cuda_channel_bias(&c->dst_channels, type, x,
                                                   s->bias ? a->bias : NULL, s->fuse_relu, x, &l),
                              err);
}

static int forward(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    struct conv *c = conv_of(p);
    const void *src, *weight, *bias = NULL;
    void *out = sw_cuda_side_out(&c->out_dst, a, a->dst);
    bool floats = c->out_dst.used.dtype == SW_F32;

    int rc = sw_cuda_side_in(p, &c->src, a, a->src, false, &src, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_cuda_side_in(p, &c->weight, a, a->weight, false, &weight, err);
    if (rc != SW_OK)
        return rc;
    if (c->graph[SW_TUNE_FORWARD]->fused)
        rc = sw_cuda_side_in(p, &c->bias_row, a, a->bias, false, &bias, err);
    if (rc != SW_OK)
        return rc;
    rc = execute(c, SW_TUNE_FORWARD, a, (struct sw_cuda_conv_arrays){src, weight, out, bias, NULL},
                 err);
    if (rc != SW_OK)
        return rc;

    /* Floats are rounded after this. */
    rc = floats ? finish(c, a, SW_F32, out, err) : SW_OK;
    if (rc != SW_OK)
        return rc;
    rc = sw_cuda_side_done(p, &c->out_dst, a, a->dst, err);
    if (rc != SW_OK)
        return rc;

    return floats ? SW_OK : finish(c, a, p->dst.dtype, a->dst, err);
}

static int backward_data(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    struct conv *c = conv_of(p);
    void *out = sw_cuda_side_out(&c->out_src, a, a->diff_src);
    const void *weight, *diff;

    int rc = sw_cuda_side_in(p, &c->weight, a, a->weight, c->weight.saved, &weight, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_cuda_side_in(p, &c->diff, a, a->diff_dst, a->diff_again, &diff, err);
    if (rc != SW_OK)
        return rc;
    rc = execute(c, SW_TUNE_DATA, a, (struct sw_cuda_conv_arrays){out, weight, diff, NULL, NULL},
                 err);
    if (rc != SW_OK)
        return rc;

    return sw_cuda_side_done(p, &c->out_src, a, a->diff_src, err);
}

static int bias_gradient(struct conv *c, const struct sw_plan_args *a, struct sw_err *err)
{
    struct sw_cuda_launch l = sw_cuda_launch_of(c->base.stream);
    double *sums = sw_cuda_at(a, c->sums_offset);
    const struct sw_cuda_channel_sums k = {.channels = c->dst_channels,
                                           .type = c->base.dst.dtype,
                                           .x = a->diff_dst,
                                           .parts = sums + 2 * c->shape.outputs + 1,
                                           .sums = sums,
                                           .rounded = a->diff_bias};

    return sw_cuda_plan_check(&c->base, sw_cuda_channel_sums(&k, &l), err);
}

static int backward_weights(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    struct conv *c = conv_of(p);
    void *out = sw_cuda_side_out(&c->out_weight, a, a->diff_weight);
    const void *src, *diff;

    int rc = sw_cuda_side_in(p, &c->src, a, a->src, false, &src, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_cuda_side_in(p, &c->diff, a, a->diff_dst, false, &diff, err);
    if (rc != SW_OK)
        return rc;
    rc = execute(c, SW_TUNE_WEIGHTS, a, (struct sw_cuda_conv_arrays){src, out, diff, NULL, NULL},
                 err);
    if (rc != SW_OK)
        return rc;
    rc = sw_cuda_side_done(p, &c->out_weight, a, a->diff_weight, err);
    if (rc != SW_OK)
        return rc;

    return c->shape.bias ? bias_gradient(c, a, err) : SW_OK;
}

static void drop_graphs(struct conv *c)
{
    for (int pass = 0; pass < SW_TUNE_PASSES; pass++) {
        sw_cuda_conv_graph_put(c->graph[pass]);
        c->graph[pass] = NULL;
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

/* Lays out the results of passes: a result has the layout in which other passes read it, and shares
 * their copy if both are floats. */
static void lay_out_results(struct conv *c)
{
    struct sw_plan *p = &c->base;

    const struct {
        enum sw_tune_pass by;
        const struct sw_cuda_side *read;
        const struct sw_desc *given, *used;
        struct sw_cuda_side *out;
    } all[] = {
        {SW_TUNE_FORWARD, &c->diff, &p->dst, &c->used.dst, &c->out_dst},
        {SW_TUNE_DATA, &c->src, &p->src, &c->used.src, &c->out_src},
        {SW_TUNE_WEIGHTS, &c->weight, &p->weight, &c->used.weight, &c->out_weight},
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const struct sw_cuda_conv_graph *g = c->graph[all[i].by];
        const struct sw_cuda_side *read = all[i].read;
        if (!g)
            continue;

        if (!g->halves && read->used.dtype == SW_F32 && !read->rounded)
            *all[i].out = *read;
        else
            sw_cuda_factor_init(p, all[i].out, all[i].given, all[i].used,
                                g->halves ? SW_CUDA_HALVES : SW_CUDA_FLOATS, false);
    }

    if (c->graph[SW_TUNE_FORWARD]->fused)
        sw_cuda_factor_init(p, &c->bias_row, &p->bias, &p->bias, c->form, false);
}

/* Lays out operands. */
static void lay_out(struct conv *c, bool last, struct sw_plan_passes passes)
{
    struct sw_plan *p = &c->base;
    const struct sw_conv_shape *s = &c->shape;

    c->used = sw_cuda_conv_lay_out(last, p->src.dim, s);
    p->weight = s->weight_layout ? *s->weight_layout : c->used.weight;
    p->dst = sw_desc_as(&c->used.dst, c->dst_type);
    if (s->bias)
        p->bias = sw_desc_plain(SW_F32, 1, &s->outputs);
    p->scratch_bytes = p->saved_bytes = 0;
    sw_cuda_factor_init(p, &c->src, &p->src, &c->used.src, c->form, false);
    sw_cuda_factor_init(p, &c->weight, &p->weight, &c->used.weight, c->form,
                        c->form != SW_CUDA_FLOATS && passes.training && passes.backward_data);
    c->diff = (struct sw_cuda_side){.given = p->dst, .used = p->dst};
    if (passes.backward_data || passes.backward_weights)
        sw_cuda_factor_init(p, &c->diff, &p->dst, &c->used.dst, c->form, false);
}

static void reserve_workspace(struct conv *c)
{
    int64_t bytes = 0;
    int64_t doubles =
        2 * c->shape.outputs + 1 + sw_cuda_channel_doubles(&c->dst_channels, c->dst_type);

    for (int pass = 0; pass < SW_TUNE_PASSES; pass++)
        if (c->graph[pass])
            bytes = larger(bytes, c->graph[pass]->workspace_bytes);

    if (bytes)
        c->workspace_offset = sw_cuda_reserve(&c->base, (size_t)bytes);
    if (c->shape.bias && c->graph[SW_TUNE_WEIGHTS])
        c->sums_offset = sw_cuda_reserve(&c->base, (size_t)doubles * sizeof(double));
}

static struct sw_cuda_conv_question question_of(const struct conv *c, enum sw_tune_pass pass)
{
    struct sw_cuda_stream *stream = sw_cuda_stream_of(c->base.stream);
    bool halves = c->form == SW_CUDA_HALVES;

    return (struct sw_cuda_conv_question){
        .gpu = stream->conv,
        .shape = &c->shape,
        .src = &c->used.src,
        .weight = &c->used.weight,
        .dst = &c->used.dst,
        .pass = pass,
        .halves = halves,
        .writes_halves = halves,
        /* tf32 does not change floats that are rounded to 16-bit precision. */
        .tf32 = stream->conv->precision == SW_PRECISION_TF32 || c->form == SW_CUDA_ROUNDED,
        .wanted = c->choice->name[pass]};
}

/* May the forward graph add the bias? */
static bool can_fuse(const struct conv *c)
{
    return c->shape.bias && c->form == (c->dst_type == SW_F32 ? SW_CUDA_FLOATS : SW_CUDA_HALVES);
}

/* Prepares a pass; false if cuDNN has no engine for it. */
static bool prepare(struct conv *c, enum sw_tune_pass pass)
{
    struct sw_cuda_conv_question q = question_of(c, pass);

    q.fused = pass == SW_TUNE_FORWARD && can_fuse(c);
    c->graph[pass] = sw_cuda_conv_graph_get(&q);
    if (!c->graph[pass] && q.fused) {
        q.fused = false;
        c->graph[pass] = sw_cuda_conv_graph_get(&q);
    }
    if (!c->graph[pass] && q.halves) {
        q.writes_halves = false;
        c->graph[pass] = sw_cuda_conv_graph_get(&q);
    }

    return c->graph[pass];
}

/* Prepares all passes; false if one has no engine. */
static bool prepare_passes(struct conv *c, struct sw_plan_passes passes)
{
    return prepare(c, SW_TUNE_FORWARD) && (!passes.backward_data || prepare(c, SW_TUNE_DATA)) &&
           (!passes.backward_weights || prepare(c, SW_TUNE_WEIGHTS));
}

/* Tries one form and layout; false if that fails. */
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
    snprintf(p->algorithm, sizeof p->algorithm, "cudnn:%s%s%s%s%s%s%.20s", last ? "nhwc" : "nchw",
             precision == SW_PRECISION_FP32 ? "" : ":",
             precision == SW_PRECISION_FP32 ? "" : sw_precision_name(precision),
             form == SW_CUDA_ROUNDED ? ":as-tf32" : "",
             c->graph[SW_TUNE_FORWARD]->fused ? ":fused" : "", c->choice->name[0][0] ? ":" : "",
             c->choice->name[0]);

    return true;
}

static bool try_forms(struct conv *c, struct sw_plan_passes passes)
{
    enum sw_precision precision = sw_cuda_device_of(c->base.stream->dev)->precision;
    bool last = sw_cuda_conv_prefers_last(precision);

    switch (precision) {
    case SW_PRECISION_FP32:
        return try_form(c, SW_CUDA_FLOATS, last, passes);
    case SW_PRECISION_TF32:
        return try_form(c, SW_CUDA_FLOATS, last, passes) ||
               try_form(c, SW_CUDA_FLOATS, false, passes);
    default:
        return try_form(c, SW_CUDA_HALVES, last, passes) ||
               try_form(c, SW_CUDA_ROUNDED, last, passes) ||
               try_form(c, SW_CUDA_ROUNDED, false, passes);
    }
}

static struct conv *begin(const struct sw_plan_request *q, const struct sw_tune_choice *choice,
                          struct sw_plan_passes passes)
{
    struct conv *c = sw_calloc(1, sizeof *c);
    if (!c)
        return NULL;

    c->base = (struct sw_plan){.ops = &ops,
                               .stream = q->stream,
                               .src = *q->src,
                               .backward_reads_src = passes.backward_weights};
    c->shape = *q->shape.conv;
    c->dst_type = q->dst_type;
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
    c->shape.weight_layout = NULL; /* borrowed from the caller, so not kept */
    c->choice = NULL;
    if (!works) {
        free_plan(&c->base);
        return sw_err_set(err, SW_ERR_UNSUPPORTED, "cuDNN has no convolution of this shape");
    }

    reserve_workspace(c);
    *out = &c->base;
    return SW_OK;
}

/* Lists the engines for the default form; other forms would give different results. */
static void list_candidates(void *user, const struct sw_tune_choice *chosen, enum sw_tune_pass pass,
                            struct sw_tune_candidates *out)
{
    const struct sw_plan_passes passes = {.backward_data = pass == SW_TUNE_DATA,
                                          .backward_weights = pass == SW_TUNE_WEIGHTS};
    struct conv *c = begin(user, chosen, passes);
    if (!c)
        return;

    if (try_forms(c, passes)) {
        struct sw_cuda_conv_question q = question_of(c, pass);
        q.writes_halves = c->graph[pass]->halves;
        q.fused = c->graph[pass]->fused;
        sw_cuda_conv_graph_list(&q, out);
    }

    free_plan(&c->base);
}

static int tuned_plan(const struct sw_plan_request *q, struct sw_plan **out, struct sw_err *err)
{
    struct sw_bytes what = {0};
    char text[128], library[48];

    /* A change of the rules of conv_engine.h is a new library: its engines have other names. */
    snprintf(library, sizeof library, "cuDNN %zu, rules 4", cudnnGetVersion());
    sw_bytes_printf(&what, "convolution of %s to ", sw_desc_text(q->src, text));
    sw_tune_key_conv(&what, q->shape.conv);
    if (q->dst_type != SW_F32)
        sw_bytes_printf(&what, " in %s", sw_dtype_name(q->dst_type));
    if (q->stream->dev->avoid_winograd)
        sw_bytes_printf(&what, " without Winograd");

    const struct sw_cuda_tuned tuned = {.what = sw_bytes_text(&what),
                                        .library = library,
                                        .make = make_plan,
                                        .list = list_candidates};
    int rc = what.failed ? sw_err_nomem(err, "a convolution", SW_TUNE_KEY)
                         : sw_cuda_tuned_plan(q, &tuned, out, err);
    sw_bytes_fini(&what);

    return rc;
}

/* Engines use 32-bit indices and do not always report an overflow. */
static int check_size(const struct sw_plan_request *q, struct sw_err *err)
{
    const struct sw_conv_shape *c = q->shape.conv;
    int64_t rows = q->src->dim[0],
            all = larger(sw_desc_storage(q->src), rows * c->outputs * c->out_h * c->out_w);
    if (all <= INT32_MAX)
        return SW_OK;

    return sw_err_set(err, SW_ERR_UNSUPPORTED,
                      "%s: a convolution of %lld rows has arrays of %lld elements, but cuDNN "
                      "supports at most %d; use a batch of at most %lld rows per worker",
                      q->stream->dev->name, (long long)rows, (long long)all, INT32_MAX,
                      (long long)(INT32_MAX / ((all + rows - 1) / rows)));
}

int sw_cuda_convolution(const struct sw_plan_request *q, struct sw_plan **out, struct sw_err *err)
{
    struct sw_cuda_stream *stream = sw_cuda_stream_of(q->stream);
    struct sw_plan_request user = *q;
    const struct sw_tune_choice rule = {0};

    if (!sw_cuda_reads_types(q))
        return SW_ERR_UNSUPPORTED;
    int rc = check_size(q, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_cuda_enter(stream->device, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_cuda_need_dnn(stream, err);
    if (rc != SW_OK)
        return rc;

    rc = q->stream->dev->tune ? tuned_plan(q, out, err)
                              : make_plan(&user, &rule, q->passes, out, err);
    return rc == SW_ERR_UNSUPPORTED ? sw_cuda_bridge_convolution(q, out, err) : rc;
}
