/* Inner product by oneDNN. The source is flattened to plain [N, features] first: with a 4-D blocked
 * source the library would choose a slow implementation and reorder all weights. */
#include "device/cpu/dnnl.h"

#include "base/str.h"

static void append_key(const struct sw_plan_request *q, struct sw_bytes *key)
{
    const struct sw_ip_shape *c = q->shape.ip;
    sw_bytes_printf(key, "%lld%s%s%s", (long long)c->outputs, c->bias ? " bias" : "",
                    c->fuse_relu ? " relu" : "", c->as_given ? " given" : "");
}

static int make(const struct sw_plan_request *q, enum sw_dtype operand_type, struct sw_plan **out,
                struct sw_err *err)
{
    const struct sw_desc *src = q->src;
    const struct sw_ip_shape *c = q->shape.ip;
    int64_t flat[2] = {src->dim[0], sw_desc_features(src)};
    int64_t weight[2] = {c->outputs, flat[1]}, dst[2] = {flat[0], c->outputs};
    struct sw_desc two = sw_desc_plain(SW_F32, 2, flat), output = sw_desc_plain(SW_F32, 2, dst);
    struct sw_desc bias = sw_desc_plain(SW_F32, 1, &c->outputs);
    struct sw_dnnl_weighted w = {.q = q,
                                 .name = "inner product",
                                 .pass = {.operation = SW_DNNL_INNER_PRODUCT,
                                          .src = sw_dnnl_fixed(&two),
                                          .weight = sw_dnnl_any(2, weight),
                                          .dst = sw_dnnl_fixed(&output)},
                                 .operand_type = operand_type,
                                 .relu = c->fuse_relu,
                                 .groups = 1,
                                 .flatten = src->ndim != 2,
                                 .src_plain = sw_desc_plain(SW_F32, src->ndim, src->dim),
                                 .weight_plain = sw_desc_plain(SW_F32, 2, weight),
                                 .weight_layout = c->weight_layout,
                                 .as_given = c->as_given,
                                 .append_key = append_key};

    if (c->bias)
        w.pass.bias = sw_dnnl_fixed(&bias);

    return sw_dnnl_weighted_new(&w, out, err);
}

int sw_dnnl_ip_new(const struct sw_plan_request *q, struct sw_plan **out, struct sw_err *err)
{
    return make(q, SW_F32, out, err);
}

int sw_dnnl_ip_bf16(const struct sw_plan_request *q, struct sw_plan **out, struct sw_err *err)
{
    return make(q, SW_BF16, out, err);
}
