/* ctest-labels: threads
 * Exact search: the blocked search is a ranking of all rows in double, for every metric, shape of
 * data, k and number of threads. Distances and the bounded heap by hand. */
#include "search/parallel.h"
#include "search_support.h"

enum { DIMS = 19 };

static const char *const shapes[] = {"uniform",  "clustered", "duplicates",
                                     "constant", "far away",  "huge"};

static void distances_are_those_of_their_formulas(void **state)
{
    const float a[] = {1, 2, 3, 4, 5}, b[] = {2, 0, 3, 8, 4};

    assert_true(sw_vector_distance(SW_METRIC_EUCLIDEAN, a, b, 5) == 1 + 4 + 0 + 16 + 1);
    assert_true(sw_vector_distance(SW_METRIC_DOT, a, b, 5) == -(2 + 0 + 9 + 32 + 20));
    assert_float_equal(sw_vector_distance(SW_METRIC_COSINE, a, b, 5),
                       1 - 63 / (sqrt(55) * sqrt(93)), 1e-15);
    assert_true(sw_metric_shown(SW_METRIC_EUCLIDEAN, 25) == 5);
    assert_true(sw_metric_shown(SW_METRIC_DOT, -3) == 3);
    assert_true(sw_metric_shown(SW_METRIC_COSINE, 0.25) == 0.25);
}

static void check_names_the_row_that_is_bad(void **state)
{
    float at[] = {1, 2, 0, 0, 3, NAN};
    struct sw_err err;

    assert_int_equal(sw_vectors_check(&(struct sw_vectors){at, 3, 2}, 0, "v.npy", &err),
                     SW_ERR_FORMAT);
    assert_string_equal(err.text, "v.npy: row 2 has an element that is not finite");
    ASSERT_OK(sw_vectors_check(&(struct sw_vectors){at, 2, 2}, 0, "v.npy", &err));
    assert_int_equal(sw_vectors_check(&(struct sw_vectors){at, 2, 2}, SW_METRIC_COSINE, "v", &err),
                     SW_ERR_FORMAT);
    assert_non_null(strstr(err.text, "row 1 is zero"));
    assert_int_equal(sw_vectors_check(&(struct sw_vectors){at, 0, 2}, 0, "v", &err), SW_ERR_FORMAT);
    assert_int_equal(sw_vectors_check(&(struct sw_vectors){at, 1, 0}, 0, "v", &err), SW_ERR_FORMAT);
}

static void heap_keeps_the_nearest_in_any_order(void **state)
{
    enum { N = 50, K = 7 };
    struct sw_neighbor kept[K];

    for (uint64_t seed = 0; seed < 20; seed++) {
        struct sw_nearest n = sw_nearest_in(kept, K);
        for (int64_t i = 0; i < N; i++) {
            int64_t id = i * 37 % N; /* each once */
            sw_nearest_offer(&n, (double)(random_bits(seed, (uint64_t)id) % 10), id);
        }
        sw_nearest_sort(&n);

        for (int k = 0; k < K; k++) {
            int64_t before = 0;
            for (int64_t id = 0; id < N; id++) {
                const struct sw_neighbor x = {random_bits(seed, (uint64_t)id) % 10, id};
                before += sw_neighbor_before(x, kept[k]);
            }
            assert_int_equal(before, k);
        }
    }
}

static void compare(enum shape shape, enum sw_metric m, int64_t count, int64_t queries, int64_t k,
                    int threads)
{
    struct sw_vectors base = random_vectors(shape, 1, count, DIMS);
    struct sw_vectors q = random_vectors(shape, 2, queries, DIMS);
    struct sw_neighbor *found = neighbors(queries, k), *wanted = neighbors(queries, k);
    struct sw_err err;
    char what[64];

    /* Some queries are rows of the set. */
    memcpy((float *)(uintptr_t)q.at, base.at, DIMS * sizeof *q.at);
    snprintf(what, sizeof what, "%s, %s, k = %d", shapes[shape], sw_metric_name(m), (int)k);
    rank_all(&base, m, &q, k, wanted);
    ASSERT_OK(sw_exact_search(&base, m, &q, k, threads, found, &err));
    assert_same(found, wanted, queries * k, what);

    free(found);
    free(wanted);
    free((void *)base.at);
    free((void *)q.at);
}

static void blocked_search_is_a_ranking_in_double(void **state)
{
    for (int shape = 0; shape < SHAPES; shape++)
        for (int m = 0; m < SW_METRIC_COUNT; m++) {
            compare(shape, m, 2100, 70, 10, 1);
            compare(shape, m, 40, 3, 40, 2); /* all of them */
            compare(shape, m, 1, 1, 1, 3);
        }
}

static void few_queries_are_divided_by_rows(void **state)
{
    for (int shape = 0; shape < SHAPES; shape++)
        for (int threads = 2; threads < 5; threads++)
            compare(shape, SW_METRIC_EUCLIDEAN, 17000, 2, 25, threads);
}

static void division_covers_every_row_and_query_once(void **state)
{
    enum { ROWS = 20000, QUERIES = 5 };

    for (int threads = 1; threads < 9; threads++) {
        struct sw_search_division d = sw_search_divide(QUERIES, ROWS, 2, threads);
        int64_t seen = 0;

        assert_true(sw_search_tasks(&d) >= (threads < 3 ? threads : 3));
        for (int64_t t = 0; t < sw_search_tasks(&d); t++) {
            struct sw_search_part p = sw_search_part_of(&d, t);
            assert_true(p.row < p.end && p.end <= ROWS && p.queries > 0);
            assert_true(p.query + p.queries <= QUERIES && p.shard < d.shards);
            seen += p.queries * (p.end - p.row);
        }
        assert_int_equal(seen, QUERIES * ROWS);
    }
}

static void bad_arguments_are_refused(void **state)
{
    float at[4] = {1, 2, 3, 4};
    const struct sw_vectors two = {at, 2, 2}, other = {at, 1, 3};
    struct sw_neighbor out[4];
    struct sw_err err;

    assert_int_equal(sw_exact_search(&two, 0, &other, 1, 1, out, &err), SW_ERR_INVALID);
    assert_string_equal(err.text,
                        "the queries have 3 dimensions, expected 2 as those that are searched");
    assert_int_equal(sw_exact_search(&two, 0, &two, 3, 1, out, &err), SW_ERR_INVALID);
    assert_string_equal(err.text, "k = 3 neighbors, expected 1 to 2");
    assert_int_equal(sw_exact_search(&two, 0, &two, 0, 1, out, &err), SW_ERR_INVALID);
    assert_int_equal(sw_exact_search(&two, 0, &two, 1, 0, out, &err), SW_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distances_are_those_of_their_formulas),
        cmocka_unit_test(check_names_the_row_that_is_bad),
        cmocka_unit_test(heap_keeps_the_nearest_in_any_order),
        cmocka_unit_test(blocked_search_is_a_ranking_in_double),
        cmocka_unit_test(few_queries_are_divided_by_rows),
        cmocka_unit_test(division_covers_every_row_and_query_once),
        cmocka_unit_test(bad_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
