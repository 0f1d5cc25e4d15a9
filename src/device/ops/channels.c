#include "device/ops/channels.h"

bool sw_op_channels(const struct sw_desc *d, struct sw_kernel_channels *k)
{
    int64_t pixels = sw_desc_pixels(d), channels = d->dim[1];
    int block = sw_desc_channel_block(d);
    *k = (struct sw_kernel_channels){.channels = channels, .rows = d->dim[0], .pixels = pixels};
    if (block) {
        k->lanes = block;
        k->padded = true;
        k->row_stride = d->padded[1] * pixels;
        k->pixel_stride = block;
        k->group_stride = block * pixels;
    } else if (sw_desc_is_plain(d) && pixels > 1) {
        k->lanes = 1;
        k->row_stride = channels * pixels;
        k->pixel_stride = 1;
        k->group_stride = pixels;
    } else if (sw_desc_is_channels_last(d)) {
        k->lanes = SW_KERNEL_CHANNEL_LANES;
        k->row_stride = channels * pixels;
        k->pixel_stride = channels;
        k->group_stride = SW_KERNEL_CHANNEL_LANES;
    } else {
        return false;
    }
    return true;
}
