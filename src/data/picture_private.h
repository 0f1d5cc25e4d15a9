/* What picture.c shares with the two libraries behind it: picture_jpeg.c holds libjpeg-turbo and
 * picture_png.c libpng. Each has the same three steps as the decoder. All bytes are checked by the
 * library; what is checked here is what the library would take on trust: sides against the limits,
 * and sides against the number of bytes that are there. Thread rule: as the decoder's. */
#pragma once

#include "data/picture.h"

/* picture_pixels.c. Checks sides against the limits. Errors: SW_ERR_FORMAT. */
int sw_picture_check_sides(const char *kind, int64_t height, int64_t width, int64_t max_pixels,
                           struct sw_err *err) SW_MUST_CHECK;

/* Turns `pixels` four-byte pixels of red, green, blue into bytes of grey, to the front of the same
 * memory: luma of ITU-R BT.601, as in JPEG. */
void sw_picture_grey(unsigned char *pixels_in_place, int64_t pixels);

struct sw_jpeg; /* kept from picture to picture */

int sw_jpeg_new(struct sw_jpeg **out, struct sw_err *err) SW_MUST_CHECK;
void sw_jpeg_free(struct sw_jpeg *j); /* NULL is accepted */
bool sw_jpeg_is(const void *data, size_t bytes);
int sw_jpeg_open(struct sw_jpeg *j, const void *data, size_t bytes, int64_t max_pixels,
                 struct sw_picture_head *out, struct sw_err *err) SW_MUST_CHECK;
void sw_jpeg_shrink(struct sw_jpeg *j, int64_t min_height, int64_t min_width, int64_t *height,
                    int64_t *width);
/* grey: one channel is wanted. out->channels is 1 for a grey picture, whatever is wanted. */
int sw_jpeg_read(struct sw_jpeg *j, bool grey, struct sw_picture_part w, struct sw_room *room,
                 struct sw_pixels *out, struct sw_err *err) SW_MUST_CHECK;

struct sw_png; /* of one picture */

bool sw_png_is(const void *data, size_t bytes);
int sw_png_open(struct sw_png **out, const void *data, size_t bytes, int64_t max_pixels,
                struct sw_picture_head *head, struct sw_err *err) SW_MUST_CHECK;
void sw_png_close(struct sw_png *p); /* NULL is accepted */
int sw_png_read(struct sw_png *p, bool grey, struct sw_picture_part w, struct sw_room *room,
                struct sw_pixels *out, struct sw_err *err) SW_MUST_CHECK;
