/* Steps of a run against the prediction of its plan: which sequences deviate from it, and which
 * part is wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run/plan_watch.h"
#include <string.h>

/* 10 ms: 6 of computing, 2 of exchange, 1 of waiting, 1 of the rest. */
static const struct sw_plan_times plan = {.ms = {6, 2, 1, 1}, .step_ms = 10};

static struct sw_plan_watch watch_of(int workers, bool is_async)
{
    struct sw_plan_watch w = {0};
    struct sw_err err;

    assert_int_equal(sw_plan_watch_init(&w, &plan, workers, is_async, &err), SW_OK);
    return w;
}

/* Adds steps that take `more` ms more than predicted in a part. Returns the 1-based step at which
 * the verdict changed, 0: never. */
static int add(struct sw_plan_watch *w, int worker, int steps, enum sw_plan_part part, double more)
{
    int changed = 0;

    for (int i = 1; i <= steps; i++) {
        double ms[SW_PLAN_PARTS];

        memcpy(ms, plan.ms, sizeof ms);
        ms[part] += more;
        if (sw_plan_watch_add(w, worker, ms) != SW_PLAN_UNCHANGED && !changed)
            changed = i;
    }

    return changed;
}

static void steps_that_differ_for_long_deviate(void **state)
{
    struct sw_plan_watch w = watch_of(1, false);
    struct sw_plan_gap gap;
    char text[256];

    assert_int_equal(add(&w, 0, 49, SW_PLAN_PARAMS, 2.5), 0);
    assert_int_equal(add(&w, 0, 1, SW_PLAN_PARAMS, 2.5), 1);
    assert_true(w.deviates);
    assert_int_equal(add(&w, 0, 500, SW_PLAN_PARAMS, 2.5), 0); /* told once */

    sw_plan_watch_gap(&w, &gap);
    assert_int_equal(gap.wrong, SW_PLAN_PARAMS);
    assert_true(gap.measured.step_ms == 12.5 && gap.measured.ms[SW_PLAN_PARAMS] == 4.5);
    assert_string_equal(sw_plan_gap_text(&gap, text),
                        "steps take 12.5 ms, 25 % longer than the plan predicted (10 ms): "
                        "exchange of parameters 4.5 ms instead of 2 ms");
    sw_plan_watch_fini(&w);
}

static void shorter_steps_deviate_too(void **state)
{
    struct sw_plan_watch w = watch_of(1, false);
    struct sw_plan_gap gap;

    assert_int_equal(add(&w, 0, 60, SW_PLAN_COMPUTE, -4), 50);
    sw_plan_watch_gap(&w, &gap);
    assert_int_equal(gap.wrong, SW_PLAN_COMPUTE);
    assert_true(gap.measured.step_ms == 6);
    sw_plan_watch_fini(&w);
}

/* The part that contributes most to the sum, even where another one makes up for some of it. */
static void the_wrong_part_has_the_direction_of_the_difference(void **state)
{
    const double ms[SW_PLAN_PARTS] = {1, 2, 9, 2}; /* 14: computes 5 less, waits 8 more */
    struct sw_plan_watch w = watch_of(1, false);
    struct sw_plan_gap gap;

    for (int i = 0; i < 50; i++)
        (void)sw_plan_watch_add(&w, 0, ms);
    assert_true(w.deviates);
    sw_plan_watch_gap(&w, &gap);
    assert_int_equal(gap.wrong, SW_PLAN_WAITS);
    sw_plan_watch_fini(&w);
}

static void differences_within_the_limit_are_none(void **state)
{
    struct sw_plan_watch w = watch_of(1, false);

    assert_int_equal(add(&w, 0, 500, SW_PLAN_COMPUTE, 1.9), 0);
    assert_int_equal(add(&w, 0, 500, SW_PLAN_COMPUTE, -1.9), 0);
    sw_plan_watch_fini(&w);
}

/* Every fifth step, or two of five, take ten times as long. */
static void outliers_do_not_deviate(void **state)
{
    struct sw_plan_watch w = watch_of(1, false);

    for (int i = 0; i < 200; i++) {
        assert_int_equal(add(&w, 0, 1, SW_PLAN_REST, 90), 0);
        assert_int_equal(add(&w, 0, 4, SW_PLAN_REST, 0), 0);
    }
    for (int i = 0; i < 200; i++) {
        assert_int_equal(add(&w, 0, 2, SW_PLAN_REST, 90), 0);
        assert_int_equal(add(&w, 0, 3, SW_PLAN_REST, 0), 0);
    }
    sw_plan_watch_fini(&w);
}

/* 30 % more, give or take 12 %: single steps are within the limit, and yet all deviate. */
static void noise_does_not_hide_a_difference(void **state)
{
    struct sw_plan_watch w = watch_of(1, false);
    int changed = 0;

    for (int i = 1; i <= 60 && !changed; i++)
        if (add(&w, 0, 1, SW_PLAN_COMPUTE, i % 5 == 0 ? 1.8 : 4.2))
            changed = i;
    assert_int_equal(changed, 50);
    sw_plan_watch_fini(&w);
}

