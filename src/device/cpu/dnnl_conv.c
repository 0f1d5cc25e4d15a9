/* Convolution by oneDNN, in the layouts and with the algorithm the library prefers: Winograd F(4x4,
 * 3x3) if it is faster (Lavin and Gray 2016), else direct; always direct on a device that avoids
 * Winograd. tests/unit/device/test_winograd.c measures the errors of both. Forward primitives are
 * always of the training kind, so that evaluation has the same weight layout. */
#include "device/cpu/dnnl.h"
#include "device/tune.h"
#include <string.h>

static void find_geometry(const struct sw_desc *src, const struct sw_conv_shape *c,
                          struct sw_dnnl_pass *pass)
{
    const dnnl_dims_t stride = {c->stride_h, c->stride_w};
    const dnnl_dims_t dilation = {c->dilation_h - 1, c->dilation_w - 1};
    const dnnl_dims_t before = {c->pad_h, c->pad_w};
    const dnnl_dims_t after = {
        sw_conv_pad_after(src->dim[2], c->out_h, c->kernel_h, c->stride_h, c->pad_h, c->dilation_h),
        sw_conv_pad_after(src->dim[3], c->out_w, c->kernel_w, c->stride_w, c->pad_w,
                          c->dilation_w)};
    memcpy(pass->stride, stride, sizeof stride);
    memcpy(pass->dilation, dilation, sizeof dilation);
    memcpy(pass->pad_before, before, sizeof before);
    memcpy(pass->pad_after, after, sizeof after);
}

static void append_key(const struct sw_plan_request *q, struct sw_bytes *key)
{
    sw_tune_key_conv(key, q->shape.conv);
    if (q->stream->dev->avoid_winograd)
        sw_bytes_printf(key, " without Winograd");
}

static int make(const struct sw_plan_request *q, enum sw_dtype operand_type, struct sw_plan **out,
                struct sw_err *err)
{
    const struct sw_desc *src = q->src;
    const struct sw_conv_shape *c = q->shape.conv;
    int64_t dst[4] = {src->dim[0], c->outputs, c->out_h, c->out_w};
    int64_t weight[5] = {c->groups, c->outputs / c->groups, src->dim[1] / c->groups, c->kernel_h,
                         c->kernel_w};
    int64_t logical[4] = {c->outputs, weight[2], c->kernel_h, c->kernel_w};
    struct sw_desc bias = sw_desc_plain(SW_F32, 1, &c->outputs);
    bool grouped = c->groups > 1;
    struct sw_dnnl_weighted w = {
        .q = q,
        .name = "convolution",
        .pass = {.operation = SW_DNNL_CONVOLUTION,
                 .algorithm = q->stream->dev->avoid_winograd ? dnnl_convolution_direct
                                                             : dnnl_convolution_auto,
                 .src = sw_dnnl_any(4, src->dim),
                 .weight = sw_dnnl_any(grouped ? 5 : 4, grouped ? weight : weight + 1),
                 .dst = sw_dnnl_any(4, dst)},
        .operand_type = operand_type,
        .relu = c->fuse_relu,
        .groups = c->groups,
        .weight_plain = sw_desc_plain(SW_F32, 4, logical),
        .weight_layout = c->weight_layout,
        .append_key = append_key};

    find_geometry(src, c, &w.pass);
    if (c->bias)
        w.pass.bias = sw_dnnl_fixed(&bias);

    return sw_dnnl_weighted_new(&w, out, err);
}

int sw_dnnl_conv_new(const struct sw_plan_request *q, struct sw_plan **out, struct sw_err *err)
{
    return make(q, SW_F32, out, err);
}

int sw_dnnl_conv_bf16(const struct sw_plan_request *q, struct sw_plan **out, struct sw_err *err)
{
    return make(q, SW_BF16, out, err);
}

/* The output is blocked as the source, since the layers before and after are usually convolutions;
 * it is plain if it has fewer channels than a block. */
int sw_dnnl_deconv_new(const struct sw_plan_request *q, struct sw_plan **out, struct sw_err *err)
{
    const struct sw_conv_shape *c = q->shape.conv;
    const int64_t dim[] = {q->src->dim[0], c->outputs, c->out_h, c->out_w};
    int block = sw_desc_channel_block(q->src);
    struct sw_desc image = block && c->outputs >= block ? sw_desc_blocked(SW_F32, 4, dim, 1, block)
                                                        : sw_desc_plain(SW_F32, 4, dim);

    return sw_cpu_deconvolution(q, &image, out, err);
}
