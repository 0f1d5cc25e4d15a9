/* PNG decoding with libpng, row by row into the window; an interlaced image is first assembled in
 * memory. Every kind becomes gray or color of 8 bits: palettes and lower bit depths are expanded,
 * 16 bits are rounded, alpha is dropped. Errors of libpng jump back into the function of this file
 * that called it; its memory comes from sw_os(). */
#include "base/os.h"
#include "base/stop.h"
#include "data/picture_private.h"
#include <png.h>
#include <stdio.h>
#include <string.h>

enum {
    SIGNATURE_BYTES = 8,
    MAX_RATIO = 1032,            /* of deflate, by zlib's documentation */
    CHUNK_BYTES_MOST = 16 << 20, /* of text, color profiles and the like */
    CHUNKS_MOST = 1000
};

struct sw_png {
    png_structp png;
    png_infop info;
    const unsigned char *data; /* borrowed */
    size_t bytes, at;
    int64_t height, width, max_pixels;
    bool interlaced, has_color, no_memory;
    char text[200];
    struct sw_room row; /* one full row */
};

static void *take(png_structp png, png_alloc_size_t bytes)
{
    struct sw_png *p = png_get_mem_ptr(png);
    void *memory = sw_os()->alloc(bytes);

    if (!memory)
        p->no_memory = true;
    return memory;
}

static void give(png_structp png, void *p)
{
    sw_free(p);
}

static _Noreturn void on_error(png_structp png, const char *text)
{
    struct sw_png *p = png_get_error_ptr(png);
    snprintf(p->text, sizeof p->text, "%s", text);
    png_longjmp(png, 1);
}

/* The error behind a jump out of the library: the PNG is not reported as damaged if memory ran out
 * or the process was asked to stop. */
static int report(const struct sw_png *p, struct sw_err *err)
{
    int rc = sw_stop_check(err);
    if (rc)
        return rc;
    if (p->no_memory)
        return sw_err_nomem(err, "the state of libpng", 0);

    return sw_err_set(err, SW_ERR_FORMAT, "damaged PNG of %zu bytes: %s", p->bytes, p->text);
}

static void on_warning(png_structp png, const char *text)
{
}

static void feed(png_structp png, unsigned char *to, size_t bytes)
{
    struct sw_png *p = png_get_io_ptr(png);

    if (bytes > p->bytes - p->at)
        png_error(png, "the file is truncated");
    memcpy(to, p->data + p->at, bytes);
    p->at += bytes;
}

bool sw_png_is(const void *data, size_t bytes)
{
    return bytes > SIGNATURE_BYTES && !png_sig_cmp(data, 0, SIGNATURE_BYTES);
}

static int check_head(struct sw_png *p, struct sw_err *err)
{
    int rc = sw_picture_check_sides("PNG", p->height, p->width, p->max_pixels, err);
    const uint64_t inside = (uint64_t)p->height * png_get_rowbytes(p->png, p->info);

    if (!rc && inside / MAX_RATIO > p->bytes)
        rc = sw_err_set(err, SW_ERR_FORMAT,
                        "PNG header claims %lldx%lld pixels, more than its %zu bytes can hold",
                        (long long)p->height, (long long)p->width, p->bytes);

    return rc;
}

static void set_conversions(struct sw_png *p)
{
    png_set_palette_to_rgb(p->png);
    png_set_expand_gray_1_2_4_to_8(p->png);
    png_set_scale_16(p->png);
    png_set_strip_alpha(p->png);
    if (p->has_color)
        png_set_filler(p->png, 255, PNG_FILLER_AFTER);
    png_set_interlace_handling(p->png);
    png_read_update_info(p->png, p->info);
}

static int read_head(struct sw_png *p, struct sw_picture_head *out, struct sw_err *err)
{
    if (setjmp(png_jmpbuf(p->png)))
        return report(p, err);

    png_set_read_fn(p->png, p, feed);
    png_set_user_limits(p->png, SW_PICTURE_MAX_SIDE, SW_PICTURE_MAX_SIDE);
    png_set_chunk_malloc_max(p->png, CHUNK_BYTES_MOST);
    png_set_chunk_cache_max(p->png, CHUNKS_MOST);
    png_read_info(p->png, p->info);
    p->height = png_get_image_height(p->png, p->info);
    p->width = png_get_image_width(p->png, p->info);
    p->interlaced = png_get_interlace_type(p->png, p->info) != PNG_INTERLACE_NONE;

    const int type = png_get_color_type(p->png, p->info);
    p->has_color = type & PNG_COLOR_MASK_COLOR;

    const int64_t channels = type == PNG_COLOR_TYPE_PALETTE ? 3 : png_get_channels(p->png, p->info);
    *out = (struct sw_picture_head){"PNG", channels, p->height, p->width};

    int rc = check_head(p, err);
    if (!rc)
        set_conversions(p);

    return rc;
}

