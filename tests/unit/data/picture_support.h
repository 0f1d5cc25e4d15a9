/* JPEG and PNG files that tests make for themselves. */
#pragma once

#include "data_support.h"

#include <jpeglib.h>

#include <png.h>

struct support_jpeg {
    int height, width, channels;   /* 1, 3, or 4 for CMYK */
    bool progressive, full_colour; /* full_colour: no subsampling */
};

/* A smooth color pattern with some texture, so that a shift by a pixel shows. */
static inline unsigned char support_pixel(int c, int y, int x)
{
    return (unsigned char)(128 + (x * 5 + y * 3 + c * 40 + (x * y) / 7) % 97 - (x % 16 == 3) * 20);
}

static inline unsigned char *support_rows(int height, int width, int channels)
{
    unsigned char *b = malloc((size_t)height * (size_t)width * (size_t)channels);
    assert_non_null(b);
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < width; x++) {
            for (int c = 0; c < channels; c++)
                b[(y * width + x) * channels + c] = support_pixel(c, y, x);
        }
    }
    return b;
}

/* The bytes of a JPEG file of these rows (or the pattern, when NULL); malloc's. */
static inline unsigned char *support_jpeg(struct support_jpeg how, const unsigned char *rows,
                                          size_t *bytes)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    unsigned char *out = NULL;
    unsigned long out_bytes = 0;
    unsigned char *own = rows ? NULL : support_rows(how.height, how.width, how.channels);
    c.err = jpeg_std_error(&errors);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &out, &out_bytes);
    c.image_height = (JDIMENSION)how.height;
    c.image_width = (JDIMENSION)how.width;
    c.input_components = how.channels;
    c.in_color_space = how.channels == 1 ? JCS_GRAYSCALE : how.channels == 3 ? JCS_RGB : JCS_CMYK;
    jpeg_set_defaults(&c);
    jpeg_set_quality(&c, 92, TRUE);
    if (how.full_colour)
        c.comp_info[0].h_samp_factor = c.comp_info[0].v_samp_factor = 1;
    if (how.progressive)
        jpeg_simple_progression(&c);
    jpeg_start_compress(&c, TRUE);
    while (c.next_scanline < c.image_height) {
        const unsigned char *from = rows ? rows : own;
        JSAMPROW row = (JSAMPROW)(uintptr_t)(from + (size_t)c.next_scanline *
                                                        (size_t)(how.width * how.channels));
        jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    free(own);
    *bytes = out_bytes;
    return out;
}

struct support_png {
    int height, width, type, depth; /* type: PNG_COLOR_TYPE_... */
    bool interlaced;
};

struct support_sink {
    unsigned char *data;
    size_t bytes;
};

static inline void support_sink_write(png_structp png, png_bytep from, size_t n)
{
    struct support_sink *s = png_get_io_ptr(png);
    s->data = realloc(s->data, s->bytes + n);
    assert_non_null(s->data);
    memcpy(s->data + s->bytes, from, n);
    s->bytes += n;
}

static inline void support_sink_flush(png_structp png)
{
}

/* The bytes of a PNG file whose packed rows are given. A palette entry i is (i, 255 - i, 7). */
static inline unsigned char *support_png(struct support_png how, const unsigned char *rows,
                                         size_t *bytes)
{
    struct support_sink sink = {0};
    png_color palette[256];
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    if (setjmp(png_jmpbuf(png)))
        fail_msg("libpng cannot write a test image");
    png_set_write_fn(png, &sink, support_sink_write, support_sink_flush);
    png_set_IHDR(png, info, (png_uint_32)how.width, (png_uint_32)how.height, how.depth, how.type,
                 how.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    for (int i = 0; i < 256; i++)
        palette[i] = (png_color){(png_byte)i, (png_byte)(255 - i), 7};
    if (how.type == PNG_COLOR_TYPE_PALETTE)
        png_set_PLTE(png, info, palette, 1 << how.depth);
    png_write_info(png, info);
    const size_t row_bytes = png_get_rowbytes(png, info);
    const int passes = png_set_interlace_handling(png);
    for (int pass = 0; pass < passes; pass++) {
        for (int y = 0; y < how.height; y++)
            png_write_row(png, rows + (size_t)y * row_bytes);
    }
    png_write_end(png, NULL);
    png_destroy_write_struct(&png, &info);
    *bytes = sink.bytes;
    return sink.data;
}
