/* What GPUs contribute to transposed convolutions (device/deconv.h). */
#include "device/cuda/plan_private.h"
#include "device/deconv.h"

static int add_bias(struct sw_plan *p, const struct sw_plan_args *a, void *room, struct sw_err *err)
{
    struct sw_cuda_launch l = sw_cuda_launch_of(p->stream);
    struct sw_channels k;
    bool known = sw_cuda_channels(&p->dst, &k);

    (void)known; /* checked by the maker */
    return sw_cuda_plan_check(
        p, sw_cuda_channel_bias(&k, p->dst.dtype, a->dst, a->bias, false, a->dst, &l), err);
}

static int bias_gradient(struct sw_plan *p, const struct sw_plan_args *a, void *room,
                         struct sw_err *err)
{
    struct sw_cuda_launch l = sw_cuda_launch_of(p->stream);
    double *sums = room;
    struct sw_cuda_channel_sums k = {.type = p->dst.dtype,
                                     .x = a->diff_dst,
                                     .parts = sums + 2 * p->dst.dim[1] + 1,
                                     .sums = sums,
                                     .rounded = a->diff_bias};
    bool known = sw_cuda_channels(&p->dst, &k.channels);

    (void)known; /* checked by the maker */
    return sw_cuda_plan_check(p, sw_cuda_channel_sums(&k, &l), err);
}

int sw_cuda_deconvolution(const struct sw_plan_request *q, struct sw_plan **out, struct sw_err *err)
{
    static const struct sw_deconv_device cuda = {SW_CUDA_ALIGN_BYTES, sw_cuda_reorder_in_plan,
                                                 add_bias, bias_gradient};
    const struct sw_conv_shape *c = q->shape.conv;
    const int64_t dim[] = {q->src->dim[0], c->outputs, c->out_h, c->out_w};
    bool last = sw_cuda_conv_prefers_last(sw_cuda_device_of(q->stream->dev)->precision);
    struct sw_desc image = last ? sw_cuda_channels_last(dim) : sw_desc_plain(SW_F32, 4, dim);
    struct sw_channels k;
    image.dtype = q->dst_type;
    if (!sw_cuda_channels(&image, &k))
        return sw_err_set(err, SW_ERR_UNSUPPORTED,
                          "deconvolution does not support images of 2^31 pixels or more");

    size_t doubles = (size_t)(2 * c->outputs + 1 + sw_cuda_channel_doubles(&k, q->dst_type));
    return sw_deconv_new(q, &image, &cuda,
                         c->bias && q->passes.backward_weights ? doubles * sizeof(double) : 0, out,
                         err);
}
