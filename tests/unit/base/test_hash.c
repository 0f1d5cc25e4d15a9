/* XXH3 hashes: published values, streaming and the AVX2 variant. */
#include "base/hash.h"
#include "unit/faulty_os.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* XXH3_128bits with seed 0 of the empty input, from the xxHash test vectors. */
static void empty_input_has_the_published_hash(void **state)
{
    char hex[33];
    sw_hash_hex(sw_hash_bytes("", 0), hex);
    assert_string_equal(hex, "99aa06d3014798d86001c324468d497f");
}

/* Pieces of every size, across the lengths at which the algorithm changes (16, 128, 240, 256). */
static void stream_equals_one_call(void **state)
{
    unsigned char data[5000];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 2654435761u >> 13);
    const size_t sizes[] = {0, 1, 16, 17, 128, 129, 240, 241, 1024, 5000};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        struct sw_hash want = sw_hash_bytes(data, sizes[s]);
        for (size_t piece = 1; piece < 700; piece += 37) {
            struct sw_hash_state *h = sw_hash_new();
            for (size_t at = 0; at < sizes[s]; at += piece)
                sw_hash_update(h, data + at, sizes[s] - at < piece ? sizes[s] - at : piece);
            struct sw_hash got = sw_hash_finish(h), again = sw_hash_finish(h);
            assert_memory_equal(&got, &want, sizeof got);
            assert_memory_equal(&again, &want, sizeof got);
            sw_hash_free(h);
        }
    }
}

static void one_bit_changes_the_hash(void **state)
{
    unsigned char data[300] = {0};
    struct sw_hash clean = sw_hash_bytes(data, sizeof data);
    for (size_t bit = 0; bit < 8 * sizeof data; bit++) {
        data[bit / 8] ^= (unsigned char)(1 << bit % 8);
        struct sw_hash h = sw_hash_bytes(data, sizeof data);
        assert_memory_not_equal(&h, &clean, sizeof h);
        data[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
}

static void hex_puts_the_high_word_first(void **state)
{
    char hex[33];
    sw_hash_hex((struct sw_hash){.low = 0xfedcba9876543210u, .high = 0x0123456789abcdefu}, hex);
    assert_string_equal(hex, "0123456789abcdeffedcba9876543210");
}

static void hash_name_differs_between_names(void **state)
{
    /* XXH3_64bits of the empty input, from the xxHash test vectors. */
    assert_true(sw_hash_name("") == 0x2d06800538d394c2u);
    assert_true(sw_hash_name("conv1.weight") != sw_hash_name("conv2.weight"));
    assert_true(sw_hash_bytes64("", 0) == 0x2d06800538d394c2u);
    assert_true(sw_hash_bytes64("conv1", 5) == sw_hash_name("conv1"));
    /* Long inputs may use AVX2; the hash must equal that of the library. */
    static char text[5001];
    for (int i = 0; i < 5000; i++)
        text[i] = (char)(1 + i * 7 % 250);
    for (int n = 1000; n <= 5000; n += 61) {
        const char kept = text[n];
        text[n] = 0;
        assert_true(sw_hash_bytes64(text, (size_t)n) == sw_hash_name(text));
        text[n] = kept;
    }
}

static void new_returns_null_when_memory_is_exhausted(void **state)
{
    faulty_begin((struct faulty_plan){.kinds = FAULTY_ALLOC, .at = 1});
    assert_null(sw_hash_new());
    sw_hash_free(NULL);
    faulty_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_input_has_the_published_hash),
        cmocka_unit_test(stream_equals_one_call),
        cmocka_unit_test(one_bit_changes_the_hash),
        cmocka_unit_test(hex_puts_the_high_word_first),
        cmocka_unit_test(hash_name_differs_between_names),
        cmocka_unit_test(new_returns_null_when_memory_is_exhausted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
