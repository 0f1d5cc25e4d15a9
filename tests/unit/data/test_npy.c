/* The npy format: types and shapes of fields, several files, and arrays that are damaged. */
#include "npy_support.h"

static struct support_conf conf;

static int open_it(struct sw_records *r, struct sw_err *err)
{
    const struct sw_format_args args = {.conf = conf.bytes, .split = "train"};
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

static void images_and_labels_of_several_files(void **state)
{
    unsigned char pixels[3][2][3];
    const int64_t labels[] = {2, 0, 4};
    struct sw_records r;
    struct sw_err err = {0};
    for (int i = 0; i < 18; i++)
        pixels[i / 6][i / 3 % 2][i % 3] = (unsigned char)(i * 11);
    support_init(&conf, "npy");
    support_strings(&conf, "paths", 0, npy_write("a", "|u1", "(2, 2, 3)", pixels, 12),
                    npy_gzip("b.gz", "|u1", "(1, 2, 3)", pixels[2], 6));
    support_strings(&conf, "labels", 1, npy_write("l", "<i8", "(3,)", labels, 24), NULL);
    ASSERT_OK(open_it(&r, &err));
    assert_int_equal(r.count, 3);
    assert_int_equal(r.classes, 5);
    assert_int_equal(r.field[0].dtype, SW_U8);
    assert_int_equal(r.field[0].dim[0], 1);
    assert_int_equal(r.field[0].dim[1], 2);
    assert_int_equal(r.field[0].dim[2], 3);
    for (int i = 0; i < 3; i++) {
        assert_memory_equal(get(&r, i, 0), pixels[i], 6);
        assert_int_equal(*(const int32_t *)get(&r, i, 1), labels[i]);
    }
    ASSERT_CONTAINS(r.where, "a (2 files)");
    sw_records_close(&r);
}

static void every_type_is_converted_to_the_field_type(void **state)
{
    static const struct {
        const char *descr;
        const char *values;
        size_t bytes;
        enum sw_dtype image, other;
    } type[] = {
        {"|b1", "\1\0", 1, SW_U8, SW_F32},
        {"|u1", "\1\0", 1, SW_U8, SW_I32},
        {"|i1", "\1\0", 1, SW_F32, SW_I32},
        {"<i2", "\1\0\0\0", 2, SW_F32, SW_I32},
        {"<i4", "\1\0\0\0\0\0\0\0", 4, SW_F32, SW_I32},
        {"<i8", "\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 8, SW_F32, SW_I32},
        {"<f4", "\0\0\x80\x3f\0\0\0\0", 4, SW_F32, SW_F32},
        {"<f8", "\0\0\0\0\0\0\xf0\x3f\0\0\0\0\0\0\0\0", 8, SW_F32, SW_F32},
    };
    for (size_t t = 0; t < sizeof type / sizeof type[0]; t++) {
        char more[600];
        struct sw_records r;
        struct sw_err err = {0};
        const char *path =
            npy_write("t", type[t].descr, "(1, 2)", type[t].values, 2 * type[t].bytes);
        snprintf(more, sizeof more, "more:%s", path);
        support_init(&conf, "npy");
        support_strings(&conf, "paths", 0, path, NULL);
        support_strings(&conf, "fields", 1, more, NULL);
        ASSERT_OK(open_it(&r, &err));
        assert_int_equal(r.field[0].dtype, type[t].image);
        assert_int_equal(r.field[0].dim[0], 2);
        assert_string_equal(r.field[1].name, "more");
        assert_int_equal(r.field[1].dtype, type[t].other);
        assert_int_equal(r.field[1].ndim, 1);
        for (int f = 0; f < 2; f++) {
            const void *v = get(&r, 0, f);
            if (r.field[f].dtype == SW_F32)
                assert_true(((const float *)v)[0] == 1 && ((const float *)v)[1] == 0);
            else if (r.field[f].dtype == SW_I32)
                assert_true(((const int32_t *)v)[0] == 1 && ((const int32_t *)v)[1] == 0);
            else
                assert_memory_equal(v, "\1\0", 2);
        }
        sw_records_close(&r);
    }
}

static void label_sets_and_further_fields_keep_their_shapes(void **state)
{
    const unsigned char sets[2][3] = {{1, 0, 1}, {0, 0, 1}};
    const float words[2][2][2] = {{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}};
    char first[600], second[600];
    struct sw_records r;
    struct sw_err err = {0};
    support_init(&conf, "npy");
    support_strings(&conf, "paths", 0, npy_write("x", "<f4", "(2, 1, 2, 2)", words, 32), NULL);
    support_strings(&conf, "labels", 1, npy_write("s", "|b1", "(2, 3)", sets, 6), NULL);
    snprintf(first, sizeof first, "text:%s", npy_write("w1", "<f4", "(1, 2, 2)", words, 16));
    snprintf(second, sizeof second, "text:%s", npy_write("w2", "<f4", "(1, 2, 2)", words[1], 16));
    support_strings(&conf, "fields", 2, first, second);
    ASSERT_OK(open_it(&r, &err));
    assert_int_equal(r.field_count, 3);
    assert_int_equal(r.classes, 0);
    assert_int_equal(r.field[0].dim[0], 1);
    assert_int_equal(r.field[1].dtype, SW_F32);
    assert_int_equal(r.field[1].dim[0], 3);
    assert_true(((const float *)get(&r, 0, 1))[2] == 1 && ((const float *)get(&r, 1, 1))[0] == 0);
    assert_int_equal(r.field[2].ndim, 2);
    assert_true(((const float *)get(&r, 1, 2))[3] == 8);
    sw_records_close(&r);
}

static void shapes_of_images(void **state)
{
    const float row[6] = {1, 2, 3, 4, 5, 6};
    struct sw_records r;
    struct sw_err err = {0};
    support_init(&conf, "npy");
    support_text(&conf, "shape", "1x2x3");
    support_strings(&conf, "paths", 0, npy_write("x", "<f4", "(1, 6)", row, 24), NULL);
    ASSERT_OK(open_it(&r, &err));
    assert_int_equal(r.field[0].dim[2], 3);
    sw_records_close(&r);
    support_text(&conf, "shape", "1x2x2");
    assert_int_equal(open_it(&r, &err), SW_ERR_INVALID);
    ASSERT_CONTAINS(err.text, "shape = 1x2x2 has 4 elements, but a record has 6");
    support_text(&conf, "shape", NULL);
    support_strings(&conf, "paths", 0, npy_write("x", "<f4", "(1, 1, 1, 2, 3)", row, 24), NULL);
    assert_int_equal(open_it(&r, &err), SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "rows have 4 dimensions");
}

static void expect(int code, const char *part, const char *more)
{
    struct sw_records r;
    struct sw_err err = {0};
    assert_int_equal(open_it(&r, &err), code);
    ASSERT_CONTAINS(err.text, part);
    ASSERT_CONTAINS(err.text, more);
}

static void errors_name_file_record_and_expected_value(void **state)
{
    const float x[4] = {1, 2, 3, 4};
    const int32_t y[2] = {0, -3};
    const double bad[4] = {1, 2, 3, 1e300};
    const double half[2] = {1, 0.5};
    size_t n;
    support_init(&conf, "npy");
    support_strings(&conf, "paths", 0, npy_write("x", "<f4", "(2, 2)", x, 12), NULL);
    expect(SW_ERR_FORMAT, "/x: ends after 140 bytes, in record 1", "2 records of 8 bytes");
    unsigned char *b = npy_make("<f4", "(1, 2)", x, 16, &n);
    support_strings(&conf, "paths", 0, support_gzip("x", b, n), NULL);
    free(b);
    expect(SW_ERR_FORMAT, "/x: data follow the last record (0)", "1 records of 8 bytes");
    support_strings(&conf, "paths", 0, npy_write("x", "<f4", "(0, 2)", x, 0), NULL);
    expect(SW_ERR_FORMAT, "/x: the array is empty", "");
    support_strings(&conf, "paths", 0, npy_write("x", "<f4", "()", x, 4), NULL);
    expect(SW_ERR_FORMAT, "/x: the array is a scalar", "");
    support_strings(&conf, "paths", 0, npy_write("x", "<f8", "(2, 2)", bad, 32), NULL);
    expect(SW_ERR_FORMAT, "/x: record 1: value 1e+300", "range of 32-bit floats");
    support_strings(&conf, "paths", 0, npy_write("x", ">f4", "(2, 2)", x, 16), NULL);
    expect(SW_ERR_UNSUPPORTED, "/x: unsupported type '>f4'", "astype");

    const char *good = npy_write("x", "<f4", "(2, 2)", x, 16);
    support_strings(&conf, "paths", 0, good, NULL);
    support_strings(&conf, "labels", 1, npy_write("y", "<i4", "(2,)", y, 8), NULL);
    expect(SW_ERR_FORMAT, "/y: record 1: label -3", "is negative");
    support_strings(&conf, "labels", 1, npy_write("y", "<f8", "(2,)", half, 16), NULL);
    expect(SW_ERR_FORMAT, "/y: record 1: value 0.5", "whole number");
    support_strings(&conf, "labels", 1, npy_write("y", "<i4", "(1,)", y, 4), NULL);
    expect(SW_ERR_FORMAT, "/y: field label has 1 records", "image has 2 in ");
    support_strings(&conf, "labels", 1, support_path("none"), NULL);
    expect(SW_ERR_NOTFOUND, "/none", "");

    support_init(&conf, "npy");
    support_strings(&conf, "paths", 0, good, npy_write("z", "<f4", "(1, 3)", x, 12));
    expect(SW_ERR_FORMAT, "/z: the shape or type of its rows differs from that of", "/x");
    support_strings(&conf, "paths", 0, good, NULL);
    support_strings(&conf, "fields", 1, "text", NULL);
    expect(SW_ERR_INVALID, "fields: 'text', expected NAME:FILE", "");
    support_strings(&conf, "fields", 1, "image:q", NULL);
    expect(SW_ERR_INVALID, "fields: image is already defined by the key paths", "");
}

static void a_non_finite_value_is_an_error_of_its_record(void **state)
{
    float x[4] = {1, 2, 3, __builtin_nanf("")};
    unsigned char scratch[64];
    const void *out = NULL;
    struct sw_records r;
    struct sw_err err = {0};
    support_init(&conf, "npy");
    support_strings(&conf, "paths", 0, npy_write("x", "<f4", "(2, 2)", x, 16), NULL);
    ASSERT_OK(open_it(&r, &err));
    assert_true(((const float *)get(&r, 0, 0))[1] == 2);
    assert_int_equal(r.format->fetch(&r, 1, 0, scratch, &out, &err), SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "record 1: ");
    ASSERT_CONTAINS(err.text, "/x: contains a value that is not finite");
    sw_records_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_and_labels_of_several_files),
        cmocka_unit_test(every_type_is_converted_to_the_field_type),
        cmocka_unit_test(label_sets_and_further_fields_keep_their_shapes),
        cmocka_unit_test(shapes_of_images),
        cmocka_unit_test(errors_name_file_record_and_expected_value),
        cmocka_unit_test(a_non_finite_value_is_an_error_of_its_record),
    };
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
