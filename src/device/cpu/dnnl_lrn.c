/* Local response normalization by oneDNN, in the source's layout. Within channels oneDNN has fast
 * code only for blocked layouts and larger images; ref_lrn.c replaces its slow reference code in
 * the other cases. */
#include "device/cpu/dnnl.h"

int sw_dnnl_lrn_new(const struct sw_plan_request *q, struct sw_plan **out, struct sw_err *err)
{
    const struct sw_lrn_shape *c = q->shape.lrn;
    const struct sw_dnnl_layout image = sw_dnnl_fixed(q->src);
    const struct sw_dnnl_weightless w = {.pass = {.operation = SW_DNNL_LRN,
                                                  .algorithm = c->within_channel
                                                                   ? dnnl_lrn_within_channel
                                                                   : dnnl_lrn_across_channels,
                                                  .src = image,
                                                  .dst = image,
                                                  .lrn = c},
                                         .from = DNNL_ARG_SRC,
                                         .to = DNNL_ARG_DST,
                                         .backward_reads_src = true,
                                         .describe = sw_dnnl_first,
                                         .name = "lrn",
                                         .no_reference = c->within_channel};

    int rc = sw_dnnl_weightless_new(q, q->src, &w, out, err);
    return rc == SW_ERR_UNSUPPORTED && c->within_channel
               ? sw_cpu_ref_plans.make[SW_PLAN_LRN](q, out, err)
               : rc;
}
