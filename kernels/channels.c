/* The strides of channels in the common layouts: plain, blocked channels, channels last. */
#include "kernels/channels.h"

bool sw_channels_of(const struct sw_desc *d, struct sw_channels *out)
{
    int64_t pixels = sw_desc_pixels(d), channels = d->dim[1];
    int block = sw_desc_channel_block(d);

    *out = (struct sw_channels){.channels = channels, .rows = d->dim[0], .pixels = pixels};

    if (block) {
        out->lanes = block;
        out->padded = true;
        out->row_stride = d->padded[1] * pixels;
        out->pixel_stride = block;
        out->group_stride = block * pixels;
    } else if (sw_desc_is_plain(d) && pixels > 1) {
        out->lanes = 1;
        out->row_stride = channels * pixels;
        out->pixel_stride = 1;
        out->group_stride = pixels;
    } else if (sw_desc_is_channels_last(d)) {
        out->lanes = SW_CHANNEL_LANES;
        out->row_stride = channels * pixels;
        out->pixel_stride = channels;
        out->group_stride = SW_CHANNEL_LANES;
    } else {
        return false;
    }

    return true;
}
