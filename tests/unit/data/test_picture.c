/* Decoding images: windows, scaling and channels, compared with the whole image as libjpeg and
 * libpng decode it, and files that are damaged, truncated or inconsistent. */
#include "picture_support.h"

#include "data/picture.h"
#include <math.h>

static struct sw_decoder *new_decoder(void)
{
    struct sw_decoder *d = NULL;
    struct sw_err err = {0};
    ASSERT_OK(sw_decoder_new(&d, &err));
    return d;
}

static int open_bytes(struct sw_decoder *d, const void *data, size_t bytes,
                      struct sw_picture_head *head, struct sw_err *err)
{
    const struct sw_picture p = {.encoded = true, .data = data, .bytes = bytes};
    return sw_decoder_open(d, &p, head, err);
}

static int decode_bytes(const void *data, size_t bytes, struct sw_err *err)
{
    struct sw_decoder *d = new_decoder();
    struct sw_room room = {0};
    struct sw_picture out;
    const struct sw_picture p = {.encoded = true, .data = data, .bytes = bytes};
    memset(err, 0, sizeof *err);
    int rc = sw_picture_decode(d, &p, 3, &room, &out, err);
    sw_room_fini(&room);
    sw_decoder_free(d);
    return rc;
}

static unsigned char at(const struct sw_pixels *p, int64_t c, int64_t y, int64_t x)
{
    const unsigned char *data = p->data;
    return data[c * p->channel_step + y * p->row_step + x * p->pixel_step];
}

/* ---- JPEG ---- */

/* The whole image as libjpeg decodes it at 1/scale: packed rows of 1 or 3 channels; malloc's. */
static unsigned char *by_libjpeg(const unsigned char *data, size_t bytes, int scale, bool grey,
                                 int *height, int *width)
{
    struct jpeg_decompress_struct c;
    struct jpeg_error_mgr errors;
    c.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&c);
    jpeg_mem_src(&c, data, (unsigned long)bytes);
    jpeg_read_header(&c, TRUE);
    c.out_color_space = grey ? JCS_GRAYSCALE : JCS_RGB;
    c.scale_denom = (unsigned)scale;
    jpeg_start_decompress(&c);
    *height = (int)c.output_height;
    *width = (int)c.output_width;
    const size_t row_bytes = (size_t)c.output_width * (size_t)c.output_components;
    unsigned char *rows = malloc((size_t)c.output_height * row_bytes);
    assert_non_null(rows);
    while (c.output_scanline < c.output_height) {
        JSAMPROW row = rows + c.output_scanline * row_bytes;
        jpeg_read_scanlines(&c, &row, 1);
    }
    jpeg_finish_decompress(&c);
    jpeg_destroy_decompress(&c);
    return rows;
}

static void assert_window(struct sw_decoder *d, const unsigned char *data, size_t bytes, int scale,
                          int channels, struct sw_picture_part w, const unsigned char *rows,
                          int height, int width)
{
    struct sw_picture_head head;
    struct sw_pixels p;
    struct sw_err err = {0};
    int64_t h, x_sides;
    ASSERT_OK(open_bytes(d, data, bytes, &head, &err));
    sw_decoder_shrink(d, (head.height + scale - 1) / scale, (head.width + scale - 1) / scale, &h,
                      &x_sides);
    assert_int_equal(h, height);
    assert_int_equal(x_sides, width);
    ASSERT_OK(sw_decoder_read(d, channels, w, &p, &err));
    assert_int_equal(p.channels, channels);
    assert_int_equal(p.height, w.height);
    assert_int_equal(p.width, w.width);
    for (int c = 0; c < channels; c++) {
        for (int64_t y = 0; y < w.height; y++) {
            for (int64_t x = 0; x < w.width; x++)
                if (at(&p, c, y, x) != rows[((w.top + y) * width + w.left + x) * channels + c])
                    fail_msg("scale %d, window %lldx%lld at %lld,%lld: pixel %d,%lld,%lld is %d, "
                             "expected %d",
                             scale, (long long)w.height, (long long)w.width, (long long)w.top,
                             (long long)w.left, c, (long long)y, (long long)x, at(&p, c, y, x),
                             rows[((w.top + y) * width + w.left + x) * channels + c]);
        }
    }
}

