/* Where the channels of an activation are stored, for kernels that work channel by channel. Plain
 * arithmetic on descriptors; any thread. */
#pragma once

#include "kernels/desc.h"

/* Sums per channel have at most SW_CHANNEL_PARTS partial sums over the rows; a group has at most
 * SW_CHANNEL_LANES channels. */
enum { SW_CHANNEL_PARTS = 16, SW_CHANNEL_LANES = 16 };

/* Channels are stored in groups of `lanes` adjacent channels: 16 or less, or 1 if adjacent elements
 * are pixels (plain NCHW, pixel_stride 1). */
struct sw_channels {
    int64_t channels, rows, pixels;
    int64_t row_stride, pixel_stride, group_stride; /* elements */
    int lanes;
    bool padded; /* all lanes of the last group are stored; lanes without a channel are zero */
};

/* Describes the channels of a layout; returns false unless it is plain, blocked by channels, or
 * channels last. */
#ifdef __cplusplus
extern "C"
#endif
    bool
    sw_channels_of(const struct sw_desc *d, struct sw_channels *out);

/* Bytes of the partial sums of two sums per channel, and of all scratch memory of a normalization,
 * which adds a factor per channel. */
static inline size_t sw_channel_parts_bytes(const struct sw_desc *d)
{
    return (size_t)(2 * SW_CHANNEL_PARTS * d->dim[1]) * sizeof(double);
}
static inline size_t sw_channel_scratch_bytes(const struct sw_desc *d)
{
    return sw_channel_parts_bytes(d) + (size_t)((d->dim[1] + 15) / 16 * 16) * sizeof(float);
}
