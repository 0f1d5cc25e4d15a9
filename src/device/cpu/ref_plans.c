/* The table of the reference plans. */
#include "device/cpu/ref.h"

static int deconvolution(const struct sw_plan_request *q, struct sw_plan **out, struct sw_err *err)
{
    const struct sw_conv_shape *shape = q->shape.conv;
    const int64_t dim[] = {q->src->dim[0], shape->outputs, shape->out_h, shape->out_w};
    struct sw_desc image = sw_desc_plain(SW_F32, 4, dim);
    return sw_cpu_deconvolution(q, &image, out, err);
}

const struct sw_plan_makers sw_cpu_ref_plans = {
    .make =
        {
            [SW_PLAN_CONVOLUTION] = sw_ref_convolution,
            [SW_PLAN_DECONVOLUTION] = deconvolution,
            [SW_PLAN_POOLING] = sw_ref_pooling,
            [SW_PLAN_LRN] = sw_ref_lrn,
            [SW_PLAN_INNER_PRODUCT] = sw_ref_inner_product,
            [SW_PLAN_REORDER] = sw_ref_reorder,
        },
    .halves = {[SW_PLAN_REORDER] = true}};
