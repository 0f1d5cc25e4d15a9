/* Strings and numbers: the growing buffer, matching, distances, parsing and formatting. */
#include "base/os.h"
#include "base/str.h"
#include "unit/faulty_os.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

static void buffer_grows_and_stays_terminated(void **state)
{
    struct sw_bytes b = {0};
    assert_string_equal(sw_bytes_text(&b), "");
    for (int i = 0; i < 1000; i++) {
        sw_bytes_printf(&b, "%d,", i);
        assert_int_equal(strlen(b.text), b.length);
    }
    assert_int_equal(b.length, 10 * 2 + 90 * 3 + 900 * 4);
    sw_bytes_clear(&b);
    assert_string_equal(sw_bytes_text(&b), "");
    sw_bytes_add(&b, "x");
    sw_bytes_append(&b, "yz", 2);
    char *text = sw_bytes_take(&b);
    assert_string_equal(text, "xyz");
    assert_null(b.text);
    sw_free(text);
    text = sw_bytes_take(&b);
    assert_string_equal(text, "");
    sw_free(text);
}

static void failed_allocation_is_sticky(void **state)
{
    struct sw_bytes b = {0};
    faulty_begin((struct faulty_plan){.kinds = FAULTY_ALLOC, .at = 2});
    sw_bytes_add(&b, "short");
    assert_false(b.failed);
    for (int i = 0; i < 100; i++)
        sw_bytes_add(&b, "and then it grows");
    assert_true(b.failed);
    assert_null(sw_bytes_take(&b));
    assert_int_equal(faulty.live_allocations, 0);
    faulty_end();
    faulty_begin((struct faulty_plan){.kinds = FAULTY_ALLOC, .at = 1});
    assert_null(sw_format("%d", 1));
    faulty_end();
}

static void comparisons_handle_null_and_ends(void **state)
{
    assert_true(sw_str_eq(NULL, NULL));
    assert_false(sw_str_eq("a", NULL));
    assert_true(sw_str_eq("a", "a"));
    assert_true(sw_str_starts("layer conv1", "layer "));
    assert_false(sw_str_starts("la", "layer"));
    assert_true(sw_str_ends("a.gz", ".gz"));
    assert_false(sw_str_ends("gz", ".gz"));
}

static void match_works_like_the_shell(void **state)
{
    assert_true(sw_str_match("*.bias", "conv1.bias"));
    assert_false(sw_str_match("*.bias", "conv1.bias.x"));
    assert_true(sw_str_match("*", ""));
    assert_false(sw_str_match("?", ""));
    assert_true(sw_str_match("fc?.*", "fc6.weight"));
    assert_true(sw_str_match("*a*b*", "xxaxxabxx"));
    assert_false(sw_str_match("*ab", "abc"));
    assert_true(sw_str_match("a**b", "ab"));
    assert_false(sw_str_match("", "a"));
}

static void match_of_many_stars_is_not_exponential(void **state)
{
    char s[2001], pattern[61];
    memset(s, 'a', 2000);
    s[2000] = '\0';
    for (int i = 0; i < 30; i++)
        memcpy(pattern + 2 * i, "a*", 2);
    pattern[59] = 'b';
    pattern[60] = '\0';
    assert_false(sw_str_match(pattern, s));
}

static void distance_counts_edits_and_transpositions(void **state)
{
    assert_int_equal(sw_str_distance("", ""), 0);
    assert_int_equal(sw_str_distance("", "abc"), 3);
    assert_int_equal(sw_str_distance("kernel", "kernle"), 1);
    assert_int_equal(sw_str_distance("kernel", "kernal"), 1);
    assert_int_equal(sw_str_distance("kitten", "sitting"), 3);
    assert_int_equal(sw_str_distance("ca", "abc"), 3);
    char a[300], b[300];
    memset(a, 'a', 299), memset(b, 'b', 299);
    a[299] = b[299] = '\0';
    assert_int_equal(sw_str_distance(a, b), 63);
}

static void nearest_ignores_distant_words(void **state)
{
    const char *const words[] = {"kernel", "stride", "outputs", "pad"};
    assert_string_equal(sw_str_nearest("kernle", words, 4), "kernel");
    assert_string_equal(sw_str_nearest("output", words, 4), "outputs");
    assert_string_equal(sw_str_nearest("pda", words, 4), "pad");
    assert_null(sw_str_nearest("zzz", words, 4));
    assert_null(sw_str_nearest("momentum", words, 4));
    assert_null(sw_str_nearest("x", words, 0));
}

/* The fast lower bound loses no match: for all short words over three letters the result equals a
 * search by distance alone. */
static void nearest_equals_exhaustive_search(void **state)
{
    enum { WORDS = 3 * 3 * 3 * 3 * 3 };
    static char text[WORDS][6];
    const char *words[WORDS];
    for (int i = 0; i < WORDS; i++) {
        const int digit[5] = {i % 3, i / 3 % 3, i / 9 % 3, i / 27 % 3, i / 81};
        for (int k = 0; k < 1 + i % 5; k++)
            text[i][k] = (char)('a' + digit[k]);
        words[i] = text[i];
    }
    for (int i = 0; i < WORDS; i++)
        for (int first = 0; first < WORDS; first += 9) {
            const char *near = sw_str_nearest(words[i], words + first, 9), *best = NULL;
            for (int k = 0; k < 9; k++) {
                int d = sw_str_distance(words[i], words[first + k]);
                if (d <= 1 && (!best || d < sw_str_distance(words[i], best)))
                    best = words[first + k];
            }
            assert_true(near == best);
        }
}

