/* Inner product by oneDNN. The source is flattened to plain [N, features] first: with a 4-D blocked
 * source the library would choose a slow implementation and reorder 38 million weights instead. */
#include "device/cpu/dnnl.h"

#include "base/os.h"
#include <string.h>

struct shapes {
    dnnl_memory_desc_t src, weight, bias, dst; /* weight: any format */
    const dnnl_memory_desc_t *bias_or_null;
    dnnl_memory_desc_t src_outside; /* the source as it comes, or as plain 2-D when it is plain */
    dnnl_memory_desc_t src_flat;    /* plain, with the source's own dimensions */
};

static void find_shapes(const struct sw_desc *src, const struct sw_ip_shape *c, struct shapes *s)
{
    int64_t rows_features[2] = {src->dim[0], sw_desc_features(src)};
    int64_t weight[2] = {c->outputs, rows_features[1]}, dst[2] = {src->dim[0], c->outputs};
    struct sw_desc flat = sw_desc_plain(SW_F32, src->ndim, src->dim);
    struct sw_desc two = sw_desc_plain(SW_F32, 2, rows_features);
    struct sw_desc out = sw_desc_plain(SW_F32, 2, dst);
    struct sw_desc bias = sw_desc_plain(SW_F32, 1, &c->outputs);
    memset(s, 0, sizeof *s);
    sw_dnnl_from_desc(&two, &s->src);
    sw_dnnl_from_desc(&out, &s->dst);
    sw_dnnl_from_desc(&bias, &s->bias);
    sw_dnnl_any(2, weight, &s->weight);
    s->bias_or_null = c->bias ? &s->bias : NULL;
    sw_dnnl_from_desc(&flat, &s->src_flat);
    sw_dnnl_from_desc(src, &s->src_outside);
}

static int forward_pd(struct sw_stream *s, const struct shapes *sh,
                      const dnnl_memory_desc_t *weight, dnnl_primitive_attr_t attr,
                      dnnl_primitive_desc_t *pd, struct sw_err *err)
{
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_inner_product_desc_t d;
    int rc = sw_dnnl_open(s, &engine, &stream, err);
    if (rc != SW_OK)
        return rc;
    dnnl_status_t st = dnnl_inner_product_forward_desc_init(&d, dnnl_forward_training, &sh->src,
                                                            weight, sh->bias_or_null, &sh->dst);
    if (st == dnnl_success)
        st = dnnl_primitive_desc_create(pd, &d, attr, engine, NULL);
    return sw_dnnl_check(st, "preparing an inner product", err);
}

static int choose_forward(struct sw_stream *s, const struct shapes *sh, const struct sw_ip_shape *c,
                          dnnl_primitive_attr_t attr, struct sw_plan *p, dnnl_primitive_desc_t *pd,
                          struct sw_err *err)
{
    int rc = forward_pd(s, sh, &sh->weight, attr, pd, err);
    if (rc != SW_OK)
        return rc;
    if (!c->weight_layout) {
        int64_t dims[2] = {c->outputs, sw_desc_features(&p->src)};
        if (!sw_dnnl_to_desc(sw_dnnl_md(*pd, dnnl_query_weights_md), &p->weight))
            p->weight = sw_desc_plain(SW_F32, 2, dims);
        return SW_OK;
    }
    p->weight = *c->weight_layout;
    dnnl_memory_desc_t given;
    dnnl_primitive_desc_t fixed = NULL;
    struct sw_err ignored;
    sw_dnnl_from_desc(c->weight_layout, &given);
    if (forward_pd(s, sh, &given, attr, &fixed, &ignored) != SW_OK)
        return SW_OK;
    if (strcmp(sw_dnnl_impl(fixed), sw_dnnl_impl(*pd)) == 0) {
        dnnl_primitive_desc_destroy(*pd);
        *pd = fixed;
    } else {
        dnnl_primitive_desc_destroy(fixed);
    }
    return SW_OK;
}

/* A port on the source or its gradient. A blocked one is reordered to plain memory of the same
 * dimensions, which the primitive then reads as two-dimensional. */
static int source_port(struct sw_dnnl_op *op, int arg, enum sw_dnnl_slot slot, bool output,
                       const struct shapes *sh, struct sw_err *err)
{
    if (dnnl_memory_desc_equal(&sh->src_outside, &sh->src_flat))
        return sw_dnnl_op_port(op, arg, slot, output, &sh->src, NULL, err);
    int rc = sw_dnnl_op_port(op, arg, slot, output, &sh->src_flat, &sh->src_outside, err);
    if (rc != SW_OK)
        return rc;
    return sw_dnnl_op_view(op, &sh->src, err);
}

static int init_forward(struct sw_dnnl_plan *p, struct sw_stream *s, const struct shapes *sh,
                        dnnl_primitive_desc_t pd, struct sw_err *err)
{
    struct sw_dnnl_op *op = &p->forward;
    dnnl_memory_desc_t weight;
    sw_dnnl_from_desc(&p->base.weight, &weight);
    int rc = sw_dnnl_op_init(op, s, pd, err);
    if (rc == SW_OK)
        rc = source_port(op, DNNL_ARG_SRC, SW_SLOT_SRC, false, sh, err);
    if (rc == SW_OK)
        rc = sw_dnnl_op_port(op, DNNL_ARG_WEIGHTS, SW_SLOT_WEIGHT, false,
                             sw_dnnl_md(pd, dnnl_query_weights_md), &weight, err);
    if (rc == SW_OK && sh->bias_or_null)
        rc = sw_dnnl_op_port(op, DNNL_ARG_BIAS, SW_SLOT_BIAS, false, &sh->bias, NULL, err);
    if (rc == SW_OK)
        rc = sw_dnnl_op_port(op, DNNL_ARG_DST, SW_SLOT_DST, true, &sh->dst, NULL, err);
    return rc;
}

