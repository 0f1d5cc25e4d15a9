/* The table of the reference plans. */
#include "device/cpu/ref.h"

int sw_ref_deconvolution(struct sw_stream *s, const struct sw_desc *src,
                         const struct sw_conv_shape *shape, struct sw_plan_passes passes,
                         struct sw_plan **out, struct sw_err *err)
{
    const int64_t dim[] = {src->dim[0], shape->outputs, shape->out_h, shape->out_w};
    struct sw_desc image = sw_desc_plain(SW_F32, 4, dim);
    return sw_cpu_deconvolution(s, src, &image, shape, passes, out, err);
}

const struct sw_plan_makers sw_cpu_ref_plans = {
    .convolution = sw_ref_convolution,
    .deconvolution = sw_ref_deconvolution,
    .pooling = sw_ref_pooling,
    .lrn = sw_ref_lrn,
    .inner_product = sw_ref_inner_product,
    .reorder = sw_ref_reorder,
};
