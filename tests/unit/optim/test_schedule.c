/* Learning-rate schedules: every policy at its boundaries, warm-up, and checks of keys. */
#include "optim/schedule.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct sw_type *find(const char *name)
{
    for (int i = 0; sw_schedules[i]; i++) {
        if (strcmp(sw_schedules[i]->name, name) == 0)
            return sw_schedules[i];
    }
    fail_msg("no schedule is named %s", name);
    return NULL;
}

/* A policy as filled from [updater]: the defaults, then keys by name. */
struct policy {
    const struct sw_type *type;
    void *conf;
    struct sw_rate rate;
};

static const struct sw_opt *row_of(const struct sw_type *type, const char *key)
{
    for (const struct sw_opt *o = type->opts; o && o->key; o++)
        if (strcmp(o->key, key) == 0)
            return o;
    fail_msg("schedule %s has no key %s", type->name, key);
    return NULL;
}

static void put(struct policy *p, const char *key, double value)
{
    const struct sw_opt *o = row_of(p->type, key);
    if (o->type == SW_OPT_INT)
        *(int64_t *)((char *)p->conf + o->offset) = (int64_t)value;
    else
        *(double *)((char *)p->conf + o->offset) = value;
}

static void put_list(struct policy *p, const char *key, const double *items, int count)
{
    const struct sw_opt *o = row_of(p->type, key);
    assert_int_equal(o->type, SW_OPT_REALS);
    *(struct sw_reals *)((char *)p->conf + o->offset) =
        (struct sw_reals){.items = items, .count = count};
}

static struct policy policy(const char *name, double lr, uint64_t horizon_steps)
{
    struct policy p = {.type = find(name)};
    p.conf = calloc(1, p.type->conf_bytes + 1);
    assert_non_null(p.conf);
    for (const struct sw_opt *o = p.type->opts; o && o->key; o++)
        if (o->def)
            put(&p, o->key, strtod(o->def, NULL));
    p.rate = (struct sw_rate){
        .policy = p.type, .conf = p.conf, .lr = lr, .horizon_steps = horizon_steps};
    return p;
}

static void check(const struct policy *p, uint64_t step, double want)
{
    double got = sw_schedule_rate(&p->rate, step);
    if (fabs(got - want) > 1e-12 * fabs(want))
        fail_msg("%s at %llu is %.17g, not %.17g", p->type->name, (unsigned long long)step, got,
                 want);
}

/* ---- Each policy ---- */

static void table_lists_all_policies(void **state)
{
    static const char *const names[] = {"fixed",   "step",      "multistep",  "fixed_step",
                                        "linear",  "cosine",    "one_cycle",  "polynomial",
                                        "inverse", "inverse_t", "exponential"};
    int count = 0;
    while (sw_schedules[count])
        count++;
    assert_int_equal(count, sizeof names / sizeof *names);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        find(names[i]);
}

static void fixed_never_changes(void **state)
{
    struct policy p = policy("fixed", 0.3, 10);
    check(&p, 0, 0.3);
    check(&p, 1000000, 0.3);
    free(p.conf);
}

static void step_falls_at_every_interval(void **state)
{
    struct policy p = policy("step", 0.3, 10000);
    put(&p, "gamma", 0.5);
    put(&p, "step_size", 2500);
    check(&p, 0, 0.3);
    check(&p, 2499, 0.3);
    check(&p, 2500, 0.15);
    check(&p, 9999, 0.0375);
    free(p.conf);
}

static void multistep_falls_at_its_steps(void **state)
{
    static const double at[] = {1, 5, 60};
    struct policy p = policy("multistep", 2, 100);
    put_list(&p, "at", at, 3);
    check(&p, 0, 2);
    check(&p, 1, 0.2);
    check(&p, 4, 0.2);
    check(&p, 5, 0.02);
    check(&p, 59, 0.02);
    check(&p, 60, 0.002);
    check(&p, 1u << 30, 0.002);
    free(p.conf);
}

/* SINGA's CIFAR-10 job: 0.001, 0.0001 from 60000, 0.00001 from 65000. */
static void fixed_step_takes_rates_from_a_list(void **state)
{
    static const double at[] = {60000, 65000}, rates[] = {1e-4, 1e-5};
    struct policy p = policy("fixed_step", 1e-3, 70000);
    put_list(&p, "at", at, 2);
    put_list(&p, "rates", rates, 2);
    check(&p, 0, 1e-3);
    check(&p, 59999, 1e-3);
    check(&p, 60000, 1e-4);
    check(&p, 64999, 1e-4);
    check(&p, 65000, 1e-5);
    check(&p, 70000, 1e-5);
    free(p.conf);
}

