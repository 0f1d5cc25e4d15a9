/* The token bucket: what it lets through in any time, its burst, and refunds. */
#include "base/token_bucket.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { RATE = 1000000, CHUNK = 5000 };

/* Sends whenever the bucket is free at one of the times 0, every_ns, 2 every_ns, ... below end_ns;
 * returns the number of chunks. */
static int64_t sent_until(struct sw_token_bucket *b, int64_t begin_ns, int64_t end_ns,
                          int64_t every_ns)
{
    int64_t chunks = 0;

    for (int64_t now_ns = begin_ns; now_ns < end_ns; now_ns += every_ns)
        for (; sw_token_bucket_is_free(b, now_ns); chunks++)
            sw_token_bucket_charge(b, now_ns, CHUNK);

    return chunks;
}

static int64_t most(int64_t ns)
{
    return (int64_t)((double)RATE * (double)(ns + SW_TOKEN_BURST_NS) / 1e9) + CHUNK;
}

/* However often the sender looks; who looks often loses nothing. */
static void no_time_has_more_than_the_rate_and_a_burst(void **state)
{
    static const int64_t every_ns[] = {1000, 999983, 5000000, 12345678, 400000000};

    for (size_t i = 0; i < sizeof every_ns / sizeof *every_ns; i++) {
        struct sw_token_bucket b = {.bytes_per_s = RATE};
        int64_t all = 0;

        for (int window = 0; window < 20; window++) {
            int64_t begin_ns = window * 100000000LL;
            int64_t bytes = CHUNK * sent_until(&b, begin_ns, begin_ns + 100000000, every_ns[i]);
            assert_true(bytes <= most(100000000));
            all += bytes;
        }

        assert_true(all <= most(2000000000));
        if (every_ns[i] <= 5000000)
            assert_true(all >= 2 * RATE - CHUNK);
    }
}

static void a_long_pause_saves_up_one_burst_only(void **state)
{
    struct sw_token_bucket b = {.bytes_per_s = RATE};
    const int64_t now_ns = 3600LL * 1000000000;

    assert_true(CHUNK * sent_until(&b, now_ns, now_ns + 1, 1) <= most(0));
    assert_false(sw_token_bucket_is_free(&b, now_ns));
}

static void what_was_not_sent_is_given_back(void **state)
{
    struct sw_token_bucket b = {.bytes_per_s = RATE}, same = b;

    sw_token_bucket_charge(&b, 1000000000, 3 * CHUNK);
    sw_token_bucket_refund(&b, 2 * CHUNK);
    sw_token_bucket_charge(&same, 1000000000, CHUNK);
    assert_int_equal(b.free_ns, same.free_ns);
}

static void without_a_rate_everything_goes(void **state)
{
    struct sw_token_bucket b = {.bytes_per_s = 0};

    sw_token_bucket_charge(&b, 5, 1 << 30);
    sw_token_bucket_refund(&b, 1 << 30);
    assert_true(sw_token_bucket_is_free(&b, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_time_has_more_than_the_rate_and_a_burst),
        cmocka_unit_test(a_long_pause_saves_up_one_burst_only),
        cmocka_unit_test(what_was_not_sent_is_given_back),
        cmocka_unit_test(without_a_rate_everything_goes),
    };
    return cmocka_run_group_tests_name("token bucket", tests, NULL, NULL);
}
