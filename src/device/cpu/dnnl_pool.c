/* Pooling by oneDNN. Its averages divide by the whole kernel or by the real pixels. Dividing by the
 * window clipped to the padded input is the same as the former if no window exceeds the padding,
 * and as the latter without padding; in other cases the reference plan computes the average. */
#include "device/cpu/dnnl.h"

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

static dnnl_alg_kind_t algorithm_of(const struct sw_desc *src, const struct sw_pool_shape *c)
{
    bool by_kernel = c->divisor == SW_POOL_BY_KERNEL ||
                     (c->divisor == SW_POOL_BY_PADDED && is_padded(c) && !exceeds_padding(src, c));
    return c->max      ? dnnl_pooling_max
           : by_kernel ? dnnl_pooling_avg_include_padding
                       : dnnl_pooling_avg_exclude_padding;
}

static int describe(const struct sw_dnnl_weightless *w, bool backward, dnnl_engine_t engine,
                    const_dnnl_primitive_attr_t attr, const_dnnl_primitive_desc_t forward,
                    dnnl_primitive_desc_t *out, struct sw_err *err)
{
    const struct sw_plan_request *q = w->shape;
    const struct sw_pool_shape *c = q->shape.pool;
    const struct sw_desc *src = q->src;
    const dnnl_dims_t kernel = {c->kernel_h, c->kernel_w}, stride = {c->stride_h, c->stride_w};
    const dnnl_dims_t before = {c->pad_h, c->pad_w};
    const dnnl_dims_t after = {
        sw_conv_pad_after(src->dim[2], c->out_h, c->kernel_h, c->stride_h, c->pad_h, 1),
        sw_conv_pad_after(src->dim[3], c->out_w, c->kernel_w, c->stride_w, c->pad_w, 1)};
    dnnl_prop_kind_t kind = q->passes.training ? dnnl_forward_training : dnnl_forward_inference;
    dnnl_pooling_desc_t d;
    dnnl_status_t st = backward
                           ? dnnl_pooling_backward_desc_init(&d, algorithm_of(src, c), &w->src,
                                                             &w->dst, stride, kernel, before, after)
                           : dnnl_pooling_forward_desc_init(&d, kind, algorithm_of(src, c), &w->src,
                                                            &w->dst, stride, kernel, before, after);

    if (st == dnnl_success)
        st = dnnl_primitive_desc_create(out, &d, attr, engine, forward);

    return sw_dnnl_check(st, backward ? "preparing pooling's backward" : "preparing pooling", err);
}

static bool needs_reference(const struct sw_desc *src, const struct sw_pool_shape *c)
{
    bool known = sw_desc_is_plain(src) || (src->nblock == 1 && src->block_dim[0] == 1 &&
                                           (src->block[0] == 8 || src->block[0] == 16));
    bool unsupported_average =
        !c->max && c->divisor == SW_POOL_BY_PADDED && is_padded(c) && exceeds_padding(src, c);

    return unsupported_average || !known;
}

int sw_dnnl_pool_new(const struct sw_plan_request *q, struct sw_plan **out, struct sw_err *err)
{
    struct sw_dnnl_weightless w = {
        .from = DNNL_ARG_SRC, .to = DNNL_ARG_DST, .shape = q, .describe = describe};

    if (needs_reference(q->src, q->shape.pool))
        return sw_cpu_ref_plans.make[SW_PLAN_POOLING](q, out, err);

    struct sw_desc dst = output_of(q->src, q->shape.pool);
    sw_dnnl_from_desc(q->src, &w.src);
    sw_dnnl_from_desc(&dst, &w.dst);
    return sw_dnnl_weightless_new(q, &dst, &w, out, err);
}
