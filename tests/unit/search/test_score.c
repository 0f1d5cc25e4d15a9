/* ctest-labels: threads
 * Average precision by hand (thesis, Equation 5.12), precision at recall, recall, and their means
 * over queries and classes. */
#include "search/score.h"
#include "search_support.h"
#include <math.h>

static void average_precision_is_that_of_the_equation(void **state)
{
    const bool some[] = {true, false, true, false, false, true};
    const bool none[3] = {false}, all[3] = {true, true, true};

    assert_float_equal(sw_average_precision(some, 6), (1.0 + 2.0 / 3 + 3.0 / 6) / 3, 1e-15);
    assert_true(sw_average_precision(all, 3) == 1);
    assert_true(sw_average_precision(none, 3) == -1);
    assert_true(sw_average_precision(none, 0) == -1);
}

/* The mean over all orders of results within equal distances, by permuting until every order came.
 */
static double permuted(bool *relevant, const double *distance, int count, int from)
{
    double sum = 0;
    int orders = 0;

    if (from == count)
        return sw_average_precision(relevant, count);
    for (int i = from; i < count && distance[i] == distance[from]; i++, orders++) {
        bool at = relevant[from];
        relevant[from] = relevant[i];
        relevant[i] = at;
        sum += permuted(relevant, distance, count, from + 1);
        relevant[i] = relevant[from];
        relevant[from] = at;
    }
    return sum / orders;
}

static void tied_precision_is_the_mean_of_all_orders(void **state)
{
    enum { COUNT = 7 };
    double distance[COUNT];
    bool relevant[COUNT], none[3] = {false};

    for (uint32_t draw = 0; draw < 60; draw++) {
        for (int i = 0; i < COUNT; i++) {
            relevant[i] = i == 0 || random_bits(21, draw * COUNT + (uint32_t)i) % 3 == 0;
            distance[i] = i ? distance[i - 1] + random_bits(22, draw * COUNT + (uint32_t)i) % 2 : 0;
        }
        assert_float_equal(sw_average_precision_tied(relevant, distance, COUNT),
                           permuted(relevant, distance, COUNT, 0), 1e-12);
    }
    assert_true(sw_average_precision_tied(none, distance, 3) == -1);
}

static void precision_at_recall_is_the_largest_from_there_on(void **state)
{
    /* Relevant at ranks 2, 3 and 6: precision 1/2, 2/3, 3/6 at recall 1/3, 2/3, 1. */
    const bool relevant[] = {false, true, true, false, false, true};
    double p[SW_SCORE_LEVELS];

    sw_precision_at_recall(relevant, 6, p);
    for (int level = 0; level <= 6; level++)
        assert_float_equal(p[level], 2.0 / 3, 1e-15);
    for (int level = 7; level <= 10; level++)
        assert_float_equal(p[level], 0.5, 1e-15);
    sw_precision_at_recall(relevant, 1, p);
    assert_true(p[0] == 0 && p[10] == 0);
}

static void recall_counts_true_neighbors(void **state)
{
    const int64_t found[] = {1, 2, 3, 9, 8, 7}, truth[] = {3, 4, 1, 7, 8, 9};

    assert_float_equal(sw_recall(found, truth, 2, 3), 5.0 / 6, 1e-15);
}

/* Points on a line, whose ranking is plain. */
static const float line[] = {0, 1, 3, 6, 10};
static const struct sw_vectors points = {line, 5, 1};

static void map_leaves_out_the_query_itself(void **state)
{
    const int32_t label[] = {0, 1, 0, 1, 2};
    const struct sw_row_labels labels = {.count = 5, .classes = 4, .single = label};
    struct sw_score_args a = {.base = &points,
                              .queries = &points,
                              .base_labels = &labels,
                              .query_labels = &labels,
                              .leave_out_same = true};
    struct sw_score s = {0};
    struct sw_err err;

    /* 0: 1 3 6 10, relevant at rank 2: 1/2.   1: 0 3 6 10 (0 at 1, 3 at 2), relevant at 3: 1/3.
     * 3: 1 at 2, 0 and 6 at 3 with 0 first: relevant at 2: 1/2.   6: 3, 10, 1, 0: at 3: 1/3.
     * 10: none. */
    for (int threads = 1; threads < 4; threads++) {
        ASSERT_OK(sw_score_map(&a, threads, &s, &err));
        assert_float_equal(s.map, (0.5 + 1.0 / 3 + 0.5 + 1.0 / 3) / 4, 1e-15);
        assert_int_equal(s.queries, 4);
        assert_int_equal(s.without, 1);
        assert_float_equal(s.per_class[0].map, 0.5, 1e-15);
        assert_float_equal(s.per_class[1].map, 1.0 / 3, 1e-15);
        assert_int_equal(s.per_class[0].queries, 2);
        assert_int_equal(s.per_class[2].queries, 0);
        assert_float_equal(s.precision[10], (0.5 + 1.0 / 3) / 2, 1e-15);
        sw_score_fini(&s);
    }

    /* With itself first every query is relevant to its first result. */
    a.leave_out_same = false;
    ASSERT_OK(sw_score_map(&a, 1, &s, &err));
    assert_int_equal(s.queries, 5);
    assert_float_equal(s.per_class[0].map, (1 + 2.0 / 3) / 2, 1e-15);
    assert_true(s.precision[0] == 1);
    sw_score_fini(&s);
}

