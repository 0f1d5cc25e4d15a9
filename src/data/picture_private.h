/* Interface between picture.c and the two libraries: picture_jpeg.c uses libjpeg-turbo and
 * picture_png.c libpng. Each has the three steps of the decoder. The libraries check the data; the
 * functions here check what the libraries would trust: height and width against the limits and
 * against the number of bytes available. Thread rule: as the decoder. */
#pragma once

#include "data/picture.h"

/* Checks height and width against the limits (picture_pixels.c). Errors: SW_ERR_FORMAT. */
int sw_picture_check_sides(const char *kind, int64_t height, int64_t width, int64_t max_pixels,
                           struct sw_err *err) SW_MUST_CHECK;

/* Converts `pixels` four-byte pixels (red, green, blue, unused) to gray bytes at the front of the
 * same memory: luma of ITU-R BT.601, as in JPEG. */
void sw_picture_grey(unsigned char *pixels_in_place, int64_t pixels);

struct sw_jpeg; /* reused for many images */

int sw_jpeg_new(struct sw_jpeg **out, struct sw_err *err) SW_MUST_CHECK;
void sw_jpeg_free(struct sw_jpeg *j); /* NULL is accepted */
bool sw_jpeg_is(const void *data, size_t bytes);
int sw_jpeg_open(struct sw_jpeg *j, const void *data, size_t bytes, int64_t max_pixels,
                 struct sw_picture_head *out, struct sw_err *err) SW_MUST_CHECK;
void sw_jpeg_shrink(struct sw_jpeg *j, int64_t min_height, int64_t min_width, int64_t *height,
                    int64_t *width);
/* gray: one channel is requested. out->channels is 1 for a gray image in any case. */
int sw_jpeg_read(struct sw_jpeg *j, bool gray, struct sw_picture_part w, struct sw_room *room,
                 struct sw_pixels *out, struct sw_err *err) SW_MUST_CHECK;

struct sw_png; /* one image */

bool sw_png_is(const void *data, size_t bytes);
int sw_png_open(struct sw_png **out, const void *data, size_t bytes, int64_t max_pixels,
                struct sw_picture_head *head, struct sw_err *err) SW_MUST_CHECK;
void sw_png_close(struct sw_png *p); /* NULL is accepted */
int sw_png_read(struct sw_png *p, bool gray, struct sw_picture_part w, struct sw_room *room,
                struct sw_pixels *out, struct sw_err *err) SW_MUST_CHECK;
