/* The idx format: plain and .gz files, and inconsistent files, which are refused with a message
 * that names them. */
#include "data_support.h"
#include <fcntl.h>

static void set_paths(struct support_conf *c, const char *images, const char *labels)
{
    support_init(c, "idx");
    support_strings(c, "paths", 0, images, NULL);
    support_strings(c, "labels", 1, labels, NULL);
}

static int open_conf(const struct support_conf *c, struct sw_records *r, struct sw_err *err)
{
    const struct sw_format_args args = {.conf = c->bytes, .split = "train"};
    return sw_records_open(r, c->format, &args, err);
}

static void check_records(const struct sw_records *r, int64_t first, int64_t count)
{
    unsigned char scratch[64];
    const void *out = NULL;
    struct sw_err err = {0};
    for (int64_t i = 0; i < count; i++) {
        ASSERT_OK(r->format->fetch(r, first + i, 0, scratch, &out, &err));
        const unsigned char *picture = out;
        assert_int_equal(picture[0] + 256 * picture[1], i);
        assert_int_equal(picture[15], 45);
        ASSERT_OK(r->format->fetch(r, first + i, 1, scratch, &out, &err));
        assert_int_equal(*(const int32_t *)out, i % 10);
    }
}

static void idx_reads_plain_and_gzip_alike(void **state)
{
    size_t ni, nl;
    unsigned char *images = support_idx_images(700, &ni), *labels = support_idx_labels(700, &nl);
    struct support_conf c;
    struct sw_records r;
    struct sw_err err = {0};
    for (int i = 0; i < 4; i++) {
        set_paths(&c, i & 1 ? support_gzip("i.gz", images, ni) : support_write("i", images, ni),
                  i & 2 ? support_gzip("l.gz", labels, nl) : support_write("l", labels, nl));
        ASSERT_OK(open_conf(&c, &r, &err));
        assert_int_equal(r.count, 700);
        assert_int_equal(r.classes, 10);
        assert_int_equal(r.files, 1);
        assert_int_equal(r.field[0].dtype, SW_U8);
        assert_int_equal(r.field[0].dim[0], 1);
        assert_int_equal(r.field[0].dim[1], SUPPORT_SIDE);
        assert_int_equal(r.field[0].dim[2], SUPPORT_SIDE);
        check_records(&r, 0, 700);
        sw_records_close(&r);
    }
    free(images);
    free(labels);
}

static void idx_joins_several_files_in_order(void **state)
{
    size_t n;
    struct support_conf c;
    struct sw_records r;
    struct sw_err err = {0};
    unsigned char *b = support_idx_images(30, &n);
    support_write("part-1.img", b, n);
    free(b);
    b = support_idx_images(12, &n);
    support_write("part-2.img", b, n);
    free(b);
    b = support_idx_labels(30, &n);
    const char *first = support_write("part-1.lab", b, n);
    free(b);
    b = support_idx_labels(12, &n);
    const char *second = support_write("part-2.lab", b, n);
    free(b);
    set_paths(&c, support_path("part-*.img"), first);
    support_strings(&c, "labels", 1, first, second);
    ASSERT_OK(open_conf(&c, &r, &err));
    assert_int_equal(r.count, 42);
    assert_int_equal(r.files, 2);
    check_records(&r, 0, 30);
    check_records(&r, 30, 12);
    sw_records_close(&r);

    support_strings(&c, "labels", 1, second, first);
    assert_int_equal(open_conf(&c, &r, &err), SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "part-2.lab");
    ASSERT_CONTAINS(err.text, "12 labels, expected 30");
    support_strings(&c, "labels", 1, first, NULL);
    assert_int_equal(open_conf(&c, &r, &err), SW_ERR_INVALID);
    ASSERT_CONTAINS(err.text, "labels: 1 files, expected 2");
}

