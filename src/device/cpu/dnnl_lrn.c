/* Local response normalization by oneDNN, in the source's layout. Within channels oneDNN has fast
 * code only for blocked layouts and larger images; ref_lrn.c replaces its slow reference code in
 * the other cases. */
#include "device/cpu/dnnl.h"

#include <string.h>

static int describe(const struct sw_dnnl_weightless *w, bool backward, dnnl_engine_t engine,
                    const_dnnl_primitive_attr_t attr, const_dnnl_primitive_desc_t forward,
                    dnnl_primitive_desc_t *out, struct sw_err *err)
{
    const struct sw_plan_request *q = w->shape;
    const struct sw_lrn_shape *c = q->shape.lrn;
    dnnl_alg_kind_t algorithm =
        c->within_channel ? dnnl_lrn_within_channel : dnnl_lrn_across_channels;
    dnnl_prop_kind_t kind = q->passes.training ? dnnl_forward_training : dnnl_forward_inference;
    dnnl_lrn_desc_t d;
    dnnl_status_t st = backward ? dnnl_lrn_backward_desc_init(&d, algorithm, &w->src, &w->src,
                                                              c->size, c->alpha, c->beta, c->k)
                                : dnnl_lrn_forward_desc_init(&d, kind, algorithm, &w->src, c->size,
                                                             c->alpha, c->beta, c->k);

    if (st == dnnl_success)
        st = dnnl_primitive_desc_create(out, &d, attr, engine, forward);

    int rc = sw_dnnl_check(st, backward ? "preparing lrn's backward" : "preparing lrn", err);
    if (rc != SW_OK)
        return rc;
    if (c->within_channel && strncmp(sw_dnnl_impl(*out), "ref", 3) == 0)
        return sw_err_set(err, SW_ERR_UNSUPPORTED,
                          "oneDNN: lrn within channels is not implemented for this layout");

    return SW_OK;
}

int sw_dnnl_lrn_new(const struct sw_plan_request *q, struct sw_plan **out, struct sw_err *err)
{
    struct sw_dnnl_weightless w = {.from = DNNL_ARG_SRC,
                                   .to = DNNL_ARG_DST,
                                   .backward_reads_src = true,
                                   .shape = q,
                                   .describe = describe};

    sw_dnnl_from_desc(q->src, &w.src);
    w.dst = w.src;

    int rc = sw_dnnl_weightless_new(q, q->src, &w, out, err);
    return rc == SW_ERR_UNSUPPORTED && q->shape.lrn->within_channel
               ? sw_cpu_ref_plans.make[SW_PLAN_LRN](q, out, err)
               : rc;
}
