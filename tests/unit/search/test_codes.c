/* ctest-labels: threads
 * Binary codes: packing, the loop for every instruction set that this processor has, scans, the
 * search within a radius, multi-index hashing, and codes of vectors. */
#include "base/os.h"
#include "search/encoder.h"
#include "search/hamming.h"
#include "search/multi_index.h"
#include "search_support.h"

static int bits_of(const uint64_t *code, int i)
{
    return (int)(code[i / 64] >> (i % 64) & 1);
}

/* Counts differing bits one by one. */
static int slow_distance(const struct sw_codes *a, int64_t i, const struct sw_codes *b, int64_t j)
{
    int differ = 0;

    for (int bit = 0; bit < a->bits; bit++)
        differ += bits_of(sw_code(a, i), bit) != bits_of(sw_code(b, j), bit);
    return differ;
}

static void rank_codes(const struct sw_codes *base, const struct sw_codes *queries, int64_t k,
                       struct sw_neighbor *out)
{
    for (int64_t q = 0; q < queries->count; q++) {
        struct sw_nearest n = sw_nearest_in(out + q * k, k);
        for (int64_t row = 0; row < base->count; row++)
            sw_nearest_offer(&n, slow_distance(base, row, queries, q), row);
        sw_nearest_sort(&n);
    }
}

static void bytes_and_booleans_are_packed_in_order(void **state)
{
    const uint8_t bytes[2][9] = {{1, 2, 3, 4, 5, 6, 7, 8, 9}, {255, 0, 0, 0, 0, 0, 0, 0, 128}};
    const uint8_t bools[2][3] = {{1, 0, 1}, {0, 1, 0}};
    uint64_t words[4];

    sw_codes_from_bytes(bytes[0], 2, 72, words);
    assert_true(words[0] == 0x0807060504030201ull && words[1] == 9);
    assert_true(words[2] == 255 && words[3] == 128);
    sw_codes_from_bools(bools[0], 2, 3, words);
    assert_true(words[0] == 5 && words[1] == 2);
}

static void check_finds_bits_beyond_the_last(void **state)
{
    const uint64_t words[] = {7, 8};
    const struct sw_codes c = {words, 2, 3, 1};
    struct sw_err err;

    assert_int_equal(sw_codes_check(&c, "c.npy", &err), SW_ERR_FORMAT);
    assert_string_equal(err.text, "c.npy: code 1 has bits beyond its 3");
    ASSERT_OK(sw_codes_check(&(struct sw_codes){words, 2, 4, 1}, "c", &err));
    ASSERT_OK(sw_codes_check(&(struct sw_codes){words, 2, 64, 1}, "c", &err));
    assert_int_equal(sw_codes_check(&(struct sw_codes){words, 2, 0, 1}, "c", &err), SW_ERR_FORMAT);
    assert_int_equal(sw_codes_check(&(struct sw_codes){words, 0, 4, 1}, "c", &err), SW_ERR_FORMAT);
}

/* Every code below the limit, and no other, whatever the place in a vector. */
static void check_loop(sw_hamming_next *next, const char *name)
{
    static const int all_words[] = {1, 2, 3, 4, 5, 7, 8, 9, 17};

    for (int w = 0; w < 9; w++) {
        const int words = all_words[w];
        const struct sw_codes c = random_codes(5, 131, 64 * words, 0);
        const int limits[] = {0, 30 * words, 32 * words, c.bits + 1};

        for (int l = 0; l < 4; l++)
            for (int64_t from = 0; from < 9; from++) {
                int64_t at = from;
                int distance = -1;

                for (int64_t i = from; i < c.count; i++) {
                    const int wanted = slow_distance(&c, i, &c, 3);
                    if (wanted >= limits[l])
                        continue;
                    at = next(c.at, at, c.count, words, sw_code(&c, 3), limits[l], &distance);
                    if (at != i || distance != wanted)
                        fail_msg("%s, %d words, limit %d: code %lld at %d, expected %lld at %d",
                                 name, words, limits[l], (long long)at, distance, (long long)i,
                                 wanted);
                    at++;
                }
                assert_int_equal(
                    next(c.at, at, c.count, words, sw_code(&c, 3), limits[l], &distance), c.count);
            }
        free((void *)c.at);
    }
}

