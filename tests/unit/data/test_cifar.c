/* The formats cifar10 and cifar100: binary records, plain and .gz, and files that are damaged. */
#include "data_support.h"

enum { RECORD = 3073 };

static unsigned char *make_records(int64_t records, size_t *bytes)
{
    *bytes = (size_t)records * RECORD;
    unsigned char *b = calloc(1, *bytes + RECORD);
    assert_non_null(b);
    for (int64_t i = 0; i < records; i++) {
        b[i * RECORD] = (unsigned char)(i * 7 % 10);
        for (int k = 1; k < RECORD; k++)
            b[i * RECORD + k] = (unsigned char)(i + k);
    }
    return b;
}

static int open_path(const char *a, const char *b, struct sw_records *r, struct sw_err *err)
{
    struct support_conf c;
    support_init(&c, "cifar10");
    support_strings(&c, "paths", 0, a, b);
    const struct sw_format_args args = {.conf = c.bytes, .split = "train"};
    return sw_records_open(r, c.format, &args, err);
}

static void check_record(const struct sw_records *r, int64_t record, int64_t i)
{
    unsigned char scratch[3072];
    const void *out = NULL;
    struct sw_err err = {0};
    ASSERT_OK(r->format->fetch(r, record, 1, scratch, &out, &err));
    assert_int_equal(*(const int32_t *)out, i * 7 % 10);
    ASSERT_OK(r->format->fetch(r, record, 0, scratch, &out, &err));
    for (int k = 0; k < 3072; k++)
        assert_int_equal(((const unsigned char *)out)[k], (i + k + 1) & 255);
}

static void cifar10_reads_several_files_plain_and_gzip(void **state)
{
    size_t n;
    unsigned char *b = make_records(300, &n);
    struct sw_records r;
    struct sw_err err = {0};
    const char *plain = support_write("a.bin", b, n), *gzip = support_gzip("b.bin.gz", b, n);
    ASSERT_OK(open_path(plain, gzip, &r, &err));
    assert_int_equal(r.count, 600);
    assert_int_equal(r.classes, 10);
    assert_int_equal(r.field[0].dim[0], 3);
    assert_int_equal(r.field[0].dim[2], 32);
    for (int64_t i = 0; i < 600; i += 23)
        check_record(&r, i, i % 300);
    sw_records_close(&r);
    free(b);
}

static void expect(const char *path, const char *part, const char *more)
{
    struct sw_records r;
    struct sw_err err = {0};
    assert_int_equal(open_path(path, NULL, &r, &err), SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, path);
    ASSERT_CONTAINS(err.text, part);
    ASSERT_CONTAINS(err.text, more);
}

static void cifar10_errors_name_file_record_and_expected_value(void **state)
{
    size_t n;
    unsigned char *b = make_records(300, &n);
    expect(support_write("x", b, n - 1), "record 299 is truncated: 3072 bytes", "expected 3073");
    expect(support_gzip("x", b, n - 1), "record 299 is truncated: 3072 bytes", "expected 3073");
    expect(support_write("x", b, n + 5), "record 300 is truncated: 5 bytes", "expected 3073");
    expect(support_write("x", b, 0), "the file is empty", "3073 bytes");
    b[287 * RECORD] = 10;
    expect(support_write("x", b, n), "record 287: label 10", "expected 0 to 9");
    expect(support_gzip("x", b, n), "record 287: label 10", "expected 0 to 9");
    free(b);
}

static void cifar10_rejects_false_gzip_sizes(void **state)
{
    size_t n, bytes = 0;
    unsigned char *b = make_records(3, &n);
    char *file = NULL;
    struct sw_err err = {0};
    ASSERT_OK(sw_os_read_file(support_gzip("x", b, n), 1 << 20, &file, &bytes, &err));
    const uint32_t claims[] = {2 * RECORD, 4 * RECORD, 1000000u * RECORD};
    static const char *const parts[] = {"data follow the last record (1)", "in record 3",
                                        "compressed bytes can hold"};
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 4; k++)
            file[bytes - 4 + (size_t)k] = (char)(claims[i] >> (8 * k));
        struct sw_records r;
        support_write("lies.gz", file, bytes);
        assert_int_equal(open_path(support_path("lies.gz"), NULL, &r, &err), SW_ERR_FORMAT);
        /* zlib checks the size itself when the claim is reached; either way the file is refused. */
        if (!strstr(err.text, "damaged"))
            ASSERT_CONTAINS(err.text, parts[i]);
    }
    sw_free(file);
    free(b);
}

