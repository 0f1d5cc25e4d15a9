/* Pooling by oneDNN. Its averages divide by the whole kernel or by the real pixels. Dividing by the
 * window clipped to the padded input is the same as the former if no window exceeds the padding,
 * and as the latter without padding; in other cases the reference plan computes the average. */
#include "device/cpu/dnnl.h"

#include "base/os.h"

struct shapes {
    dnnl_memory_desc_t src, dst; /* dst: blocked as the source */
    dnnl_dims_t kernel, stride, before, after;
    dnnl_alg_kind_t algorithm;
};

static struct sw_desc output_of(const struct sw_desc *src, const struct sw_pool_shape *c)
{
    int64_t dim[4] = {src->dim[0], src->dim[1], c->out_h, c->out_w};
    if (src->nblock == 1 && src->block_dim[0] == 1)
        return sw_desc_blocked(SW_F32, 4, dim, 1, src->block[0]);
    return sw_desc_plain(SW_F32, 4, dim);
}

static bool is_padded(const struct sw_pool_shape *c)
{
    return c->pad_h || c->pad_w;
}

/* Whether a window reaches beyond the padding. */
static bool exceeds_padding(const struct sw_desc *src, const struct sw_pool_shape *c)
{
    return sw_conv_pad_after(src->dim[2], c->out_h, c->kernel_h, c->stride_h, c->pad_h, 1) >
               c->pad_h ||
           sw_conv_pad_after(src->dim[3], c->out_w, c->kernel_w, c->stride_w, c->pad_w, 1) >
               c->pad_w;
}

static bool divides_by_kernel(const struct sw_plan *p, const struct sw_pool_shape *c)
{
    return c->divisor == SW_POOL_BY_KERNEL ||
           (c->divisor == SW_POOL_BY_PADDED && is_padded(c) && !exceeds_padding(&p->src, c));
}

static void find_shapes(const struct sw_plan *p, const struct sw_pool_shape *c, struct shapes *s)
{
    *s = (struct shapes){.algorithm = c->max                    ? dnnl_pooling_max
                                      : divides_by_kernel(p, c) ? dnnl_pooling_avg_include_padding
                                                                : dnnl_pooling_avg_exclude_padding};
    sw_dnnl_from_desc(&p->src, &s->src);
    sw_dnnl_from_desc(&p->dst, &s->dst);
    s->kernel[0] = c->kernel_h;
    s->kernel[1] = c->kernel_w;
    s->stride[0] = c->stride_h;
    s->stride[1] = c->stride_w;
    s->before[0] = c->pad_h;
    s->before[1] = c->pad_w;
    s->after[0] = sw_conv_pad_after(p->src.dim[2], c->out_h, c->kernel_h, c->stride_h, c->pad_h, 1);
    s->after[1] = sw_conv_pad_after(p->src.dim[3], c->out_w, c->kernel_w, c->stride_w, c->pad_w, 1);
}

static int make_forward(struct sw_dnnl_plan *p, const struct shapes *s, dnnl_primitive_attr_t attr,
                        bool training, dnnl_primitive_desc_t *pd, struct sw_err *err)
{
    dnnl_pooling_desc_t d;
    dnnl_engine_t engine;
    dnnl_stream_t stream;

    int rc = sw_dnnl_open(p->base.stream, &engine, &stream, err);
    if (rc != SW_OK)
        return rc;

    dnnl_status_t st = dnnl_pooling_forward_desc_init(
        &d, training ? dnnl_forward_training : dnnl_forward_inference, s->algorithm, &s->src,
        &s->dst, s->stride, s->kernel, s->before, s->after);
    if (st == dnnl_success)
        st = dnnl_primitive_desc_create(pd, &d, attr, engine, NULL);
    rc = sw_dnnl_check(st, "preparing pooling", err);
    if (rc != SW_OK)
        return rc;

    const dnnl_memory_desc_t *saved = sw_dnnl_workspace(*pd, &p->base.saved_bytes);
    const struct sw_dnnl_port_spec ports[] = {
        {DNNL_ARG_SRC, SW_SLOT_SRC, false, &s->src, NULL, NULL},
        {DNNL_ARG_DST, SW_SLOT_DST, true, &s->dst, NULL, NULL},
        {DNNL_ARG_WORKSPACE, SW_SLOT_SAVED, true, saved, NULL, NULL},
    };

    return sw_dnnl_op_init(&p->forward, p->base.stream, *pd, ports, SW_DNNL_PORT_COUNT(ports), err);
}

