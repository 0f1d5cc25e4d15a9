/* The offset of an element of an activation, and the element at an offset, for the layouts that
 * struct sw_channels describes: plain, blocked channels, channels last. */
#pragma once

#include "kernels/cuda/cuda.cuh"

static __device__ __forceinline__ int64_t sw_offset(const struct sw_channels &k, int64_t row,
                                                    int64_t channel, int64_t pixel)
{
    const uint32_t c = (uint32_t)channel, lanes = (uint32_t)k.lanes;
    const int64_t place = k.lanes == 1 ? channel * k.group_stride
                          : k.padded   ? c / lanes * k.group_stride + c % lanes
                                       : channel; /* all channels are adjacent */

    return row * k.row_stride + place + pixel * k.pixel_stride;
}

/* Sets the channel and the pixel of position `at` in the storage of a row; padding gets a channel
 * beyond the last. */
static __device__ __forceinline__ void sw_element_at(const struct sw_channels &k, uint32_t at,
                                                     int64_t *channel, int64_t *pixel)
{
    uint32_t lanes = (uint32_t)k.lanes, group = (uint32_t)k.group_stride,
             step = (uint32_t)k.pixel_stride;

    if (k.lanes == 1) {
        *channel = at / group;
        *pixel = at % group;
    } else if (k.padded) {
        *channel = at / group * lanes + at % lanes;
        *pixel = at % group / lanes;
    } else {
        *channel = at % step;
        *pixel = at / step;
    }
}

/* Returns a grid whose x is the storage of a row and whose y is the rows. */
static inline dim3 sw_row_grid(const struct sw_channels *k)
{
    return dim3(sw_blocks_of((k->row_stride + SW_THREADS - 1) / SW_THREADS, 1024),
                sw_blocks_of(k->rows, 65535), 1);
}
