/* The tables of makers of oneDNN plans, for fp32 and for bf16. */
#include "device/cpu/dnnl.h"

/* Whether the processor has bf16; otherwise oneDNN would emulate it. */
static bool processor_has_bf16(void)
{
    dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
    return (isa & dnnl_cpu_isa_avx512_core_bf16) == dnnl_cpu_isa_avx512_core_bf16;
}

const struct sw_plan_makers *sw_cpu_dnnl_halves(enum sw_precision precision)
{
    static const struct sw_plan_makers bf16 = {
        .make = {
            [SW_PLAN_CONVOLUTION] = sw_dnnl_conv_bf16, [SW_PLAN_INNER_PRODUCT] = sw_dnnl_ip_bf16}};
    return precision == SW_PRECISION_BF16 && processor_has_bf16() ? &bf16 : NULL;
}

const struct sw_plan_makers sw_cpu_dnnl_plans = {
    .make =
        {
            [SW_PLAN_CONVOLUTION] = sw_dnnl_conv_new,
            [SW_PLAN_DECONVOLUTION] = sw_dnnl_deconv_new,
            [SW_PLAN_POOLING] = sw_dnnl_pool_new,
            [SW_PLAN_LRN] = sw_dnnl_lrn_new,
            [SW_PLAN_INNER_PRODUCT] = sw_dnnl_ip_new,
            [SW_PLAN_REORDER] = sw_dnnl_reorder_new,
        },
    .halves = {[SW_PLAN_REORDER] = true}};
