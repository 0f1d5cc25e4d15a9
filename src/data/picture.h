/* Images of any size: what a format returns for one record (struct sw_picture: pixels, or the bytes
 * of a JPEG or PNG file), and the decoder that turns it into pixels. libjpeg-turbo and libpng are
 * used behind this header only; neither their exit() nor their longjmp() leaves it.
 *
 * A decoder is used in three steps. Open reads the header and checks height, width and channels
 * against the limits below before memory is allocated. Shrink sets the smallest height and width
 * that suffice; a JPEG is then decoded at 1/2, 1/4 or 1/8, which is much faster (DCT scaling). Read
 * decodes a window into memory of the decoder, with the requested number of channels. The whole
 * file is always parsed, whatever the window, so that an image is found damaged or not regardless
 * of the window. The file type is detected by the first bytes, not by the name.
 *
 * Thread rule: a decoder belongs to one thread at a time. */
#pragma once

#include "base/err.h"
#include "data/room.h"
#include "kernels/desc.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Limits that bound the cost of an image (at most 6 bytes a pixel, for progressive JPEG files),
 * whatever its header claims. The number of pixels is a default that users can change. A
 * progressive JPEG is decoded once per scan, so its time is bounded as well: at most 100 scans, and
 * pixels times scans at most SW_PICTURE_MAX_PASSES times the pixel limit. */
enum {
    SW_PICTURE_MAX_SIDE = 65535,
    SW_PICTURE_MAX_PIXELS = 100 * 1000 * 1000,
    SW_PICTURE_MAX_PASSES = 20
};
/* Size limit of an encoded image. */
enum { SW_PICTURE_MAX_BYTES = 512 << 20 };

/* One image as returned by a format. The memory is borrowed from the caller of fetch. */
struct sw_picture {
    bool encoded; /* data is a complete JPEG or PNG file; else u8 [channels, height, width] */
    const void *data;
    size_t bytes;
    int64_t channels, height, width; /* of pixels; 0 if encoded */
};

/* The header of an image. */
struct sw_picture_head {
    const char *kind; /* "JPEG", "PNG" or "pixels"; static */
    int64_t channels; /* as stored: 1 gray, 2 gray and alpha, 3 color, 4 color and alpha, or CMYK */
    int64_t height, width;
};

/* A window of an image, in pixels. */
struct sw_picture_part {
    int64_t top, left, height, width;
};

/* Pixels in memory: element (c, y, x) is data[c * channel_step + y * row_step + x * pixel_step]. A
 * decoder returns u8. For encoded color images pixel_step is 4 and channel_step 1 (the fourth byte
 * is undefined), else pixel_step is 1. channel_step 0 presents one gray channel as several. */
struct sw_pixels {
    enum sw_dtype dtype; /* SW_U8 or SW_F32 */
    const void *data;
    int64_t channels, height, width;
    int64_t channel_step, row_step, pixel_step; /* elements */
};

struct sw_decoder;

/* Makes a decoder of image files. Errors: SW_ERR_NOMEM. */
int sw_decoder_new(struct sw_decoder **out, struct sw_err *err) SW_MUST_CHECK;
void sw_decoder_free(struct sw_decoder *d); /* NULL is accepted */
/* Replaces the limit SW_PICTURE_MAX_PIXELS, from the next open on. */
void sw_decoder_limit(struct sw_decoder *d, int64_t max_pixels);

/* Reads the header; p->data is borrowed until the next open or free.
 * Errors: SW_ERR_FORMAT (neither JPEG nor PNG, damaged, beyond the limits), SW_ERR_UNSUPPORTED (a
 * kind of JPEG that libjpeg-turbo cannot decode), SW_ERR_NOMEM. */
int sw_decoder_open(struct sw_decoder *d, const struct sw_picture *p, struct sw_picture_head *out,
                    struct sw_err *err) SW_MUST_CHECK;

/* Chooses the smallest scale of 1, 1/2, 1/4 and 1/8 at which the image has at least min_height and
 * min_width (1 for anything but JPEG), and returns the scaled height and width, to which windows
 * then refer. */
void sw_decoder_shrink(struct sw_decoder *d, int64_t min_height, int64_t min_width, int64_t *height,
                       int64_t *width);

/* Decodes a window inside the image into `channels` channels (1 or 3; 0: as stored, without alpha;
 * pixels with another number of channels cannot be converted). *out is memory of the decoder, valid
 * until the next read or open. Once per open. Errors: SW_ERR_FORMAT (damaged or truncated),
 * SW_ERR_UNSUPPORTED, SW_ERR_NOMEM. */
int sw_decoder_read(struct sw_decoder *d, int64_t channels, struct sw_picture_part window,
                    struct sw_pixels *out, struct sw_err *err) SW_MUST_CHECK;

/* Opens and decodes the whole image as u8 [C, H, W] into room; *out describes the result. For
 * imports and statistics. Errors: those of open and read. */
int sw_picture_decode(struct sw_decoder *d, const struct sw_picture *p, int64_t channels,
                      struct sw_room *room, struct sw_picture *out,
                      struct sw_err *err) SW_MUST_CHECK;
