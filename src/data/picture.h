/* Pictures of any size: what a format hands out for one record (struct sw_picture: pixels, or the
 * bytes of a JPEG or PNG file), and the decoder that turns it into pixels. libjpeg-turbo and libpng
 * live behind this header and nowhere else; neither's exit() nor longjmp() gets out.
 *
 * A decoder is used in three steps. Open reads the header: sides and channels, checked against the
 * limits below before memory is taken. Shrink says the least sides that are wanted; a JPEG is then
 * decoded at 1/2, 1/4 or 1/8, which costs a fraction (DCT scaling). Read decodes a window into
 * memory of the decoder, in the number of channels that is wanted. All of the file is looked at,
 * whatever the window is, so that whether a picture is damaged is a property of the picture. What a
 * file is called does not matter: its first bytes say what it is.
 *
 * Thread rule: a decoder belongs to one thread at a time. */
#pragma once

#include "base/err.h"
#include "data/room.h"
#include "kernels/desc.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Larger pictures are refused: what one of them may cost is bounded (6 bytes a pixel at most, for
 * progressive JPEG files), whatever its header says. The number of pixels is a default that users
 * can change. The time that a progressive JPEG may take is bounded in the same measure: it goes
 * over the picture again for each of its scans, 100 at most, and pixels times scans must not be
 * more than SW_PICTURE_MAX_PASSES times the most pixels. */
enum {
    SW_PICTURE_MAX_SIDE = 65535,
    SW_PICTURE_MAX_PIXELS = 100 * 1000 * 1000,
    SW_PICTURE_MAX_PASSES = 20
};
/* No encoded picture is longer than this. */
enum { SW_PICTURE_MAX_BYTES = 512 << 20 };

/* One picture as a format has it. Memory is borrowed from whoever fetched it. */
struct sw_picture {
    bool encoded; /* data is a whole JPEG or PNG file; else u8 [channels, height, width] */
    const void *data;
    size_t bytes;
    int64_t channels, height, width; /* of pixels; 0 when encoded */
};

/* What the header of a picture says. */
struct sw_picture_head {
    const char *kind; /* "JPEG", "PNG" or "pixels"; static */
    int64_t channels; /* as stored: 1 grey, 3 colour; 4 with alpha or CMYK, 2 grey and alpha */
    int64_t height, width;
};

/* A part of a picture, in pixels. */
struct sw_picture_part {
    int64_t top, left, height, width;
};

/* Pixels in memory: element (c, y, x) is data[c * channel_step + y * row_step + x * pixel_step]. A
 * decoder answers u8; of encoded pictures in colour pixel_step is 4 and channel_step 1 (the fourth
 * byte is anything), else pixel_step is 1. A channel_step of 0 shows one grey channel as several.
 */
struct sw_pixels {
    enum sw_dtype dtype; /* SW_U8 or SW_F32 */
    const void *data;
    int64_t channels, height, width;
    int64_t channel_step, row_step, pixel_step; /* elements */
};

struct sw_decoder;

/* Errors: SW_ERR_NOMEM. */
int sw_decoder_new(struct sw_decoder **out, struct sw_err *err) SW_MUST_CHECK;
void sw_decoder_free(struct sw_decoder *d); /* NULL is accepted */
/* Instead of SW_PICTURE_MAX_PIXELS, from the next open on. */
void sw_decoder_limit(struct sw_decoder *d, int64_t max_pixels);

/* Reads the header; p->data is borrowed until the next open or free.
 * Errors: SW_ERR_FORMAT (neither JPEG nor PNG, damaged, beyond the limits), SW_ERR_UNSUPPORTED (a
 * kind of JPEG that libjpeg-turbo cannot decode), SW_ERR_NOMEM. */
int sw_decoder_open(struct sw_decoder *d, const struct sw_picture *p, struct sw_picture_head *out,
                    struct sw_err *err) SW_MUST_CHECK;

/* Chooses the smallest of 1, 1/2, 1/4, 1/8 at which the sides still are min_height and min_width or
 * more (1 for anything but JPEG), and answers the sides, which windows then refer to. */
void sw_decoder_shrink(struct sw_decoder *d, int64_t min_height, int64_t min_width, int64_t *height,
                       int64_t *width);

/* Decodes a window, which must lie in the picture, into `channels` (1 or 3; 0: as it is stored,
 * alpha left out; pixels of other numbers of channels cannot be converted). *out is memory of the
 * decoder, valid until the next read or open. Once per open. Errors: SW_ERR_FORMAT (damaged or cut
 * short), SW_ERR_UNSUPPORTED, SW_ERR_NOMEM. */
int sw_decoder_read(struct sw_decoder *d, int64_t channels, struct sw_picture_part window,
                    struct sw_pixels *out, struct sw_err *err) SW_MUST_CHECK;

/* The three steps at once: the whole picture as u8 [C, H, W] in room; *out describes it (encoded is
 * false). For imports and statistics. Errors: those of open and read. */
int sw_picture_decode(struct sw_decoder *d, const struct sw_picture *p, int64_t channels,
                      struct sw_room *room, struct sw_picture *out,
                      struct sw_err *err) SW_MUST_CHECK;