static void cifar10_reports_a_file_that_shrank(void **state)
{
    size_t n;
    unsigned char *b = make_records(5, &n), scratch[3072];
    const void *out = NULL;
    struct sw_records r;
    struct sw_err err = {0};
    const char *path = support_write("shrinks", b, n);
    ASSERT_OK(open_path(path, NULL, &r, &err));
    assert_int_equal(truncate(path, 4 * RECORD + 100), 0);
    check_record(&r, 3, 3);
    assert_int_equal(r.format->fetch(&r, 4, 0, scratch, &out, &err), SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "record 4");
    ASSERT_CONTAINS(err.text, "shrinks");
    sw_records_close(&r);
    free(b);
}

static int open_cifar100(const char *path, int labels, struct sw_records *r, struct sw_err *err)
{
    struct support_conf c;
    support_init(&c, "cifar100");
    support_strings(&c, "paths", 0, path, NULL);
    support_set(&c, "labels", &labels, sizeof labels);
    const struct sw_format_args args = {.conf = c.bytes, .split = "train"};
    return sw_records_open(r, c.format, &args, err);
}

static void cifar100_records_have_two_labels(void **state)
{
    enum { TWO = 3074, COUNT = 300 };
    unsigned char *b = calloc(COUNT, TWO), scratch[3072];
    struct sw_err err = {0};
    for (int i = 0; i < COUNT; i++) {
        b[i * TWO] = (unsigned char)(i % 20);
        b[i * TWO + 1] = (unsigned char)(i * 3 % 100);
        for (int k = 0; k < 3072; k++)
            b[i * TWO + 2 + k] = (unsigned char)(i + k);
    }
    const char *path = support_gzip("c", b, COUNT * TWO);
    for (int fine = 0; fine < 2; fine++) {
        struct sw_records r;
        const void *out = NULL;
        ASSERT_OK(open_cifar100(path, fine, &r, &err));
        assert_int_equal(r.count, COUNT);
        assert_int_equal(r.classes, fine ? 100 : 20);
        for (int i = 0; i < COUNT; i += 13) {
            ASSERT_OK(r.format->fetch(&r, i, 1, scratch, &out, &err));
            assert_int_equal(*(const int32_t *)out, fine ? i * 3 % 100 : i % 20);
            ASSERT_OK(r.format->fetch(&r, i, 0, scratch, &out, &err));
            for (int k = 0; k < 3072; k++)
                assert_int_equal(((const unsigned char *)out)[k], (i + k) & 255);
        }
        sw_records_close(&r);
    }
    static const char *const parts[] = {"record 7: coarse label 20, expected 0 to 19",
                                        "record 7: fine label 100, expected 0 to 99"};
    for (int k = 0; k < 2; k++) {
        struct sw_records r;
        const unsigned char kept = b[7 * TWO + k];
        b[7 * TWO + k] = k ? 100 : 20;
        path = support_write("x", b, COUNT * TWO);
        for (int fine = 0; fine < 2; fine++) {
            assert_int_equal(open_cifar100(path, fine, &r, &err), SW_ERR_FORMAT);
            ASSERT_CONTAINS(err.text, parts[k]);
        }
        b[7 * TWO + k] = kept;
    }
    struct sw_records r;
    path = support_write("x", b, COUNT * TWO - 1);
    assert_int_equal(open_cifar100(path, 1, &r, &err), SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "record 299 is truncated: 3073 bytes, expected 3074 (2 for labels");
    free(b);
}

static void cifar10_reads_the_real_files(void **state)
{
    static const int32_t first_train[] = {6, 9, 9, 4, 1, 1, 2, 7, 8, 3};
    static const int32_t first_test[] = {3, 8, 8, 0, 6, 6, 1, 6, 3, 1};
    static const char *const names[] = {"cifar10/data_batch_1.bin", "cifar10/test_first1000.bin"};
    for (int i = 0; i < 2; i++) {
        char path[512];
        unsigned char scratch[3072];
        const void *out = NULL;
        struct sw_records r;
        struct sw_err err = {0};
        if (!support_shared(names[i], path))
            skip();
        ASSERT_OK(open_path(path, NULL, &r, &err));
        assert_int_equal(r.count, i ? 1000 : 10000);
        for (int k = 0; k < 10; k++) {
            ASSERT_OK(r.format->fetch(&r, k, 1, scratch, &out, &err));
            assert_int_equal(*(const int32_t *)out, i ? first_test[k] : first_train[k]);
        }
        sw_records_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cifar10_reads_several_files_plain_and_gzip),
        cmocka_unit_test(cifar10_errors_name_file_record_and_expected_value),
        cmocka_unit_test(cifar10_rejects_false_gzip_sizes),
        cmocka_unit_test(cifar10_reports_a_file_that_shrank),
        cmocka_unit_test(cifar100_records_have_two_labels),
        cmocka_unit_test(cifar10_reads_the_real_files),
    };
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
