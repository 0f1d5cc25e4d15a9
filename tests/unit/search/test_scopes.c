/* Precision and recall at scope against counting, and the series of scopes. */
#include "search/score.h"
#include "search_support.h"

static void scopes_ascend_from_one_to_all_rows(void **state)
{
    static const int64_t rows[] = {1, 2, 9, 10, 11, 12, 13, 100, 693, 100000, INT32_MAX};
    struct sw_scope_curve c;

    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        sw_scope_curve_begin(&c, rows[n]);
        assert_in_range(c.count, 1, SW_MOST_SCOPES);
        assert_int_equal(c.at[0], 1);
        assert_int_equal(c.at[c.count - 1], rows[n]);
        for (int i = 1; i < c.count; i++) {
            assert_true(c.at[i] > c.at[i - 1]);
            assert_true(2 * c.at[i] <= 4 * c.at[i - 1] || c.at[i] < 3); /* dense enough to draw */
        }
    }

    sw_scope_curve_begin(&c, 25);
    const int64_t all[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 25};
    assert_int_equal(c.count, sizeof all / sizeof *all);
    assert_memory_equal(c.at, all, sizeof all);
    sw_scope_curve_begin(&c, 0);
    assert_int_equal(c.count, 0);
}

static void means_are_those_of_counting(void **state)
{
    enum { ROWS = 57, QUERIES = 40 };
    static bool relevant[QUERIES][ROWS];
    struct sw_scope_curve c;
    int64_t hits[SW_MOST_SCOPES];

    sw_scope_curve_begin(&c, ROWS);
    for (int q = 0; q < QUERIES; q++) {
        for (int i = 0; i < ROWS; i++)
            relevant[q][i] = random_bits(3, (uint64_t)(q * ROWS + i)) % 7 == 0 || i == q;
        sw_scope_hits(&c, relevant[q], ROWS, hits);
        sw_scope_curve_add(&c, hits);
    }
    sw_scope_curve_end(&c, QUERIES);

    for (int i = 0; i < c.count; i++) {
        double precision = 0, recall = 0;

        for (int q = 0; q < QUERIES; q++) {
            int found = 0, all = 0;

            for (int r = 0; r < ROWS; r++) {
                found += r < c.at[i] && relevant[q][r];
                all += relevant[q][r];
            }
            precision += (double)found / (double)c.at[i];
            recall += (double)found / all;
        }
        assert_float_equal(c.precision[i], precision / QUERIES, 1e-12);
        assert_float_equal(c.recall[i], recall / QUERIES, 1e-12);
    }
    assert_float_equal(c.recall[c.count - 1], 1, 1e-12);
}

/* Points on a line with two classes; the query itself is left out, so 4 results are ranked. */
static void score_has_the_curve_whatever_the_threads(void **state)
{
    static const float line[] = {0, 1, 3, 6, 10};
    const int32_t label[] = {0, 1, 0, 1, 2};
    const struct sw_vectors points = {line, 5, 1};
    const struct sw_row_labels labels = {.count = 5, .classes = 3, .single = label};
    const struct sw_score_args a = {.base = &points,
                                    .queries = &points,
                                    .base_labels = &labels,
                                    .query_labels = &labels,
                                    .leave_out_same = true};
    struct sw_err err;

    for (int threads = 1; threads < 4; threads++) {
        struct sw_score s = {0};

        /* Ranks of the only relevant row: 2, 3, 2, 3 (test_score.c); the last query has none. */
        ASSERT_OK(sw_score_map(&a, threads, &s, &err));
        assert_int_equal(s.scopes.count, 4);
        assert_int_equal(s.scopes.at[3], 4);
        assert_float_equal(s.scopes.precision[0], 0, 1e-15);
        assert_float_equal(s.scopes.precision[1], 2.0 / 4 / 2, 1e-15);
        assert_float_equal(s.scopes.precision[2], 4.0 / 4 / 3, 1e-15);
        assert_float_equal(s.scopes.precision[3], 1.0 / 4, 1e-15);
        assert_float_equal(s.scopes.recall[1], 0.5, 1e-15);
        assert_float_equal(s.scopes.recall[2], 1, 1e-15);
        sw_score_fini(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scopes_ascend_from_one_to_all_rows),
        cmocka_unit_test(means_are_those_of_counting),
        cmocka_unit_test(score_has_the_curve_whatever_the_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
