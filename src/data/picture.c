/* The decoder: raw pixels, JPEG (picture_jpeg.c) or PNG (picture_png.c), distinguished by their
 * first bytes; converts between one and three channels. One thread at a time. */
#include "data/picture.h"
#include "base/os.h"
#include "data/picture_private.h"

enum kind { KIND_NONE, KIND_PIXELS, KIND_JPEG, KIND_PNG };

struct sw_decoder {
    enum kind kind;
    struct sw_picture image; /* borrowed; the open image */
    struct sw_picture_head head;
    struct sw_jpeg *jpeg; /* owned */
    struct sw_png *png;   /* owned; NULL unless a PNG is open */
    struct sw_room room;  /* decoded pixels */
    int64_t max_pixels;
};

int sw_decoder_new(struct sw_decoder **out, struct sw_err *err)
{
    struct sw_decoder *d = sw_calloc(1, sizeof *d);
    if (!d)
        return sw_err_nomem(err, "an image decoder", sizeof *d);

    d->max_pixels = SW_PICTURE_MAX_PIXELS;

    int rc = sw_jpeg_new(&d->jpeg, err);
    if (rc) {
        sw_decoder_free(d);
        return rc;
    }

    *out = d;
    return SW_OK;
}

void sw_decoder_free(struct sw_decoder *d)
{
    if (!d)
        return;

    sw_jpeg_free(d->jpeg);
    sw_png_close(d->png);
    sw_room_fini(&d->room);
    sw_free(d);
}

void sw_decoder_limit(struct sw_decoder *d, int64_t max_pixels)
{
    d->max_pixels = max_pixels;
}

static int open_pixels(struct sw_decoder *d, struct sw_err *err)
{
    const struct sw_picture *p = &d->image;

    d->head = (struct sw_picture_head){"pixels", p->channels, p->height, p->width};

    int rc = sw_picture_check_sides("image", p->height, p->width, d->max_pixels, err);
    if (rc)
        return rc;

    if (p->channels < 1 ||
        (uint64_t)p->bytes / (uint64_t)(p->height * p->width) != (uint64_t)p->channels)
        rc = sw_err_set(
            err, SW_ERR_FORMAT,
            "image of %lldx%lldx%lld (channels x height x width) does not fit its %zu bytes",
            (long long)p->channels, (long long)p->height, (long long)p->width, p->bytes);

    return rc;
}

static int open_encoded(struct sw_decoder *d, struct sw_err *err)
{
    const struct sw_picture *p = &d->image;
    if (p->bytes > SW_PICTURE_MAX_BYTES)
        return sw_err_set(err, SW_ERR_FORMAT, "encoded image of %zu MiB; the limit is %d MiB",
                          p->bytes >> 20, SW_PICTURE_MAX_BYTES >> 20);
    if (sw_jpeg_is(p->data, p->bytes)) {
        d->kind = KIND_JPEG;
        return sw_jpeg_open(d->jpeg, p->data, p->bytes, d->max_pixels, &d->head, err);
    }
    if (sw_png_is(p->data, p->bytes)) {
        d->kind = KIND_PNG;
        return sw_png_open(&d->png, p->data, p->bytes, d->max_pixels, &d->head, err);
    }

    const unsigned char *b = p->data;
    if (p->bytes < 4)
        return sw_err_set(err, SW_ERR_FORMAT, "has only %zu bytes, expected a JPEG or PNG file",
                          p->bytes);

    return sw_err_set(
        err, SW_ERR_FORMAT,
        "begins with %02x %02x %02x %02x, expected a JPEG (ff d8 ff) or PNG (89 50 4e 47) file",
        b[0], b[1], b[2], b[3]);
}

int sw_decoder_open(struct sw_decoder *d, const struct sw_picture *p, struct sw_picture_head *out,
                    struct sw_err *err)
{
    sw_png_close(d->png);
    d->png = NULL;
    d->kind = KIND_PIXELS;
    d->image = *p;

