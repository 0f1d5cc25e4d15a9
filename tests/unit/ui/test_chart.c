/* Charts and downsampled curves: the screen must show the measured values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "odd_values.h"
#include "ui/chart.h"
#include "ui/trail.h"
#include <math.h>
#include <string.h>

static struct sw_trail fold_of(size_t capacity)
{
    struct sw_trail f;
    struct sw_err err;
    assert_int_equal(sw_trail_init(&f, capacity, &err), SW_OK);
    return f;
}

static void downsampling_keeps_range_and_mean(void **state)
{
    struct sw_trail f = fold_of(64);
    double sum = 0, lo = 1e9, hi = -1e9;
    for (int i = 0; i < 100000; i++)
        sw_trail_add(&f, i, i == 77777 ? 1e6 : i % 10);
    assert_in_range(f.count, 32, 64);
    for (size_t i = 0; i < f.count; i++) {
        bool whole = i + 1 < f.count;
        sum += f.points[i].y * (double)(whole ? f.per_point : f.in_last);
        lo = fmin(lo, f.points[i].lo);
        hi = fmax(hi, f.points[i].hi);
        assert_true(i == 0 || f.points[i].x > f.points[i - 1].x);
    }
    assert_true(lo == 0 && hi == 1e6);
    assert_true(fabs(sum - (450000 - 7 + 1e6)) < 1e-3);
    assert_true(f.last_x == 99999 && f.last_y == 9);
    sw_trail_fini(&f);
}

static void non_finite_value_breaks_the_curve_only_if_alone(void **state)
{
    struct sw_trail f = fold_of(4);
    sw_trail_add(&f, 0, 1);
    sw_trail_add(&f, 1, NAN);
    assert_true(isnan(f.points[1].y));
    for (int i = 2; i < 8; i++)
        sw_trail_add(&f, i, 3);
    assert_int_equal(f.count, 4);
    assert_true(f.points[0].y == 1 && f.points[0].hi == 1);
    sw_trail_fini(&f);
}

static void the_nearest_point_is_found(void **state)
{
    struct sw_trail f = fold_of(8);
    assert_null(sw_trail_near(&f, 3));
    for (int i = 0; i < 5; i++)
        sw_trail_add(&f, 10 * i, i);
    assert_true(sw_trail_near(&f, -5)->x == 0);
    assert_true(sw_trail_near(&f, 14)->x == 10);
    assert_true(sw_trail_near(&f, 16)->x == 20);
    assert_true(sw_trail_near(&f, 1e9)->x == 40);
    sw_trail_fini(&f);
}

static void smoothing_starts_at_the_first_value_and_skips_gaps(void **state)
{
    const struct sw_point in[] = {{0, 4, 4, 4}, {1, NAN, NAN, NAN}, {2, 4, 4, 4}, {3, 8, 8, 8}};
    struct sw_point out[4];
    sw_chart_smooth(in, 4, 0.9, out);
    assert_true(fabs(out[0].y - 4) < 1e-12 && isnan(out[1].y) && fabs(out[2].y - 4) < 1e-12);
    double expected = (0.9 * 0.9 * 0.1 * 4 + 0.9 * 0.1 * 4 + 0.1 * 8) / (0.081 + 0.09 + 0.1);
    assert_true(fabs(out[3].y - expected) < 1e-12);
    sw_chart_smooth(in, 4, 0, out);
    assert_true(out[3].y == 8);
}

static void numbers_are_short_and_unknown_is_not_zero(void **state)
{
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0, "0"},       {0.043123, "0.0431"}, {999.4, "999"}, {999.6, "1000"},
                 {4812, "4812"}, {12345, "12.3k"},     {1e6, "1M"},    {3.21e9, "3.21G"},
                 {-0.5, "-0.5"}, {1e-7, "1e-07"},      {NAN, "--"},    {INFINITY, "inf"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[16];
        assert_string_equal(sw_chart_number(text, cases[i].value), cases[i].text);
    }
}

static struct sw_canvas canvas_of(int w, int h, bool utf8)
{
    struct sw_canvas c = {0};
    struct sw_err err;
    assert_int_equal(sw_canvas_begin(&c, w, h, (struct sw_ui_caps){utf8, 0}, &err), SW_OK);
    return c;
}

static void assert_screen(struct sw_canvas *c, const char *expected)
{
    struct sw_bytes text = {0};
    sw_canvas_to_text(c, &text);
    assert_string_equal(sw_bytes_text(&text), expected);
    sw_bytes_fini(&text);
    sw_canvas_fini(c);
}

static struct sw_chart ramp(struct sw_chart_line *line, struct sw_point points[11])
{
    for (int i = 0; i < 11; i++)
        points[i] = (struct sw_point){i, i, i, i};
    *line = (struct sw_chart_line){points, 11, SW_ROLE_LINE1, SW_STROKE_SOLID, 0, 0};
    return (struct sw_chart){.lines = line, .line_count = 1, .x_to = 10, .y_to = 10, .cursor = NAN};
}

static void ramp_is_drawn_in_ascii(void **state)
{
    struct sw_point points[11];
    struct sw_chart_line line;
    struct sw_chart chart = ramp(&line, points);
    struct sw_canvas c = canvas_of(28, 6, false);
    sw_chart_draw(&c, (struct sw_area){0, 0, 28, 6}, &chart);
    assert_screen(&c, "     10+                 ***\n"
                      "       |            *****\n"
                      "      5+        ****\n"
                      "       |   *****\n"
                      "      0+***\n"
                      "       +0---------5-------10\n");
}

static void ramp_is_drawn_in_braille(void **state)
{
    struct sw_point points[11];
    struct sw_chart_line line;
    struct sw_chart chart = ramp(&line, points);
    struct sw_canvas c = canvas_of(20, 4, true);
    sw_chart_draw(&c, (struct sw_area){0, 0, 20, 4}, &chart);
    assert_screen(&c, "     10┤        ⣀⡤⠒⠉\n"
                      "      5┤    ⣀⠤⠖⠉\n"
                      "      0┤⣀⠤⠚⠉\n"
                      "       └0─────5───10\n");
}

static void points_outside_the_window_are_not_drawn(void **state)
{
    struct sw_point points[3] = {{-1e12, 5, 5, 5}, {5, 1e300, 1e300, 1e300}, {1e12, 5, 5, 5}};
    struct sw_chart_line line = {points, 3, SW_ROLE_LINE1, SW_STROKE_SOLID, 0, 0};
    struct sw_chart chart = {.lines = &line, .line_count = 1, .x_to = 10, .y_to = 1, .cursor = NAN};
    struct sw_canvas c = canvas_of(10, 3, true);
    sw_chart_draw(&c, (struct sw_area){0, 0, 10, 3}, &chart);
    assert_screen(&c, "\n\n\n");
}

static void log_scale_ignores_non_positive_values(void **state)
{
    struct sw_point points[3] = {{0, -1, -1, -1}, {1, 0.01, 0.01, 0.01}, {2, 1, 1, 1}};
    struct sw_chart_line line = {points, 3, SW_ROLE_LINE1, SW_STROKE_SOLID, 0, 0};
    struct sw_chart chart = {
        .lines = &line, .line_count = 1, .x_to = 2, .log_y = true, .cursor = NAN};
    sw_chart_fit(&chart);
    assert_true(chart.y_from > 0.005 && chart.y_from < 0.01 && chart.y_to > 1 && chart.y_to < 2);
}

/* A line of three points, of which the first two are odd, drawn in all ways. */
static void draw_odd(double first, double second, bool odd_x, bool log_y)
{
    static const int sizes[][2] = {{80, 24}, {31, 11}, {16, 4}, {3, 2}};
    double a = odd_x ? 1 : first, b = odd_x ? 1 : second;
    struct sw_point points[3] = {{odd_x ? first : 0, a, a, a},
                                 {odd_x ? second : 1, b, fmin(a, b), fmax(a, b)},
                                 {2, a, a, a}};
    struct sw_chart_line lines[4];
    for (int i = 0; i < 4; i++)
        lines[i] = (struct sw_chart_line){points, 3, SW_ROLE_LINE1, (enum sw_stroke)i, 0, 0};
    struct sw_chart_mark mark = {first, 'v', SW_ROLE_WARN};
    struct sw_chart chart = {.lines = lines,
                             .line_count = 4,
                             .marks = &mark,
                             .mark_count = 1,
                             .x_from = odd_x ? first : 0,
                             .x_to = odd_x ? second : 2,
                             .log_y = log_y,
                             .cursor = second};
    sw_chart_fit(&chart);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct sw_canvas c = canvas_of(sizes[i][0], sizes[i][1], i % 2 == 0);
        sw_chart_draw(&c, (struct sw_area){0, 0, c.w, c.h}, &chart);
        sw_canvas_fini(&c);
    }
}

