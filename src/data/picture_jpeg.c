/* JPEG decoding with libjpeg-turbo. Its default error handler would call exit(); the one here
 * stores the message and jumps back into the function of this file that called the library. Damage
 * that the library only warns about (it would fill in gray) is an error; warnings that do not
 * affect pixels (stray bytes between segments, odd version numbers) are ignored.
 *
 * A window is decoded with jpeg_crop_scanline and jpeg_skip_scanlines: outside of it only the
 * entropy code is read, so a crop costs less than the whole image. The crop is one block wider on
 * both sides, because the color upsampling of the library reads neighbors. */
#include <stdio.h>

#include <jpeglib.h>

#include <jerror.h>

#include "base/os.h"
#include "base/stop.h"
#include "data/picture_private.h"
#include <setjmp.h>
#include <string.h>

enum {
    MAX_SCANS = 100, /* of a progressive file; encoders write about ten */
    /* Each block of 8x8 pixels takes at least one bit in a Huffman-coded file. */
    MAX_PIXELS_PER_BYTE = 512
};

struct sw_jpeg {
    struct jpeg_decompress_struct c;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf escape;
    int code; /* of the message */
    char text[JMSG_LENGTH_MAX];
    size_t bytes;
    int64_t max_pixels;
};

static struct sw_jpeg *of(j_common_ptr c)
{
    return (struct sw_jpeg *)c->client_data;
}

static _Noreturn void leave(j_common_ptr c)
{
    struct sw_jpeg *j = of(c);
    j->errors.format_message(c, j->text);
    j->code = j->errors.msg_code;
    longjmp(j->escape, 1);
}

static void on_message(j_common_ptr c, int level)
{
    if (level >= 0)
        return; /* a trace */

    switch (c->err->msg_code) {
    case JWRN_ADOBE_XFORM:
    case JWRN_BOGUS_PROGRESSION:
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_JFIF_MAJOR:
    case JWRN_TOO_MUCH_DATA:
        return;
    default:
        leave(c);
    }
}

static void no_output(j_common_ptr c)
{
}

/* Called for every row. Stops the decoding on a stop request (which report() detects again) and
 * limits the work: a small file can request thousands of passes over a large image. */
static void on_progress(j_common_ptr c)
{
    struct sw_jpeg *j = of(c);

    if (sw_stop_check(NULL) != SW_OK)
        longjmp(j->escape, 1);

    const int scans = j->c.input_scan_number;
    const int64_t pixels = (int64_t)j->c.image_height * j->c.image_width;
    if (scans <= MAX_SCANS && pixels <= SW_PICTURE_MAX_PASSES * j->max_pixels / (scans ? scans : 1))
        return;

    snprintf(
        j->text, sizeof j->text,
        "%d scans of %lld pixels; the limits are %d scans, and %d times max_pixels = %lld pixels "
        "in all scans",
        scans, (long long)pixels, MAX_SCANS, SW_PICTURE_MAX_PASSES, (long long)j->max_pixels);
    j->code = 0;
    longjmp(j->escape, 1);
}

static int report(struct sw_jpeg *j, struct sw_err *err)
{
    jpeg_abort_decompress(&j->c);

    int rc = sw_stop_check(err);
    if (rc)
        return rc;

    switch (j->code) {
    case JERR_OUT_OF_MEMORY:
        return sw_err_nomem(err, "the state of libjpeg", 0);
    case JERR_ARITH_NOTIMPL:
    case JERR_BAD_PRECISION:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_NOT_COMPILED:
    case JERR_SOF_UNSUPPORTED:
        return sw_err_set(err, SW_ERR_UNSUPPORTED, "unsupported JPEG: %s", j->text);
    default:
        return sw_err_set(err, SW_ERR_FORMAT, "damaged JPEG of %zu bytes: %s", j->bytes, j->text);
    }
}

int sw_jpeg_new(struct sw_jpeg **out, struct sw_err *err)
{
    struct sw_jpeg *j = sw_calloc(1, sizeof *j);
    if (!j)
        return sw_err_nomem(err, "the state of libjpeg", sizeof *j);

    j->c.err = jpeg_std_error(&j->errors);
    j->errors.error_exit = leave;
    j->errors.emit_message = on_message;
    j->errors.output_message = no_output;

    j->c.client_data = j;
    if (setjmp(j->escape)) {
        int rc = sw_err_set(err, SW_ERR_LIBRARY, "cannot initialize libjpeg: %s", j->text);
        sw_free(j);
        return rc;
    }

    jpeg_create_decompress(&j->c);
    j->progress.progress_monitor = on_progress;
    j->c.progress = &j->progress;
    *out = j;

    return SW_OK;
}

void sw_jpeg_free(struct sw_jpeg *j)
{
    if (!j)
        return;
    jpeg_destroy_decompress(&j->c);
    sw_free(j);
}

bool sw_jpeg_is(const void *data, size_t bytes)
{
    return bytes >= 4 && !memcmp(data, "\xff\xd8\xff", 3);
}

/* Checks the header against the limits and the size of the file. */
static int check_head(struct sw_jpeg *j, struct sw_err *err)
{
    const int64_t height = j->c.image_height, width = j->c.image_width;

    int rc = sw_picture_check_sides("JPEG", height, width, j->max_pixels, err);
    if (rc)
        return rc;

    if (!j->c.arith_code && height * width / MAX_PIXELS_PER_BYTE > (int64_t)j->bytes)
        rc = sw_err_set(err, SW_ERR_FORMAT,
                        "JPEG header claims %lldx%lld pixels, more than its %zu bytes can hold",
                        (long long)height, (long long)width, j->bytes);

    if (rc)
        return rc;

    if (j->c.jpeg_color_space == JCS_UNKNOWN)
        rc = sw_err_set(err, SW_ERR_UNSUPPORTED,
                        "JPEG with %d color components; only gray, color and CMYK are supported",
                        j->c.num_components);

    return rc;
}