static void idx_keeps_channels_of_four_dimensions(void **state)
{
    unsigned char b[20 + 2 * 3 * 2 * 1] = {0, 0, 8, 4, 0, 0, 0, 2, 0, 0,
                                           0, 3, 0, 0, 0, 2, 0, 0, 0, 1};
    size_t n;
    unsigned char *labels = support_idx_labels(2, &n);
    unsigned char scratch[64];
    const void *out = NULL;
    struct support_conf c;
    struct sw_records r;
    struct sw_err err = {0};
    for (unsigned char i = 0; i < 12; i++)
        b[20 + i] = i;
    set_paths(&c, support_write("rgb", b, sizeof b), support_write("l", labels, n));
    ASSERT_OK(open_conf(&c, &r, &err));
    assert_int_equal(r.field[0].dim[0], 3);
    assert_int_equal(r.field[0].dim[1], 2);
    assert_int_equal(r.field[0].dim[2], 1);
    ASSERT_OK(r.format->fetch(&r, 1, 0, scratch, &out, &err));
    assert_memory_equal(out, b + 26, 6);
    sw_records_close(&r);
    free(labels);
}

/* Opens a changed copy of a good pair of 50 records and demands the code and both parts. */
struct damage {
    const char *what;
    bool in_labels, gzip;
    long cut;  /* bytes kept; 0: all; negative: so many zero bytes are added */
    int at[4]; /* bytes to change, -1 ends */
    unsigned char value[4];
    int code;
    const char *part[2];
};

static void check_damage(const struct damage *d)
{
    size_t n[2];
    unsigned char *good[2] = {support_idx_images(50, &n[0]), support_idx_labels(50, &n[1])};
    unsigned char *bad = calloc(1, n[d->in_labels] + 100);
    size_t bytes = d->cut > 0 ? (size_t)d->cut : n[d->in_labels] + (size_t)-d->cut;
    struct support_conf c;
    struct sw_records r;
    struct sw_err err = {0};
    assert_non_null(bad);
    memcpy(bad, good[d->in_labels], n[d->in_labels]);
    for (int i = 0; i < 4 && d->at[i] >= 0; i++)
        bad[d->at[i]] = d->value[i];
    const char *damaged =
        d->gzip ? support_gzip("damaged", bad, bytes) : support_write("damaged", bad, bytes);
    const char *other = support_write("good", good[!d->in_labels], n[!d->in_labels]);
    set_paths(&c, d->in_labels ? other : damaged, d->in_labels ? damaged : other);
    int code = open_conf(&c, &r, &err);
    if (code != d->code)
        fail_msg("%s: code %d: %s", d->what, code, code ? err.text : "");
    ASSERT_CONTAINS(err.text, "/damaged");
    ASSERT_CONTAINS(err.text, d->part[0]);
    ASSERT_CONTAINS(err.text, d->part[1]);
    free(good[0]);
    free(good[1]);
    free(bad);
}