static void charts_of_any_values_are_drawn(void **state)
{
    for (int i = 0; i < 4 * ODD_VALUES * ODD_VALUES; i++)
        draw_odd(odd_values[i / 4 / ODD_VALUES], odd_values[i / 4 % ODD_VALUES], i & 1, i & 2);
}

static void the_mean_of_equal_values_is_that_value(void **state)
{
    struct sw_trail f = fold_of(16);
    struct sw_point smooth[16];
    for (int i = 0; i < 1000; i++)
        sw_trail_add(&f, i, 0.1);
    sw_chart_smooth(f.points, f.count, 0.97, smooth);
    for (size_t i = 0; i < f.count; i++)
        assert_true(f.points[i].y == 0.1 && smooth[i].y == 0.1);
    sw_trail_fini(&f);
}

static void truncated_text_is_marked_and_wide_characters_stay_whole(void **state)
{
    struct sw_canvas c = canvas_of(8, 3, true);
    assert_int_equal(sw_canvas_text(&c, 0, 0, 5, SW_ROLE_TEXT, "1234567"), 5);
    assert_int_equal(sw_canvas_columns(&c, "a\xe6\x97\xa5"), 3);
    sw_canvas_text(&c, 0, 1, 8, SW_ROLE_TEXT, "a\xe6\x97\xa5z");
    sw_canvas_rune(&c, 2, 1, 'x', SW_ROLE_TEXT);
    sw_canvas_text(&c, 0, 2, 8, SW_ROLE_TEXT, "e\033[2J");
    assert_screen(&c, "1234~\na xz\ne\\x1b[2J\n");
}

