/* Convolution by oneDNN, in the layouts and with the algorithm the library prefers: Winograd F(4x4,
 * 3x3) where it is worth it (Lavin and Gray 2016; relative error about 1e-6), direct otherwise. */
#include "device/cpu/dnnl.h"

#include "base/os.h"
#include <string.h>

/* Everything the three operation descriptors are made of. */
struct shapes {
    dnnl_memory_desc_t src, weight, bias, dst; /* any format, except where fixed */
    dnnl_dims_t stride, dilation, pad_before, pad_after;
    const dnnl_memory_desc_t *bias_or_null;
    int64_t groups;
};

static void find_shapes(const struct sw_desc *src, const struct sw_conv_shape *c, struct shapes *s)
{
    memset(s, 0, sizeof *s);
    int64_t dst[4] = {src->dim[0], c->outputs, c->out_h, c->out_w};
    int64_t weight[5] = {c->groups, c->outputs / c->groups, src->dim[1] / c->groups, c->kernel_h,
                         c->kernel_w};
    bool grouped = c->groups > 1;
    sw_dnnl_any(4, src->dim, &s->src);
    sw_dnnl_any(4, dst, &s->dst);
    sw_dnnl_any(grouped ? 5 : 4, grouped ? weight : weight + 1, &s->weight);
    struct sw_desc bias = sw_desc_plain(SW_F32, 1, &c->outputs);
    sw_dnnl_from_desc(&bias, &s->bias);
    s->bias_or_null = c->bias ? &s->bias : NULL;
    s->groups = c->groups;
    s->stride[0] = c->stride_h;
    s->stride[1] = c->stride_w;
    s->dilation[0] = c->dilation_h - 1;
    s->dilation[1] = c->dilation_w - 1;
    s->pad_before[0] = c->pad_h;
    s->pad_before[1] = c->pad_w;
    s->pad_after[0] =
        sw_conv_pad_after(src->dim[2], c->out_h, c->kernel_h, c->stride_h, c->pad_h, c->dilation_h);
    s->pad_after[1] =
        sw_conv_pad_after(src->dim[3], c->out_w, c->kernel_w, c->stride_w, c->pad_w, c->dilation_w);
}

static int forward_pd(struct sw_stream *s, const struct shapes *sh,
                      const dnnl_memory_desc_t *weight, dnnl_primitive_attr_t attr,
                      dnnl_primitive_desc_t *pd, struct sw_err *err)
{
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_convolution_desc_t d;
    int rc = sw_dnnl_open(s, &engine, &stream, err);
    if (rc != SW_OK)
        return rc;
    /* Always the training kind: evaluation then shares the layout of the weights. */
    dnnl_status_t st = dnnl_dilated_convolution_forward_desc_init(
        &d, dnnl_forward_training, dnnl_convolution_auto, &sh->src, weight, sh->bias_or_null,
        &sh->dst, sh->stride, sh->dilation, sh->pad_before, sh->pad_after);
    if (st == dnnl_success)
        st = dnnl_primitive_desc_create(pd, &d, attr, engine, NULL);
    return sw_dnnl_check(st, "preparing a convolution", err);
}

/* Chooses the primitive, and the layout the parameter has or gets. A layout given from outside is
 * used as it is when that costs no slower implementation, else through a reorder. */
static int choose_forward(struct sw_stream *s, const struct shapes *sh,
                          const struct sw_conv_shape *c, dnnl_primitive_attr_t attr,
                          struct sw_plan *p, dnnl_primitive_desc_t *pd, struct sw_err *err)
{
    int rc = forward_pd(s, sh, &sh->weight, attr, pd, err);
    if (rc != SW_OK)
        return rc;
    int64_t dims[4] = {c->outputs, p->src.dim[1] / c->groups, c->kernel_h, c->kernel_w};
    if (!c->weight_layout) {
        if (!sw_dnnl_weights_to_desc(sw_dnnl_md(*pd, dnnl_query_weights_md), c->groups, &p->weight))
            p->weight = sw_desc_plain(SW_F32, 4, dims);
        return SW_OK;
    }
    p->weight = *c->weight_layout;
    dnnl_memory_desc_t given;
    dnnl_primitive_desc_t fixed = NULL;
    struct sw_err ignored;
    if (sw_dnnl_weights_from_desc(c->weight_layout, c->groups, &given) &&
        forward_pd(s, sh, &given, attr, &fixed, &ignored) == SW_OK) {
        if (strcmp(sw_dnnl_impl(fixed), sw_dnnl_impl(*pd)) == 0) {
            dnnl_primitive_desc_destroy(*pd);
            *pd = fixed;
            return SW_OK;
        }
        dnnl_primitive_desc_destroy(fixed);
    }
    return SW_OK;
}

