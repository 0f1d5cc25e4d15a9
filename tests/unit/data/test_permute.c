/* The keyed permutation of `shuffle`: it is a bijection, differs by epoch and seed, and shows no
 * pattern. */
#include "data/permute.h"
#include "data_support.h"

static void check_bijection(int64_t count, uint64_t epoch)
{
    struct sw_permutation p;
    unsigned char *seen = calloc(1, (size_t)count);
    assert_non_null(seen);
    sw_permutation_init(&p, sw_philox_stream(1, SW_PURPOSE_TEST, 2), epoch, count);
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = sw_permutation_at(&p, i);
        assert_in_range(at, 0, count - 1);
        if (seen[at]++)
            fail_msg("count %lld: %lld is met twice", (long long)count, (long long)at);
    }
    free(seen);
}

static void permutation_is_a_bijection_for_every_size(void **state)
{
    for (int64_t count = 1; count <= 300; count++)
        check_bijection(count, (uint64_t)count);
    const int64_t large[] = {1023, 1024, 1025, 4095, 10000, 60000, 65537};
    for (size_t i = 0; i < sizeof large / sizeof *large; i++)
        check_bijection(large[i], 3);
}

static int64_t same_places(uint64_t seed_a, uint64_t epoch_a, uint64_t seed_b, uint64_t epoch_b,
                           int64_t n)
{
    struct sw_permutation a, b;
    int64_t same = 0;
    sw_permutation_init(&a, sw_philox_stream(seed_a, SW_PURPOSE_TEST, 0), epoch_a, n);
    sw_permutation_init(&b, sw_philox_stream(seed_b, SW_PURPOSE_TEST, 0), epoch_b, n);
    for (int64_t i = 0; i < n; i++)
        same += sw_permutation_at(&a, i) == sw_permutation_at(&b, i);
    return same;
}

static void permutation_differs_by_epoch_and_seed(void **state)
{
    /* Two random permutations share one place on average. */
    assert_true(same_places(1, 0, 1, 1, 10000) < 12);
    assert_true(same_places(1, 0, 2, 0, 10000) < 12);
    assert_true(same_places(1, (uint64_t)1 << 32, 1, 0, 10000) < 12);
    assert_int_equal(same_places(7, 5, 7, 5, 10000), 10000);
}

static void permutation_shows_no_residual_order(void **state)
{
    enum { N = 10000, BINS = 10 };
    struct sw_permutation p;
    int64_t rising = 0, before = 0, bin[BINS][BINS] = {{0}};
    sw_permutation_init(&p, sw_philox_stream(1, SW_PURPOSE_TEST, 9), 0, N);
    for (int64_t i = 0; i < N; i++) {
        const int64_t at = sw_permutation_at(&p, i);
        rising += at > before;
        before = at;
        bin[i * BINS / N][at * BINS / N]++;
    }
    /* Half of the steps rise, with standard deviation sqrt(N / 12) = 29. */
    assert_in_range(rising, N / 2 - 175, N / 2 + 175);
    /* Each tenth of the places sends 100 to each tenth of the records, deviation below 10. */
    for (int i = 0; i < BINS * BINS; i++)
        assert_in_range(bin[i / BINS][i % BINS], 45, 155);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(permutation_is_a_bijection_for_every_size),
        cmocka_unit_test(permutation_differs_by_epoch_and_seed),
        cmocka_unit_test(permutation_shows_no_residual_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
