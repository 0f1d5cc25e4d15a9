/* Philox random numbers: published values, and the layout of counters that runs depend on. */
#include "base/philox.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* Known answers of philox4x32-10 from the Random123 distribution (kat_vectors). */
static void blocks_equal_the_published_vectors(void **state)
{
    static const struct {
        uint32_t counter[4], key[2], want[4];
    } kat[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof kat / sizeof kat[0]; i++) {
        const uint32_t *c = kat[i].counter;
        struct sw_philox p = {{kat[i].key[0], kat[i].key[1]}};
        struct sw_philox4 got = sw_philox_block(p, c[0], c[1], c[2], c[3]);
        assert_memory_equal(got.v, kat[i].want, sizeof got.v);
    }
}

/* A changed counter or key would silently change every run that has a seed. */
static void counter_layout_does_not_change(void **state)
{
    struct sw_philox p = {{1, 2}};
    struct sw_philox4 want = sw_philox_block(p, 7, 9, 0x55667788, 0x11223344);
    struct sw_philox4 got = sw_philox_at(p, 0x1122334455667788, 9, 7);
    assert_memory_equal(got.v, want.v, sizeof got.v);
    for (uint32_t lane = 0; lane < 4; lane++)
        assert_int_equal(sw_philox_word(p, 0x1122334455667788, 9, 28 + lane), want.v[lane]);
}

/* SplitMix64 from state 0 and 1; the sequence is in Vigna's splitmix64.c. */
static void mix64_equals_splitmix64(void **state)
{
    assert_true(sw_mix64(0) == 0xe220a8397b1dcdafull);
    assert_true(sw_mix64(0x9e3779b97f4a7c15ull) == 0x6e789e6aa1b965f4ull);
}

static void streams_differ_in_seed_purpose_and_id(void **state)
{
    struct sw_philox p[] = {
        sw_philox_stream(1, SW_PURPOSE_INIT, 0), sw_philox_stream(2, SW_PURPOSE_INIT, 0),
        sw_philox_stream(1, SW_PURPOSE_DROPOUT, 0), sw_philox_stream(1, SW_PURPOSE_INIT, 1)};
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < i; j++)
            assert_memory_not_equal(p[i].key, p[j].key, sizeof p[i].key);
}

static void uniform_is_in_range_and_unbiased(void **state)
{
    struct sw_philox p = sw_philox_stream(1, SW_PURPOSE_TEST, 0);
    double sum = 0, squares = 0;
    int n = 100000;
    assert_true(sw_philox_uniform(0) == 0.0f);
    assert_true(sw_philox_uniform(UINT32_MAX) < 1.0f);
    for (int i = 0; i < n; i++) {
        double u = sw_philox_uniform(sw_philox_word(p, 3, 5, (uint32_t)i));
        sum += u;
        squares += u * u;
    }
    /* Five standard deviations of the mean and of the mean square. */
    assert_true(fabs(sum / n - 0.5) < 5 * sqrt(1.0 / 12 / n));
    assert_true(fabs(squares / n - 1.0 / 3) < 5 * sqrt(4.0 / 45 / n));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_equal_the_published_vectors),
        cmocka_unit_test(counter_layout_does_not_change),
        cmocka_unit_test(mix64_equals_splitmix64),
        cmocka_unit_test(streams_differ_in_seed_purpose_and_id),
        cmocka_unit_test(uniform_is_in_range_and_unbiased),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