static void a_jpeg_window_equals_the_crop_of_the_whole(void **state)
{
    static const struct support_jpeg how[] = {
        {97, 131, 3, false, false}, {97, 131, 3, true, false}, {64, 200, 3, false, true},
        {75, 50, 1, false, false},  {33, 17, 1, true, false},  {300, 211, 3, false, false},
    };
    struct sw_decoder *d = new_decoder();
    uint32_t random = 12345;
    for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
        size_t bytes;
        unsigned char *data = support_jpeg(how[i], NULL, &bytes);
        for (int scale = 1; scale <= 8; scale *= 2) {
            for (int grey = how[i].channels == 1; grey < 2; grey++) {
                int height, width;
                unsigned char *rows = by_libjpeg(data, bytes, scale, grey, &height, &width);
                for (int k = 0; k < 20; k++) {
                    int n[4];
                    for (int m = 0; m < 4; m++)
                        n[m] = (int)((random = random * 1664525u + 1013904223u) >> 16);
                    struct sw_picture_part w = {.height = 1 + n[0] % height,
                                                .width = 1 + n[1] % width};
                    w.top = n[2] % (height - w.height + 1);
                    w.left = n[3] % (width - w.width + 1);
                    if (k == 0)
                        w = (struct sw_picture_part){0, 0, height, width};
                    assert_window(d, data, bytes, scale, grey ? 1 : 3, w, rows, height, width);
                }
                free(rows);
            }
        }
        free(data);
    }
    sw_decoder_free(d);
}

static void a_cmyk_jpeg_becomes_color_and_gray(void **state)
{
    /* libjpeg writes an Adobe marker and takes the values as they come: 255 - ink. */
    unsigned char rows[16 * 16 * 4];
    size_t bytes;
    struct sw_decoder *d = new_decoder();
    struct sw_room room = {0};
    struct sw_picture out;
    struct sw_err err = {0};
    for (int i = 0; i < 256; i++)
        memcpy(rows + 4 * i, (const unsigned char[]){200, 100, 50, 128}, 4);
    unsigned char *data =
        support_jpeg((struct support_jpeg){16, 16, 4, false, false}, rows, &bytes);
    const struct sw_picture p = {.encoded = true, .data = data, .bytes = bytes};
    ASSERT_OK(sw_picture_decode(d, &p, 3, &room, &out, &err));
    static const int want[3] = {100, 50, 25}; /* times 128 / 255 */
    for (int i = 0; i < 3 * 256; i++)
        assert_in_range(room.memory[i] + 4, want[i / 256] + 1, want[i / 256] + 7);
    ASSERT_OK(sw_picture_decode(d, &p, 1, &room, &out, &err));
    assert_int_equal(out.bytes, 256);
    const int grey = (77 * 100 + 150 * 50 + 29 * 25) / 256;
    for (int i = 0; i < 256; i++)
        assert_in_range(room.memory[i] + 4, grey + 1, grey + 7);
    free(data);
    sw_room_fini(&room);
    sw_decoder_free(d);
}

/* Cut in its entropy code, even where a window above the cut is all that is read. */
static void a_truncated_jpeg_is_an_error(void **state)
{
    size_t bytes;
    struct sw_err err;
    for (int progressive = 0; progressive < 2; progressive++) {
        unsigned char *data =
            support_jpeg((struct support_jpeg){120, 160, 3, progressive, false}, NULL, &bytes);
        assert_int_equal(decode_bytes(data, bytes, &err), SW_OK);
        for (size_t cut = 1; cut < bytes; cut += 1 + bytes / 40) {
            assert_int_equal(decode_bytes(data, bytes - cut, &err), SW_ERR_FORMAT);
            struct sw_decoder *d = new_decoder();
            struct sw_picture_head head;
            struct sw_pixels p;
            const struct sw_picture_part top = {0, 0, 8, 8};
            if (open_bytes(d, data, bytes - cut, &head, &err) == SW_OK)
                assert_int_equal(sw_decoder_read(d, 3, top, &p, &err), SW_ERR_FORMAT);
            sw_decoder_free(d);
        }
        free(data);
    }
}

