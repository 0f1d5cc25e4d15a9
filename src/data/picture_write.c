/* Encoding with libjpeg and libpng. As in the decoders, each library gets an error handler that
 * jumps back into the function of this file that called it, because the default one would end the
 * program. Rows are passed one by one. */
#include <stdio.h>

#include <jpeglib.h>

#include "base/os.h"
#include "data/picture_write.h"
#include <png.h>
#include <setjmp.h>
#include <string.h>

enum { FIRST_BYTES = 1 << 16 };

void sw_picture_bytes_fini(struct sw_picture_bytes *b)
{
    sw_free(b->data);
    *b = (struct sw_picture_bytes){0};
}

/* Reserves `more` bytes behind the content. */
static bool reserve(struct sw_picture_bytes *b, size_t more)
{
    size_t room = b->room ? b->room : FIRST_BYTES;

    while (room - b->count < more)
        room *= 2;
    if (room == b->room)
        return true;

    unsigned char *grown = sw_realloc_array(b->data, room, 1);
    if (!grown)
        return false;

    b->data = grown;
    b->room = room;
    return true;
}

/* Interleaves one row of planar channels. */
static void interleave_row(const struct sw_picture *p, int64_t y, unsigned char *row)
{
    const unsigned char *from = (const unsigned char *)p->data + y * p->width;

    for (int64_t c = 0; c < p->channels; c++, from += p->height * p->width) {
        for (int64_t x = 0; x < p->width; x++)
            row[x * p->channels + c] = from[x];
    }
}

static int new_row(const struct sw_picture *p, unsigned char **row, struct sw_err *err)
{
    const size_t bytes = (size_t)(p->channels * p->width);

    if (p->encoded || (p->channels != 1 && p->channels != 3))
        return sw_err_set(
            err, SW_ERR_UNSUPPORTED,
            "images of %lld channels cannot be written as JPEG or PNG; expected 1 or 3",
            (long long)p->channels);

    *row = sw_os()->alloc(bytes);
    return *row ? SW_OK : sw_err_nomem(err, "an image row", bytes);
}

/* ---- JPEG ---- */

struct writer {
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    struct jpeg_destination_mgr to;
    struct sw_picture_bytes *out;
    jmp_buf escape;
    unsigned char *row;
    bool no_memory;
    char text[JMSG_LENGTH_MAX];
};

static struct writer *of(j_common_ptr c)
{
    return (struct writer *)c->client_data;
}

static _Noreturn void leave(j_common_ptr c)
{
    struct writer *w = of(c);
    c->err->format_message(c, w->text);
    longjmp(w->escape, 1);
}

static void ignore_message(j_common_ptr c, int level)
{
}

static void more_room(struct writer *w)
{
    if (!reserve(w->out, FIRST_BYTES)) {
        w->no_memory = true;
        longjmp(w->escape, 1);
    }

    w->to.next_output_byte = w->out->data + w->out->count;
    w->to.free_in_buffer = w->out->room - w->out->count;
}

static void begin_output(j_compress_ptr c)
{
    more_room(of((j_common_ptr)c));
}

/* Called by the library when the free space is used up. */
static boolean flush_output(j_compress_ptr c)
{
    struct writer *w = of((j_common_ptr)c);
    w->out->count = w->out->room;
    more_room(w);
    return TRUE;
}

static void end_output(j_compress_ptr c)
{
    struct writer *w = of((j_common_ptr)c);
    w->out->count = w->out->room - w->to.free_in_buffer;
}

static void compress_rows(struct writer *w, const struct sw_picture *p, int quality)
{
    struct jpeg_compress_struct *c = &w->c;

    c->image_width = (JDIMENSION)p->width;
    c->image_height = (JDIMENSION)p->height;
    c->input_components = (int)p->channels;
    c->in_color_space = p->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(c);
    jpeg_set_quality(c, quality, TRUE);
    for (int i = 0; i < c->num_components; i++)
        c->comp_info[i].h_samp_factor = c->comp_info[i].v_samp_factor = 1;
    jpeg_start_compress(c, TRUE);

    for (int64_t y = 0; y < p->height; y++) {
        JSAMPROW rows[1] = {w->row};
        interleave_row(p, y, w->row);
        jpeg_write_scanlines(c, rows, 1);
    }

    jpeg_finish_compress(c);
}

