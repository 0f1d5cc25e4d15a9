/* Pooling by oneDNN. Its averages divide by the whole kernel or by the real pixels. Dividing by the
 * window clipped to the padded input is the same as the former if no window exceeds the padding,
 * and as the latter without padding; in other cases the reference plan computes the average. */
#include "device/cpu/dnnl.h"

#include <string.h>

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

static void find_geometry(const struct sw_desc *src, const struct sw_pool_shape *c,
                          struct sw_dnnl_pass *pass)
{
    const dnnl_dims_t kernel = {c->kernel_h, c->kernel_w}, stride = {c->stride_h, c->stride_w};
    const dnnl_dims_t before = {c->pad_h, c->pad_w};
    const dnnl_dims_t after = {
        sw_conv_pad_after(src->dim[2], c->out_h, c->kernel_h, c->stride_h, c->pad_h, 1),
        sw_conv_pad_after(src->dim[3], c->out_w, c->kernel_w, c->stride_w, c->pad_w, 1)};
    memcpy(pass->kernel, kernel, sizeof kernel);
    memcpy(pass->stride, stride, sizeof stride);
    memcpy(pass->pad_before, before, sizeof before);
    memcpy(pass->pad_after, after, sizeof after);
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
    const struct sw_pool_shape *c = q->shape.pool;

    if (needs_reference(q->src, c))
        return sw_cpu_ref_plans.make[SW_PLAN_POOLING](q, out, err);

    struct sw_desc dst = output_of(q->src, c);
    struct sw_dnnl_weightless w = {.pass = {.operation = SW_DNNL_POOLING,
                                            .algorithm = algorithm_of(q->src, c),
                                            .src = sw_dnnl_fixed(q->src),
                                            .dst = sw_dnnl_fixed(&dst)},
                                   .from = DNNL_ARG_SRC,
                                   .to = DNNL_ARG_DST,
                                   .describe = sw_dnnl_first,
                                   .name = "pooling"};
    find_geometry(q->src, c, &w.pass);
    return sw_dnnl_weightless_new(q, &dst, &w, out, err);
}
