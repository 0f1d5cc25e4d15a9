/* Re-encoding images: PNG is lossless, JPEG nearly so, sizes are those requested, and an image that
 * needs no change is not touched. */
#include "data/picture_write.h"
#include "data/recode.h"
#include "data_support.h"
#include <math.h>

enum { HEIGHT = 20, WIDTH = 31 };

/* A smooth image of so many channels; one of two buffers in turn. */
static struct sw_picture paint(int channels)
{
    static unsigned char memory[2][3 * HEIGHT * WIDTH];
    static int next;
    unsigned char *p = memory[next++ % 2];
    for (int c = 0; c < channels; c++)
        for (int y = 0; y < HEIGHT; y++)
            for (int x = 0; x < WIDTH; x++)
                p[(c * HEIGHT + y) * WIDTH + x] =
                    (unsigned char)(120 + 60 * sin(0.2 * x + c) + 50 * cos(0.25 * y));
    return (struct sw_picture){.data = p,
                               .bytes = (size_t)(channels * HEIGHT * WIDTH),
                               .channels = channels,
                               .height = HEIGHT,
                               .width = WIDTH};
}

static struct sw_picture decode(const struct sw_picture *p, struct sw_room *room)
{
    struct sw_decoder *d = NULL;
    struct sw_picture out = {0};
    struct sw_err err = {0};
    ASSERT_OK(sw_decoder_new(&d, &err));
    ASSERT_OK(sw_picture_decode(d, p, 0, room, &out, &err));
    sw_decoder_free(d);
    return out;
}

static double worst_difference(const struct sw_picture *a, const struct sw_picture *b)
{
    int worst = 0;
    assert_int_equal(a->bytes, b->bytes);
    for (size_t i = 0; i < a->bytes; i++) {
        const int d =
            abs(((const unsigned char *)a->data)[i] - ((const unsigned char *)b->data)[i]);
        worst = d > worst ? d : worst;
    }
    return worst;
}

static void written_images_are_read_back(void **state)
{
    struct sw_picture_bytes bytes = {0};
    struct sw_room room = {0};
    struct sw_err err = {0};
    for (int channels = 1; channels <= 3; channels += 2) {
        const struct sw_picture p = paint(channels);
        ASSERT_OK(sw_picture_write_png(&p, &bytes, &err));
        struct sw_picture file = {.encoded = true, .data = bytes.data, .bytes = bytes.count};
        struct sw_picture back = decode(&file, &room);
        assert_int_equal(back.channels, channels);
        assert_int_equal(back.height, HEIGHT);
        assert_true(worst_difference(&p, &back) == 0);

        ASSERT_OK(sw_picture_write_jpeg(&p, 100, &bytes, &err));
        const size_t fine = bytes.count;
        file = (struct sw_picture){.encoded = true, .data = bytes.data, .bytes = fine};
        back = decode(&file, &room);
        assert_int_equal(back.channels, channels);
        assert_true(worst_difference(&p, &back) <= 4);
        ASSERT_OK(sw_picture_write_jpeg(&p, 20, &bytes, &err));
        assert_true(bytes.count < fine);
    }
    struct sw_picture two = paint(1);
    two.channels = 2;
    assert_int_equal(sw_picture_write_png(&two, &bytes, &err), SW_ERR_UNSUPPORTED);
    assert_int_equal(sw_picture_write_jpeg(&two, 90, &bytes, &err), SW_ERR_UNSUPPORTED);
    sw_picture_bytes_fini(&bytes);
    sw_room_fini(&room);
}

/* An image larger than the first buffer, so that it has to grow. */
static void large_images_are_written(void **state)
{
    enum { SIDE = 400 };
    struct sw_picture_bytes bytes = {0};
    struct sw_room room = {0};
    struct sw_err err = {0};
    unsigned char *noise = malloc(3 * SIDE * SIDE);
    uint32_t h = 1;
    assert_non_null(noise);
    for (int i = 0; i < 3 * SIDE * SIDE; i++)
        noise[i] = (unsigned char)((h = h * 1664525 + 1013904223) >> 24);
    const struct sw_picture p = {
        .data = noise, .bytes = 3 * SIDE * SIDE, .channels = 3, .height = SIDE, .width = SIDE};
    ASSERT_OK(sw_picture_write_png(&p, &bytes, &err));
    assert_true(bytes.count > 1 << 17);
    struct sw_picture file = {.encoded = true, .data = bytes.data, .bytes = bytes.count};
    struct sw_picture back = decode(&file, &room);
    assert_true(worst_difference(&p, &back) == 0);
    ASSERT_OK(sw_picture_write_jpeg(&p, 95, &bytes, &err));
    assert_true(bytes.count > 1 << 17);
    file = (struct sw_picture){.encoded = true, .data = bytes.data, .bytes = bytes.count};
    back = decode(&file, &room);
    assert_int_equal(back.width, SIDE);
    free(noise);
    sw_picture_bytes_fini(&bytes);
    sw_room_fini(&room);
}

