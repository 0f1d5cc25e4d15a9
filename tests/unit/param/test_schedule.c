#include "param/schedule.h"
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

/* Writes a value where the option row of a key says. */
static void put(const struct sw_type *type, void *conf, const char *key, double value)
{
    for (const struct sw_opt *o = type->opts; o->key; o++) {
        if (strcmp(o->key, key) != 0)
            continue;
        if (o->type == SW_OPT_INT)
            *(int64_t *)((char *)conf + o->offset) = (int64_t)value;
        else
            *(double *)((char *)conf + o->offset) = value;
        return;
    }
    fail_msg("schedule %s has no key %s", type->name, key);
}

static void near(double got, double want)
{
    if (fabs(got - want) > 1e-12 * fabs(want))
        fail_msg("rate is %.17g, not %.17g", got, want);
}

static void schedules_are_fixed_step_and_inverse(void **state)
{
    (void)state;
    int count = 0;
    while (sw_schedules[count])
        count++;
    assert_int_equal(count, 3);
    find("fixed"), find("step"), find("inverse");
}

static void fixed_never_changes(void **state)
{
    (void)state;
    near(sw_schedule_rate(find("fixed"), NULL, 0.3, 0, 10), 0.3);
    near(sw_schedule_rate(find("fixed"), NULL, 0.3, 1000000, 10), 0.3);
}

static void step_falls_at_every_interval(void **state)
{
    (void)state;
    const struct sw_type *type = find("step");
    void *conf = calloc(1, type->conf_bytes);
    put(type, conf, "gamma", 0.5);
    put(type, conf, "step_size", 2500);
    near(sw_schedule_rate(type, conf, 0.3, 0, 10000), 0.3);
    near(sw_schedule_rate(type, conf, 0.3, 2499, 10000), 0.3);
    near(sw_schedule_rate(type, conf, 0.3, 2500, 10000), 0.15);
    near(sw_schedule_rate(type, conf, 0.3, 9999, 10000), 0.0375);
    free(conf);
}

/* Caffe's LeNet: base_lr 0.01, gamma 0.0001, power 0.75; its log prints 0.00596843 at 9900. */
static void inverse_matches_caffe(void **state)
{
    (void)state;
    const struct sw_type *type = find("inverse");
    void *conf = calloc(1, type->conf_bytes);
    put(type, conf, "gamma", 0.0001);
    put(type, conf, "power", 0.75);
    near(sw_schedule_rate(type, conf, 0.01, 0, 10000), 0.01);
    near(sw_schedule_rate(type, conf, 0.01, 9900, 10000), 0.01 * exp(-0.75 * log(1.99)));
    assert_true(fabs(sw_schedule_rate(type, conf, 0.01, 9900, 1) - 0.00596843) < 5e-9);
    free(conf);
}

static void rates_do_not_depend_on_call_order(void **state)
{
    (void)state;
    const struct sw_type *type = find("inverse");
    void *conf = calloc(1, type->conf_bytes);
    put(type, conf, "gamma", 0.001);
    put(type, conf, "power", 0.5);
    double late = sw_schedule_rate(type, conf, 1, 777, 1000);
    for (uint64_t step = 0; step < 777; step++)
        assert_true(sw_schedule_rate(type, conf, 1, step, 1000) > late);
    assert_true(sw_schedule_rate(type, conf, 1, 777, 1000) == late);
    assert_true(sw_schedule_rate(type, conf, 1, 777, 778) == late);
    free(conf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedules_are_fixed_step_and_inverse),
        cmocka_unit_test(fixed_never_changes),
        cmocka_unit_test(step_falls_at_every_interval),
        cmocka_unit_test(inverse_matches_caffe),
        cmocka_unit_test(rates_do_not_depend_on_call_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
