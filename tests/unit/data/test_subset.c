/* Which records a section takes: parts that share a file, mixed parts, and streams. */
#include "data/subset.h"
#include "data_support.h"

static int init(struct sw_subset *s, double from, double to, int64_t seed, int64_t streams,
                int64_t records, struct sw_err *err)
{
    const double both[] = {from, to};
    const struct sw_reals part = {both, to < 0 ? 0 : 2};
    return sw_subset_init(s, &part, seed, streams, records, err);
}

enum { ALL = -1 };

static void without_keys_all_records_are_in_order(void **state)
{
    struct sw_subset s;
    struct sw_err err = {0};
    ASSERT_OK(init(&s, 0, ALL, 0, 0, 17, &err));
    assert_int_equal(s.count, 17);
    for (int64_t i = 0; i < 17; i++)
        assert_int_equal(sw_subset_record(&s, i), i);
}

static void adjacent_parts_are_disjoint_and_complete(void **state)
{
    static const double cuts[][3] = {{0, 0.8, 1}, {0, 0.123, 0.5}, {0, 1500, 1797}, {2, 3, 4}};
    struct sw_err err = {0};
    for (size_t c = 0; c < sizeof cuts / sizeof cuts[0]; c++) {
        for (int64_t seed = 0; seed < 3; seed++) {
            unsigned char seen[1797] = {0};
            int64_t taken = 0;
            for (int half = 0; half < 2; half++) {
                struct sw_subset s;
                ASSERT_OK(init(&s, cuts[c][half], cuts[c][half + 1], seed, 0, 1797, &err));
                for (int64_t i = 0; i < s.count; i++, taken++) {
                    const int64_t record = sw_subset_record(&s, i);
                    assert_true(record >= 0 && record < 1797);
                    assert_int_equal(seen[record]++, 0);
                }
            }
            const double last = cuts[c][2];
            const int64_t expected =
                last <= 1 ? (int64_t)(last * 1797 + 0.5) : (int64_t)(last - cuts[c][0]);
            assert_int_equal(taken, expected);
        }
    }
}

static void part_seed_determines_the_permutation(void **state)
{
    struct sw_subset a, b, c;
    struct sw_err err = {0};
    int64_t same = 0, in_place = 0;
    ASSERT_OK(init(&a, 0, 0.5, 1, 0, 1000, &err));
    ASSERT_OK(init(&b, 0, 0.5, 1, 0, 1000, &err));
    ASSERT_OK(init(&c, 0, 0.5, 2, 0, 1000, &err));
    for (int64_t i = 0; i < 500; i++) {
        assert_int_equal(sw_subset_record(&a, i), sw_subset_record(&b, i));
        same += sw_subset_record(&a, i) == sw_subset_record(&c, i);
        in_place += sw_subset_record(&a, i) == i;
    }
    assert_true(same < 20 && in_place < 20);
}

static void streams_continue_from_batch_to_batch(void **state)
{
    struct sw_subset s;
    struct sw_err err = {0};
    ASSERT_OK(init(&s, 3, 25, 0, 4, 30, &err));
    assert_int_equal(s.count, 20); /* 22 are 4 runs of 5, two are left over */
    for (int64_t batch = 0; batch < 5; batch++)
        for (int64_t row = 0; row < 4; row++)
            assert_int_equal(sw_subset_record(&s, 4 * batch + row), 3 + 5 * row + batch);
}

static void expect_invalid(double from, double to, int64_t seed, int64_t streams, const char *part)
{
    struct sw_subset s;
    struct sw_err err = {0};
    assert_int_equal(init(&s, from, to, seed, streams, 100, &err), SW_ERR_INVALID);
    ASSERT_CONTAINS(err.text, part);
}

static void errors_name_invalid_bounds(void **state)
{
    struct sw_subset s;
    struct sw_err err = {0};
    const double three[] = {0, 0.5, 1};
    expect_invalid(0, 101, 0, 0,
                   "part = 0, 101: expected two fractions from 0 to 1, or two integers "
                   "up to 100");
    expect_invalid(0.5, 50, 0, 0, "two integers");
    expect_invalid(50, 0.5, 0, 0, "expected two fractions");
    expect_invalid(0.5, 0.25, 0, 0, "contains none of the 100 records");
    expect_invalid(0.1, 0.101, 0, 0, "contains none");
    expect_invalid(0, ALL, 0, 101, "streams = 101 exceeds the 100 records");
    expect_invalid(0, ALL, 5, 10, "requires part_seed = 0");
    const struct sw_reals part = {three, 3};
    assert_int_equal(sw_subset_init(&s, &part, 0, 0, 100, &err), SW_ERR_INVALID);
    ASSERT_CONTAINS(err.text, "part: 3 values, expected two");
}

static void sources_return_each_record_of_their_part_once(void **state)
{
    const double bounds[] = {30, 50};
    struct support_conf c;
    struct sw_data_conf conf = support_plain();
    struct sw_source *s = NULL;
    struct sw_reader r;
    struct sw_err err = {0};
    support_idx(&c, 60);
    conf.part = (struct sw_reals){bounds, 2};
    for (int training = 0; training < 2; training++) {
        float rows[20][SUPPORT_PIXELS];
        void *out[SW_MAX_FIELDS] = {rows};
        bool seen[60] = {false};
        conf.shuffle = training;
        ASSERT_OK(support_open(&c, &conf, training, 1, &s, &err));
        assert_int_equal(s->records, 20);
        ASSERT_OK(sw_reader_init(&r, s, &err));
        ASSERT_OK(sw_source_fetch(&r, training ? 20 : 0, 20, out, &err));
        for (int i = 0; i < 20; i++) {
            const int64_t record = support_record(rows[i]);
            assert_true(record >= 30 && record < 50 && !seen[record]);
            assert_true(training || record == 30 + i);
            seen[record] = true;
        }
        struct sw_bytes text = {0};
        sw_data_describe(s, &text);
        ASSERT_CONTAINS(sw_bytes_text(&text), "idx, 20 of 60 records of 1x4x4, 10 classes, ");
        sw_bytes_fini(&text);
        sw_reader_fini(&r);
        sw_source_close(s);
    }
    conf.streams = 4;
    assert_int_equal(support_open(&c, &conf, true, 1, &s, &err), SW_ERR_INVALID);
    ASSERT_CONTAINS(err.text, "data train: streams = 4 requires shuffle = no");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_keys_all_records_are_in_order),
        cmocka_unit_test(adjacent_parts_are_disjoint_and_complete),
        cmocka_unit_test(part_seed_determines_the_permutation),
        cmocka_unit_test(streams_continue_from_batch_to_batch),
        cmocka_unit_test(errors_name_invalid_bounds),
        cmocka_unit_test(sources_return_each_record_of_their_part_once),
    };
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
