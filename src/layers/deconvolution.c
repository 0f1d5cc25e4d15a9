/* deconvolution: the transpose of a convolution, which spreads every pixel of [N, C, H, W] over a
 * window of the output [N, M, OH, OW]: OH = stride (H - 1) + dilation (kernel - 1) + 1 - 2 pad +
 * output_pad (pad crops the output), as in Caffe (DeconvolutionLayer) and PyTorch
 * (ConvTranspose2d); Zeiler, Krishnan, Taylor and Fergus, "Deconvolutional Networks" (2010).
 * Weights are logically [C, M/groups, Kh, Kw], as in both; a pass takes 2 N C H W M/groups Kh Kw
 * flops.
 *
 * Fan-in is the number of terms that one output pixel sums: C/groups ceil(Kh/stride)
 * ceil(Kw/stride), since only every stride-th tap meets a pixel. Caffe and PyTorch use dimension 1
 * of the weights instead, which counts outputs. */
#include "layers/share/conv.h"

struct conf {
    struct sw_conv_conf conv;
    struct {
        int64_t output_pad, output_pad_x, output_pad_y; /* _x, _y -1: not given */
    } more;
};

static const struct sw_opt opts[] = {
    SW_CONV_OPTS(struct sw_conv_conf),
    SW_WINDOW_OPT(struct conf, more, output_pad,
                  "pixels added below and to the right of the output; less than stride", "0", 0),
    SW_WINDOW_OPT(struct conf, more, output_pad_x, "at the right; default: output_pad", "-1", 0),
    SW_WINDOW_OPT(struct conf, more, output_pad_y, "below; default: output_pad", "-1", 0),
    {0},
};

/* One axis of the source and of the window. */
struct axis {
    const char *name;
    int64_t in, extent, stride, pad, output_pad;
};

/* Sets the pixels along one axis of the output. Errors: SW_ERR_INVALID. */
static int find_size(const struct axis *a, int64_t *out, struct sw_err *err)
{
    *out = a->stride * (a->in - 1) + a->extent - 2 * a->pad + a->output_pad;
    if (a->output_pad >= a->stride)
        return sw_err_set(err, SW_ERR_INVALID,
                          "output_pad %lld along the %s must be less than the stride %lld: "
                          "otherwise a convolution back would give another size",
                          (long long)a->output_pad, a->name, (long long)a->stride);

    if (*out < 1)
        return sw_err_set(err, SW_ERR_INVALID,
                          "the %s of the output is empty: pad %lld crops all %lld pixels that a "
                          "source of %lld gives",
                          a->name, (long long)a->pad, (long long)(*out + 2 * a->pad),
                          (long long)a->in);

    return SW_OK;
}

static int find_shape(const struct sw_layer *l, const struct sw_layer_setup *setup,
                      struct sw_conv_shape *s, struct sw_conv_part *p, struct sw_err *err)
{
    const struct conf *c = l->conf;
    const struct sw_desc *in = &l->src[0]->desc;
    struct sw_window w;
    int64_t below = c->more.output_pad_y >= 0 ? c->more.output_pad_y : c->more.output_pad;
    int64_t right = c->more.output_pad_x >= 0 ? c->more.output_pad_x : c->more.output_pad;

    int rc = sw_conv_resolve(l, &c->conv, setup, &w, s, p, err);
    if (rc != SW_OK)
        return rc;

    const struct axis height = {"height", in->dim[2], w.extent_h, w.stride_h, w.pad_h, below};
    const struct axis width = {"width", in->dim[3], w.extent_w, w.stride_w, w.pad_w, right};
    rc = find_size(&height, &s->out_h, err);
    if (rc != SW_OK)
        return rc;

    return find_size(&width, &s->out_w, err);
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Dimension 0 of the weights is the channels of the source. A worker holds the weights of its
 * groups, or without groups those of its outputs for all channels. */
static void mark_parts(struct sw_layer *l, const struct sw_layer_setup *s,
                       const struct sw_conv_conf *c, const struct sw_conv_part *p)
{
    sw_layer_mark_parts(l, p->first, c->outputs);

    if (c->groups > 1)
        sw_layer_mark_param(l, 0, 0, s->first_channel, s->channels);
    else
        sw_layer_mark_param(l, 0, 1, p->first, c->outputs);
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
    shape.weight_layout = sw_setup_layout(s, l, "weight");
    rc = sw_layer_make_plan(
        l, s, (struct sw_plan_request){.kind = SW_PLAN_DECONVOLUTION, .shape.conv = &shape}, err);
    if (rc != SW_OK)
        return rc;

    int64_t taps = shape.kernel_h * shape.kernel_w;
    int64_t met =
        ceil_div(shape.kernel_h, shape.stride_h) * ceil_div(shape.kernel_w, shape.stride_w);
    sw_layer_use_plan(l, in->dim[1] / shape.groups * met, c->outputs / c->groups * taps);
    if (s->parts > 1)
        mark_parts(l, s, c, &part);
    l->flops_forward =
        2.0 * (double)sw_desc_count(in) * (double)(shape.outputs / shape.groups * taps);
    l->flops_backward = l->flops_forward * ((s->wants_grad & 1) + !s->frozen);

    return SW_OK;
}

static const struct sw_layer_example examples[] = {
    {.recipe = "outputs = 3\nkernel = 3\n", .src = {{4, {2, 4, 5, 4}, 0}}, .dst = {2, 3, 7, 6}},
    {.recipe = "outputs = 5\nkernel = 4\nstride = 2\npad = 1\n",
     .src = {{4, {2, 6, 4, 3}, 0}},
     .dst = {2, 5, 8, 6}},
    {.recipe = "outputs = 2\nkernel = 3\nstride = 2\npad = 1\noutput_pad = 1\n",
     .src = {{4, {3, 3, 4, 5}, 0}},
     .dst = {3, 2, 8, 10}},
    {.recipe = "outputs = 3\nkernel = 2\nstride = 3\noutput_pad_x = 2\n",
     .src = {{4, {2, 3, 3, 2}, 0}},
     .dst = {2, 3, 8, 7}},
    {.recipe = "outputs = 6\nkernel = 3\ngroups = 3\nstride_y = 2\nbias = no\n",
     .src = {{4, {2, 9, 4, 5}, 0}},
     .dst = {2, 6, 9, 7}},
    {.recipe = "outputs = 32\nkernel = 4\nstride = 2\npad = 1\ngroups = 2\n",
     .src = {{4, {2, 32, 4, 4}, 0}},
     .dst = {2, 32, 8, 8}},
    {.recipe = "outputs = 4\nkernel = 3\ndilation_x = 2\ndilation_y = 3\npad_x = 1\n",
     .src = {{4, {2, 2, 4, 4}, 0}},
     .dst = {2, 4, 10, 6}},
    {.recipe = "outputs = 20\nkernel = 5\n", .src = {{4, {2, 17, 5, 5}, 0}}, .dst = {2, 20, 9, 9}},
    {0},
};

const struct sw_layer_type sw_layer_deconvolution = {
    .base = SW_TYPE("deconvolution", "transposed 2-D convolution with groups, dilation and bias",
                    struct conf, opts, .params = sw_conv_params),
    .halves = SW_HALVES_AS_TOLD,
    SW_CONV_TYPE,
    SW_LAYER_CALLS(setup, sw_layer_plan_forward, sw_layer_plan_backward),
    .examples = examples,
};
