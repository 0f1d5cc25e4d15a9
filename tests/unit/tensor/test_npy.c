/* .npy arrays: headers as numpy writes them, conversions, files that lie, and files that we write.
 */
#include "tensor/npy.h"
#include "unit/faulty_os.h"
#include "unit/scratch.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define ASSERT_CONTAINS(text, part)                                                                \
    do {                                                                                           \
        if (!strstr((text), (part)))                                                               \
            fail_msg("\"%s\" lacks \"%s\"", (text), (part));                                       \
    } while (0)

/* A header as numpy.save pads it: to 64 bytes, the last one a newline. Returns its length. */
static size_t make_header(char *out, int version, const char *dict)
{
    const size_t prefix = version == 1 ? 10 : 12;
    const size_t whole = (prefix + strlen(dict) + 1 + 63) / 64 * 64, length = whole - prefix;
    memcpy(out, "\x93NUMPY", 6);
    out[6] = (char)version;
    out[7] = 0;
    for (size_t i = 8; i < prefix; i++)
        out[i] = (char)(length >> (8 * (i - 8)));
    memset(out + prefix, ' ', length);
    memcpy(out + prefix, dict, strlen(dict));
    out[whole - 1] = '\n';
    return whole;
}

static int parse(int version, const char *dict, struct sw_npy_header *h, struct sw_err *err)
{
    char head[1024];
    return sw_npy_parse(head, make_header(head, version, dict), "x.npy", h, err);
}

static void headers_of_all_versions_and_types_are_read(void **state)
{
    static const char *const descr[] = {"|b1", "|u1", "|i1", "<i2", "<i4", "<i8", "<f4", "<f8"};
    struct sw_npy_header h;
    struct sw_err err = {0};
    char dict[256];
    for (int version = 1; version <= 3; version++) {
        for (int t = SW_NPY_B1; t <= SW_NPY_F8; t++) {
            snprintf(dict, sizeof dict,
                     "{'descr': '%s', 'fortran_order': False, 'shape': (2, 3, 4), }", descr[t]);
            assert_int_equal(parse(version, dict, &h, &err), SW_OK);
            assert_int_equal(h.dtype, t);
            assert_int_equal(h.ndim, 3);
            assert_int_equal(h.shape[2], 4);
            assert_int_equal(h.count, 24);
            assert_int_equal(h.data_offset, 128);
            assert_int_equal(sw_npy_rows(&h), 2);
            assert_int_equal(sw_npy_row_elements(&h), 12);
        }
    }
    assert_int_equal(parse(1, "{\"shape\":(),'fortran_order':True,'descr':'<f8'}", &h, &err),
                     SW_OK);
    assert_int_equal(h.ndim, 0);
    assert_int_equal(h.count, 1);
    assert_int_equal(parse(1, "{'descr': '<i4', 'fortran_order': True, 'shape': (7,), }", &h, &err),
                     SW_OK);
    assert_int_equal(h.shape[0], 7);
    assert_int_equal(
        parse(1, "{'descr': '<i4', 'fortran_order': False, 'shape': (0, 5), }", &h, &err), SW_OK);
    assert_int_equal(h.count, 0);
}

static void refuse(int version, const char *dict, int code, const char *part)
{
    struct sw_npy_header h;
    struct sw_err err = {0};
    assert_int_equal(parse(version, dict, &h, &err), code);
    ASSERT_CONTAINS(err.text, "x.npy: ");
    ASSERT_CONTAINS(err.text, part);
}

static void unsupported_arrays_are_rejected_with_advice(void **state)
{
    refuse(1, "{'descr': '>f4', 'fortran_order': False, 'shape': (3,), }", SW_ERR_UNSUPPORTED,
           "astype('<f4')");
    refuse(1, "{'descr': '<c8', 'fortran_order': False, 'shape': (3,), }", SW_ERR_UNSUPPORTED,
           "type '<c8'");
    refuse(1, "{'descr': '|O', 'fortran_order': False, 'shape': (3,), }", SW_ERR_UNSUPPORTED,
           "type '|O'");
    refuse(1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,), }",
           SW_ERR_UNSUPPORTED, "structured arrays");
    refuse(1, "{'descr': '<f4', 'fortran_order': True, 'shape': (3, 4), }", SW_ERR_UNSUPPORTED,
           "ascontiguousarray");
    refuse(4, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }", SW_ERR_UNSUPPORTED,
           "version 4.0");
    refuse(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }",
           SW_ERR_UNSUPPORTED, "more than 8 dimensions");
}