/* The parameter's layout as oneDNN's; a plain one where ours cannot be said with groups. */
static int outside_weights(const struct sw_plan *p, int64_t groups, dnnl_memory_desc_t *md,
                           struct sw_err *err)
{
    if (sw_dnnl_weights_from_desc(&p->weight, groups, md))
        return SW_OK;
    return sw_err_set(err, SW_ERR_UNSUPPORTED, "the weights' layout pads inside a group of %lld",
                      (long long)groups);
}

static int init_forward(struct sw_dnnl_plan *p, struct sw_stream *s, const struct shapes *sh,
                        dnnl_primitive_desc_t pd, struct sw_err *err)
{
    struct sw_dnnl_op *op = &p->forward;
    dnnl_memory_desc_t src, weight, dst;
    sw_dnnl_from_desc(&p->base.src, &src);
    sw_dnnl_from_desc(&p->base.dst, &dst);
    int rc = outside_weights(&p->base, sh->groups, &weight, err);
    if (rc == SW_OK)
        rc = sw_dnnl_op_init(op, s, pd, err);
    if (rc == SW_OK)
        rc = sw_dnnl_op_port(op, DNNL_ARG_SRC, SW_SLOT_SRC, false,
                             sw_dnnl_md(pd, dnnl_query_src_md), &src, err);
    if (rc == SW_OK)
        rc = sw_dnnl_op_port(op, DNNL_ARG_WEIGHTS, SW_SLOT_WEIGHT, false,
                             sw_dnnl_md(pd, dnnl_query_weights_md), &weight, err);
    if (rc == SW_OK && sh->bias_or_null)
        rc = sw_dnnl_op_port(op, DNNL_ARG_BIAS, SW_SLOT_BIAS, false, &sh->bias, NULL, err);
    if (rc == SW_OK)
        rc = sw_dnnl_op_port(op, DNNL_ARG_DST, SW_SLOT_DST, true, sw_dnnl_md(pd, dnnl_query_dst_md),
                             &dst, err);
    return rc;
}

static int init_backward_data(struct sw_dnnl_plan *p, struct sw_stream *s, const struct shapes *sh,
                              dnnl_primitive_attr_t attr, dnnl_primitive_desc_t hint,
                              struct sw_err *err)
{
    struct sw_dnnl_op *op = &p->backward_data;
    dnnl_convolution_desc_t d;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_memory_desc_t src, weight, dst;
    sw_dnnl_from_desc(&p->base.src, &src);
    sw_dnnl_from_desc(&p->base.dst, &dst);
    dnnl_status_t st = dnnl_dilated_convolution_backward_data_desc_init(
        &d, dnnl_convolution_auto, &sh->src, &sh->weight, &sh->dst, sh->stride, sh->dilation,
        sh->pad_before, sh->pad_after);
    if (st == dnnl_success)
        st = dnnl_primitive_desc_create(&pd, &d, attr, p->forward.engine, hint);
    int rc = sw_dnnl_check(st, "preparing a convolution's backward by data", err);
    if (rc == SW_OK)
        rc = outside_weights(&p->base, sh->groups, &weight, err);
    if (rc == SW_OK)
        rc = sw_dnnl_op_init(op, s, pd, err);
    if (rc == SW_OK)
        rc = sw_dnnl_op_port(op, DNNL_ARG_DIFF_DST, SW_SLOT_DIFF_DST, false,
                             sw_dnnl_md(pd, dnnl_query_diff_dst_md), &dst, err);
    if (rc == SW_OK)
        rc = sw_dnnl_op_port(op, DNNL_ARG_WEIGHTS, SW_SLOT_WEIGHT, false,
                             sw_dnnl_md(pd, dnnl_query_weights_md), &weight, err);
    if (rc == SW_OK)
        rc = sw_dnnl_op_port(op, DNNL_ARG_DIFF_SRC, SW_SLOT_DIFF_SRC, true,
                             sw_dnnl_md(pd, dnnl_query_diff_src_md), &src, err);
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    return rc;
}