/* Where the frame header (SOF0 or SOF2) of a JPEG file is. */
static unsigned char *frame_of(unsigned char *data, size_t bytes)
{
    for (size_t i = 0; i + 9 < bytes; i++) {
        if (data[i] == 0xff && (data[i + 1] == 0xc0 || data[i + 1] == 0xc2))
            return data + i;
    }
    fail_msg("no frame header");
    return NULL;
}

/* A gray image in 64 scans: the mean of each block, then one for each of its frequencies. */
static unsigned char *jpeg_of_64_scans(int side, size_t *bytes)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    static jpeg_scan_info scans[64];
    unsigned char *out = NULL, *row = calloc(1, (size_t)side);
    unsigned long out_bytes = 0;
    c.err = jpeg_std_error(&errors);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &out, &out_bytes);
    c.image_height = c.image_width = (JDIMENSION)side;
    c.input_components = 1;
    c.in_color_space = JCS_GRAYSCALE;
    jpeg_set_defaults(&c);
    for (int i = 0; i < 64; i++)
        scans[i] = (jpeg_scan_info){.comps_in_scan = 1, .Ss = i, .Se = i};
    c.scan_info = scans;
    c.num_scans = 64;
    jpeg_start_compress(&c, TRUE);
    for (int y = 0; y < side; y++)
        jpeg_write_scanlines(&c, &row, 1);
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    free(row);
    *bytes = out_bytes;
    return out;
}

/* Decodes with a limit of pixels. */
static int decode_within(const void *data, size_t bytes, int64_t max_pixels, struct sw_err *err)
{
    struct sw_decoder *d = new_decoder();
    struct sw_room room = {0};
    struct sw_picture out;
    const struct sw_picture p = {.encoded = true, .data = data, .bytes = bytes};
    sw_decoder_limit(d, max_pixels);
    int rc = sw_picture_decode(d, &p, 1, &room, &out, err);
    sw_room_fini(&room);
    sw_decoder_free(d);
    return rc;
}

static void a_limit_of_pixels_bounds_size_and_scans(void **state)
{
    enum { SIDE = 40, PIXELS = SIDE * SIDE };
    struct sw_err err = {0};
    size_t bytes;
    unsigned char *data = jpeg_of_64_scans(SIDE, &bytes);
    ASSERT_OK(decode_within(data, bytes, SW_PICTURE_MAX_PIXELS, &err));
    ASSERT_OK(decode_within(data, bytes, 4 * PIXELS, &err)); /* 80 passes over that many */
    assert_int_equal(decode_within(data, bytes, PIXELS, &err), SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "21 scans of 1600 pixels; the limits are 100 scans, and 20 times "
                              "max_pixels = 1600 pixels in all scans");
    assert_int_equal(decode_within(data, bytes, PIXELS - 1, &err), SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "the limits are 1 to 65535 for each and max_pixels = 1599 pixels");
    free(data);
}

static void a_jpeg_with_a_false_size_is_refused(void **state)
{
    static const struct {
        int height, width;
        const char *part;
    } lies[] = {
        {65500, 65500, "the limits are 1 to 65535 for each and max_pixels = 100000000 pixels"},
        {9000, 11000, "more than its"}, /* 99 million pixels in some kilobytes */
        {1000, 130, "damaged JPEG"},
        {0, 130, "damaged JPEG"},
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        size_t bytes;
        struct sw_err err;
        unsigned char *data =
            support_jpeg((struct support_jpeg){120, 130, 3, i % 2, false}, NULL, &bytes);
        unsigned char *frame = frame_of(data, bytes);
        frame[5] = (unsigned char)(lies[i].height >> 8);
        frame[6] = (unsigned char)lies[i].height;
        frame[7] = (unsigned char)(lies[i].width >> 8);
        frame[8] = (unsigned char)lies[i].width;
        assert_int_equal(decode_bytes(data, bytes, &err), SW_ERR_FORMAT);
        ASSERT_CONTAINS(err.text, lies[i].part);
        free(data);
    }
}