static void sets_are_relevant_if_they_share_a_label(void **state)
{
    const uint64_t base[] = {1, 2, 4, 3, 0}, query[] = {3};
    const struct sw_row_labels base_labels = {.count = 5, .classes = 3, .sets = base};
    const struct sw_row_labels query_labels = {.count = 1, .classes = 3, .sets = query};
    const struct sw_vectors one = {line, 1, 1};
    const struct sw_score_args a = {.base = &points,
                                    .queries = &one,
                                    .base_labels = &base_labels,
                                    .query_labels = &query_labels};
    struct sw_score s = {0};
    struct sw_err err;

    ASSERT_OK(sw_score_map(&a, 2, &s, &err));
    assert_float_equal(s.map, (1 + 1 + 3.0 / 4) / 3, 1e-15);
    assert_int_equal(s.per_class[0].queries, 1);
    assert_int_equal(s.per_class[1].queries, 1);
    assert_int_equal(s.per_class[2].queries, 0);
    sw_score_fini(&s);
}

/* MAP of codes: each query's rows sorted by bits that differ, with the mean of ties. */
static void map_of_codes_is_that_of_all_distances(void **state)
{
    enum { ROWS = 60, BITS = 70 };
    const struct sw_codes base = random_codes(31, ROWS, BITS, 6);
    int32_t label[ROWS];
    struct sw_err err;

    for (int i = 0; i < ROWS; i++)
        label[i] = (int32_t)(random_bits(32, (uint64_t)i) % 3 ? i % 6 : i % 5);
    const struct sw_row_labels labels = {.count = ROWS, .classes = 6, .single = label};

    for (int own = 0; own < 2; own++) {
        double sum = 0;
        for (int q = 0; q < ROWS; q++) {
            struct sw_neighbor all[ROWS];
            bool relevant[ROWS];
            double distance[ROWS];
            int count = 0;
            for (int i = 0; i < ROWS; i++)
                all[i] = (struct sw_neighbor){
                    sw_code_distance(sw_code(&base, q), sw_code(&base, i), base.words), i};
            sw_neighbors_sort(all, ROWS);
            for (int i = 0; i < ROWS; i++)
                if (!own || all[i].id != q) {
                    distance[count] = all[i].distance;
                    relevant[count++] = label[all[i].id] == label[q];
                }
            sum += sw_average_precision_tied(relevant, distance, count);
        }

        const struct sw_score_args a = {.base_codes = &base,
                                        .query_codes = &base,
                                        .base_labels = &labels,
                                        .query_labels = &labels,
                                        .leave_out_same = own};
        double precision[SW_SCORE_LEVELS];
        for (int threads = 1; threads < 4; threads += 2) {
            struct sw_score s = {0};
            ASSERT_OK(sw_score_map(&a, threads, &s, &err));
            assert_int_equal(s.queries, ROWS);
            assert_float_equal(s.map, sum / ROWS, 1e-12);
            if (threads > 1)
                assert_memory_equal(precision, s.precision, sizeof precision);
            memcpy(precision, s.precision, sizeof precision);
            sw_score_fini(&s);
        }
    }

    free((void *)base.at);
}

/* All codes are equal: whatever the order of rows in a file, precision is that of chance. */
static void equal_codes_are_not_ranked_by_row(void **state)
{
    enum { ROWS = 400 };
    static uint64_t code[ROWS];
    static int32_t label[ROWS];
    const struct sw_codes codes = {code, ROWS, 16, 1};
    const struct sw_row_labels labels = {.count = ROWS, .classes = 4, .single = label};
    const struct sw_score_args a = {.base_codes = &codes,
                                    .query_codes = &codes,
                                    .base_labels = &labels,
                                    .query_labels = &labels};
    struct sw_score s = {0};
    struct sw_err err;

    for (int i = 0; i < ROWS; i++)
        label[i] = i / 100;
    ASSERT_OK(sw_score_map(&a, 1, &s, &err));
    for (int c = 0; c < 4; c++)
        assert_true(fabs(s.per_class[c].map - 0.25) < 0.02);
    assert_true(fabs(s.precision[5] - 0.25) < 0.05);
    sw_score_fini(&s);
}

static void sizes_that_do_not_fit_are_refused(void **state)
{
    const int32_t label[] = {0, 1, 0, 1, 7};
    const uint64_t set[] = {1, 1, 1, 1, 8};
    const struct sw_row_labels four = {.count = 4, .classes = 2, .single = label};
    const struct sw_row_labels five = {.count = 5, .classes = 2, .single = label};
    const struct sw_row_labels sets = {.count = 5, .classes = 2, .sets = set};
    struct sw_score_args a = {
        .base = &points, .queries = &points, .base_labels = &five, .query_labels = &four};
    struct sw_score s;
    struct sw_err err;

    assert_int_equal(sw_score_map(&a, 1, &s, &err), SW_ERR_INVALID);
    assert_non_null(strstr(err.text, "4 labels of 5 queries"));
    a.query_labels = &sets;
    assert_int_equal(sw_score_map(&a, 1, &s, &err), SW_ERR_INVALID);
    assert_non_null(strstr(err.text, "differ in their form"));

    assert_int_equal(sw_row_labels_check(&five, "l.npy", &err), SW_ERR_FORMAT);
    assert_string_equal(err.text, "l.npy: row 4 has label 7, expected 0 to 1");
    assert_int_equal(sw_row_labels_check(&sets, "l", &err), SW_ERR_FORMAT);
    ASSERT_OK(sw_row_labels_check(&four, "l", &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(average_precision_is_that_of_the_equation),
        cmocka_unit_test(tied_precision_is_the_mean_of_all_orders),
        cmocka_unit_test(map_of_codes_is_that_of_all_distances),
        cmocka_unit_test(equal_codes_are_not_ranked_by_row),
        cmocka_unit_test(precision_at_recall_is_the_largest_from_there_on),
        cmocka_unit_test(recall_counts_true_neighbors),
        cmocka_unit_test(map_leaves_out_the_query_itself),
        cmocka_unit_test(sets_are_relevant_if_they_share_a_label),
        cmocka_unit_test(sizes_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