static void damaged_headers_are_rejected(void **state)
{
    static const char *const bad[] = {
        "",
        "{}",
        "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)",
        "{'descr': '<f4', 'fortran_order': False, 'shape': 3}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3 4)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'shape': (3,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} x",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (3,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'more': 1}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4294967296, 4294967296)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904,)}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        refuse(1, bad[i], SW_ERR_FORMAT, i < 12 ? "damaged header" : "size of its shape overflows");
    char head[1024];
    struct sw_npy_header h;
    struct sw_err err = {0};
    const size_t n =
        make_header(head, 2, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }");
    for (size_t cut = 0; cut < n; cut++) {
        char *exact = malloc(cut ? cut : 1);
        memcpy(exact, head, cut);
        assert_int_equal(sw_npy_parse(exact, cut, "x.npy", &h, &err), SW_ERR_FORMAT);
        free(exact);
    }
    head[11] = 1; /* 2^24 bytes of header */
    assert_int_equal(sw_npy_parse(head, n, "x.npy", &h, &err), SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "expected 2 to 65536");
    head[0] = 'P';
    assert_int_equal(sw_npy_parse(head, n, "x.npy", &h, &err), SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "not a NumPy array");
}

static void conversion_rejects_values_out_of_range(void **state)
{
    const double reals[] = {-2, 0, 255, 2147483647.0};
    const int64_t wholes[] = {0, 255, INT32_MAX};
    const int16_t shorts[] = {-300, 300};
    const unsigned char truths[] = {0, 1, 7};
    float f[4];
    int32_t i[4];
    unsigned char u[4];
    int64_t at = -1;
    struct sw_err err = {0};
    assert_int_equal(sw_npy_convert(SW_NPY_F8, reals, 4, SW_F32, f, &at, &err), SW_OK);
    assert_true(f[0] == -2 && f[3] == 2147483648.0f);
    assert_int_equal(sw_npy_convert(SW_NPY_F8, reals, 4, SW_I32, i, &at, &err), SW_OK);
    assert_int_equal(i[3], INT32_MAX);
    assert_int_equal(sw_npy_convert(SW_NPY_F8, reals + 1, 2, SW_U8, u, &at, &err), SW_OK);
    assert_int_equal(u[1], 255);
    assert_int_equal(sw_npy_convert(SW_NPY_F8, reals, 4, SW_U8, u, &at, &err), SW_ERR_FORMAT);
    assert_int_equal(at, 0);
    ASSERT_CONTAINS(err.text, "value -2, expected a whole number 0 to 255");
    assert_int_equal(sw_npy_convert(SW_NPY_I8, wholes, 3, SW_U8, u, &at, &err), SW_ERR_FORMAT);
    assert_int_equal(at, 2);
    assert_int_equal(sw_npy_convert(SW_NPY_I2, shorts, 2, SW_I32, i, &at, &err), SW_OK);
    assert_int_equal(i[0], -300);
    assert_int_equal(sw_npy_convert(SW_NPY_B1, truths, 3, SW_F32, f, &at, &err), SW_OK);
    assert_true(f[0] == 0 && f[2] == 1);
    const double bad[] = {NAN, INFINITY, 1e39};
    for (int k = 0; k < 3; k++)
        assert_int_equal(sw_npy_convert(SW_NPY_F8, bad + k, 1, SW_F32, f, &at, &err),
                         SW_ERR_FORMAT);
    const float half = 0.5f;
    assert_int_equal(sw_npy_convert(SW_NPY_F4, &half, 1, SW_I32, i, &at, &err), SW_ERR_FORMAT);
    const int64_t large = INT64_C(1) << 40;
    assert_int_equal(sw_npy_convert(SW_NPY_I8, &large, 1, SW_I32, i, &at, &err), SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "1099511627776");
}