static void an_unsupported_kind_of_jpeg_is_named(void **state)
{
    size_t bytes;
    struct sw_err err;
    unsigned char *data =
        support_jpeg((struct support_jpeg){16, 16, 3, false, false}, NULL, &bytes);
    frame_of(data, bytes)[4] = 12; /* bits a sample */
    assert_int_equal(decode_bytes(data, bytes, &err), SW_ERR_UNSUPPORTED);
    ASSERT_CONTAINS(err.text, "unsupported JPEG: ");
    free(data);
}

/* Bytes that are changed at random give pixels or an error, and the decoder goes on working. */
static void random_damage_never_crashes(void **state)
{
    size_t bytes[3];
    unsigned char *whole[3], *rows = support_rows(40, 48, 3);
    struct sw_decoder *d = new_decoder();
    struct sw_room room = {0};
    struct sw_picture out;
    struct sw_err err = {0};
    uint32_t random = 99;
    int64_t good = 0, bad = 0;
    whole[0] = support_jpeg((struct support_jpeg){40, 48, 3, false, false}, NULL, &bytes[0]);
    whole[1] = support_jpeg((struct support_jpeg){40, 48, 3, true, true}, NULL, &bytes[1]);
    whole[2] =
        support_png((struct support_png){40, 48, PNG_COLOR_TYPE_RGB, 8, true}, rows, &bytes[2]);
    for (int k = 0; k < 3000; k++) {
        const int which = k % 3;
        unsigned char *data = malloc(bytes[which]);
        assert_non_null(data);
        memcpy(data, whole[which], bytes[which]);
        for (int n = 0; n < 1 + k % 5; n++) {
            random = random * 1664525u + 1013904223u;
            data[random % bytes[which]] ^= (unsigned char)(1 << (random >> 24) % 8);
        }
        const struct sw_picture p = {.encoded = true, .data = data, .bytes = bytes[which]};
        int rc = sw_picture_decode(d, &p, 3, &room, &out, &err);
        assert_true(rc == SW_OK || rc == SW_ERR_FORMAT || rc == SW_ERR_UNSUPPORTED);
        good += rc == SW_OK;
        bad += rc != SW_OK;
        free(data);
        const struct sw_picture sound = {
            .encoded = true, .data = whole[which], .bytes = bytes[which]};
        ASSERT_OK(sw_picture_decode(d, &sound, 3, &room, &out, &err));
    }
    assert_true(good > 100 && bad > 100);
    for (int i = 0; i < 3; i++)
        free(whole[i]);
    free(rows);
    sw_room_fini(&room);
    sw_decoder_free(d);
}

/* ---- PNG ---- */

enum { PH = 13, PW = 21 };

/* A row's bits, packed as PNG has them: value v(i) of `bits` bits for each of PW * channels. */
static unsigned value_at(int y, int i, int bits)
{
    return (unsigned)(y * 7 + i * 3 + i * i % 5) & ((1u << bits) - 1);
}

static unsigned char *packed_rows(int channels, int bits, size_t *row_bytes)
{
    *row_bytes = ((size_t)(PW * channels * bits) + 7) / 8;
    unsigned char *rows = calloc(PH, *row_bytes);
    assert_non_null(rows);
    for (int y = 0; y < PH; y++) {
        for (int i = 0; i < PW * channels; i++) {
            const unsigned v = value_at(y, i, bits > 8 ? 8 : bits);
            unsigned char *row = rows + (size_t)y * *row_bytes;
            if (bits == 16)
                row[2 * i] = row[2 * i + 1] = (unsigned char)v; /* v * 257 */
            else
                row[i * bits / 8] |= (unsigned char)(v << (8 - bits - i * bits % 8));
        }
    }
    return rows;
}

/* Channel c of the image that packed_rows makes. */
static int expected(int type, int bits, int y, int x, int c)
{
    const int b = bits > 8 ? 8 : bits, most = (1 << b) - 1;
    switch (type) {
    case PNG_COLOR_TYPE_GRAY:
        return (int)value_at(y, x, b) * 255 / most;
    case PNG_COLOR_TYPE_GRAY_ALPHA:
        return (int)value_at(y, 2 * x, b);
    case PNG_COLOR_TYPE_PALETTE: {
        const int i = (int)value_at(y, x, b);
        return c == 0 ? i : c == 1 ? 255 - i : 7;
    }
    case PNG_COLOR_TYPE_RGB:
        return (int)value_at(y, 3 * x + c, b);
    default:
        return (int)value_at(y, 4 * x + c, b);
    }
}

