/* The npz format: archives stored and deflated, with and without ZIP64, and archives that lie. */
#include "npy_support.h"

static struct support_conf conf;
static struct zip_maker maker;

static int open_bytes(const void *bytes, size_t n, struct sw_records *r, struct sw_err *err)
{
    const struct sw_format_args args = {.conf = conf.bytes, .split = "train"};
    support_strings(&conf, "paths", 0, support_write("a.npz", bytes, n), NULL);
    return sw_records_open(r, conf.format, &args, err);
}

static const void *get(const struct sw_records *r, int64_t record, int f)
{
    static _Alignas(64) unsigned char scratch[4096];
    const void *out = NULL;
    struct sw_err err = {0};
    ASSERT_OK(r->format->fetch(r, record, f, scratch, &out, &err));
    return out;
}

static const float images[3][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10, 11, 12}};
static const int64_t labels[3] = {1, 0, 2};

static void make(bool deflated, bool zip64)
{
    memset(&maker, 0, sizeof maker);
    maker.zip64 = zip64;
    zip_add_array(&maker, "x_train.npy", "<f4", "(3, 2, 2)", images, sizeof images, deflated);
    zip_add_array(&maker, "y_train.npy", "<i8", "(3,)", labels, sizeof labels, !deflated);
    zip_add(&maker, "../../etc/passwd", "root", 4, false);
    zip_end(&maker);
}

static void arrays_become_fields_with_own_or_given_names(void **state)
{
    for (int how = 0; how < 8; how++) {
        struct sw_records r;
        struct sw_err err = {0};
        make(how & 1, how & 2);
        support_init(&conf, "npz");
        if (how & 4)
            support_strings(&conf, "fields", 1, "image:x_train", "label:y_train");
        ASSERT_OK(open_bytes(maker.bytes, maker.used, &r, &err));
        assert_int_equal(r.count, 3);
        assert_int_equal(r.field_count, 2);
        assert_string_equal(r.field[0].name, how & 4 ? "image" : "x_train");
        assert_int_equal(r.field[0].ndim, how & 4 ? 3 : 2);
        assert_int_equal(r.classes, how & 4 ? 3 : 0);
        for (int i = 0; i < 3; i++) {
            assert_memory_equal(get(&r, i, 0), images[i], sizeof images[i]);
            assert_int_equal(*(const int32_t *)get(&r, i, 1), labels[i]);
        }
        sw_records_close(&r);
    }
}

static void archives_are_concatenated(void **state)
{
    struct sw_records r;
    struct sw_err err = {0};
    make(true, false);
    support_init(&conf, "npz");
    support_write("b.npz", maker.bytes, maker.used);
    support_strings(&conf, "paths", 0, support_path("b.npz"), support_path("b.npz"));
    support_strings(&conf, "fields", 1, "image:x_train", NULL);
    const struct sw_format_args args = {.conf = conf.bytes, .split = "train"};
    ASSERT_OK(sw_records_open(&r, conf.format, &args, &err));
    assert_int_equal(r.count, 6);
    assert_memory_equal(get(&r, 4, 0), images[1], sizeof images[1]);
    sw_records_close(&r);
}

static void expect(const void *bytes, size_t n, int code, const char *part)
{
    struct sw_records r;
    struct sw_err err = {0};
    assert_int_equal(open_bytes(bytes, n, &r, &err), code);
    ASSERT_CONTAINS(err.text, code == SW_ERR_INVALID ? "" : "a.npz");
    ASSERT_CONTAINS(err.text, part);
}

/* Where in the archive the list of members begins. */
static unsigned char *list(void)
{
    return maker.bytes + maker.used - 22 - maker.listed;
}