static struct sw_picture recode(struct sw_recode_args args, const struct sw_picture *in,
                                unsigned char *copy)
{
    struct sw_recoder *r = NULL;
    struct sw_picture out = {0};
    struct sw_err err = {0};
    args.quality = 90;
    ASSERT_OK(sw_recoder_new(&args, &r, &err));
    ASSERT_OK(sw_recode(r, in, &out, &err));
    assert_true(out.bytes <= 1 << 16);
    memcpy(copy, out.data, out.bytes);
    out.data = copy;
    sw_recoder_free(r);
    return out;
}

static void output_has_the_requested_size_and_encoding(void **state)
{
    static unsigned char a[1 << 16], b[1 << 16];
    const struct sw_picture p = paint(3);
    struct sw_room room = {0};
    struct sw_picture out = recode((struct sw_recode_args){.height = 7, .width = 9}, &p, a);
    assert_false(out.encoded);
    assert_int_equal(out.channels * 10000 + out.height * 100 + out.width, 30709);
    out = recode((struct sw_recode_args){.shorter = 10}, &p, a);
    assert_int_equal(out.height, 10);
    assert_in_range(out.width, 15, 16);
    out = recode((struct sw_recode_args){.form = SW_RECODE_PNG, .channels = 1}, &p, a);
    assert_true(out.encoded);
    assert_int_equal(decode(&out, &room).channels, 1);

    const struct sw_picture png = recode((struct sw_recode_args){.form = SW_RECODE_PNG}, &p, a);
    out = recode((struct sw_recode_args){.form = SW_RECODE_PIXELS}, &png, b);
    assert_true(worst_difference(&p, &out) == 0);
    out = recode((struct sw_recode_args){.shorter = 10}, &png, b); /* stays a PNG */
    assert_true(out.encoded);
    assert_memory_equal(out.data, "\x89PNG", 4);
    out = recode((struct sw_recode_args){.form = SW_RECODE_JPEG}, &png, b);
    assert_memory_equal(out.data, "\xff\xd8\xff", 3);
    /* What is a JPEG already is not decoded and written again. */
    static unsigned char c[1 << 16];
    const struct sw_picture same = recode((struct sw_recode_args){.form = SW_RECODE_JPEG}, &out, c);
    assert_int_equal(same.bytes, out.bytes);
    assert_memory_equal(same.data, out.data, out.bytes);
    sw_room_fini(&room);
}

/* An image of one color stays one, whatever its size becomes. */
static void resizing_keeps_flat_images_flat(void **state)
{
    static unsigned char flat[3 * 12 * 12], out_bytes[1 << 16];
    memset(flat, 77, sizeof flat);
    const struct sw_picture p = {
        .data = flat, .bytes = sizeof flat, .channels = 3, .height = 12, .width = 12};
    const struct sw_picture out =
        recode((struct sw_recode_args){.height = 31, .width = 5}, &p, out_bytes);
    for (size_t i = 0; i < out.bytes; i++)
        assert_int_equal(out_bytes[i], 77);
}

static void damaged_images_are_reported(void **state)
{
    const struct sw_recode_args args = {.shorter = 5, .quality = 90};
    const struct sw_picture bad = {.encoded = true, .data = "\xff\xd8\xff no", .bytes = 6};
    struct sw_recoder *r = NULL;
    struct sw_picture out;
    struct sw_err err = {0};
    ASSERT_OK(sw_recoder_new(&args, &r, &err));
    assert_int_equal(sw_recode(r, &bad, &out, &err), SW_ERR_FORMAT);
    const struct sw_picture good = paint(3);
    ASSERT_OK(sw_recode(r, &good, &out, &err)); /* and the next one is not harmed */
    sw_recoder_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_images_are_read_back),
        cmocka_unit_test(large_images_are_written),
        cmocka_unit_test(output_has_the_requested_size_and_encoding),
        cmocka_unit_test(resizing_keeps_flat_images_flat),
        cmocka_unit_test(damaged_images_are_reported),
    };
    return cmocka_run_group_tests_name("recode", tests, NULL, NULL);
}
