/* Local response normalization by oneDNN, in the source's layout. Within channels oneDNN has fast
 * code only for blocked layouts and larger images; ref_lrn.c replaces its slow reference code in
 * the other cases. */
#include "device/cpu/dnnl.h"

#include "base/os.h"
#include <string.h>

static dnnl_alg_kind_t algorithm_of(const struct sw_lrn_shape *c)
{
    return c->within_channel ? dnnl_lrn_within_channel : dnnl_lrn_across_channels;
}

static int refuse_slow(const struct sw_lrn_shape *c, const_dnnl_primitive_desc_t pd,
                       struct sw_err *err)
{
    if (!c->within_channel || strncmp(sw_dnnl_impl(pd), "ref", 3) != 0)
        return SW_OK;
    return sw_err_set(err, SW_ERR_UNSUPPORTED,
                      "oneDNN: lrn within channels is not implemented for this layout");
}

static int make_forward(struct sw_dnnl_plan *p, const struct sw_lrn_shape *c,
                        const dnnl_memory_desc_t *md, dnnl_primitive_attr_t attr, bool training,
                        dnnl_primitive_desc_t *pd, struct sw_err *err)
{
    dnnl_lrn_desc_t d;
    dnnl_engine_t engine;
    dnnl_stream_t stream;

    int rc = sw_dnnl_open(p->base.stream, &engine, &stream, err);
    if (rc != SW_OK)
        return rc;

    dnnl_status_t st =
        dnnl_lrn_forward_desc_init(&d, training ? dnnl_forward_training : dnnl_forward_inference,
                                   algorithm_of(c), md, c->size, c->alpha, c->beta, c->k);
    if (st == dnnl_success)
        st = dnnl_primitive_desc_create(pd, &d, attr, engine, NULL);
    rc = sw_dnnl_check(st, "preparing lrn", err);
    if (rc != SW_OK)
        return rc;
    rc = refuse_slow(c, *pd, err);
    if (rc != SW_OK)
        return rc;

    const dnnl_memory_desc_t *saved = sw_dnnl_workspace(*pd, &p->base.saved_bytes);
    const struct sw_dnnl_port_spec ports[] = {
        {DNNL_ARG_SRC, SW_SLOT_SRC, false, md, NULL, NULL},
        {DNNL_ARG_DST, SW_SLOT_DST, true, md, NULL, NULL},
        {DNNL_ARG_WORKSPACE, SW_SLOT_SAVED, true, saved, NULL, NULL},
    };

    return sw_dnnl_op_init(&p->forward, p->base.stream, *pd, ports, SW_DNNL_PORT_COUNT(ports), err);
}

static int make_backward(struct sw_dnnl_plan *p, const struct sw_lrn_shape *c,
                         const dnnl_memory_desc_t *md, dnnl_primitive_attr_t attr,
                         dnnl_primitive_desc_t hint, struct sw_err *err)
{
    dnnl_lrn_desc_t d;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_status_t st =
        dnnl_lrn_backward_desc_init(&d, algorithm_of(c), md, md, c->size, c->alpha, c->beta, c->k);

    if (st == dnnl_success)
        st = dnnl_primitive_desc_create(&pd, &d, attr, p->forward.engine, hint);

    size_t bytes;
    int rc = sw_dnnl_check(st, "preparing lrn's backward", err);
    if (rc != SW_OK)
        goto out;
    rc = refuse_slow(c, pd, err);
    if (rc != SW_OK)
        goto out;

    const dnnl_memory_desc_t *saved = sw_dnnl_workspace(pd, &bytes);
    const struct sw_dnnl_port_spec ports[] = {
        {DNNL_ARG_SRC, SW_SLOT_SRC, false, md, NULL, NULL},
        {DNNL_ARG_DIFF_DST, SW_SLOT_DIFF_DST, false, md, NULL, NULL},
        {DNNL_ARG_DIFF_SRC, SW_SLOT_DIFF_SRC, true, md, NULL, NULL},
        {DNNL_ARG_WORKSPACE, SW_SLOT_SAVED, false, saved, NULL, NULL},
    };
    rc = sw_dnnl_op_init(&p->backward_data, p->base.stream, pd, ports, SW_DNNL_PORT_COUNT(ports),
                         err);

out:
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    return rc;
}

static int new_plan(struct sw_stream *s, const struct sw_desc *src, const struct sw_lrn_shape *c,
                    struct sw_plan_passes passes, struct sw_plan **out, struct sw_err *err)
{
    struct sw_dnnl_plan *p = sw_calloc(1, sizeof *p);
    if (!p)
        return sw_err_nomem(err, "an lrn plan", sizeof *p);

    dnnl_memory_desc_t md;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    int rc;
    sw_dnnl_from_desc(src, &md);
    p->base = (struct sw_plan){.ops = &sw_dnnl_weightless_ops,
                               .stream = s,
                               .src = *src,
                               .dst = *src,
                               .backward_reads_src = passes.backward_data};

    rc = sw_dnnl_attr(false, &attr, err);
    if (rc != SW_OK)
        goto out;
    rc = make_forward(p, c, &md, attr, passes.training, &pd, err);
    if (rc != SW_OK)
        goto out;

    if (passes.backward_data) {
        rc = make_backward(p, c, &md, attr, pd, err);
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

int sw_dnnl_lrn_new(struct sw_stream *s, const struct sw_desc *src, const struct sw_lrn_shape *c,
                    struct sw_plan_passes passes, struct sw_plan **out, struct sw_err *err)
{
    int rc = sw_lrn_check(src, c, err);
    if (rc != SW_OK)
        return rc;
    rc = new_plan(s, src, c, passes, out, err);
    if (rc != SW_ERR_UNSUPPORTED || !c->within_channel)
        return rc;

    return sw_cpu_ref_plans.lrn(s, src, c, passes, out, err);
}