static void written_arrays_are_read_back(void **state)
{
    const int64_t row[] = {2, 3};
    float rows[5][6], back[5][6];
    struct sw_npy_writer w;
    struct sw_npy_file f;
    struct sw_err err = {0};
    for (int i = 0; i < 30; i++)
        rows[i / 6][i % 6] = (float)i / 4;
    const char *path = scratch_path("a.npy");
    assert_int_equal(sw_npy_writer_begin(&w, path, SW_F32, 2, row, &err), SW_OK);
    assert_int_equal(sw_npy_append(&w, 2, rows, &err), SW_OK);
    assert_int_equal(sw_npy_append(&w, 3, rows[2], &err), SW_OK);
    assert_int_equal(sw_npy_writer_commit(&w, &err), SW_OK);
    sw_npy_writer_abandon(&w);
    char *text = NULL;
    size_t bytes = 0;
    assert_int_equal(sw_os_read_file(path, 1 << 20, &text, &bytes, &err), SW_OK);
    assert_int_equal(bytes, 256 + sizeof rows);
    const char *want = "{'descr': '<f4', 'fortran_order': False, 'shape': (5, 2, 3), }";
    assert_memory_equal(text, "\x93NUMPY\x01\x00\xf6\x00", 10);
    assert_memory_equal(text + 10, want, strlen(want));
    assert_int_equal(text[255], '\n');
    assert_memory_equal(text + 256, rows, sizeof rows);
    sw_free(text);

    assert_int_equal(sw_npy_open(&f, path, &err), SW_OK);
    assert_int_equal(sw_npy_rows(&f.header), 5);
    assert_int_equal(sw_npy_read_rows(&f, 1, 3, SW_F32, back, &err), SW_OK);
    assert_memory_equal(back, rows[1], sizeof rows[0] * 3);
    int32_t whole[6];
    assert_int_equal(sw_npy_read_rows(&f, 1, 1, SW_I32, whole, &err), SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "a.npy: row 1: value 1.5, expected a whole number");
    assert_int_equal(sw_npy_read_rows(&f, 3, 3, SW_F32, back, &err), SW_ERR_INVALID);
    sw_npy_close(&f);

    const int64_t shape[] = {4};
    const int32_t labels[] = {3, -1, 4, 1};
    assert_int_equal(sw_npy_write(path, SW_I32, 1, shape, labels, &err), SW_OK);
    assert_int_equal(sw_npy_open(&f, path, &err), SW_OK);
    assert_int_equal(f.header.dtype, SW_NPY_I4);
    assert_int_equal(sw_npy_read_rows(&f, 0, 4, SW_I32, whole, &err), SW_OK);
    assert_memory_equal(whole, labels, sizeof labels);
    sw_npy_close(&f);
}

static void long_arrays_are_read_in_pieces(void **state)
{
    const int64_t shape[] = {300000, 3};
    const size_t count = 900000;
    int32_t *values = malloc(count * sizeof *values);
    float *back = malloc(count * sizeof *back);
    struct sw_npy_file f;
    struct sw_err err = {0};
    for (size_t i = 0; i < count; i++)
        values[i] = (int32_t)(i * 7 % 100003);
    assert_int_equal(sw_npy_write(scratch_path("l.npy"), SW_I32, 2, shape, values, &err), SW_OK);
    assert_int_equal(sw_npy_open(&f, scratch_path("l.npy"), &err), SW_OK);
    assert_int_equal(sw_npy_read_rows(&f, 0, 300000, SW_F32, back, &err), SW_OK);
    for (size_t i = 0; i < count; i++)
        assert_true(back[i] == (float)values[i]);
    sw_npy_close(&f);
    free(values);
    free(back);
}

