/* A request to stop (base/stop.h) in the middle of what takes long: reading, inflating, decoding.
 */
#include "picture_support.h"

#include "base/os.h"
#include "base/stop.h"
#include "data/blob.h"
#include "data/picture.h"

/* An operating system that asks for a stop with the n-th piece that is read. */
static struct sw_os os;
static int reads, stop_at;

static ssize_t counted_pread(int fd, void *buf, size_t bytes, off_t offset)
{
    if (++reads == stop_at)
        sw_stop_request(0);
    return sw_os_posix.pread(fd, buf, bytes, offset);
}

static int set_up(void **state)
{
    os = sw_os_posix;
    os.pread = counted_pread;
    reads = stop_at = 0;
    sw_stop_reset();
    return 0;
}

static int tear_down(void **state)
{
    sw_stop_reset();
    sw_os_set(NULL);
    return 0;
}

/* ---- Files ---- */

enum { PLAIN_BYTES = 70 << 20, NOISE_BYTES = 8 << 20 };

/* Takes the whole file, with a stop that is asked for at that read; 0: none. */
static int take(const char *path, int at, struct sw_err *err)
{
    struct sw_blob b;
    reads = 0;
    stop_at = at;
    sw_os_set(&os);
    int rc = sw_blob_open(&b, path, INT64_MAX, err);
    assert_int_equal(rc, SW_OK);
    rc = sw_blob_take(&b, err);
    sw_blob_close(&b);
    sw_os_set(NULL);
    return rc;
}

static void assert_stops_at_once(const char *path)
{
    struct sw_err err = {0};
    ASSERT_OK(take(path, 0, &err));
    const int whole = reads;
    assert_in_range(whole, 5, 1000000);
    assert_int_equal(take(path, whole / 2, &err), SW_ERR_CANCELLED);
    ASSERT_CONTAINS(err.text, "stopped by request");
    assert_int_equal(reads, whole / 2);
}

static void a_stop_interrupts_reading_a_large_file(void **state)
{
    unsigned char *zeros = calloc(1, PLAIN_BYTES);
    assert_non_null(zeros);
    const char *path = support_write("plain", zeros, PLAIN_BYTES);
    free(zeros);
    assert_stops_at_once(path);
}

static void a_stop_interrupts_inflating_a_gzip_file(void **state)
{
    unsigned char *noise = malloc(NOISE_BYTES);
    uint32_t x = 1;
    assert_non_null(noise);
    for (int i = 0; i < NOISE_BYTES; i++)
        noise[i] = (unsigned char)((x = x * 1664525u + 1013904223u) >> 24);
    const char *path = support_gzip("noise.gz", noise, NOISE_BYTES);
    free(noise);
    assert_stops_at_once(path);
}

/* What compresses well is one piece of input and many of output: no read tells of it. */
static void a_stop_interrupts_inflating_zeros(void **state)
{
    struct sw_err err = {0};
    struct sw_blob b;
    unsigned char *zeros = calloc(1, NOISE_BYTES);
    assert_non_null(zeros);
    const char *path = support_gzip("zeros.gz", zeros, NOISE_BYTES);
    free(zeros);
    ASSERT_OK(sw_blob_open(&b, path, 0, &err));
    sw_stop_request(0);
    assert_int_equal(sw_blob_check_size(&b, 0, 1, NOISE_BYTES, &err), SW_ERR_CANCELLED);
    sw_blob_close(&b);
}

/* ---- Images ---- */

/* The stop is asked for when the header has been read. */
static void assert_decoding_stops(const unsigned char *data, size_t bytes)
{
    const struct sw_picture p = {.encoded = true, .data = data, .bytes = bytes};
    struct sw_decoder *d = NULL;
    struct sw_picture_head head;
    struct sw_pixels pixels;
    struct sw_err err = {0};
    ASSERT_OK(sw_decoder_new(&d, &err));
    for (int asked = 0; asked < 2; asked++) {
        ASSERT_OK(sw_decoder_open(d, &p, &head, &err));
        const struct sw_picture_part all = {0, 0, head.height, head.width};
        if (asked)
            sw_stop_request(0);
        assert_int_equal(sw_decoder_read(d, 3, all, &pixels, &err),
                         asked ? SW_ERR_CANCELLED : SW_OK);
    }
    sw_stop_reset();
    /* The decoder can be used again. */
    ASSERT_OK(sw_decoder_open(d, &p, &head, &err));
    const struct sw_picture_part all = {0, 0, head.height, head.width};
    ASSERT_OK(sw_decoder_read(d, 3, all, &pixels, &err));
    sw_decoder_free(d);
}

static void a_stop_interrupts_decoding_images(void **state)
{
    size_t bytes;
    for (int progressive = 0; progressive < 2; progressive++) {
        unsigned char *jpeg =
            support_jpeg((struct support_jpeg){120, 160, 3, progressive, false}, NULL, &bytes);
        assert_decoding_stops(jpeg, bytes);
        free(jpeg);
    }
    for (int interlaced = 0; interlaced < 2; interlaced++) {
        unsigned char *rows = support_rows(40, 48, 3);
        unsigned char *png = support_png(
            (struct support_png){40, 48, PNG_COLOR_TYPE_RGB, 8, interlaced}, rows, &bytes);
        assert_decoding_stops(png, bytes);
        free(png);
        free(rows);
    }
}

/* A job in training holds the request: what its step needs is still read. */
static void a_held_stop_request_does_not_interrupt_reading(void **state)
{
    struct sw_err err = {0};
    const char *path = support_gzip("little.gz", "some bytes", 10);
    ASSERT_OK(sw_stop_hold(&err));
    assert_int_equal(take(path, 1, &err), SW_OK);
    assert_int_equal(take(path, 1, &err), SW_ERR_CANCELLED);
    sw_stop_release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_stop_interrupts_reading_a_large_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_stop_interrupts_inflating_a_gzip_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_stop_interrupts_inflating_zeros, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_stop_interrupts_decoding_images, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_held_stop_request_does_not_interrupt_reading, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
