/* Where the elements of the channels of an activation are stored, for kernels that work channel by
 * channel. Plain arithmetic on descriptors; any thread. */
#pragma once

#include "kernels/desc.h"

/* The largest number of parts of the rows in which sums by channel are computed. */
enum { SW_CHANNEL_PARTS = 16, SW_CHANNEL_LANES = 16 };

/* Channels are in groups of `lanes` neighbours: 16 or less, or 1 when the neighbours are pixels
 * (plain NCHW; pixel_stride is 1 then). */
struct sw_channels {
    int64_t channels, rows, pixels;
    int64_t row_stride, pixel_stride, group_stride; /* elements */
    int lanes;
    bool padded; /* all lanes of the last group are stored, zeros where there is no channel */
};

/* False for a layout that these kernels do not know: all but plain, blocked channels and channels
 * last. */
#ifdef __cplusplus
extern "C"
#endif
    bool
    sw_channels_of(const struct sw_desc *d, struct sw_channels *out);

/* Bytes of the partial results of two sums, and of all scratch memory of a normalisation, which
 * adds a factor per channel. */
static inline size_t sw_channel_parts_bytes(const struct sw_desc *d)
{
    return (size_t)(2 * SW_CHANNEL_PARTS * d->dim[1]) * sizeof(double);
}
static inline size_t sw_channel_scratch_bytes(const struct sw_desc *d)
{
    return sw_channel_parts_bytes(d) + (size_t)((d->dim[1] + 15) / 16 * 16) * sizeof(float);
}