static void letters_tell_lines_apart_without_colors(void **state)
{
    struct sw_point low[2] = {{0, 1, 1, 1}, {10, 1, 1, 1}}, high[2] = {{0, 9, 9, 9}, {10, 9, 9, 9}};
    struct sw_chart_line lines[] = {{low, 2, SW_ROLE_LINE1, SW_STROKE_SOLID, 0, 'A'},
                                    {high, 2, SW_ROLE_LINE2, SW_STROKE_SOLID, 0, 'B'}};
    struct sw_chart chart = {.lines = lines, .line_count = 2, .x_to = 10, .cursor = NAN};
    sw_chart_fit(&chart);
    for (int utf8 = 0; utf8 < 2; utf8++)
        for (int w = 16; w <= 60; w += 11) {
            struct sw_canvas c = {0};
            struct sw_bytes text = {0};
            struct sw_err err;
            assert_int_equal(sw_canvas_begin(&c, w, 12, (struct sw_ui_caps){utf8, 0}, &err), SW_OK);
            sw_chart_draw(&c, (struct sw_area){0, 0, w, 12}, &chart);
            sw_canvas_to_text(&c, &text);
            const char *a = strchr(sw_bytes_text(&text), 'A'),
                       *b = strchr(sw_bytes_text(&text), 'B');
            assert_true(a && b && b < a); /* the higher line is above */
            sw_bytes_fini(&text);
            sw_canvas_fini(&c);
        }
    assert_true(sw_chart_letter(0) == 'A' && sw_chart_letter(27) == 'b' && !sw_chart_letter(52));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(downsampling_keeps_range_and_mean),
        cmocka_unit_test(non_finite_value_breaks_the_curve_only_if_alone),
        cmocka_unit_test(the_nearest_point_is_found),
        cmocka_unit_test(smoothing_starts_at_the_first_value_and_skips_gaps),
        cmocka_unit_test(numbers_are_short_and_unknown_is_not_zero),
        cmocka_unit_test(ramp_is_drawn_in_ascii),
        cmocka_unit_test(ramp_is_drawn_in_braille),
        cmocka_unit_test(points_outside_the_window_are_not_drawn),
        cmocka_unit_test(log_scale_ignores_non_positive_values),
        cmocka_unit_test(charts_of_any_values_are_drawn),
        cmocka_unit_test(the_mean_of_equal_values_is_that_value),
        cmocka_unit_test(truncated_text_is_marked_and_wide_characters_stay_whole),
        cmocka_unit_test(letters_tell_lines_apart_without_colors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
