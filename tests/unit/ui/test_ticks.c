/* Axes of any range: a finite number of ticks, in order, within the range, and labels that are
 * short and different. A constant learning rate, whose mean is rounded, once had an axis of one
 * unit in the last place and ticks without end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "odd_values.h"
#include "ui/ticks.h"
#include <stdio.h>
#include <string.h>

static void check_ticks(struct sw_ui_range r, bool log, int most, int columns)
{
    struct sw_ticks t;
    double slack = 1e-9 * (r.to - r.from);
    sw_ticks_make(&t, r, log, most, columns);
    assert_in_range(t.count, 0, SW_TICKS);
    for (int i = 0; i < t.count; i++) {
        const struct sw_tick *tick = &t.items[i];
        assert_in_range(strlen(tick->label), 1, columns);
        assert_true(tick->value >= r.from - slack && tick->value <= r.to + slack);
        for (int k = 0; k < i; k++) {
            assert_true(t.items[k].value < tick->value);
            assert_string_not_equal(t.items[k].label, tick->label);
        }
    }
}

static void check_range(struct sw_ui_range r, bool log)
{
    assert_true(isfinite(r.from) && isfinite(r.to) && isfinite(r.to - r.from));
    assert_true(r.from < r.to && (!log || (r.from > 0 && isfinite(r.to / r.from))));
    struct sw_ui_range again = sw_ticks_range(r.from, r.to, log);
    assert_true(again.from == r.from && again.to == r.to);
    assert_true(sw_ticks_fraction(r, log, r.from) == 0 && sw_ticks_fraction(r, log, r.to) == 1);
}

static void any_two_values_give_an_axis(void **state)
{
    static const int most[] = {-1, 0, 1, 2, 5, 11, 40, 10000}, columns[] = {1, 3, 7, 12};
    for (int i = 0; i < ODD_VALUES * ODD_VALUES; i++)
        for (int log = 0; log < 2; log++) {
            double from = odd_values[i / ODD_VALUES], to = odd_values[i % ODD_VALUES];
            check_range(sw_ticks_range(from, to, log), log);
            check_range(sw_ticks_fit(from, to, log), log);
            for (size_t k = 0; k < 32; k++) {
                check_ticks(sw_ticks_range(from, to, log), log, most[k % 8], columns[k / 8]);
                check_ticks(sw_ticks_fit(from, to, log), log, most[k % 8], columns[k / 8]);
            }
        }
}

static void ordinary_ranges_have_enough_ticks(void **state)
{
    uint32_t seed = 1;
    for (int i = 0; i < 20000; i++) {
        struct sw_ticks t;
        double part[2];
        for (int k = 0; k < 2; k++) {
            seed = seed * 1664525u + 1013904223u;
            part[k] = (double)(seed >> 8) / 0x1p24;
        }
        double size = pow(10, i % 13 - 6), from = size * (part[0] - 0.5);
        struct sw_ui_range r = {from, from + size * (0.1 + part[1])};
        check_ticks(r, false, 8, 9);
        sw_ticks_make(&t, r, false, 8, 9);
        assert_in_range(t.count, 3, 9);
    }
}

static void rounding_differences_are_not_a_range(void **state)
{
    struct sw_ticks t;
    struct sw_ui_range r = sw_ticks_fit(0.1, 0.1 + 0x1p-56, false);
    assert_true(r.from < 0.095 && r.to > 0.105);
    sw_ticks_make(&t, r, false, 4, 7);
    assert_int_equal(t.count, 3);
    assert_string_equal(t.items[1].label, "0.1");
}

static void close_ticks_get_more_digits(void **state)
{
    struct sw_ticks t;
    sw_ticks_make(&t, (struct sw_ui_range){2.3025, 2.3027}, false, 2, 7);
    assert_int_equal(t.count, 3);
    assert_string_equal(t.items[0].label, "2.3025");
    assert_string_equal(t.items[1].label, "2.3026");
    sw_ticks_make(&t, (struct sw_ui_range){1000000, 1000002}, false, 2, 9);
    assert_int_equal(t.count, 3);
    assert_string_equal(t.items[1].label, "1.000001M");
}

static void logarithms_have_powers_of_two(void **state)
{
    static const struct {
        double from, to;
        int most, count;
        const char *first, *last;
    } rows[] = {
        {0, 10, 16, 11, "1", "1024"}, {0, 10, 4, 4, "1", "512"}, {0, 2.585, 8, 3, "1", "4"},
        {1.6, 3, 8, 2, "4", "8"},     {0, 0, 8, 3, "0.5", "2"},
    };
    struct sw_ticks t;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sw_ticks_powers(&t, (struct sw_ui_range){rows[i].from, rows[i].to}, rows[i].most);
        assert_int_equal(t.count, rows[i].count);
        assert_string_equal(t.items[0].label, rows[i].first);
        assert_string_equal(t.items[t.count - 1].label, rows[i].last);
    }

    for (int i = 0; i < ODD_VALUES; i++)
        for (int k = 0; k < ODD_VALUES; k++) {
            sw_ticks_powers(&t, (struct sw_ui_range){odd_values[i], odd_values[k]}, i - k);
            assert_in_range(t.count, 0, SW_TICKS);
        }
}

static void numbers_of_any_size_and_precision_are_short(void **state)
{
    for (int i = 0; i < ODD_VALUES; i++)
        for (int digits = 1; digits <= 12; digits++) {
            char text[SW_TICK_LABEL + 8];
            memset(text, '#', sizeof text);
            assert_in_range(strlen(sw_ticks_number(text, odd_values[i], digits)), 1,
                            digits <= 3 ? 10 : 20);
            assert_int_equal(text[SW_TICK_LABEL], '#');
        }
}

static void prefix_is_never_behind_an_exponent(void **state)
{
    static const struct {
        double value;
        int digits;
        const char *text;
    } rows[] = {{999.96e9, 3, "1T"},       {999.7e6, 3, "1G"},    {265e6, 2, "265M"},
                {12e3, 1, "12k"},          {2.65e15, 3, "2.65P"}, {999.6, 3, "1000"},
                {1754, 3, "1754"},         {9999.6, 3, "10k"},    {344512, 3, "345k"},
                {1000001, 7, "1.000001M"}, {0.0431, 3, "0.0431"}, {-12e3, 3, "-12k"},
                {3e21, 3, "3e+21"},        {265, 1, "265"},       {0, 3, "0"}};
    char out[SW_TICK_LABEL];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(sw_ticks_number(out, rows[i].value, rows[i].digits), rows[i].text);
    for (double v = 1; v < 1e22; v *= 1.0137)
        for (int digits = 1; digits <= 6; digits++) {
            const char *text = sw_ticks_number(out, v, digits);
            assert_false(strchr(text, 'e') && strpbrk(text, "kMGTPE"));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_two_values_give_an_axis),
        cmocka_unit_test(ordinary_ranges_have_enough_ticks),
        cmocka_unit_test(rounding_differences_are_not_a_range),
        cmocka_unit_test(close_ticks_get_more_digits),
        cmocka_unit_test(logarithms_have_powers_of_two),
        cmocka_unit_test(numbers_of_any_size_and_precision_are_short),
        cmocka_unit_test(prefix_is_never_behind_an_exponent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