/* The first steps fill caches. */
static void a_slow_start_does_not_deviate(void **state)
{
    struct sw_plan_watch w = watch_of(1, false);

    assert_int_equal(add(&w, 0, 47, SW_PLAN_COMPUTE, 50), 0);
    assert_int_equal(add(&w, 0, 500, SW_PLAN_COMPUTE, 0), 0);
    sw_plan_watch_fini(&w);
}

static void a_drift_is_noticed_when_it_has_gone_too_far(void **state)
{
    struct sw_plan_watch w = watch_of(1, false);
    int changed = 0;

    for (int i = 0; i < 1000 && !changed; i++)
        if (add(&w, 0, 1, SW_PLAN_WAITS, 0.01 * i))
            changed = i;
    assert_in_range(changed, 250, 255); /* 2 ms after 200 steps, and then for 50 */
    sw_plan_watch_fini(&w);
}

static void agreement_is_told_and_can_end_again(void **state)
{
    struct sw_plan_watch w = watch_of(1, false);

    assert_int_equal(add(&w, 0, 50, SW_PLAN_COMPUTE, 5), 50);
    assert_int_equal(add(&w, 0, 100, SW_PLAN_COMPUTE, 1), 52);
    assert_false(w.deviates);
    assert_int_equal(add(&w, 0, 100, SW_PLAN_COMPUTE, 5), 52);
    assert_true(w.deviates);
    sw_plan_watch_fini(&w);
}

/* What was told is not true any more. */
static void steps_that_move_on_are_told_again(void **state)
{
    struct sw_plan_watch w = watch_of(1, false);
    struct sw_plan_gap gap;

    assert_int_equal(add(&w, 0, 50, SW_PLAN_COMPUTE, 5), 50);   /* 15 ms */
    assert_int_equal(add(&w, 0, 200, SW_PLAN_COMPUTE, 19), 0);  /* 29 */
    assert_int_equal(add(&w, 0, 200, SW_PLAN_COMPUTE, 40), 52); /* 50 */
    assert_true(w.deviates);
    sw_plan_watch_gap(&w, &gap);
    assert_true(gap.measured.step_ms == 50);
    assert_int_equal(add(&w, 0, 200, SW_PLAN_COMPUTE, 10), 52); /* 20 */
    assert_true(w.deviates);
    sw_plan_watch_fini(&w);
}

/* Two workers of a group take the same time; one of them computes, and the other one waits. */
static void the_busiest_worker_decides(void **state)
{
    const double busy[SW_PLAN_PARTS] = {18, 2, 0, 0}, idle[SW_PLAN_PARTS] = {5, 2, 12, 1};
    struct sw_plan_watch w = watch_of(2, false);
    struct sw_plan_gap gap;
    enum sw_plan_verdict told = SW_PLAN_UNCHANGED;

    for (int i = 0; i < 50; i++) {
        assert_int_equal(sw_plan_watch_add(&w, 0, idle), SW_PLAN_UNCHANGED);
        told = sw_plan_watch_add(&w, 1, busy);
    }
    assert_int_equal(told, SW_PLAN_DEVIATES);
    sw_plan_watch_gap(&w, &gap);
    assert_int_equal(gap.wrong, SW_PLAN_COMPUTE);
    assert_true(gap.measured.ms[SW_PLAN_COMPUTE] == 18);
    sw_plan_watch_fini(&w);
}

/* A plan predicts the steps of the slowest group; others are faster. */
static void the_slowest_group_decides_for_asynchronous_ones(void **state)
{
    struct sw_plan_watch w = watch_of(2, true);

    for (int i = 0; i < 100; i++) {
        assert_int_equal(add(&w, 0, 2, SW_PLAN_COMPUTE, -5), 0);
        assert_int_equal(add(&w, 1, 1, SW_PLAN_COMPUTE, 0), 0);
    }
    sw_plan_watch_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_that_differ_for_long_deviate),
        cmocka_unit_test(shorter_steps_deviate_too),
        cmocka_unit_test(the_wrong_part_has_the_direction_of_the_difference),
        cmocka_unit_test(differences_within_the_limit_are_none),
        cmocka_unit_test(outliers_do_not_deviate),
        cmocka_unit_test(noise_does_not_hide_a_difference),
        cmocka_unit_test(a_slow_start_does_not_deviate),
        cmocka_unit_test(a_drift_is_noticed_when_it_has_gone_too_far),
        cmocka_unit_test(agreement_is_told_and_can_end_again),
        cmocka_unit_test(steps_that_move_on_are_told_again),
        cmocka_unit_test(the_busiest_worker_decides),
        cmocka_unit_test(the_slowest_group_decides_for_asynchronous_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
