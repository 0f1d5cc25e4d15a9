/* The image decoder with untrusted bytes: it must end in pixels or an error about the image, and
 * remain usable. Input: four bytes that choose a window, channels and the scale of a JPEG, then the
 * JPEG or PNG file. */
#include "base/os.h"
#include "data/picture.h"
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Larger images slow the fuzzer down. */
enum { MOST_PIXELS = 1 << 20 };

static unsigned look_at(const struct sw_pixels *p)
{
    const unsigned char *from = p->data;
    unsigned sum = 0;
    for (int64_t c = 0; c < p->channels; c++) {
        for (int64_t y = 0; y < p->height; y++)
            for (int64_t x = 0; x < p->width; x++)
                sum += from[c * p->channel_step + y * p->row_step + x * p->pixel_step];
    }
    return sum;
}

static int decode(struct sw_decoder *d, const uint8_t *data, size_t bytes, struct sw_err *err)
{
    const struct sw_picture picture = {.encoded = true, .data = data + 4, .bytes = bytes - 4};
    struct sw_picture_head head;
    struct sw_picture_part part;
    struct sw_pixels pixels;
    int64_t height, width;
    int rc = sw_decoder_open(d, &picture, &head, err);
    if (rc || head.height * head.width > MOST_PIXELS)
        return rc;
    sw_decoder_shrink(d, 1 + data[0] * head.height / 256, 1 + data[0] * head.width / 256, &height,
                      &width);
    part.height = 1 + data[1] * height / 256;
    part.width = 1 + data[1] * width / 256;
    part.top = data[2] * (height - part.height + 1) / 256;
    part.left = data[2] * (width - part.width + 1) / 256;
    rc = sw_decoder_read(d, data[3] % 4 == 2 ? 0 : data[3] % 4, part, &pixels, err);
    if (rc == SW_OK && (pixels.height != part.height || pixels.width != part.width ||
                        look_at(&pixels) > 255u * 4 * MOST_PIXELS))
        __builtin_trap();
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct sw_decoder *d = NULL;
    struct sw_err err = {0};
    if (bytes < 4 || sw_decoder_new(&d, NULL))
        return 0;
    for (int again = 0; again < 2; again++) {
        int rc = decode(d, data, bytes, &err);
        if (rc != SW_OK && rc != SW_ERR_FORMAT && rc != SW_ERR_UNSUPPORTED && rc != SW_ERR_NOMEM)
            __builtin_trap();
    }
    sw_decoder_free(d);
    return 0;
}