static int init_backward_weights(struct sw_dnnl_plan *p, struct sw_stream *s,
                                 const struct shapes *sh, dnnl_primitive_attr_t attr,
                                 dnnl_primitive_desc_t hint, struct sw_err *err)
{
    struct sw_dnnl_op *op = &p->backward_weights;
    dnnl_convolution_desc_t d;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_memory_desc_t src, weight, dst;
    sw_dnnl_from_desc(&p->base.src, &src);
    sw_dnnl_from_desc(&p->base.dst, &dst);
    dnnl_status_t st = dnnl_dilated_convolution_backward_weights_desc_init(
        &d, dnnl_convolution_auto, &sh->src, &sh->weight, sh->bias_or_null, &sh->dst, sh->stride,
        sh->dilation, sh->pad_before, sh->pad_after);
    if (st == dnnl_success)
        st = dnnl_primitive_desc_create(&pd, &d, attr, p->forward.engine, hint);
    int rc = sw_dnnl_check(st, "preparing a convolution's backward by weights", err);
    if (rc == SW_OK)
        rc = outside_weights(&p->base, sh->groups, &weight, err);
    if (rc == SW_OK)
        rc = sw_dnnl_op_init(op, s, pd, err);
    if (rc == SW_OK)
        rc = sw_dnnl_op_port(op, DNNL_ARG_SRC, SW_SLOT_SRC, false,
                             sw_dnnl_md(pd, dnnl_query_src_md), &src, err);
    if (rc == SW_OK)
        rc = sw_dnnl_op_port(op, DNNL_ARG_DIFF_DST, SW_SLOT_DIFF_DST, false,
                             sw_dnnl_md(pd, dnnl_query_diff_dst_md), &dst, err);
    if (rc == SW_OK)
        rc = sw_dnnl_op_port(op, DNNL_ARG_DIFF_WEIGHTS, SW_SLOT_DIFF_WEIGHT, true,
                             sw_dnnl_md(pd, dnnl_query_diff_weights_md), &weight, err);
    if (rc == SW_OK && sh->bias_or_null)
        rc = sw_dnnl_op_port(op, DNNL_ARG_DIFF_BIAS, SW_SLOT_DIFF_BIAS, true, &sh->bias, NULL, err);
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    return rc;
}

static int describe(struct sw_plan *p, const struct sw_conv_shape *c, dnnl_primitive_desc_t pd,
                    struct sw_err *err)
{
    if (!sw_dnnl_to_desc(sw_dnnl_md(pd, dnnl_query_dst_md), &p->dst))
        return sw_err_set(err, SW_ERR_UNSUPPORTED, "oneDNN chose an output layout of its own");
    if (c->bias)
        p->bias = sw_desc_plain(SW_F32, 1, &c->outputs);
    return SW_OK;
}

int sw_dnnl_conv_new(struct sw_stream *s, const struct sw_desc *src, const struct sw_conv_shape *c,
                     struct sw_plan_passes passes, struct sw_plan **out, struct sw_err *err)
{
    int rc = sw_conv_check(src, c, err);
    if (rc != SW_OK)
        return rc;
    struct sw_dnnl_plan *p = sw_calloc(1, sizeof *p);
    if (!p)
        return sw_err_nomem(err, "a convolution plan", sizeof *p);
    struct shapes sh;
    dnnl_primitive_attr_t attr = NULL, plain_attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    find_shapes(src, c, &sh);
    p->base = (struct sw_plan){.ops = &sw_dnnl_plan_ops,
                               .stream = s,
                               .src = *src,
                               .backward_reads_src = passes.backward_weights};
    rc = sw_dnnl_attr(c->fuse_relu, &attr, err);
    if (rc == SW_OK)
        rc = sw_dnnl_attr(false, &plain_attr, err);
    if (rc == SW_OK)
        rc = choose_forward(s, &sh, c, attr, &p->base, &pd, err);
    if (rc == SW_OK)
        rc = describe(&p->base, c, pd, err);
    if (rc == SW_OK)
        rc = init_forward(p, s, &sh, pd, err);
    if (rc == SW_OK && passes.backward_data)
        rc = init_backward_data(p, s, &sh, plain_attr, pd, err);
    if (rc == SW_OK && passes.backward_weights)
        rc = init_backward_weights(p, s, &sh, plain_attr, pd, err);
    if (rc == SW_OK)
        sw_dnnl_plan_finish(p, pd);
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    if (plain_attr)
        dnnl_primitive_attr_destroy(plain_attr);
    if (rc != SW_OK) {
        sw_plan_free(&p->base);
        return rc;
    }
    *out = &p->base;
    return SW_OK;
}
