/* The pixels of a batch to floats: what remains of the transform of images (data/transform.h) after
 * cropping, where a device computes it. A byte crosses the link for each value, instead of four. */
#pragma once

#include "kernels/op.h"
#include <stdbool.h>

enum { SW_PIXELS_MOST_CHANNELS = 64, SW_PIXELS_ALIGN = 16 };

/* A row of a batch of pixels: this head, then the bytes [C, H, W] of the crop before mirroring, and
 * zeros up to a multiple of SW_PIXELS_ALIGN bytes. The pixels outside of the window are padding;
 * their bytes are zero. */
struct sw_pixels_head {
    int32_t mirrored;                                       /* 0 or 1 */
    int32_t top, left;                                      /* of the crop in the mean image */
    int32_t first_line, end_line, first_column, end_column; /* the window */
    int32_t unused;                                         /* 0; keeps the pixels aligned */
};

static inline size_t sw_pixels_row_bytes(int64_t count)
{
    const size_t align = SW_PIXELS_ALIGN;
    return sizeof(struct sw_pixels_head) + ((size_t)count + align - 1) / align * align;
}

/* y [rows, C, H, W] = (x - mean) * gain, flipped left to right in rows that are mirrored. With a
 * mean image [C, mean_height, mean_width], its pixel takes the place of the mean of the channel;
 * without, padding becomes 0. Rounded as on the host: after the subtraction and the product. */
struct sw_pixels_args {
    int64_t rows, channels, height, width;
    int64_t row_bytes;       /* of x */
    const unsigned char *x;  /* [rows, row_bytes] */
    const float *mean_image; /* NULL: none */
    int64_t mean_height, mean_width;
    float *y;
    float mean[SW_PIXELS_MOST_CHANNELS], gain[SW_PIXELS_MOST_CHANNELS];
};
extern const struct sw_op sw_op_pixels;