static void long_text_is_formatted_completely(void **state)
{
    struct sw_bytes b = {0};
    char long_text[500];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    for (int i = 0; i < 20; i++)
        sw_bytes_printf(&b, "%.*s|", 25 * i, long_text);
    assert_int_equal(b.length, 25 * 190 + 20);
    assert_int_equal(strlen(sw_bytes_text(&b)), b.length);
    sw_bytes_fini(&b);
}

static void int_accepts_only_decimal_integers(void **state)
{
    int64_t v = 5;
    assert_true(sw_parse_int("-12", &v) && v == -12);
    assert_true(sw_parse_int("+7", &v) && v == 7);
    assert_true(sw_parse_int("9223372036854775807", &v) && v == INT64_MAX);
    assert_true(sw_parse_int("-9223372036854775808", &v) && v == INT64_MIN);
    v = 5;
    const char *const junk[] = {"", " 1", "1 ", "1.0", "0x10", "1e3", "-", "9223372036854775808"};
    for (size_t i = 0; i < sizeof junk / sizeof junk[0]; i++)
        assert_false(sw_parse_int(junk[i], &v));
    assert_int_equal(v, 5);
}

static void real_accepts_only_finite_decimals(void **state)
{
    double v = 5;
    assert_true(sw_parse_real("0.00390625", &v) && v == 0.00390625);
    assert_true(sw_parse_real("-1e-3", &v) && v == -1e-3);
    assert_true(sw_parse_real(".5", &v) && v == 0.5);
    assert_true(sw_parse_real("5.", &v) && v == 5);
    v = 5;
    const char *const junk[] = {"",   ".",  "inf", "nan", "0x1p3", "1e999",
                                "1e", "1 ", " 1",  "1,5", "--1"};
    for (size_t i = 0; i < sizeof junk / sizeof junk[0]; i++)
        assert_false(sw_parse_real(junk[i], &v));
    assert_true(v == 5);
}

static void bytes_accept_decimal_and_binary_units(void **state)
{
    int64_t v = 5;
    assert_true(sw_parse_bytes("1000", &v) && v == 1000);
    assert_true(sw_parse_bytes("4GB", &v) && v == 4000000000);
    assert_true(sw_parse_bytes("512 MB", &v) && v == 512000000);
    assert_true(sw_parse_bytes("64KiB", &v) && v == 65536);
    assert_true(sw_parse_bytes("1.5kB", &v) && v == 1500);
    assert_true(sw_parse_bytes("500Mbit", &v) && v == 62500000);
    assert_true(sw_parse_bytes("1 Gbit", &v) && v == 125000000);
    v = 5;
    const char *const junk[] = {"", "-1", "4XB", "GB", "1e3", "4 ", "99999999TB", "1GBs"};
    for (size_t i = 0; i < sizeof junk / sizeof junk[0]; i++)
        assert_false(sw_parse_bytes(junk[i], &v));
    assert_int_equal(v, 5);
}