static void loops_of_all_instruction_sets_agree(void **state)
{
    check_loop(sw_hamming_next_portable, "portable");
    if (sw_hamming_has_popcnt())
        check_loop(sw_hamming_next_popcnt, "popcnt");
    if (sw_hamming_has_avx512())
        check_loop(sw_hamming_next_avx512, "avx512");
}

static void compare(int64_t count, int bits, int centers, int64_t k, int threads, bool hashed)
{
    enum { QUERIES = 40 };
    const struct sw_codes c = random_codes(7, count, bits, centers);
    const struct sw_codes q = random_codes(7, QUERIES, bits, centers);
    struct sw_neighbor *found = neighbors(QUERIES, k), *wanted = neighbors(QUERIES, k);
    struct sw_err err;
    char what[96];

    snprintf(what, sizeof what, "%s of %d codes of %d bits, k = %d", hashed ? "hashing" : "scan",
             (int)count, bits, (int)k);
    rank_codes(&c, &q, k, wanted);

    if (hashed) {
        const int parts = sw_multi_index_parts(count, bits);
        uint32_t *begin = calloc(sw_multi_index_begins(bits, parts), sizeof *begin);
        uint32_t *rows = calloc((size_t)parts * (size_t)count, sizeof *rows);
        const struct sw_multi_index x = {c, parts, begin, rows};
        int64_t read = -1;

        assert_true(begin && rows && sw_multi_index_fits(bits, parts));
        sw_multi_index_build(&c, parts, begin, rows);
        ASSERT_OK(sw_multi_index_check(&x, "tables", &err));
        ASSERT_OK(sw_multi_index_search(&x, &q, k, threads, found, &read, &err));
        assert_true(read >= QUERIES * k);
        free(begin);
        free(rows);
    } else {
        ASSERT_OK(sw_codes_search(&c, &q, k, threads, found, &err));
    }

    assert_same(found, wanted, QUERIES * k, what);
    free(found);
    free(wanted);
    free((void *)c.at);
    free((void *)q.at);
}

static void scans_and_hashing_find_the_nearest(void **state)
{
    static const int all_bits[] = {1, 5, 32, 64, 100, 128, 256, 300};

    for (int i = 0; i < 8; i++)
        for (int hashed = 0; hashed < 2; hashed++) {
            compare(500, all_bits[i], 0, 10, 2, hashed);
            compare(500, all_bits[i], 20, 10, 1, hashed); /* near ones exist */
            compare(20, all_bits[i], 3, 20, 3, hashed);
        }
    compare(1, 64, 0, 1, 1, true);
}

static void few_queries_are_divided_by_codes(void **state)
{
    const struct sw_codes c = random_codes(9, 30000, 64, 50);
    const struct sw_codes q = {c.at, 1, 64, 1};
    struct sw_neighbor one[30], four[30];
    struct sw_err err;

    ASSERT_OK(sw_codes_search(&c, &q, 30, 1, one, &err));
    ASSERT_OK(sw_codes_search(&c, &q, 30, 4, four, &err));
    assert_same(four, one, 30, "4 threads");
    assert_int_equal(one[0].id, 0);
    free((void *)c.at);
}

