/* Resolves the keys of a convolution: its window, and the shard of outputs, or of whole groups of
 * channels, that this worker computes. */
#include "layers/share/conv.h"

static struct sw_conv_part part_of(const struct sw_conv_conf *c, const struct sw_layer_setup *setup)
{
    struct sw_conv_part p = {.groups = c->groups};

    if (c->groups > 1)
        sw_setup_part(setup, c->groups, &p.first, &p.groups);
    else
        sw_setup_part(setup, c->outputs, &p.first, &p.outputs);

    if (c->groups > 1) {
        p.first *= c->outputs / c->groups;
        p.outputs = p.groups * (c->outputs / c->groups);
    }

    return p;
}

int sw_conv_resolve(const struct sw_layer *l, const struct sw_conv_conf *c,
                    const struct sw_layer_setup *setup, struct sw_window *w,
                    struct sw_conv_shape *s, struct sw_conv_part *p, struct sw_err *err)
{
    int64_t channels = setup->channels > 0 ? setup->channels : l->src[0]->desc.dim[1];
    if (channels % c->groups || c->outputs % c->groups)
        return sw_err_set(err, SW_ERR_INVALID,
                          "groups = %lld must divide the %lld input channels and the %lld outputs",
                          (long long)c->groups, (long long)channels, (long long)c->outputs);

    int rc = sw_window_resolve(&c->window, &c->dilation, w, err);
    if (rc != SW_OK)
        return rc;

    *p = part_of(c, setup);
    *s = (struct sw_conv_shape){
        .outputs = p->outputs,
        .groups = p->groups,
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

const char *const sw_conv_params[] = {"weight", "bias", NULL};

int64_t sw_conv_columns(const void *conf, const int64_t *src, int count, int64_t *begin)
{
    return ((const struct sw_conv_conf *)conf)->outputs;
}

int64_t sw_conv_groups(const void *conf)
{
    return ((const struct sw_conv_conf *)conf)->groups;
}

const char *sw_conv_refuses_split(const void *conf, int parts)
{
    const struct sw_conv_conf *c = conf;
    if (c->groups > 1 && c->groups < parts)
        return "it has fewer groups of channels than there are workers";
    return c->outputs < parts ? "it has fewer outputs than there are workers" : NULL;
}
