/* The lmdb format: LMDBs as Caffe's tools write them, and those that are not. */
#include "datum_support.h"
#include <sys/stat.h>

static int open_lmdb(const char *a, const char *b, struct sw_records *r, struct sw_err *err)
{
    struct support_conf c;
    support_init(&c, "lmdb");
    support_strings(&c, "paths", 0, a, b);
    const struct sw_format_args args = {.conf = c.bytes, .split = "train"};
    return sw_records_open(r, c.format, &args, err);
}

static struct message pixels(int i, int height)
{
    struct message m = {.count = 0};
    unsigned char bytes[3 * 8 * 2];
    for (int k = 0; k < 3 * height * 2; k++)
        bytes[k] = (unsigned char)(i * 16 + k);
    message_sides(&m, 3, height, 2);
    message_bytes(&m, 4, bytes, (size_t)(3 * height * 2));
    message_number(&m, 5, (uint64_t)(i % 4));
    return m;
}

static void lmdb_returns_pixels_and_labels_in_key_order(void **state)
{
    struct message m[30];
    struct sw_records r;
    struct sw_err err = {0};
    unsigned char scratch[64];
    const void *out = NULL;
    for (int i = 0; i < 30; i++)
        m[i] = pixels(i, 2);
    const char *a = message_lmdb("a.mdb", m, 20), *b = message_lmdb("b.mdb", m + 20, 10);
    ASSERT_OK(open_lmdb(a, b, &r, &err));
    assert_int_equal(r.count, 30);
    assert_int_equal(r.classes, 4);
    assert_int_equal(r.files, 2);
    assert_false(r.has_pictures);
    assert_int_equal(r.field[0].dtype, SW_U8);
    assert_int_equal(r.field[0].dim[1], 2);
    for (int i = 29; i >= 0; i--) {
        ASSERT_OK(r.format->fetch(&r, i, 0, scratch, &out, &err));
        assert_memory_equal(out, m[i].bytes + 8, 12);
        ASSERT_OK(r.format->fetch(&r, i, 1, scratch, &out, &err));
        assert_int_equal(*(const int32_t *)out, i % 4);
    }
    struct sw_bytes text = {0};
    sw_records_locate(&r, 25, &text);
    ASSERT_CONTAINS(sw_bytes_text(&text), "record 5 of ");
    ASSERT_CONTAINS(sw_bytes_text(&text), "b.mdb");
    sw_bytes_fini(&text);
    sw_records_close(&r);
}