/* Caffe's LeNet: base_lr 0.01, gamma 0.0001, power 0.75; its log prints 0.00596843 at 9900. */
static void inverse_matches_caffe(void **state)
{
    struct policy p = policy("inverse", 0.01, 10000);
    put(&p, "gamma", 0.0001);
    put(&p, "power", 0.75);
    check(&p, 0, 0.01);
    check(&p, 9900, 0.01 * exp(-0.75 * log(1.99)));
    assert_true(fabs(sw_schedule_rate(&p.rate, 9900) - 0.00596843) < 5e-9);
    free(p.conf);
}

static void inverse_t_halves_after_its_steps(void **state)
{
    struct policy p = policy("inverse_t", 0.3, 10);
    put(&p, "step_size", 100);
    check(&p, 0, 0.3);
    check(&p, 1, 0.3 / 1.01);
    check(&p, 100, 0.15);
    check(&p, 200, 0.1);
    free(p.conf);
}

static void exponential_halves_after_its_steps(void **state)
{
    struct policy p = policy("exponential", 0.8, 10);
    put(&p, "step_size", 100);
    check(&p, 0, 0.8);
    check(&p, 50, 0.8 / sqrt(2));
    check(&p, 100, 0.4);
    check(&p, 300, 0.1);
    free(p.conf);
}

static void linear_reaches_its_end_and_stays(void **state)
{
    struct policy p = policy("linear", 1, 100);
    put(&p, "final", 0.1);
    check(&p, 0, 1);
    check(&p, 1, 0.991);
    check(&p, 50, 0.55);
    check(&p, 99, 0.109);
    check(&p, 100, 0.1);
    check(&p, 1000000, 0.1);
    put(&p, "over", 10); /* ends before the horizon */
    check(&p, 5, 0.55);
    check(&p, 10, 0.1);
    check(&p, 99, 0.1);
    free(p.conf);
}

static void polynomial_reaches_its_end_and_stays(void **state)
{
    struct policy p = policy("polynomial", 1, 100);
    put(&p, "power", 2);
    check(&p, 0, 1);
    check(&p, 1, 0.9801);
    check(&p, 50, 0.25);
    check(&p, 99, 0.0001);
    check(&p, 100, 0);
    check(&p, 101, 0);
    put(&p, "final", 2); /* the rate may also rise */
    put(&p, "power", 0.5);
    check(&p, 75, 1.5);
    check(&p, 200, 2);
    free(p.conf);
}

static void cosine_reaches_its_end_and_stays(void **state)
{
    struct policy p = policy("cosine", 1, 90);
    put(&p, "final", 0.5);
    check(&p, 0, 1);
    check(&p, 1, 0.75 + 0.25 * cos(acos(-1) / 90));
    check(&p, 30, 0.875);
    check(&p, 45, 0.75);
    check(&p, 60, 0.625);
    check(&p, 90, 0.5);
    check(&p, 1000, 0.5);
    free(p.conf);
}

static void one_cycle_rises_falls_and_stays(void **state)
{
    struct policy p = policy("one_cycle", 1, 100);
    check(&p, 0, 0.04);
    check(&p, 15, 0.52);
    check(&p, 30, 1);
    check(&p, 65, 0.500002);
    check(&p, 100, 4e-6);
    check(&p, 100000, 4e-6);
    for (uint64_t t = 0; t < 100; t++) {
        double change = sw_schedule_rate(&p.rate, t + 1) - sw_schedule_rate(&p.rate, t);
        assert_true(t < 30 ? change > 0 : change < 0);
    }
    free(p.conf);
}

/* ---- All policies ---- */

/* A policy with every required key set. */
static struct policy some(int i)
{
    static const double list[] = {40, 300};
    struct policy p = policy(sw_schedules[i]->name, 1, 100);
    for (const struct sw_opt *o = p.type->opts; o && o->key; o++) {
        if (o->type == SW_OPT_REALS)
            put_list(&p, o->key, list, 2);
        else if (o->required)
            put(&p, o->key, o->type == SW_OPT_INT ? 7 : 0.5);
    }
    return p;
}

