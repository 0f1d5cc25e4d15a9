/* convolution: cross-correlation of [N, C, H, W] with M filters of C/groups x kernel x kernel, zero
 * padding, bias; output floor((H + 2 pad - dilation (kernel - 1) - 1) / stride) + 1, as in Caffe,
 * cuDNN and SINGA (TOMM, section 4.2). Weights are logically [M, C/groups, Kh, Kw]; a pass takes 2
 * N M OH OW C/groups Kh Kw flops. */
#include "layers/share/conv.h"

static const struct sw_opt opts[] = {
    SW_CONV_OPTS(struct sw_conv_conf),
    {0},
};

static int find_shape(const struct sw_layer *l, const struct sw_layer_setup *setup,
                      struct sw_conv_shape *s, struct sw_conv_part *p, struct sw_err *err)
{
    const struct sw_conv_conf *c = l->conf;
    const struct sw_desc *in = &l->src[0]->desc;
    struct sw_window w;

    int rc = sw_conv_resolve(l, c, setup, &w, s, p, err);
    if (rc != SW_OK)
        return rc;

    s->out_h = sw_window_count(in->dim[2], w.extent_h, w.stride_h, w.pad_h, false);
    s->out_w = sw_window_count(in->dim[3], w.extent_w, w.stride_w, w.pad_w, false);
    if (s->out_h < 1 || s->out_w < 1)
        return sw_err_set(err, SW_ERR_INVALID,
                          "the kernel %lld x %lld does not fit its source of %lld x %lld pixels "
                          "with pad %lld x %lld",
                          (long long)w.extent_h, (long long)w.extent_w, (long long)in->dim[2],
                          (long long)in->dim[3], (long long)w.pad_h, (long long)w.pad_w);

    return SW_OK;
}

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct sw_conv_conf *c = l->conf;
    struct sw_conv_shape shape;
    struct sw_conv_part part;

    int rc = find_shape(l, s, &shape, &part, err);
    if (rc != SW_OK)
        return rc;

    const struct sw_desc *in = &l->src[0]->desc;
    shape.fuse_relu = s->fuse_relu;
    shape.weight_layout = sw_setup_layout(s, l, "weight");

    rc = sw_layer_make_plan(
        l, s, (struct sw_plan_request){.kind = SW_PLAN_CONVOLUTION, .shape.conv = &shape}, err);
    if (rc != SW_OK)
        return rc;

    int64_t taps = shape.kernel_h * shape.kernel_w;
    int64_t fan_in = in->dim[1] / shape.groups * taps;
    sw_layer_use_plan(l, fan_in, c->outputs / c->groups * taps);
    if (s->parts > 1)
        sw_layer_mark_parts(l, part.first, c->outputs);
    l->flops_forward = 2.0 * (double)sw_desc_count(&l->dst.desc) * (double)fan_in;
    l->flops_backward = l->flops_forward * ((s->wants_grad & 1) + !s->frozen);

    return SW_OK;
}

static const struct sw_layer_example examples[] = {
    {.recipe = "outputs = 4\nkernel = 3\n", .src = {{4, {2, 3, 7, 6}, 0}}, .dst = {2, 4, 5, 4}},
    {.recipe = "outputs = 6\nkernel = 3\npad = 1\nstride = 2\n",
     .src = {{4, {3, 2, 7, 8}, 0}},
     .dst = {3, 6, 4, 4}},
    {.recipe = "outputs = 8\nkernel = 3\ngroups = 2\npad = 1\n",
     .src = {{4, {2, 4, 6, 5}, 0}},
     .dst = {2, 8, 6, 5}},
    {.recipe = "outputs = 32\nkernel = 3\ngroups = 2\npad = 1\n",
     .src = {{4, {2, 32, 6, 6}, 0}},
     .dst = {2, 32, 6, 6}},
    {.recipe = "outputs = 3\nkernel_x = 1\nkernel_y = 4\npad_y = 2\nstride_x = 3\nbias = no\n",
     .src = {{4, {2, 2, 6, 7}, 0}},
     .dst = {2, 3, 7, 3}},
    {.recipe = "outputs = 4\nkernel = 3\ndilation = 2\npad = 2\n",
     .src = {{4, {2, 3, 8, 8}, 0}},
     .dst = {2, 4, 8, 8}},
    {.recipe = "outputs = 3\nkernel = 3\ndilation = 3\npad = 3\n",
     .src = {{4, {2, 2, 5, 6}, 0}},
     .dst = {2, 3, 5, 6}},
    {.recipe =
         "outputs = 6\nkernel_x = 3\nkernel_y = 2\ndilation_x = 2\ndilation_y = 3\ngroups = 3\n"
         "stride_x = 2\npad_x = 1\n",
     .src = {{4, {2, 6, 7, 9}, 0}},
     .dst = {2, 6, 4, 4}},
    {.recipe = "outputs = 20\nkernel = 5\n", .src = {{4, {2, 17, 9, 9}, 0}}, .dst = {2, 20, 5, 5}},
    {0},
};

const struct sw_layer_type sw_layer_convolution = {
    .base = SW_TYPE("convolution", "2-D convolution with groups, dilation and bias",
                    struct sw_conv_conf, opts, .params = sw_conv_params),
    .halves = SW_HALVES_AS_TOLD,
    SW_CONV_TYPE,
    .can_fuse_relu = true,
    SW_LAYER_CALLS(setup, sw_layer_plan_forward, sw_layer_plan_backward),
    .examples = examples,
};