static void inconsistent_archives_are_refused(void **state)
{
    support_init(&conf, "npz");
    support_strings(&conf, "fields", 1, "image:x_train", NULL);
    expect("PK", 2, SW_ERR_FORMAT, "not a ZIP archive: it has only 2 bytes");
    make(true, false);
    expect(maker.bytes, maker.used - 1, SW_ERR_FORMAT, "no end record found");
    expect(maker.bytes + 40, maker.used - 40, SW_ERR_FORMAT,
           "size or position of its central directory");
    list()[24] ^= 0x40; /* the size, inflated */
    expect(maker.bytes, maker.used, SW_ERR_FORMAT,
           "x_train.npy: inflates to a size other than the");
    make(true, false);
    list()[27] = 0x7f;
    expect(maker.bytes, maker.used, SW_ERR_FORMAT, "x_train.npy claims 21");
    make(false, false);
    list()[24] ^= 1;
    expect(maker.bytes, maker.used, SW_ERR_FORMAT, "x_train.npy claims ");
    make(false, false);
    list()[16] ^= 1;
    expect(maker.bytes, maker.used, SW_ERR_FORMAT, "x_train.npy: wrong checksum");
    make(true, false);
    maker.bytes[30 + 11 + 20] ^= 0x55; /* inside the deflated bytes */
    expect(maker.bytes, maker.used, SW_ERR_FORMAT, "x_train.npy: ");
    make(true, false);
    list()[42] = 7; /* where the member lies */
    expect(maker.bytes, maker.used, SW_ERR_FORMAT, "x_train.npy: its local header is missing");
    make(true, false);
    list()[45] = 0x7f;
    expect(maker.bytes, maker.used, SW_ERR_FORMAT, "member x_train.npy is outside");
    make(true, false);
    list()[10] = 12;
    expect(maker.bytes, maker.used, SW_ERR_UNSUPPORTED, "compressed with another method");
    make(true, false);
    list()[8] = 1;
    expect(maker.bytes, maker.used, SW_ERR_UNSUPPORTED, "encrypted");
    make(true, false);
    maker.bytes[maker.used - 12] = 200; /* as many members */
    expect(maker.bytes, maker.used, SW_ERR_FORMAT, "size or position of its central directory");
    make(true, true);
    maker.bytes[maker.used - 22 - 20 - 1] =
        0x7f; /* where the list begins, in the record of ZIP64 */
    expect(maker.bytes, maker.used, SW_ERR_FORMAT, "size or position of its central directory");
    memset(&maker, 0, sizeof maker);
    zip_add(&maker, "x_train.npy", "\x93NUMPY\1\0\2\0{}", 12, false);
    zip_add(&maker, "x_train.npy", "", 0, false);
    zip_end(&maker);
    expect(maker.bytes, maker.used, SW_ERR_FORMAT, "duplicate member x_train.npy");
}

static void inconsistent_members_are_refused(void **state)
{
    support_init(&conf, "npz");
    memset(&maker, 0, sizeof maker);
    zip_add_array(&maker, "x.npy", "<f4", "(4, 2, 2)", images, sizeof images, true);
    zip_end(&maker);
    expect(maker.bytes, maker.used, SW_ERR_FORMAT, "a.npz: x: has 176 bytes, but its header");
    memset(&maker, 0, sizeof maker);
    zip_add(&maker, "x.npy", "short", 5, false);
    zip_end(&maker);
    expect(maker.bytes, maker.used, SW_ERR_FORMAT, "a.npz: x: ends after 5 bytes");
    memset(&maker, 0, sizeof maker);
    zip_add(&maker, "x.txt", "short", 5, false);
    zip_end(&maker);
    expect(maker.bytes, maker.used, SW_ERR_FORMAT, "has no arrays");
    make(true, false);
    support_strings(&conf, "fields", 1, "image:x_test", NULL);
    expect(maker.bytes, maker.used, SW_ERR_NOTFOUND, "x_test: no such array in the archive");
    support_strings(&conf, "fields", 1, "image:", NULL);
    expect(maker.bytes, maker.used, SW_ERR_INVALID, "expected FIELD:ARRAY");
    support_strings(&conf, "fields", 1, "image:x_train", "image:y_train");
    expect(maker.bytes, maker.used, SW_ERR_INVALID, "duplicate field image");
}

static void archives_truncated_anywhere_are_refused(void **state)
{
    struct sw_records r;
    struct sw_err err = {0};
    support_init(&conf, "npz");
    make(true, true);
    for (size_t n = 0; n < maker.used; n += 7)
        assert_int_equal(open_bytes(maker.bytes, n, &r, &err), SW_ERR_FORMAT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_become_fields_with_own_or_given_names),
        cmocka_unit_test(archives_are_concatenated),
        cmocka_unit_test(inconsistent_archives_are_refused),
        cmocka_unit_test(inconsistent_members_are_refused),
        cmocka_unit_test(archives_truncated_anywhere_are_refused),
    };
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
