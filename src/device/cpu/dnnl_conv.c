/* Convolution by oneDNN, in the layouts and with the algorithm the library prefers: Winograd F(4x4,
 * 3x3) if it is faster (Lavin and Gray 2016), else direct; always direct on a device that avoids
 * Winograd. tests/unit/device/test_winograd.c measures the errors of both. Forward primitives are
 * always of the training kind, so that evaluation has the same weight layout. */
#include "device/cpu/dnnl.h"
#include "device/tune.h"

struct geometry {
    dnnl_dims_t stride, dilation, pad_before, pad_after;
};

static dnnl_status_t describe(const struct sw_dnnl_weighted *w, dnnl_prop_kind_t kind,
                              const dnnl_memory_desc_t *weight, union sw_dnnl_op_desc *d)
{
    const struct geometry *g = w->shape;
    const dnnl_memory_desc_t *bias = w->has_bias ? &w->bias : NULL;

    switch ((int)kind) {
    case dnnl_backward_data:
        return dnnl_dilated_convolution_backward_data_desc_init(
            &d->convolution, w->algorithm, &w->src, weight, &w->dst, g->stride, g->dilation,
            g->pad_before, g->pad_after);
    case dnnl_backward_weights:
        return dnnl_dilated_convolution_backward_weights_desc_init(
            &d->convolution, w->algorithm, &w->src, weight, bias, &w->dst, g->stride, g->dilation,
            g->pad_before, g->pad_after);
    default:
        return dnnl_dilated_convolution_forward_desc_init(&d->convolution, kind, w->algorithm,
                                                          &w->src, weight, bias, &w->dst, g->stride,
                                                          g->dilation, g->pad_before, g->pad_after);
    }
}

static void find_geometry(const struct sw_desc *src, const struct sw_conv_shape *c,
                          struct geometry *g)
{
    *g = (struct geometry){
        .stride = {c->stride_h, c->stride_w},
        .dilation = {c->dilation_h - 1, c->dilation_w - 1},
        .pad_before = {c->pad_h, c->pad_w},
        .pad_after = {sw_conv_pad_after(src->dim[2], c->out_h, c->kernel_h, c->stride_h, c->pad_h,
                                        c->dilation_h),
                      sw_conv_pad_after(src->dim[3], c->out_w, c->kernel_w, c->stride_w, c->pad_w,
                                        c->dilation_w)},
    };
}

static void append_key(const struct sw_plan_request *q, struct sw_bytes *key)
{
    sw_tune_key_conv(key, q->shape.conv);
    if (q->stream->dev->avoid_winograd)
        sw_bytes_printf(key, " without Winograd");
}

static int make(const struct sw_plan_request *q, dnnl_data_type_t operand_type,
                struct sw_plan **out, struct sw_err *err)
{
    const struct sw_desc *src = q->src;
    const struct sw_conv_shape *c = q->shape.conv;
    struct geometry g;
    int64_t dst[4] = {src->dim[0], c->outputs, c->out_h, c->out_w};
    int64_t weight[5] = {c->groups, c->outputs / c->groups, src->dim[1] / c->groups, c->kernel_h,
                         c->kernel_w};
    int64_t logical[4] = {c->outputs, weight[2], c->kernel_h, c->kernel_w};
    struct sw_dnnl_weighted w = {.q = q,
                                 .name = "convolution",
                                 .operand_type = operand_type,
                                 .has_bias = c->bias,
                                 .relu = c->fuse_relu,
                                 .groups = c->groups,
                                 .weight_plain = sw_desc_plain(SW_F32, 4, logical),
                                 .weight_layout = c->weight_layout,
                                 .algorithm = q->stream->dev->avoid_winograd
                                                  ? dnnl_convolution_direct
                                                  : dnnl_convolution_auto,
                                 .append_key = append_key,
                                 .shape = &g,
                                 .describe = describe};
    struct sw_desc bias = sw_desc_plain(SW_F32, 1, &c->outputs);
    bool grouped = c->groups > 1;
    find_geometry(src, c, &g);
    sw_dnnl_any(4, src->dim, &w.src);
    sw_dnnl_any(4, dst, &w.dst);
    sw_dnnl_any(grouped ? 5 : 4, grouped ? weight : weight + 1, &w.weight);
    sw_dnnl_from_desc(&bias, &w.bias);

    return sw_dnnl_weighted_new(&w, out, err);
}

int sw_dnnl_conv_new(const struct sw_plan_request *q, struct sw_plan **out, struct sw_err *err)
{
    return make(q, dnnl_f32, out, err);
}

int sw_dnnl_conv_bf16(const struct sw_plan_request *q, struct sw_plan **out, struct sw_err *err)
{
    return make(q, dnnl_bf16, out, err);
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
