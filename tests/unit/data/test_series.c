/* The series format: windows over arrays and tables, which never cross the end of a sequence or a
 * file, and files that do not fit; and generated series. */
#include "npy_support.h"

#include "data/synthetic_motion.h"
#include <math.h>

static struct support_conf conf;

static int open_paths(const char *a, const char *b, int64_t order, struct sw_records *r,
                      struct sw_err *err)
{
    const struct sw_format_args args = {.conf = conf.bytes, .split = "train"};
    support_init(&conf, "series");
    support_int(&conf, "order", order);
    support_strings(&conf, "paths", 0, a, b);
    return sw_records_open(r, conf.format, &args, err);
}

static const float *get(const struct sw_records *r, int64_t record, const char *field)
{
    static _Alignas(64) float scratch[256];
    const void *out = NULL;
    struct sw_err err = {0};
    for (int f = 0; f < r->field_count; f++)
        if (!strcmp(r->field[f].name, field)) {
            ASSERT_OK(r->format->fetch(r, record, f, scratch, &out, &err));
            return out;
        }
    fail_msg("no field %s", field);
    return NULL;
}

/* Values of frame t are 10 t + d, in each file from another t on. */
static void assert_window(const struct sw_records *r, int64_t record, int order, int first)
{
    for (int i = 0; i < order * 2; i++)
        assert_true(get(r, record, "past")[i] == (float)(10 * (first + i / 2) + i % 2));
    for (int d = 0; d < 2; d++) {
        assert_true(get(r, record, "last")[d] == (float)(10 * (first + order - 1) + d));
        assert_true(get(r, record, "frame")[d] == (float)(10 * (first + order) + d));
    }
}

static void windows_stay_within_a_sequence_and_a_file(void **state)
{
    struct sw_records r;
    struct sw_err err = {0};
    float value[2 * 4 * 2];
    for (int i = 0; i < 16; i++)
        value[i] = (float)(10 * (i / 2) + i % 2);
    const char *array = npy_write("a.npy", "<f4", "(2, 4, 2)", value, sizeof value);
    const char *table = support_write("t.csv", "80,81\n90, 91\n100,101\n", 21);

    ASSERT_OK(open_paths(array, table, 2, &r, &err));
    assert_int_equal(r.count, 2 + 2 + 1);
    assert_int_equal(r.field_count, 3);
    assert_int_equal(sw_field_count(&r.field[0]), 4);
    const int first[] = {0, 1, 4, 5, 8};
    for (int i = 0; i < 5; i++)
        assert_window(&r, i, 2, first[i]);
    sw_records_close(&r);

    ASSERT_OK(open_paths(array, NULL, 3, &r, &err));
    assert_int_equal(r.count, 2);
    assert_window(&r, 1, 3, 4);
    sw_records_close(&r);
}

static void integers_and_compressed_arrays_are_read(void **state)
{
    struct sw_records r;
    struct sw_err err = {0};
    const int32_t value[] = {0, 1, 10, 11, 20, 21};
    ASSERT_OK(
        open_paths(npy_gzip("a.npy.gz", "<i4", "(3, 2)", value, sizeof value), NULL, 2, &r, &err));
    assert_int_equal(r.count, 1);
    assert_window(&r, 0, 2, 0);
    sw_records_close(&r);
}

static void files_that_do_not_fit_are_refused(void **state)
{
    const float value[] = {0, 1, 10, 11, 20, 21}, nan[] = {0, NAN, 1, 2};
    const char *array = npy_write("a.npy", "<f4", "(3, 2)", value, sizeof value);
    const struct {
        const char *a, *b, *part;
        int64_t order;
    } cases[] = {
        {array, NULL, "has 3 frames; order = 3 requires at least 4", 3},
        {array, support_write("u.csv", "1,2,3\n4,5,6\n", 12),
         "a frame has 3 values, in earlier files 2", 1},
        {support_write("v.csv", "1,2\n3\n", 6), NULL, "a frame has 1 values, in earlier", 1},
        {support_write("w.csv", "1,2\n3,x\n", 8), NULL, "line 2, column 2: 'x' is no number", 1},
        {npy_write("f.npy", "<f4", "(6,)", value, sizeof value), NULL, "1 dimensions", 1},
        {npy_write("n.npy", "<f4", "(2, 2)", nan, sizeof nan), NULL, "n.npy: value 2", 1},
        {npy_write("s.npy", "<f4", "(30, 2)", value, sizeof value), NULL, "shorter than", 1},
        {npy_write("z.npy", "<f4", "(3, 0)", value, 0), NULL, "no values", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sw_records r;
        struct sw_err err = {0};
        assert_int_equal(open_paths(cases[i].a, cases[i].b, cases[i].order, &r, &err),
                         SW_ERR_FORMAT);
        ASSERT_CONTAINS(err.text, cases[i].part);
    }
}

/* ---- Generated series ---- */

static int open_synthetic(const char *split, struct sw_records *r, struct sw_err *err)
{
    const struct sw_format_args args = {.conf = conf.bytes, .split = split};
    const int series = 4;
    support_init(&conf, "synthetic");
    support_set(&conf, "kind", &series, sizeof series);
    support_int(&conf, "seed", 1);
    support_int(&conf, "order", 3);
    support_int(&conf, "frames", 20);
    support_int(&conf, "records", 17 * 40);
    return sw_records_open(r, conf.format, &args, err);
}

static void generated_series_have_windows_of_one_motion(void **state)
{
    struct sw_records r, test;
    struct sw_err err = {0};
    float next[12], here[12];
    int styles[SW_MOTION_STYLES] = {0};
    ASSERT_OK(open_synthetic("train", &r, &err));
    ASSERT_OK(open_synthetic("test", &test, &err));
    assert_int_equal(sw_field_count(&r.field[0]), 36);
    for (int64_t i = 0; i < r.count; i++) {
        const int32_t style = *(const int32_t *)(const void *)get(&r, i, "label");
        assert_in_range(style, 0, SW_MOTION_STYLES - 1);
        styles[style]++;
        memcpy(next, get(&r, i, "frame"), sizeof next);
        memcpy(here, get(&r, i, "past") + 24, sizeof here);
        assert_memory_equal(here, get(&r, i, "last"), sizeof here);
        /* The frame to predict is the last one of the next window of the same sequence. */
        if (i % 17 < 16)
            assert_memory_equal(next, get(&r, i + 1, "last"), sizeof next);
        assert_memory_not_equal(next, get(&test, i, "frame"), sizeof next);
    }
    assert_true(styles[0] > 100 && styles[1] > 100);
    sw_records_close(&r);
    sw_records_close(&test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_stay_within_a_sequence_and_a_file),
        cmocka_unit_test(integers_and_compressed_arrays_are_read),
        cmocka_unit_test(files_that_do_not_fit_are_refused),
        cmocka_unit_test(generated_series_have_windows_of_one_motion),
    };
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
