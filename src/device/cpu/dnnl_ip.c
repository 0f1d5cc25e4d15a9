/* Inner product by oneDNN. The source is flattened to plain [N, features] first: with a 4-D blocked
 * source the library would choose a slow implementation and reorder all weights. */
#include "device/cpu/dnnl.h"

#include "base/str.h"

static dnnl_status_t describe(const struct sw_dnnl_weighted *w, dnnl_prop_kind_t kind,
                              const dnnl_memory_desc_t *weight, union sw_dnnl_op_desc *d)
{
    const dnnl_memory_desc_t *bias = w->has_bias ? &w->bias : NULL;

    switch ((int)kind) {
    case dnnl_backward_data:
        return dnnl_inner_product_backward_data_desc_init(&d->inner_product, &w->src, weight,
                                                          &w->dst);
    case dnnl_backward_weights:
        return dnnl_inner_product_backward_weights_desc_init(&d->inner_product, &w->src, weight,
                                                             bias, &w->dst);
    default:
        return dnnl_inner_product_forward_desc_init(&d->inner_product, kind, &w->src, weight, bias,
                                                    &w->dst);
    }
}

static void append_key(const void *request, struct sw_bytes *key)
{
    const struct sw_ip_shape *c = request;
    sw_bytes_printf(key, "%lld%s%s%s", (long long)c->outputs, c->bias ? " bias" : "",
                    c->fuse_relu ? " relu" : "", c->as_given ? " given" : "");
}

static int make(struct sw_stream *s, const struct sw_desc *src, const struct sw_ip_shape *c,
                dnnl_data_type_t operand_type, struct sw_plan_passes passes, struct sw_plan **out,
                struct sw_err *err)
{
    int rc = sw_ip_check(src, c, err);
    if (rc != SW_OK)
        return rc;

    int64_t flat[2] = {src->dim[0], sw_desc_features(src)};
    int64_t weight[2] = {c->outputs, flat[1]}, dst[2] = {flat[0], c->outputs};
    struct sw_desc plain = sw_desc_plain(SW_F32, src->ndim, src->dim);
    struct sw_desc two = sw_desc_plain(SW_F32, 2, flat), output = sw_desc_plain(SW_F32, 2, dst);
    struct sw_desc bias = sw_desc_plain(SW_F32, 1, &c->outputs);
    struct sw_dnnl_weighted w = {.name = "inner product",
                                 .operand_type = operand_type,
                                 .has_bias = c->bias,
                                 .relu = c->fuse_relu,
                                 .groups = 1,
                                 .flatten = src->ndim != 2,
                                 .weight_plain = sw_desc_plain(SW_F32, 2, weight),
                                 .weight_layout = c->weight_layout,
                                 .as_given = c->as_given,
                                 .request = c,
                                 .append_key = append_key,
                                 .describe = describe};
    sw_dnnl_from_desc(&plain, &w.src_plain);
    sw_dnnl_from_desc(&two, &w.src);
    sw_dnnl_from_desc(&output, &w.dst);
    sw_dnnl_from_desc(&bias, &w.bias);
    sw_dnnl_any(2, weight, &w.weight);

    return sw_dnnl_weighted_new(s, src, &w, passes, out, err);
}

int sw_dnnl_ip_new(struct sw_stream *s, const struct sw_desc *src, const struct sw_ip_shape *c,
                   struct sw_plan_passes passes, struct sw_plan **out, struct sw_err *err)
{
    return make(s, src, c, dnnl_f32, passes, out, err);
}

int sw_dnnl_ip_bf16(struct sw_stream *s, const struct sw_desc *src, const struct sw_ip_shape *c,
                    struct sw_plan_passes passes, struct sw_plan **out, struct sw_err *err)
{
    return make(s, src, c, dnnl_bf16, passes, out, err);
}
