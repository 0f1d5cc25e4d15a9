/* Helpers shared by both decoders: the limits of height and width, and the conversion from color to
 * gray. */
#include "data/picture_private.h"

int sw_picture_check_sides(const char *kind, int64_t height, int64_t width, int64_t max_pixels,
                           struct sw_err *err)
{
    if (height >= 1 && width >= 1 && height <= SW_PICTURE_MAX_SIDE &&
        width <= SW_PICTURE_MAX_SIDE && height * width <= max_pixels)
        return SW_OK;
    return sw_err_set(err, SW_ERR_FORMAT,
                      "%s of %lldx%lld (height x width); the limits are 1 to %d for each and "
                      "max_pixels = %lld pixels",
                      kind, (long long)height, (long long)width, SW_PICTURE_MAX_SIDE,
                      (long long)max_pixels);
}

void sw_picture_grey(unsigned char *p, int64_t pixels)
{
    for (int64_t i = 0; i < pixels; i++)
        p[i] = (unsigned char)((77 * p[4 * i] + 150 * p[4 * i + 1] + 29 * p[4 * i + 2] + 128) >> 8);
}