int sw_picture_write_jpeg(const struct sw_picture *p, int quality, struct sw_picture_bytes *out,
                          struct sw_err *err)
{
    struct writer *w = sw_calloc(1, sizeof *w);
    if (!w)
        return sw_err_nomem(err, "the state of libjpeg", sizeof *w);

    int rc = new_row(p, &w->row, err);
    if (rc) {
        sw_free(w);
        return rc;
    }

    out->count = 0;
    w->out = out;
    w->c.err = jpeg_std_error(&w->errors);
    w->errors.error_exit = leave;
    w->errors.emit_message = ignore_message;

    w->c.client_data = w;
    if (setjmp(w->escape)) {
        rc = w->no_memory ? sw_err_nomem(err, "an encoded image", out->room)
                          : sw_err_set(err, SW_ERR_LIBRARY, "libjpeg: %s", w->text);
    } else {
        jpeg_create_compress(&w->c);
        w->to.init_destination = begin_output;
        w->to.empty_output_buffer = flush_output;
        w->to.term_destination = end_output;
        w->c.dest = &w->to;
        compress_rows(w, p, quality);
    }

    jpeg_destroy_compress(&w->c);
    sw_free(w->row);
    sw_free(w);

    return rc;
}

/* ---- PNG ---- */

struct png_writer {
    struct sw_picture_bytes *out;
    unsigned char *row;
    bool no_memory;
    char text[200];
};

static _Noreturn void png_leave(png_structp png, const char *text)
{
    struct png_writer *w = png_get_error_ptr(png);
    snprintf(w->text, sizeof w->text, "%s", text);
    png_longjmp(png, 1);
}

static void png_ignore_warning(png_structp png, const char *text)
{
}

static void png_put(png_structp png, unsigned char *bytes, size_t count)
{
    struct png_writer *w = png_get_io_ptr(png);

    if (!reserve(w->out, count)) {
        w->no_memory = true;
        png_error(png, "memory");
    }

    memcpy(w->out->data + w->out->count, bytes, count);
    w->out->count += count;
}

static void png_flush_nothing(png_structp png)
{
}

static void write_png_rows(png_structp png, png_infop info, const struct sw_picture *p,
                           unsigned char *row)
{
    png_set_IHDR(png, info, (png_uint_32)p->width, (png_uint_32)p->height, 8,
                 p->channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);

    for (int64_t y = 0; y < p->height; y++) {
        interleave_row(p, y, row);
        png_write_row(png, row);
    }

    png_write_end(png, NULL);
}

int sw_picture_write_png(const struct sw_picture *p, struct sw_picture_bytes *out,
                         struct sw_err *err)
{
    struct png_writer w = {.out = out};

    int rc = new_row(p, &w.row, err);
    if (rc)
        return rc;

    out->count = 0;

    png_structp png =
        png_create_write_struct(PNG_LIBPNG_VER_STRING, &w, png_leave, png_ignore_warning);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    if (!info) {
        rc = sw_err_nomem(err, "the state of libpng", 0);
    } else if (setjmp(png_jmpbuf(png))) {
        rc = w.no_memory ? sw_err_nomem(err, "an encoded image", out->room)
                         : sw_err_set(err, SW_ERR_LIBRARY, "libpng: %s", w.text);
    } else {
        png_set_write_fn(png, &w, png_put, png_flush_nothing);
        write_png_rows(png, info, p, w.row);
    }

    png_destroy_write_struct(&png, &info);
    sw_free(w.row);
    return rc;
}
