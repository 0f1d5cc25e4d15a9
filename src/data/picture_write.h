/* Pixels written as JPEG or PNG files: the other way of data/picture.h, for what is stored again.
 * Pure functions but for memory: any thread, each with a buffer of its own. */
#pragma once

#include "data/picture.h"

/* Bytes that grow and keep what is in them. Zero-initialise; free with sw_picture_bytes_fini. */
struct sw_picture_bytes {
    unsigned char *data; /* owned */
    size_t count, room;
};
void sw_picture_bytes_fini(struct sw_picture_bytes *b);

/* Writes pixels u8 [1 or 3, H, W] into out, whose former content goes. quality is libjpeg's, 1 to
 * 100; colour is kept in full, not at half the sides.
 * Errors: SW_ERR_UNSUPPORTED (channels), SW_ERR_NOMEM, SW_ERR_LIBRARY. */
int sw_picture_write_jpeg(const struct sw_picture *pixels, int quality,
                          struct sw_picture_bytes *out, struct sw_err *err) SW_MUST_CHECK;
/* The same as PNG, which loses nothing. */
int sw_picture_write_png(const struct sw_picture *pixels, struct sw_picture_bytes *out,
                         struct sw_err *err) SW_MUST_CHECK;