static void rates_keep_their_end_value(void **state)
{
    for (int i = 0; sw_schedules[i]; i++) {
        struct policy p = some(i);
        bool ends = false;
        for (const struct sw_opt *o = p.type->opts; o && o->key; o++)
            ends = ends || strcmp(o->key, "over") == 0;
        double end = sw_schedule_rate(&p.rate, 100);
        for (uint64_t t = 0; t < 1000000; t = t * 3 / 2 + 1) {
            double r = sw_schedule_rate(&p.rate, t);
            assert_true(isfinite(r) && r >= 0);
            if (ends && t > 100 && r != end)
                fail_msg("%s goes on after its end", p.type->name);
        }
        free(p.conf);
    }
}

static void warm_up_is_linear_to_the_rate_of_the_policy(void **state)
{
    for (int i = 0; sw_schedules[i]; i++) {
        struct policy p = some(i);
        double end = sw_schedule_rate(&p.rate, 20), later = sw_schedule_rate(&p.rate, 57);
        p.rate.warmup = 20;
        check(&p, 0, 0);
        p.rate.warmup_start = 0.5;
        check(&p, 0, 0.5);
        check(&p, 1, 0.5 + (end - 0.5) / 20);
        check(&p, 10, (0.5 + end) / 2);
        check(&p, 19, end - (end - 0.5) / 20);
        check(&p, 20, end);
        check(&p, 57, later);
        p.rate.warmup = 1;
        check(&p, 0, 0.5);
        check(&p, 57, later);
        free(p.conf);
    }
}

static void rates_do_not_depend_on_call_order(void **state)
{
    struct policy p = policy("inverse", 1, 1000);
    put(&p, "gamma", 0.001);
    put(&p, "power", 0.5);
    double late = sw_schedule_rate(&p.rate, 777);
    for (uint64_t step = 0; step < 777; step++)
        assert_true(sw_schedule_rate(&p.rate, step) > late);
    assert_true(sw_schedule_rate(&p.rate, 777) == late);
    p.rate.horizon_steps = 778;
    assert_true(sw_schedule_rate(&p.rate, 777) == late);
    free(p.conf);
}

static void check_refused(struct policy *p, const char *why)
{
    struct sw_err err = {0};
    assert_int_equal(sw_schedule_check(p->type, p->conf, &err), SW_ERR_INVALID);
    if (!strstr(err.text, why))
        fail_msg("'%s' does not say '%s'", err.text, why);
}

static void lists_of_steps_are_checked(void **state)
{
    static const double falling[] = {10, 5}, broken[] = {1.5}, good[] = {0, 9};
    struct policy p = policy("multistep", 1, 100), f = policy("fixed_step", 1, 100);
    struct sw_err err = {0};
    put_list(&p, "at", falling, 2);
    check_refused(&p, "5 comes after 10");
    put_list(&p, "at", broken, 1);
    check_refused(&p, "1.5 is not a whole number");
    put_list(&p, "at", good, 2);
    assert_int_equal(sw_schedule_check(p.type, p.conf, &err), SW_OK);
    put_list(&f, "at", good, 2);
    put_list(&f, "rates", good, 1);
    check_refused(&f, "at has 2 steps, but rates has 1");
    put_list(&f, "rates", good, 2);
    assert_int_equal(sw_schedule_check(f.type, f.conf, &err), SW_OK);
    assert_int_equal(sw_schedule_check(find("fixed"), NULL, &err), SW_OK);
    free(p.conf), free(f.conf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_lists_all_policies),
        cmocka_unit_test(fixed_never_changes),
        cmocka_unit_test(step_falls_at_every_interval),
        cmocka_unit_test(multistep_falls_at_its_steps),
        cmocka_unit_test(fixed_step_takes_rates_from_a_list),
        cmocka_unit_test(inverse_matches_caffe),
        cmocka_unit_test(inverse_t_halves_after_its_steps),
        cmocka_unit_test(exponential_halves_after_its_steps),
        cmocka_unit_test(linear_reaches_its_end_and_stays),
        cmocka_unit_test(polynomial_reaches_its_end_and_stays),
        cmocka_unit_test(cosine_reaches_its_end_and_stays),
        cmocka_unit_test(one_cycle_rises_falls_and_stays),
        cmocka_unit_test(rates_keep_their_end_value),
        cmocka_unit_test(warm_up_is_linear_to_the_rate_of_the_policy),
        cmocka_unit_test(rates_do_not_depend_on_call_order),
        cmocka_unit_test(lists_of_steps_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