static void every_kind_of_png_becomes_color_or_gray(void **state)
{
    static const struct {
        int type, bits, channels;
    } kinds[] = {
        {PNG_COLOR_TYPE_GRAY, 1, 1},       {PNG_COLOR_TYPE_GRAY, 2, 1},
        {PNG_COLOR_TYPE_GRAY, 4, 1},       {PNG_COLOR_TYPE_GRAY, 8, 1},
        {PNG_COLOR_TYPE_GRAY, 16, 1},      {PNG_COLOR_TYPE_PALETTE, 1, 1},
        {PNG_COLOR_TYPE_PALETTE, 4, 1},    {PNG_COLOR_TYPE_PALETTE, 8, 1},
        {PNG_COLOR_TYPE_GRAY_ALPHA, 8, 2}, {PNG_COLOR_TYPE_GRAY_ALPHA, 16, 2},
        {PNG_COLOR_TYPE_RGB, 8, 3},        {PNG_COLOR_TYPE_RGB, 16, 3},
        {PNG_COLOR_TYPE_RGB_ALPHA, 8, 4},  {PNG_COLOR_TYPE_RGB_ALPHA, 16, 4},
    };
    struct sw_decoder *d = new_decoder();
    for (size_t k = 0; k < 2 * sizeof kinds / sizeof *kinds; k++) {
        const int type = kinds[k / 2].type, bits = kinds[k / 2].bits;
        size_t row_bytes, bytes;
        struct sw_picture_head head;
        struct sw_err err = {0};
        unsigned char *rows = packed_rows(kinds[k / 2].channels, bits, &row_bytes);
        unsigned char *data =
            support_png((struct support_png){PH, PW, type, bits, k % 2}, rows, &bytes);
        for (int channels = 1; channels <= 3; channels += 2) {
            const struct sw_picture_part part = {3, 5, 7, 11};
            struct sw_pixels p;
            ASSERT_OK(open_bytes(d, data, bytes, &head, &err));
            assert_string_equal(head.kind, "PNG");
            assert_int_equal(head.height, PH);
            assert_int_equal(head.width, PW);
            ASSERT_OK(sw_decoder_read(d, channels, part, &p, &err));
            assert_int_equal(p.channels, channels);
            for (int i = 0; i < 7 * 11 * channels; i++) {
                const int y = i / channels / 11, x = i / channels % 11, c = i % channels;
                int want = expected(type, bits, y + 3, x + 5, c);
                if (channels == 1 && (type & PNG_COLOR_MASK_COLOR))
                    want = (77 * want + 150 * expected(type, bits, y + 3, x + 5, 1) +
                            29 * expected(type, bits, y + 3, x + 5, 2) + 128) >>
                           8;
                if (at(&p, c, y, x) != want)
                    fail_msg("kind %zu: pixel %d,%d,%d is %d, expected %d", k, c, y, x,
                             at(&p, c, y, x), want);
            }
        }
        free(rows);
        free(data);
    }
    sw_decoder_free(d);
}

