/* The offset of an element of an activation, and the element at an offset, for the layouts that
 * struct sw_channels describes: plain, blocked channels, channels last. */
#pragma once

#include "kernels/cuda/cuda.cuh"
#include "kernels/divide.h"

static __device__ __forceinline__ int64_t sw_offset(const struct sw_channels &k, int64_t row,
                                                    int64_t channel, int64_t pixel)
{
    const uint32_t c = (uint32_t)channel, lanes = (uint32_t)k.lanes;
    const int64_t place = k.lanes == 1 ? channel * k.group_stride
                          : k.padded   ? c / lanes * k.group_stride + c % lanes
                                       : channel; /* all channels are adjacent */

    return row * k.row_stride + place + pixel * k.pixel_stride;
}

/* What divides offsets in a row, which are below 2^31 (sw_cuda_channels). */
struct sw_places {
    struct sw_divisor group, step;
};

static inline struct sw_places sw_places_of(const struct sw_channels *k)
{
    struct sw_places p = {sw_divisor_of(k->group_stride), sw_divisor_of(k->pixel_stride)};
    return p;
}

/* Sets the channel and the pixel of position `at` in the storage of a row; padding gets a channel
 * beyond the last. */
static __device__ __forceinline__ void sw_element_at(const struct sw_channels &k,
                                                     const struct sw_places &p, uint32_t at,
                                                     uint32_t *channel, uint32_t *pixel)
{
    if (k.lanes == 1) {
        *channel = at;
        *pixel = sw_divide_off(&p.group, channel);
    } else if (k.padded) {
        uint32_t group = at;
        *pixel = sw_divide_off(&p.group, &group);
        *channel = sw_divide_off(&p.step, pixel) + group * (uint32_t)k.lanes;
    } else {
        *pixel = at;
        *channel = sw_divide_off(&p.step, pixel);
    }
}

/* Returns the offset in a row of pixel 0 of a channel. */
static __device__ __forceinline__ uint32_t sw_channel_at(const struct sw_channels &k,
                                                         const struct sw_places &p,
                                                         uint32_t channel)
{
    uint32_t group = channel;

    if (k.lanes == 1)
        return channel * (uint32_t)k.group_stride;
    if (!k.padded)
        return channel; /* all channels are adjacent */

    uint32_t lane = sw_divide_off(&p.step, &group);
    return group * (uint32_t)k.group_stride + lane;
}

/* The first element of a row for this thread, and the distance of the next. */
static __device__ __forceinline__ uint32_t sw_first_in_row(void)
{
    return blockIdx.x * blockDim.x + threadIdx.x;
}

static __device__ __forceinline__ uint32_t sw_stride_in_row(void)
{
    return gridDim.x * blockDim.x;
}

/* Returns a grid whose x is the storage of a row, n elements per thread, and whose y is the rows.
 */
static inline dim3 sw_row_grid(const struct sw_channels *k, int n = 1)
{
    const int64_t each = (int64_t)SW_THREADS * n;
    return dim3(sw_blocks_of((k->row_stride + each - 1) / each, 1024), sw_blocks_of(k->rows, 65535),
                1);
}