static int init_backward_data(struct sw_dnnl_plan *p, struct sw_stream *s, const struct shapes *sh,
                              dnnl_primitive_attr_t attr, dnnl_primitive_desc_t hint,
                              struct sw_err *err)
{
    struct sw_dnnl_op *op = &p->backward_data;
    dnnl_inner_product_desc_t d;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_memory_desc_t weight;
    sw_dnnl_from_desc(&p->base.weight, &weight);
    dnnl_status_t st =
        dnnl_inner_product_backward_data_desc_init(&d, &sh->src, &sh->weight, &sh->dst);
    if (st == dnnl_success)
        st = dnnl_primitive_desc_create(&pd, &d, attr, p->forward.engine, hint);
    int rc = sw_dnnl_check(st, "preparing an inner product's backward by data", err);
    if (rc == SW_OK)
        rc = sw_dnnl_op_init(op, s, pd, err);
    if (rc == SW_OK)
        rc = sw_dnnl_op_port(op, DNNL_ARG_DIFF_DST, SW_SLOT_DIFF_DST, false, &sh->dst, NULL, err);
    if (rc == SW_OK)
        rc = sw_dnnl_op_port(op, DNNL_ARG_WEIGHTS, SW_SLOT_WEIGHT, false,
                             sw_dnnl_md(pd, dnnl_query_weights_md), &weight, err);
    if (rc == SW_OK)
        rc = source_port(op, DNNL_ARG_DIFF_SRC, SW_SLOT_DIFF_SRC, true, sh, err);
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    return rc;
}

static int init_backward_weights(struct sw_dnnl_plan *p, struct sw_stream *s,
                                 const struct shapes *sh, dnnl_primitive_attr_t attr,
                                 dnnl_primitive_desc_t hint, struct sw_err *err)
{
    struct sw_dnnl_op *op = &p->backward_weights;
    dnnl_inner_product_desc_t d;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_memory_desc_t weight;
    sw_dnnl_from_desc(&p->base.weight, &weight);
    dnnl_status_t st = dnnl_inner_product_backward_weights_desc_init(&d, &sh->src, &sh->weight,
                                                                     sh->bias_or_null, &sh->dst);
    if (st == dnnl_success)
        st = dnnl_primitive_desc_create(&pd, &d, attr, p->forward.engine, hint);
    int rc = sw_dnnl_check(st, "preparing an inner product's backward by weights", err);
    if (rc == SW_OK)
        rc = sw_dnnl_op_init(op, s, pd, err);
    if (rc == SW_OK)
        rc = source_port(op, DNNL_ARG_SRC, SW_SLOT_SRC, false, sh, err);
    if (rc == SW_OK)
        rc = sw_dnnl_op_port(op, DNNL_ARG_DIFF_DST, SW_SLOT_DIFF_DST, false, &sh->dst, NULL, err);
    if (rc == SW_OK)
        rc = sw_dnnl_op_port(op, DNNL_ARG_DIFF_WEIGHTS, SW_SLOT_DIFF_WEIGHT, true,
                             sw_dnnl_md(pd, dnnl_query_diff_weights_md), &weight, err);
    if (rc == SW_OK && sh->bias_or_null)
        rc = sw_dnnl_op_port(op, DNNL_ARG_DIFF_BIAS, SW_SLOT_DIFF_BIAS, true, &sh->bias, NULL, err);
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    return rc;
}

int sw_dnnl_ip_new(struct sw_stream *s, const struct sw_desc *src, const struct sw_ip_shape *c,
                   struct sw_plan_passes passes, struct sw_plan **out, struct sw_err *err)
{
    int rc = sw_ip_check(src, c, err);
    if (rc != SW_OK)
        return rc;
    struct sw_dnnl_plan *p = sw_calloc(1, sizeof *p);
    if (!p)
        return sw_err_nomem(err, "an inner product plan", sizeof *p);
    struct shapes sh;
    dnnl_primitive_attr_t attr = NULL, plain_attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    int64_t dst[2] = {src->dim[0], c->outputs};
    find_shapes(src, c, &sh);
    p->base = (struct sw_plan){.ops = &sw_dnnl_plan_ops,
                               .stream = s,
                               .src = *src,
                               .dst = sw_desc_plain(SW_F32, 2, dst),
                               .backward_reads_src = passes.backward_weights};
    if (c->bias)
        p->base.bias = sw_desc_plain(SW_F32, 1, &c->outputs);
    rc = sw_dnnl_attr(c->fuse_relu, &attr, err);
    if (rc == SW_OK)
        rc = sw_dnnl_attr(false, &plain_attr, err);
    if (rc == SW_OK)
        rc = choose_forward(s, &sh, c, attr, &p->base, &pd, err);
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