static void a_truncated_damaged_or_inconsistent_png_is_an_error(void **state)
{
    size_t bytes;
    struct sw_err err;
    unsigned char *rows = support_rows(40, 48, 3);
    for (int interlaced = 0; interlaced < 2; interlaced++) {
        unsigned char *data = support_png(
            (struct support_png){40, 48, PNG_COLOR_TYPE_RGB, 8, interlaced}, rows, &bytes);
        assert_int_equal(decode_bytes(data, bytes, &err), SW_OK);
        for (size_t cut = 1; cut < bytes; cut += 1 + bytes / 40)
            assert_int_equal(decode_bytes(data, bytes - cut, &err), SW_ERR_FORMAT);
        data[bytes / 2] ^= 1; /* a checksum does not fit any more */
        assert_int_equal(decode_bytes(data, bytes, &err), SW_ERR_FORMAT);
        ASSERT_CONTAINS(err.text, "damaged PNG of ");
        free(data);
    }
    free(rows);
    /* A header of its own checksum that promises a hundred million pixels. */
    static const unsigned char lie[] = {0x89, 'P',  'N', 'G', 13,  10, 26, 10,   0,    0, 0,
                                        13,   'I',  'H', 'D', 'R', 0,  0,  0x27, 0x10, 0, 0,
                                        0x27, 0x0f, 8,   2,   0,   0,  0,  0,    0,    0, 0};
    unsigned char file[80] = {0};
    memcpy(file, lie, sizeof lie);
    const uint32_t crc = (uint32_t)crc32(0, file + 12, 17);
    for (int i = 0; i < 4; i++)
        file[29 + i] = (unsigned char)(crc >> (24 - 8 * i));
    memcpy(file + 33, "\0\0\0\0IDAT\x35\xaf\x06\x1e", 12);
    assert_int_equal(decode_bytes(file, 45, &err), SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "claims 9999x10000 pixels, more than its 45 bytes can hold");
}

/* ---- Neither ---- */

static void other_file_types_are_refused_by_their_first_bytes(void **state)
{
    struct sw_err err;
    assert_int_equal(decode_bytes("GIF89a....", 10, &err), SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "begins with 47 49 46 38, expected a JPEG (ff d8 ff) or PNG");
    assert_int_equal(decode_bytes("", 0, &err), SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "0 bytes, expected a JPEG or PNG file");
    assert_int_equal(decode_bytes("\xff\xd8\xff", 3, &err), SW_ERR_FORMAT);
}

static void raw_pixels_pass_through_or_become_gray(void **state)
{
    unsigned char x[3 * 4] = {10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120};
    struct sw_decoder *d = new_decoder();
    struct sw_room room = {0};
    struct sw_picture out, p = {false, x, sizeof x, 3, 2, 2};
    struct sw_err err = {0};
    ASSERT_OK(sw_picture_decode(d, &p, 3, &room, &out, &err));
    assert_memory_equal(room.memory, x, sizeof x);
    ASSERT_OK(sw_picture_decode(d, &p, 1, &room, &out, &err));
    for (int i = 0; i < 4; i++)
        assert_int_equal(room.memory[i], (77 * x[i] + 150 * x[4 + i] + 29 * x[8 + i] + 128) >> 8);
    p.channels = 1;
    p.bytes = 4;
    ASSERT_OK(sw_picture_decode(d, &p, 3, &room, &out, &err));
    for (int i = 0; i < 12; i++)
        assert_int_equal(room.memory[i], x[i % 4]);
    p.channels = 2;
    assert_int_equal(sw_picture_decode(d, &p, 0, &room, &out, &err), SW_ERR_FORMAT);
    p.bytes = 8;
    ASSERT_OK(sw_picture_decode(d, &p, 0, &room, &out, &err));
    assert_int_equal(sw_picture_decode(d, &p, 3, &room, &out, &err), SW_ERR_UNSUPPORTED);
    ASSERT_CONTAINS(err.text, "image of 2 channels cannot be converted to 3");
    sw_room_fini(&room);
    sw_decoder_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_jpeg_window_equals_the_crop_of_the_whole),
        cmocka_unit_test(a_cmyk_jpeg_becomes_color_and_gray),
        cmocka_unit_test(a_truncated_jpeg_is_an_error),
        cmocka_unit_test(a_limit_of_pixels_bounds_size_and_scans),
        cmocka_unit_test(a_jpeg_with_a_false_size_is_refused),
        cmocka_unit_test(an_unsupported_kind_of_jpeg_is_named),
        cmocka_unit_test(random_damage_never_crashes),
        cmocka_unit_test(every_kind_of_png_becomes_color_or_gray),
        cmocka_unit_test(a_truncated_damaged_or_inconsistent_png_is_an_error),
        cmocka_unit_test(other_file_types_are_refused_by_their_first_bytes),
        cmocka_unit_test(raw_pixels_pass_through_or_become_gray),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
