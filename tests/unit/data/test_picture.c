/* Decoding pictures: windows, scaling and channels against the whole picture as libjpeg and libpng
 * give it, and files that are damaged, cut short or lying. */
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

/* The whole picture as libjpeg decodes it at 1/scale: packed rows of 1 or 3 channels; malloc's. */
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

static void a_window_of_a_jpeg_is_cut_from_the_whole(void **state)
{
    static const struct support_jpeg how[] = {
        {97, 131, 3, false, false}, {97, 131, 3, true, false}, {64, 200, 3, false, true},
        {75, 50, 1, false, false},  {33, 17, 1, true, false},  {300, 211, 3, false, false},
    };
    struct sw_decoder *d = new_decoder();
    uint32_t random = 12345;
    (void)state;
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

/* Cut in its entropy code, even where a window above the cut is all that is read. */
static void a_jpeg_cut_short_is_an_error(void **state)
{
    size_t bytes;
    struct sw_err err;
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_of_a_jpeg_is_cut_from_the_whole),
        cmocka_unit_test(a_jpeg_cut_short_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