int sw_png_open(struct sw_png **out, const void *data, size_t bytes, int64_t max_pixels,
                struct sw_picture_head *head, struct sw_err *err)
{
    struct sw_png *p = sw_calloc(1, sizeof *p);
    if (!p)
        return sw_err_nomem(err, "the state of libpng", sizeof *p);

    p->data = data;
    p->bytes = bytes;
    p->max_pixels = max_pixels;

    int rc = SW_OK;
    p->png =
        png_create_read_struct_2(PNG_LIBPNG_VER_STRING, p, on_error, on_warning, p, take, give);
    p->info = p->png ? png_create_info_struct(p->png) : NULL;
    if (!p->info)
        rc = sw_err_nomem(err, "the state of libpng", 0);
    if (!rc)
        rc = read_head(p, head, err);

    if (rc)
        sw_png_close(p);
    else
        *out = p;

    return rc;
}

void sw_png_close(struct sw_png *p)
{
    if (!p)
        return;

    png_destroy_read_struct(&p->png, &p->info, NULL);
    sw_room_fini(&p->row);
    sw_free(p);
}

/* Reads one row; jumps out on a stop request (base/stop.h). */
static void read_row(struct sw_png *p, unsigned char *to)
{
    if (sw_stop_check(NULL) != SW_OK)
        png_longjmp(p->png, 1);
    png_read_row(p->png, to, NULL);
}

/* Reads all rows and copies those of the window. */
static void read_rows(struct sw_png *p, struct sw_picture_part w, int64_t step, unsigned char *to)
{
    for (int64_t y = 0; y < p->height; y++) {
        read_row(p, p->row.memory);

        if (y >= w.top && y < w.top + w.height) {
            memcpy(to, p->row.memory + w.left * step, (size_t)(w.width * step));
            to += w.width * step;
        }
    }
}

/* Decodes the whole image in seven passes, then moves the window to the front. */
static void read_interlaced(struct sw_png *p, struct sw_picture_part w, int64_t step,
                            unsigned char *to)
{
    const int passes = 7;
    const int64_t row_bytes = p->width * step;

    memset(to, 0, (size_t)(p->height * row_bytes));

    for (int pass = 0; pass < passes; pass++) {
        for (int64_t y = 0; y < p->height; y++)
            read_row(p, to + y * row_bytes);
    }

    for (int64_t y = 0; y < w.height; y++)
        memmove(to + y * w.width * step, to + (w.top + y) * row_bytes + w.left * step,
                (size_t)(w.width * step));
}

static int read_all(struct sw_png *p, struct sw_picture_part w, int64_t step, unsigned char *to,
                    struct sw_err *err)
{
    if (setjmp(png_jmpbuf(p->png)))
        return report(p, err);

    if (p->interlaced)
        read_interlaced(p, w, step, to);
    else
        read_rows(p, w, step, to);

    png_read_end(p->png, NULL);
    return SW_OK;
}

int sw_png_read(struct sw_png *p, bool gray, struct sw_picture_part w, struct sw_room *room,
                struct sw_pixels *out, struct sw_err *err)
{
    int64_t step = p->has_color ? 4 : 1;
    const int64_t pixels = p->interlaced ? p->height * p->width : w.height * w.width;
    const size_t row_bytes = png_get_rowbytes(p->png, p->info);
    if (row_bytes != (size_t)(p->width * step))
        return sw_err_set(err, SW_ERR_LIBRARY, "libpng: rows of %zu bytes, expected %lld",
                          row_bytes, (long long)(p->width * step));

    int rc = sw_room_need(room, (size_t)(pixels * step), "a decoded image", err);
    if (rc)
        return rc;
    rc = sw_room_need(&p->row, row_bytes, "an image row", err);
    if (rc)
        return rc;
    rc = read_all(p, w, step, room->memory, err);
    if (rc)
        return rc;

    if (gray && step == 4) {
        sw_picture_grey(room->memory, w.height * w.width);
        step = 1;
    }

    *out = (struct sw_pixels){SW_U8,          room->memory, step == 1 ? 1 : 3, w.height, w.width, 1,
                              w.width * step, step};
    return SW_OK;
}
