#include "layers/share/conv.h"

int sw_conv_resolve(const struct sw_conv_conf *c, int64_t channels, int64_t outputs, int parts,
                    struct sw_window *w, struct sw_conv_shape *s, struct sw_err *err)
{
    if (channels % c->groups || c->outputs % c->groups)
        return sw_err_set(err, SW_ERR_INVALID,
                          "groups = %lld must divide the %lld input channels and the %lld outputs",
                          (long long)c->groups, (long long)channels, (long long)c->outputs);
    int rc = sw_window_resolve(&c->window, &c->dilation, w, err);
    if (rc != SW_OK)
        return rc;
    *s = (struct sw_conv_shape){
        .outputs = outputs,
        .groups = c->groups / parts,
        .kernel_h = w->kernel_h,
        .kernel_w = w->kernel_w,
        .stride_h = w->stride_h,
        .stride_w = w->stride_w,
        .pad_h = w->pad_h,
        .pad_w = w->pad_w,
        .dilation_h = w->dilation_h,
        .dilation_w = w->dilation_w,
        .bias = c->bias,
    };
    return SW_OK;
}