static void rates_are_per_second(void **state)
{
    int64_t v = 5;
    assert_true(sw_parse_rate("12GB/s", &v) && v == 12000000000);
    assert_true(sw_parse_rate("1Gbit/s", &v) && v == 125000000);
    assert_true(sw_parse_rate("900Mbit", &v) && v == 112500000);
    assert_true(sw_parse_rate("10Tbit", &v) && v == 1250000000000);
    v = 5;
    const char *const junk[] = {"", "/s", "s", "-1GB/s", "1GB/s/s", "1GB/h", "1e3/s", "nan/s"};
    for (size_t i = 0; i < sizeof junk / sizeof junk[0]; i++)
        assert_false(sw_parse_rate(junk[i], &v));
    char longest[200];
    memset(longest, '0', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    assert_false(sw_parse_rate(longest, &v));
    assert_int_equal(v, 5);
}

static void times_have_units(void **state)
{
    double v = 5;
    const char *const junk[] = {"", "s", "5", "-1s", "1m", "1us ", "nans", "infs", "1e999s"};
    for (size_t i = 0; i < sizeof junk / sizeof junk[0]; i++)
        assert_false(sw_parse_seconds(junk[i], &v));
    assert_true(v == 5);
    assert_true(sw_parse_seconds("2s", &v) && v == 2);
    assert_true(sw_parse_seconds("1.5 ms", &v));
    assert_float_equal(v, 1.5e-3, 1e-15);
    assert_true(sw_parse_seconds("100ns", &v));
    assert_float_equal(v, 1e-7, 1e-18);
}

static void bool_accepts_eight_words(void **state)
{
    bool v;
    assert_true(sw_parse_bool("yes", &v) && v);
    assert_true(sw_parse_bool("1", &v) && v);
    assert_true(sw_parse_bool("off", &v) && !v);
    assert_true(sw_parse_bool("false", &v) && !v);
    assert_false(sw_parse_bool("Yes!", &v));
    assert_false(sw_parse_bool("", &v));
}

static void human_numbers_are_short(void **state)
{
    char out[32];
    assert_string_equal(sw_human_bytes(out, 512), "512 B");
    assert_string_equal(sw_human_bytes(out, 1.6e9), "1.6 GB");
    assert_string_equal(sw_human_bytes(out, 999999), "1.0 MB");
    assert_string_equal(sw_human_count(out, 60965224), "61.0 M");
    assert_string_equal(sw_human_count(out, 7), "7");
    assert_string_equal(sw_human_seconds(out, 125), "2 m 05 s");
    assert_string_equal(sw_human_seconds(out, 59.99), "1 m 00 s");
    assert_string_equal(sw_human_seconds(out, 0.0123), "12.3 ms");
    assert_string_equal(sw_human_seconds(out, 4.25), "4.2 s");
    assert_string_equal(sw_human_seconds(out, 3 * 3600 + 7 * 60 + 9), "3 h 07 m");
    assert_string_equal(sw_human_seconds(out, 2 * 86400 + 3600), "2 d 01 h");
    assert_string_equal(sw_human_seconds(out, 0), "0.0 s");
    assert_string_equal(sw_human_seconds(out, 94.71e-6), "94.7 us");
    assert_string_equal(sw_human_seconds(out, 0.99951e-3), "1 ms");
    assert_string_equal(sw_human_seconds(out, 12e-9), "12 ns");
    assert_string_equal(sw_human_seconds(out, -1), "--");
    assert_string_equal(sw_human_bytes(out, 0.0 / 0.0), "--");
    assert_true(strlen(sw_human_bytes(out, 1.7e308)) < 32);
}

static void quantities_have_si_prefixes(void **state)
{
    static const struct {
        double value;
        const char *unit, *text;
    } rows[] = {{773, "flop", "773 flop"},
                {1e3, "flop", "1.0 kflop"},
                {2.65e15, "flop", "2.6 Pflop"},
                {97.44e9, "flop/s", "97.4 Gflop/s"},
                {0, "B/s", "0 B/s"},
                {0.25, "B/s", "0.25 B/s"},
                {12.34, "B/s", "12.3 B/s"},
                {999.4, "B/s", "999 B/s"},
                {999.6, "B/s", "1.0 kB/s"},
                {999949, "B", "999.9 kB"},
                {999951, "B", "1.0 MB"},
                {-1500, "B", "-1.5 kB"},
                {3e31, "flop", "30.0 Qflop"},
                {3e40, "flop", "3e+40 flop"},
                {INFINITY, "flop", "--"}};
    char out[32];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(sw_human_unit(out, rows[i].value, rows[i].unit), rows[i].text);
    assert_string_equal(sw_human_real(out, 0.07424), "0.07424");
    assert_string_equal(sw_human_real(out, 1698), "1698");
    assert_string_equal(sw_human_real(out, 22436), "22.4 k");
    assert_string_equal(sw_human_real(out, NAN), "--");
}

static void utf8_is_checked_strictly(void **state)
{
    assert_int_equal(sw_utf8_length("a", 1), 1);
    assert_int_equal(sw_utf8_length("\xC3\xA9", 2), 2);
    assert_int_equal(sw_utf8_length("\xE2\x82\xAC", 3), 3);
    assert_int_equal(sw_utf8_length("\xF0\x9F\x98\x80", 4), 4);
    const char *const bad[] = {
        "\x80",         "\xC0\x80",         "\xC1\xBF",         "\xE0\x9F\xBF",
        "\xED\xA0\x80", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80",
        "\xC3("};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(sw_utf8_length(bad[i], strlen(bad[i])), 0);
    assert_int_equal(sw_utf8_length("\xE2\x82\xAC", 2), 0);
    assert_int_equal(sw_utf8_length("a", 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffer_grows_and_stays_terminated),
        cmocka_unit_test(failed_allocation_is_sticky),
        cmocka_unit_test(comparisons_handle_null_and_ends),
        cmocka_unit_test(match_works_like_the_shell),
        cmocka_unit_test(match_of_many_stars_is_not_exponential),
        cmocka_unit_test(distance_counts_edits_and_transpositions),
        cmocka_unit_test(nearest_ignores_distant_words),
        cmocka_unit_test(nearest_equals_exhaustive_search),
        cmocka_unit_test(long_text_is_formatted_completely),
        cmocka_unit_test(int_accepts_only_decimal_integers),
        cmocka_unit_test(real_accepts_only_finite_decimals),
        cmocka_unit_test(bytes_accept_decimal_and_binary_units),
        cmocka_unit_test(rates_are_per_second),
        cmocka_unit_test(times_have_units),
        cmocka_unit_test(bool_accepts_eight_words),
        cmocka_unit_test(human_numbers_are_short),
        cmocka_unit_test(quantities_have_si_prefixes),
        cmocka_unit_test(utf8_is_checked_strictly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