static void files_of_the_wrong_size_are_rejected(void **state)
{
    const int64_t shape[] = {4, 2};
    const unsigned char values[8] = {0};
    struct sw_npy_file f;
    struct sw_err err = {0};
    const char *path = scratch_path("s.npy");
    for (int change = -1; change <= 1; change += 2) {
        assert_int_equal(sw_npy_write(path, SW_U8, 2, shape, values, &err), SW_OK);
        assert_int_equal(truncate(path, 264 + change), 0);
        assert_int_equal(sw_npy_open(&f, path, &err), SW_ERR_FORMAT);
        ASSERT_CONTAINS(err.text, "s.npy: has 26");
        ASSERT_CONTAINS(err.text, "requires 264");
    }
    for (int bytes = 255; bytes >= 0; bytes -= 5) {
        assert_int_equal(truncate(path, bytes), 0);
        assert_int_equal(sw_npy_open(&f, path, &err), SW_ERR_FORMAT);
        ASSERT_CONTAINS(err.text, "inside its header");
    }
    assert_int_equal(sw_npy_open(&f, scratch_path("missing.npy"), &err), SW_ERR_NOTFOUND);
    assert_int_equal(sw_npy_open(&f, "/dev/null", &err), SW_ERR_FORMAT);
}

static void a_failed_write_keeps_the_old_file_and_no_temporary_file(void **state)
{
    const int64_t shape[] = {3};
    const int32_t old[] = {1, 2, 3}, new[] = {4, 5, 6};
    struct sw_err err = {0};
    int calls = 0;
    scratch_clear();
    const char *path = scratch_path("o.npy");
    for (int at = 1;; at++) {
        assert_int_equal(sw_npy_write(path, SW_I32, 1, shape, old, &err), SW_OK);
        faulty_begin((struct faulty_plan){.kinds = FAULTY_ALL & ~FAULTY_CLOSE, .at = at});
        const int rc = sw_npy_write(path, SW_I32, 1, shape, new, &err);
        calls = faulty.calls;
        faulty_end();
        struct sw_npy_file f;
        int32_t back[3];
        assert_int_equal(scratch_count(), 1);
        assert_int_equal(sw_npy_open(&f, path, &err), SW_OK);
        assert_int_equal(sw_npy_read_rows(&f, 0, 3, SW_I32, back, &err), SW_OK);
        sw_npy_close(&f);
        const bool is_new = !memcmp(back, new, sizeof new);
        /* A failed sync of the folder comes after the rename. */
        assert_true(is_new || (rc != SW_OK && !memcmp(back, old, sizeof old)));
        if (at > calls)
            break;
    }
    assert_true(calls > 6);
    const int64_t negative[] = {2, -1};
    assert_int_equal(sw_npy_write(path, SW_F32, 2, negative, old, &err), SW_ERR_INVALID);
}

static void every_failing_call_while_reading_is_an_error(void **state)
{
    const int64_t shape[] = {3};
    const int32_t values[] = {1, 2, 3};
    int32_t back[3];
    struct sw_err err = {0};
    struct sw_npy_file f = {0};
    const char *path = scratch_path("r.npy");
    assert_int_equal(sw_npy_write(path, SW_I32, 1, shape, values, &err), SW_OK);
    for (int at = 1;; at++) {
        faulty_begin((struct faulty_plan){.kinds = FAULTY_ALL & ~FAULTY_CLOSE, .at = at});
        int rc = sw_npy_open(&f, path, &err);
        if (!rc)
            rc = sw_npy_read_rows(&f, 0, 3, SW_I32, back, &err);
        sw_npy_close(&f);
        const bool reached = faulty.calls >= at;
        assert_int_equal(faulty.live_allocations, 0);
        faulty_end();
        if (!reached) {
            assert_int_equal(rc, SW_OK);
            break;
        }
        assert_int_not_equal(rc, SW_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers_of_all_versions_and_types_are_read),
        cmocka_unit_test(unsupported_arrays_are_rejected_with_advice),
        cmocka_unit_test(damaged_headers_are_rejected),
        cmocka_unit_test(conversion_rejects_values_out_of_range),
        cmocka_unit_test(written_arrays_are_read_back),
        cmocka_unit_test(long_arrays_are_read_in_pieces),
        cmocka_unit_test(files_of_the_wrong_size_are_rejected),
        cmocka_unit_test(a_failed_write_keeps_the_old_file_and_no_temporary_file),
        cmocka_unit_test(every_failing_call_while_reading_is_an_error),
    };
    return cmocka_run_group_tests(tests, scratch_begin, scratch_end);
}
