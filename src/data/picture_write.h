/* Encodes pixels as JPEG or PNG; the inverse of data/picture.h. No state but the output buffer: any
 * thread, each with its own buffer. */
#pragma once

#include "data/picture.h"

/* A growing buffer that keeps its content. Zero-initialize; free with sw_picture_bytes_fini. */
struct sw_picture_bytes {
    unsigned char *data; /* owned */
    size_t count, room;
};
void sw_picture_bytes_fini(struct sw_picture_bytes *b);

/* Encodes pixels u8 [1 or 3, H, W] into out, replacing its content. quality is that of libjpeg, 1
 * to 100; color is not subsampled. Errors: SW_ERR_UNSUPPORTED (channels), SW_ERR_NOMEM,
 * SW_ERR_LIBRARY. */
int sw_picture_write_jpeg(const struct sw_picture *pixels, int quality,
                          struct sw_picture_bytes *out, struct sw_err *err) SW_MUST_CHECK;
/* Encodes pixels as PNG, which is lossless. */
int sw_picture_write_png(const struct sw_picture *pixels, struct sw_picture_bytes *out,
                         struct sw_err *err) SW_MUST_CHECK;