    int rc = p->encoded ? open_encoded(d, err) : open_pixels(d, err);
    if (rc)
        d->kind = KIND_NONE;
    else
        *out = d->head;

    return rc;
}

void sw_decoder_shrink(struct sw_decoder *d, int64_t min_height, int64_t min_width, int64_t *height,
                       int64_t *width)
{
    *height = d->head.height;
    *width = d->head.width;
    if (d->kind == KIND_JPEG)
        sw_jpeg_shrink(d->jpeg, min_height, min_width, height, width);
}

/* Raw pixels are returned in place, unless three channels are converted to one. */
static int read_pixels(struct sw_decoder *d, bool gray, struct sw_picture_part w,
                       struct sw_pixels *out, struct sw_err *err)
{
    const struct sw_picture *p = &d->image;
    const int64_t plane = p->height * p->width;
    const unsigned char *first = (const unsigned char *)p->data + w.top * p->width + w.left;

    *out = (struct sw_pixels){SW_U8, first, p->channels, w.height, w.width, plane, p->width, 1};
    if (!gray || p->channels != 3)
        return SW_OK;

    int rc = sw_room_need(&d->room, 4 * (size_t)(w.height * w.width), "pixels", err);
    if (rc)
        return rc;

    unsigned char *to = d->room.memory;
    for (int64_t y = 0; y < w.height; y++) {
        for (int64_t x = 0; x < w.width; x++, to += 4) {
            for (int c = 0; c < 3; c++)
                to[c] = first[c * plane + y * p->width + x];
        }
    }

    sw_picture_grey(d->room.memory, w.height * w.width);
    *out = (struct sw_pixels){SW_U8, d->room.memory, 1, w.height, w.width, 0, w.width, 1};
    return SW_OK;
}

int sw_decoder_read(struct sw_decoder *d, int64_t channels, struct sw_picture_part w,
                    struct sw_pixels *out, struct sw_err *err)
{
    const bool gray = channels == 1;
    int rc = SW_OK;

    switch (d->kind) {
    case KIND_JPEG:
        rc = sw_jpeg_read(d->jpeg, gray, w, &d->room, out, err);
        break;
    case KIND_PNG:
        rc = sw_png_read(d->png, gray, w, &d->room, out, err);
        break;
    case KIND_PIXELS:
        rc = read_pixels(d, gray, w, out, err);
        break;
    case KIND_NONE:
        return sw_err_set(err, SW_ERR_INVALID, "no image is open");
    }

    if (rc || channels == 0 || out->channels == channels)
        return rc;
    if (out->channels != 1)
        return sw_err_set(err, SW_ERR_UNSUPPORTED,
                          "image of %lld channels cannot be converted to %lld",
                          (long long)out->channels, (long long)channels);

    /* All channels share the gray one. */
    out->channels = channels;
    out->channel_step = 0;
    return SW_OK;
}

int sw_picture_decode(struct sw_decoder *d, const struct sw_picture *p, int64_t channels,
                      struct sw_room *room, struct sw_picture *out, struct sw_err *err)
{
    struct sw_picture_head head;
    struct sw_pixels x = {0};

    int rc = sw_decoder_open(d, p, &head, err);
    if (rc)
        return rc;
    rc = sw_decoder_read(d, channels, (struct sw_picture_part){0, 0, head.height, head.width}, &x,
                         err);
    if (rc)
        return rc;

    const size_t bytes = (size_t)(x.channels * x.height * x.width);
    rc = sw_room_need(room, bytes, "a decoded image", err);
    if (rc)
        return rc;

    unsigned char *to = room->memory;
    for (int64_t c = 0; c < x.channels; c++) {
        for (int64_t y = 0; y < x.height; y++) {
            const unsigned char *from =
                (const unsigned char *)x.data + c * x.channel_step + y * x.row_step;
            for (int64_t i = 0; i < x.width; i++)
                *to++ = from[i * x.pixel_step];
        }
    }

    *out = (struct sw_picture){false, room->memory, bytes, x.channels, x.height, x.width};
    return SW_OK;
}