static int make_backward(struct sw_dnnl_plan *p, const struct shapes *s, dnnl_primitive_attr_t attr,
                         dnnl_primitive_desc_t hint, struct sw_err *err)
{
    dnnl_pooling_desc_t d;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_status_t st = dnnl_pooling_backward_desc_init(&d, s->algorithm, &s->src, &s->dst,
                                                       s->stride, s->kernel, s->before, s->after);

    if (st == dnnl_success)
        st = dnnl_primitive_desc_create(&pd, &d, attr, p->forward.engine, hint);

    int rc = sw_dnnl_check(st, "preparing pooling's backward", err);
    if (rc != SW_OK)
        return rc;

    size_t bytes;
    const dnnl_memory_desc_t *saved = sw_dnnl_workspace(pd, &bytes);
    const struct sw_dnnl_port_spec ports[] = {
        {DNNL_ARG_DIFF_DST, SW_SLOT_DIFF_DST, false, &s->dst, NULL, NULL},
        {DNNL_ARG_DIFF_SRC, SW_SLOT_DIFF_SRC, true, &s->src, NULL, NULL},
        {DNNL_ARG_WORKSPACE, SW_SLOT_SAVED, false, saved, NULL, NULL},
    };
    rc = sw_dnnl_op_init(&p->backward_data, p->base.stream, pd, ports, SW_DNNL_PORT_COUNT(ports),
                         err);
    dnnl_primitive_desc_destroy(pd);

    return rc;
}

static bool needs_reference(const struct sw_desc *src, const struct sw_pool_shape *c)
{
    bool known = sw_desc_is_plain(src) || (src->nblock == 1 && src->block_dim[0] == 1 &&
                                           (src->block[0] == 8 || src->block[0] == 16));
    bool unsupported_average =
        !c->max && c->divisor == SW_POOL_BY_PADDED && is_padded(c) && exceeds_padding(src, c);

    return unsupported_average || !known;
}

int sw_dnnl_pool_new(struct sw_stream *s, const struct sw_desc *src, const struct sw_pool_shape *c,
                     struct sw_plan_passes passes, struct sw_plan **out, struct sw_err *err)
{
    int rc = sw_pool_check(src, c, err);
    if (rc != SW_OK)
        return rc;
    if (needs_reference(src, c))
        return sw_cpu_ref_plans.pooling(s, src, c, passes, out, err);

    struct sw_dnnl_plan *p = sw_calloc(1, sizeof *p);
    if (!p)
        return sw_err_nomem(err, "a pooling plan", sizeof *p);

    struct shapes sh;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    p->base = (struct sw_plan){
        .ops = &sw_dnnl_weightless_ops, .stream = s, .src = *src, .dst = output_of(src, c)};
    find_shapes(&p->base, c, &sh);

    rc = sw_dnnl_attr(false, &attr, err);
    if (rc != SW_OK)
        goto out;
    rc = make_forward(p, &sh, attr, passes.training, &pd, err);
    if (rc != SW_OK)
        goto out;

    if (passes.backward_data) {
        rc = make_backward(p, &sh, attr, pd, err);
        if (rc != SW_OK)
            goto out;
    }

    sw_dnnl_plan_finish(p, pd);
    *out = &p->base;

out:
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    if (rc != SW_OK)
        sw_plan_free(&p->base);

    return rc;
}