static void idx_errors_name_file_record_and_expected_value(void **state)
{
    /* 50 images are 16 + 800 bytes, 50 labels 8 + 50. */
    static const struct damage all[] = {
        {"truncated",
         false,
         false,
         16 + 100,
         {-1},
         {0},
         SW_ERR_FORMAT,
         {"ends after 116 bytes, in record 6", "50 records of 16 bytes"}},
        {"truncated gz content",
         false,
         true,
         16 + 100,
         {-1},
         {0},
         SW_ERR_FORMAT,
         {"ends after 116 bytes, in record 6", "50 records of 16 bytes"}},
        {"extra bytes",
         false,
         false,
         -1,
         {-1},
         {0},
         SW_ERR_FORMAT,
         {"data follow the last record (49)", "50 records of 16 bytes"}},
        {"extra bytes in gz",
         false,
         true,
         -1,
         {-1},
         {0},
         SW_ERR_FORMAT,
         {"data follow the last record (49)", "50 records of 16 bytes"}},
        {"bomb: a gz that holds more",
         false,
         true,
         -100,
         {-1},
         {0},
         SW_ERR_FORMAT,
         {"data follow the last record (49)", "expected 50 records"}},
        {"count too large",
         false,
         false,
         0,
         {7, -1},
         {51},
         SW_ERR_FORMAT,
         {"in record 50", "51 records"}},
        {"count too large in gz",
         false,
         true,
         0,
         {7, -1},
         {51},
         SW_ERR_FORMAT,
         {"in record 50", "51 records"}},
        {"count beyond what a gz can hold",
         false,
         true,
         0,
         {4, 5, -1},
         {0x10, 0x10},
         SW_ERR_FORMAT,
         {"claims 269484082 records", "compressed bytes can hold"}},
        {"count 0",
         false,
         false,
         0,
         {7, -1},
         {0},
         SW_ERR_FORMAT,
         {"claims 0 images", "at least one"}},
        {"huge images",
         false,
         false,
         0,
         {10, 14, 11, -1},
         {255, 255, 255},
         SW_ERR_FORMAT,
         {"1x65535x65284", "less than 2 GiB"}},
        {"side of 2^24",
         false,
         false,
         0,
         {8, -1},
         {1},
         SW_ERR_FORMAT,
         {"1x16777220x4", "dimensions of 1 to 65535"}},
        {"magic",
         false,
         false,
         0,
         {0, -1},
         {'P'},
         SW_ERR_FORMAT,
         {"not an IDX file", "expected 00 00 08 03"}},
        {"floats",
         false,
         false,
         0,
         {2, -1},
         {0x0d},
         SW_ERR_UNSUPPORTED,
         {"type 0x0d", "unsigned bytes"}},
        {"labels as images",
         false,
         false,
         0,
         {3, -1},
         {1},
         SW_ERR_FORMAT,
         {"1 dimensions", "expected 3"}},
        {"short header",
         false,
         false,
         9,
         {-1},
         {0},
         SW_ERR_FORMAT,
         {"ends after 9 bytes", "header of 16"}},
        {"one byte", false, false, 1, {-1}, {0}, SW_ERR_FORMAT, {"ends after 1 bytes", "header"}},
        {"images as labels",
         true,
         false,
         0,
         {3, -1},
         {3},
         SW_ERR_FORMAT,
         {"3 dimensions", "expected 1"}},
        {"fewer labels",
         true,
         false,
         0,
         {7, -1},
         {49},
         SW_ERR_FORMAT,
         {"49 labels", "expected 50"}},
        {"labels truncated",
         true,
         false,
         30,
         {-1},
         {0},
         SW_ERR_FORMAT,
         {"in record 22", "50 records of 1 byte"}},
        {"labels magic",
         true,
         false,
         0,
         {1, -1},
         {9},
         SW_ERR_FORMAT,
         {"not an IDX file", "expected 00 00 08 01"}},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        check_damage(&all[i]);
}

/* Every cut and every changed byte of a compressed file gives an error or the same content. */
static void idx_damaged_gzip_is_an_error(void **state)
{
    size_t n, nl;
    unsigned char *images = support_idx_images(50, &n), *labels = support_idx_labels(50, &nl);
    const char *path = support_gzip("whole.gz", images, n);
    const char *label_path = support_write("l", labels, nl);
    char *file = NULL;
    size_t bytes = 0;
    struct support_conf c;
    struct sw_records r;
    struct sw_err err = {0};
    int refused = 0;
    ASSERT_OK(sw_os_read_file(path, 1 << 20, &file, &bytes, &err));
    set_paths(&c, support_path("cut.gz"), label_path);
    for (size_t cut = 2; cut < bytes; cut++) {
        support_write("cut.gz", file, cut);
        assert_int_equal(open_conf(&c, &r, &err), SW_ERR_FORMAT);
        ASSERT_CONTAINS(err.text, "cut.gz");
    }
    for (size_t at = 0; at < bytes; at++) {
        file[at] = (char)(file[at] ^ 0x10);
        support_write("cut.gz", file, bytes);
        int code = open_conf(&c, &r, &err);
        file[at] = (char)(file[at] ^ 0x10);
        refused += code != SW_OK;
        if (code)
            continue;
        check_records(&r, 0, 50); /* a byte of the gzip header that means nothing */
        sw_records_close(&r);
    }
    assert_true(refused > (int)bytes - 12);

    char *longer = malloc(bytes + 3);
    assert_non_null(longer);
    memcpy(longer, file, bytes);
    memcpy(longer + bytes, "abc", 3);
    support_write("cut.gz", longer, bytes + 3);
    assert_int_equal(open_conf(&c, &r, &err), SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "3 bytes follow the end of the compressed data");
    free(longer);
    sw_free(file);
    free(images);
    free(labels);
}

static void idx_refuses_non_regular_files(void **state)
{
    size_t n;
    unsigned char *labels = support_idx_labels(5, &n);
    struct support_conf c;
    struct sw_records r;
    struct sw_err err = {0};
    set_paths(&c, support_dir, support_write("l", labels, n));
    assert_int_equal(open_conf(&c, &r, &err), SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "not a regular file");
    set_paths(&c, support_path("missing"), support_path("l"));
    assert_int_equal(open_conf(&c, &r, &err), SW_ERR_NOTFOUND);
    ASSERT_CONTAINS(err.text, "missing");
    free(labels);
}

/* ---- Memory: every allocation fails in turn ---- */

static int allocations_left;

static void *failing_alloc(size_t bytes)
{
    return allocations_left-- > 0 ? sw_os_posix.alloc(bytes) : NULL;
}

static void *failing_realloc(void *p, size_t bytes)
{
    return allocations_left-- > 0 ? sw_os_posix.realloc(p, bytes) : NULL;
}

static void idx_survives_every_failed_allocation(void **state)
{
    size_t ni, nl;
    unsigned char *images = support_idx_images(50, &ni), *labels = support_idx_labels(50, &nl);
    struct sw_os os = sw_os_posix;
    struct support_conf c;
    struct sw_records r;
    struct sw_err err = {0};
    int code = SW_ERR_NOMEM, tries = 0;
    os.alloc = failing_alloc;
    os.realloc = failing_realloc;
    set_paths(&c, support_gzip("i.gz", images, ni), support_write("l", labels, nl));
    while (code != SW_OK && tries < 200) {
        allocations_left = tries++;
        sw_os_set(&os);
        code = open_conf(&c, &r, &err);
        sw_os_set(NULL);
        assert_true(code == SW_OK || code == SW_ERR_NOMEM);
    }
    assert_int_equal(code, SW_OK);
    assert_true(tries > 8);
    check_records(&r, 0, 50);
    sw_records_close(&r);
    free(images);
    free(labels);
}

static void idx_reads_mnist(void **state)
{
    static const int32_t first_train[] = {5, 0, 4, 1, 9, 2, 1, 3, 1, 4};
    static const int32_t first_test[] = {7, 2, 1, 0, 4, 1, 4, 9, 5, 9};
    static const char *const names[2][2] = {
        {"mnist/train-images-idx3-ubyte.gz", "mnist/train-labels-idx1-ubyte.gz"},
        {"mnist/t10k-images-idx3-ubyte.gz", "mnist/t10k-labels-idx1-ubyte.gz"},
    };
    for (int i = 0; i < 2; i++) {
        char images[512], labels[512];
        unsigned char scratch[784];
        const void *out = NULL;
        struct support_conf c;
        struct sw_records r;
        struct sw_err err = {0};
        if (!support_shared(names[i][0], images) || !support_shared(names[i][1], labels))
            skip();
        set_paths(&c, images, labels);
        ASSERT_OK(open_conf(&c, &r, &err));
        assert_int_equal(r.count, i ? 10000 : 60000);
        assert_int_equal(r.classes, 10);
        assert_int_equal(r.field[0].dim[1], 28);
        for (int k = 0; k < 10; k++) {
            ASSERT_OK(r.format->fetch(&r, k, 1, scratch, &out, &err));
            assert_int_equal(*(const int32_t *)out, i ? first_test[k] : first_train[k]);
        }
        int64_t ink = 0;
        for (int64_t k = 0; k < r.count; k++) {
            ASSERT_OK(r.format->fetch(&r, k, 0, scratch, &out, &err));
            for (int p = 0; p < 784; p++)
                ink += ((const unsigned char *)out)[p];
        }
        /* The well-known mean of the training images, 0.1307 of 255; the test's is 0.1325. */
        const double mean = (double)ink / (double)r.count / 784 / 255;
        assert_true(mean > (i ? 0.132 : 0.1302) && mean < (i ? 0.133 : 0.1312));
        sw_records_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idx_reads_plain_and_gzip_alike),
        cmocka_unit_test(idx_joins_several_files_in_order),
        cmocka_unit_test(idx_keeps_channels_of_four_dimensions),
        cmocka_unit_test(idx_errors_name_file_record_and_expected_value),
        cmocka_unit_test(idx_damaged_gzip_is_an_error),
        cmocka_unit_test(idx_refuses_non_regular_files),
        cmocka_unit_test(idx_survives_every_failed_allocation),
        cmocka_unit_test(idx_reads_mnist),
    };
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