static void lmdb_opens_in_a_read_only_folder(void **state)
{
    struct message m = pixels(1, 2);
    struct sw_records r;
    struct sw_err err = {0};
    char folder[512], file[600];
    snprintf(folder, sizeof folder, "%s", support_path("folder"));
    snprintf(file, sizeof file, "%s/data.mdb", folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(rename(message_lmdb("x.mdb", &m, 1), file), 0);
    assert_int_equal(chmod(file, 0400), 0);
    assert_int_equal(chmod(folder, 0500), 0);
    ASSERT_OK(open_lmdb(folder, NULL, &r, &err));
    assert_int_equal(r.count, 1);
    sw_records_close(&r);
    assert_int_equal(chmod(folder, 0700), 0);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(rmdir(folder), 0); /* no lock file was left in it */
}

static void lmdb_with_images_of_varying_size_returns_images(void **state)
{
    struct message m[2] = {pixels(0, 2), pixels(1, 5)}, e = {.count = 0};
    struct sw_records r;
    struct sw_picture p;
    struct sw_room room = {0};
    struct sw_err err = {0};
    ASSERT_OK(open_lmdb(message_lmdb("v.mdb", m, 2), NULL, &r, &err));
    assert_true(r.has_pictures);
    assert_int_equal(r.field[r.picture_field].dim[0], 3);
    assert_int_equal(r.field[r.picture_field].dim[1], 0);
    ASSERT_OK(r.format->fetch_picture(&r, 1, &room, &p, &err));
    assert_false(p.encoded);
    assert_int_equal(p.height, 5);
    assert_int_equal(p.bytes, 30);
    sw_records_close(&r);

    message_bytes(&e, 4, "\xff\xd8 not looked at", 15);
    message_number(&e, 7, 1);
    message_number(&e, 5, 2);
    ASSERT_OK(open_lmdb(message_lmdb("e.mdb", &e, 1), NULL, &r, &err));
    assert_true(r.has_pictures);
    ASSERT_OK(r.format->fetch_picture(&r, 0, &room, &p, &err));
    assert_true(p.encoded);
    assert_int_equal(p.bytes, 15);
    assert_int_equal(r.classes, 3);
    sw_records_close(&r);
    sw_room_fini(&room);
}

static void lmdb_of_floats_returns_floats(void **state)
{
    struct message m = {.count = 0};
    struct sw_records r;
    struct sw_err err = {0};
    float scratch[16];
    const void *out = NULL;
    message_sides(&m, 2, 1, 1);
    message_float(&m, 0.5f);
    message_float(&m, -7);
    ASSERT_OK(open_lmdb(message_lmdb("f.mdb", &m, 1), NULL, &r, &err));
    assert_int_equal(r.field_count, 1); /* there are no labels */
    assert_int_equal(r.classes, 0);
    assert_int_equal(r.field[0].dtype, SW_F32);
    ASSERT_OK(r.format->fetch(&r, 0, 0, scratch, &out, &err));
    assert_true(((const float *)out)[0] == 0.5f && ((const float *)out)[1] == -7);
    sw_records_close(&r);
}

static void refused(const char *path, int code, const char *says)
{
    struct sw_records r;
    struct sw_err err = {0};
    assert_int_equal(open_lmdb(path, NULL, &r, &err), code);
    ASSERT_CONTAINS(err.text, says);
    ASSERT_CONTAINS(err.text, path);
}

static void lmdb_without_datums_is_refused(void **state)
{
    struct message m[3] = {pixels(0, 2), pixels(1, 2), {.count = 0}};
    refused(support_path("none.mdb"), SW_ERR_NOTFOUND, "none.mdb");
    refused(support_dir, SW_ERR_NOTFOUND, "No such file");
    refused(support_write("junk.mdb", "junk", 4), SW_ERR_FORMAT, "not an LMDB");
    refused(support_write("empty.mdb", "", 0), SW_ERR_FORMAT, "it is empty");
    refused(message_lmdb("none.mdb", m, 0), SW_ERR_FORMAT, "has no record");
    memcpy(m[2].bytes, "hello", 5);
    m[2].count = 5;
    refused(message_lmdb("text.mdb", m, 3), SW_ERR_FORMAT, "record 2: not a Caffe Datum");
    m[2].count = 0;
    message_bytes(&m[2], 4, "x", 1);
    message_number(&m[2], 7, 1);
    message_number(&m[2], 5, 1);
    refused(message_lmdb("mixed.mdb", m, 3), SW_ERR_FORMAT, "record 2 differs in kind");
    m[1] = pixels(1, 2);
    message_number(&m[1], 5, (uint64_t)-3);
    refused(message_lmdb("minus.mdb", m, 2), SW_ERR_FORMAT, "record 1: label -3");
}

static void a_truncated_lmdb_is_refused(void **state)
{
    struct message m[200];
    struct stat st;
    for (int i = 0; i < 200; i++)
        m[i] = pixels(i, 8);
    const char *path = message_lmdb("cut.mdb", m, 200);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(truncate(path, st.st_size - 4096), 0);
    refused(path, SW_ERR_FORMAT, "truncated");
    assert_int_equal(truncate(path, 8192), 0);
    refused(path, SW_ERR_FORMAT, "truncated");
    assert_int_equal(truncate(path, 4096), 0);
    refused(path, SW_ERR_FORMAT, "");
}

static void truncating_an_lmdb_while_reading_is_an_error(void **state)
{
    static struct message m[200];
    struct sw_records r;
    struct sw_err err = {0};
    unsigned char scratch[64];
    const void *out = NULL;
    for (int i = 0; i < 200; i++)
        m[i] = pixels(i, 2);
    const char *path = message_lmdb("mapped.mdb", m, 200);
    ASSERT_OK(open_lmdb(path, NULL, &r, &err));
    ASSERT_OK(r.format->fetch(&r, 150, 0, scratch, &out, &err));
    ASSERT_OK(sw_records_check(&r, &err));
    assert_int_equal(truncate(path, 4096), 0);
    for (int i = 0; i < 12; i++)
        (void)((const volatile unsigned char *)out)[i]; /* what was handed out before */
    assert_int_equal(sw_records_check(&r, &err), SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "mapped.mdb: was truncated from ");
    assert_int_equal(r.format->fetch(&r, 151, 0, scratch, &out, &err), SW_ERR_FORMAT);
    assert_int_equal(truncate(path, 64 << 10), 0);
    assert_int_equal(sw_records_check(&r, &err), SW_ERR_FORMAT);
    sw_records_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lmdb_returns_pixels_and_labels_in_key_order),
        cmocka_unit_test(lmdb_opens_in_a_read_only_folder),
        cmocka_unit_test(lmdb_with_images_of_varying_size_returns_images),
        cmocka_unit_test(lmdb_of_floats_returns_floats),
        cmocka_unit_test(lmdb_without_datums_is_refused),
        cmocka_unit_test(a_truncated_lmdb_is_refused),
        cmocka_unit_test(truncating_an_lmdb_while_reading_is_an_error),
    };
    return cmocka_run_group_tests_name("lmdb", tests, support_setup, support_teardown);
}
