/* Layouts of convolutions. The contract is in device/cuda/conv_layout.h. */
#include "device/cuda/conv_layout.h"

struct sw_desc sw_cuda_channels_last(const int64_t *dim)
{
    struct sw_desc d = sw_desc_plain(SW_F32, 4, dim);

    d.stride[1] = 1;
    d.stride[3] = dim[1];
    d.stride[2] = dim[1] * dim[3];
    d.stride[0] = dim[1] * dim[3] * dim[2];

    return d;
}

bool sw_cuda_conv_prefers_last(enum sw_precision precision)
{
    return precision != SW_PRECISION_FP32;
}

static struct sw_desc laid_out(bool last, const int64_t *dim)
{
    return last ? sw_cuda_channels_last(dim) : sw_desc_plain(SW_F32, 4, dim);
}

struct sw_cuda_conv_layouts sw_cuda_conv_lay_out(bool last, const int64_t *src_dim,
                                                 const struct sw_conv_shape *s)
{
    const int64_t weight[] = {s->outputs, src_dim[1] / s->groups, s->kernel_h, s->kernel_w};
    const int64_t dst[] = {src_dim[0], s->outputs, s->out_h, s->out_w};

    return (struct sw_cuda_conv_layouts){laid_out(last, src_dim), laid_out(last, weight),
                                         laid_out(last, dst)};
}
