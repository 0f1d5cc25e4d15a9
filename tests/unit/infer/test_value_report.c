/* Reports of predicted values: errors by hand, the worst rows in order, units, points. */
#include "infer/value_report.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/os.h"
#include "data/scaling.h"
#include <math.h>
#include <string.h>

/* As sw_value_report_begin leaves it. */
static struct sw_value_report report_of(int64_t columns, int worst)
{
    const size_t most = (size_t)worst + 1, width = 2 * (size_t)columns;
    struct sw_value_report r = {.columns = columns,
                                .worst_most = worst,
                                .worst = sw_calloc(most, sizeof *r.worst),
                                .values = sw_calloc(most, width * sizeof *r.values)};
    assert_true(r.worst && r.values);
    for (size_t i = 0; i < most; i++)
        r.worst[i].values = r.values + i * width;
    return r;
}

static void assert_near(double have, double want)
{
    if (!(fabs(have - want) <= 1e-6 * fabs(want)))
        fail_msg("%.15g, should be %.15g", have, want);
}

/* The rows in any batches; of equal errors the first one comes first. */
static void the_largest_errors_come_first(void **state)
{
    static const float value[6] = {1, 5, 2, 8, NAN, 0}, target[6] = {1, 2, 5, 9, 1, -2};
    static const int64_t order[5] = {4, 1, 2, 5, 3};
    struct sw_err err;

    for (int64_t batch = 1; batch <= 6; batch++)
        for (int worst = 0; worst <= 5; worst++) {
            struct sw_value_report r = report_of(1, worst);
            for (int64_t at = 0; at < 6; at += batch)
                assert_int_equal(sw_value_report_rows(&r, value + at, target + at,
                                                      at + batch < 6 ? batch : 6 - at, &err),
                                 SW_OK);
            assert_int_equal(r.rows, 6);
            assert_int_equal(r.worst_count, worst);
            for (int i = 0; i < worst; i++) {
                const int64_t record = order[i];
                assert_int_equal(r.worst[i].record, record);
                assert_true(r.worst[i].values[0] == target[record]);
                assert_memory_equal(&r.worst[i].values[1], &value[record], sizeof *value);
            }
            if (worst == 5) {
                assert_true(isinf(r.worst[0].error));
                assert_near(r.worst[1].error, 3);
                assert_near(r.worst[4].error, 1);
            }
            sw_value_report_fini(&r);
        }
}

/* A single value has the error in the units of the data, several that of the loss. */
static void values_have_the_units_of_the_data(void **state)
{
    static const float value[2] = {0.5f, -1}, target[2] = {2, 1};
    double numbers[4] = {10, 100, 4, 20};
    struct sw_err err;

    for (int64_t columns = 1; columns <= 2; columns++) {
        const struct sw_scaling s = {
            .count = columns, .mean = numbers, .std = numbers + 2, .factor = 1};
        struct sw_value_report r = report_of(columns, 1);
        r.scaling = &s;
        assert_int_equal(sw_value_report_rows(&r, value, target, 1, &err), SW_OK);
        assert_near(r.worst[0].error, columns == 1 ? 6 : 2.5);
        assert_near((double)r.worst[0].values[0], 18);
        assert_near((double)r.worst[0].values[columns], 12);
        if (columns == 2) {
            assert_near((double)r.worst[0].values[1], 120);
            assert_near((double)r.worst[0].values[3], 80);
        }
        sw_value_report_fini(&r);
    }
}

static void points_are_all_rows(void **state)
{
    enum { ROWS = 3000 };
    static float value[ROWS];
    static int32_t target[ROWS];
    struct sw_value_report r = report_of(1, 0);
    struct sw_err err;

    for (int i = 0; i < ROWS; i++) {
        value[i] = (float)i / 2;
        target[i] = -i;
    }
    r.integers = r.with_points = true;
    for (int at = 0; at < ROWS; at += 1000)
        assert_int_equal(sw_value_report_rows(&r, value + at, target + at, 1000, &err), SW_OK);
    for (int i = 0; i < ROWS; i++)
        assert_true(r.points[2 * i] == (float)-i && r.points[2 * i + 1] == value[i]);
    sw_value_report_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_errors_come_first),
        cmocka_unit_test(values_have_the_units_of_the_data),
        cmocka_unit_test(points_are_all_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