int sw_jpeg_open(struct sw_jpeg *j, const void *data, size_t bytes, int64_t max_pixels,
                 struct sw_picture_head *out, struct sw_err *err)
{
    j->bytes = bytes;
    j->max_pixels = max_pixels;
    jpeg_abort_decompress(&j->c);
    if (setjmp(j->escape))
        return report(j, err);

    jpeg_mem_src(&j->c, data, (unsigned long)bytes);
    jpeg_read_header(&j->c, TRUE);

    int rc = check_head(j, err);
    if (rc) {
        jpeg_abort_decompress(&j->c);
        return rc;
    }

    *out =
        (struct sw_picture_head){"JPEG", j->c.num_components, j->c.image_height, j->c.image_width};
    return SW_OK;
}

void sw_jpeg_shrink(struct sw_jpeg *j, int64_t min_height, int64_t min_width, int64_t *height,
                    int64_t *width)
{
    j->c.scale_num = j->c.scale_denom = 1;
    for (unsigned scale = 2; scale <= 8; scale *= 2) {
        /* The library rounds up as well. */
        const int64_t h = (j->c.image_height + scale - 1) / scale;
        const int64_t w = (j->c.image_width + scale - 1) / scale;
        if (h < min_height || w < min_width)
            return;

        j->c.scale_denom = scale;
        *height = h;
        *width = w;
    }
}

/* Converts in place, four bytes to four bytes. Files of Adobe programs store 255 - ink. */
static void cmyk_to_rgb(unsigned char *p, int64_t pixels, bool inverted)
{
    const int flip = inverted ? 0 : 255;

    for (int64_t i = 0; i < pixels; i++, p += 4) {
        for (int c = 0; c < 3; c++)
            p[c] = (unsigned char)(((p[c] ^ flip) * (p[3] ^ flip) + 127) / 255);
    }
}

/* Sets the output color space; true if the library can only output CMYK. */
static bool choose_output(struct sw_jpeg *j, bool gray)
{
    const J_COLOR_SPACE in = j->c.jpeg_color_space;
    const bool cmyk = in == JCS_CMYK || in == JCS_YCCK;
    const bool one = !cmyk && (gray || in == JCS_GRAYSCALE);

    j->c.out_color_space = cmyk ? JCS_CMYK : one ? JCS_GRAYSCALE : JCS_EXT_RGBX;
    return cmyk;
}

/* Crops the columns; returns the offset of the window in the remaining columns. */
static int64_t cut_columns(struct sw_jpeg *j, struct sw_picture_part w)
{
    const int64_t margin = (int64_t)j->c.max_h_samp_factor * j->c.min_DCT_scaled_size;
    const int64_t left = w.left > margin ? w.left - margin : 0;
    int64_t right = w.left + w.width + margin;

    if (right > (int64_t)j->c.output_width)
        right = j->c.output_width;

    JDIMENSION first = (JDIMENSION)left, columns = (JDIMENSION)(right - left);
    if (columns == j->c.output_width)
        return w.left;

    jpeg_crop_scanline(&j->c, &first, &columns);
    return w.left - (int64_t)first;
}

/* Decodes the rows of the window into `to` and reads the entropy code of all other rows. */
static void read_rows(struct sw_jpeg *j, struct sw_picture_part w, unsigned char *to,
                      int64_t row_bytes)
{
    if (w.top > 0)
        jpeg_skip_scanlines(&j->c, (JDIMENSION)w.top);

    for (int64_t y = 0; y < w.height;) {
        JSAMPROW row = to + y * row_bytes;
        y += jpeg_read_scanlines(&j->c, &row, 1);
    }

    /* Skipping up to the end would not read the skipped data, so the last row is decoded into the
     * spare row behind the window. */
    const JDIMENSION left = j->c.output_height - j->c.output_scanline;
    if (left > 1)
        jpeg_skip_scanlines(&j->c, left - 1);

    if (left > 0) {
        JSAMPROW row = to + w.height * row_bytes;
        jpeg_read_scanlines(&j->c, &row, 1);
    }

    jpeg_finish_decompress(&j->c);
}

int sw_jpeg_read(struct sw_jpeg *j, bool gray, struct sw_picture_part w, struct sw_room *room,
                 struct sw_pixels *out, struct sw_err *err)
{
    const bool cmyk = choose_output(j, gray);
    if (setjmp(j->escape))
        return report(j, err);

    jpeg_start_decompress(&j->c);

    const int64_t left = cut_columns(j, w);
    int64_t step = j->c.output_components, row_bytes = step * (int64_t)j->c.output_width;
    int rc = sw_room_need(room, (size_t)((w.height + 1) * row_bytes), "a decoded image", err);
    if (rc) {
        jpeg_abort_decompress(&j->c);
        return rc;
    }

    read_rows(j, w, room->memory, row_bytes);

    const int64_t pixels = w.height * (row_bytes / step);
    if (cmyk)
        cmyk_to_rgb(room->memory, pixels, j->c.saw_Adobe_marker);

    if (cmyk && gray) {
        sw_picture_grey(room->memory, pixels);
        row_bytes /= 4;
        step = 1;
    }

    *out = (struct sw_pixels){
        SW_U8, room->memory + left * step, step == 1 ? 1 : 3, w.height, w.width, 1, row_bytes,
        step};
    return SW_OK;
}