static void hashing_compares_few_codes_of_clusters(void **state)
{
    enum { COUNT = 20000, BITS = 64, QUERIES = 50, K = 5 };
    const struct sw_codes c = random_codes(11, COUNT, BITS, 2000);
    const struct sw_codes q = {c.at, QUERIES, BITS, 1};
    const int parts = sw_multi_index_parts(COUNT, BITS);
    uint32_t *begin = calloc(sw_multi_index_begins(BITS, parts), sizeof *begin);
    uint32_t *rows = calloc((size_t)parts * COUNT, sizeof *rows);
    const struct sw_multi_index x = {c, parts, begin, rows};
    struct sw_neighbor found[QUERIES * K], wanted[QUERIES * K];
    int64_t read = 0;
    struct sw_err err;

    assert_true(begin && rows);
    assert_int_equal(parts, 5); /* of about log2(20000) = 14.3 bits */
    sw_multi_index_build(&c, parts, begin, rows);
    ASSERT_OK(sw_codes_search(&c, &q, K, 1, wanted, &err));
    ASSERT_OK(sw_multi_index_search(&x, &q, K, 1, found, &read, &err));
    assert_same(found, wanted, QUERIES * K, "hashing");
    assert_true(read < (int64_t)QUERIES * COUNT / 10);

    /* Tables from a file are checked before they are trusted. */
    rows[3] = COUNT;
    assert_int_equal(sw_multi_index_check(&x, "f", &err), SW_ERR_FORMAT);
    assert_string_equal(err.text, "f: the table of substring 0 does not list 20000 rows in order");
    rows[3] = 0;
    begin[1] = COUNT + 1;
    assert_int_equal(sw_multi_index_check(&x, "f", &err), SW_ERR_FORMAT);

    free(begin);
    free(rows);
    free((void *)c.at);
}

static void all_codes_within_a_radius_are_found(void **state)
{
    const struct sw_codes c = random_codes(13, 1000, 96, 30);
    struct sw_neighbor_list list = {0};
    struct sw_err err;

    for (int radius = 0; radius <= 96; radius += 8) {
        int64_t expected = 0;
        for (int64_t row = 0; row < c.count; row++)
            expected += slow_distance(&c, row, &c, 5) <= radius;

        list.count = 0;
        ASSERT_OK(sw_codes_within(&c, sw_code(&c, 5), radius, &list, &err));
        assert_int_equal(list.count, expected);
        assert_int_equal(list.at[0].id, 5);
        for (int64_t i = 1; i < list.count; i++)
            assert_true(sw_neighbor_before(list.at[i - 1], list.at[i]));
    }

    sw_free(list.at);
    free((void *)c.at);
}

static void codes_of_vectors_keep_angles(void **state)
{
    enum { ROWS = 300, DIMS = 16, BITS = 512 };
    struct sw_vectors v = random_vectors(UNIFORM, 15, ROWS, DIMS);
    float center[DIMS], *planes = calloc(BITS * DIMS, sizeof *planes);
    uint64_t one[ROWS][BITS / 64], two[ROWS][BITS / 64];
    struct sw_err err;

    assert_non_null(planes);
    sw_encoder_random(&v, BITS, 1, center, planes);
    const struct sw_encoder e = {.dims = DIMS, .bits = BITS, .part = {center, planes}};
    ASSERT_OK(sw_encoder_encode(&e, &v, 1, one[0], &err));
    ASSERT_OK(sw_encoder_encode(&e, &v, 3, two[0], &err));
    assert_memory_equal(one, two, sizeof one);

    /* P(bit differs) = angle / pi; the deviation of 512 bits is 2.2 %, and this is five times it.
     */
    for (int64_t i = 1; i < ROWS; i++) {
        float a[DIMS], b[DIMS];
        for (int d = 0; d < DIMS; d++) {
            a[d] = sw_vector(&v, 0)[d] - center[d];
            b[d] = sw_vector(&v, i)[d] - center[d];
        }
        const double angle = acos(1 - sw_vector_distance(SW_METRIC_COSINE, a, b, DIMS));
        const double share = sw_code_distance(one[0], one[i], BITS / 64) / (double)BITS;
        assert_true(fabs(share - angle / M_PI) < 0.11);
    }

    sw_encoder_random(&v, BITS, 2, center, planes);
    ASSERT_OK(sw_encoder_encode(&e, &v, 1, two[0], &err));
    assert_memory_not_equal(one, two, sizeof one);
    free(planes);
    free((void *)v.at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_and_booleans_are_packed_in_order),
        cmocka_unit_test(check_finds_bits_beyond_the_last),
        cmocka_unit_test(loops_of_all_instruction_sets_agree),
        cmocka_unit_test(scans_and_hashing_find_the_nearest),
        cmocka_unit_test(few_queries_are_divided_by_codes),
        cmocka_unit_test(hashing_compares_few_codes_of_clusters),
        cmocka_unit_test(all_codes_within_a_radius_are_found),
        cmocka_unit_test(codes_of_vectors_keep_angles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
