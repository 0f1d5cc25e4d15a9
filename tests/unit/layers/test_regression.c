/* mae, rmse and r2: values computed by hand, in any layout, with invalid rows, in the units of
 * standardized targets, and from the sums of several batches. */
#include "data/scaling.h"
#include "kernels/ops/target_error.h"
#include "loss_support.h"

enum { ROWS = 5, VALID = 4 };

/* Errors 1, -2, 0.5, 0 and 0, 4, -4, 1; targets 1, 2, 3, 6 and 10, 20, 30, 40. */
static const float predicted[ROWS][2] = {{2, 10}, {0, 24}, {3.5f, 26}, {6, 41}, {99, 99}};
static const float target[ROWS][2] = {{1, 10}, {2, 20}, {3, 30}, {6, 40}, {-99, -99}};

static const struct sw_layer_example two = {.recipe = "",
                                            .src = {{2, {ROWS, 2}, 0}, {2, {ROWS, 2}, 0}}};

static struct scene scene_of(const char *type, const struct sw_scaling *scaling)
{
    struct fixture f = open_cpu(false, 1);
    struct scene s = {.f = f};
    struct sw_err err;

    rig_open(&s.g, sw_layer_type_find(type), &two, &(struct how){.stream = s.f.stream});
    s.g.src[1].scaling = scaling;
    for (int k = 0; k < 2; k++)
        s.g.layer.src[k] = &s.g.src[k];
    ASSERT_OK(rig_try_setup(&s.g, &err));
    rig_allocate(&s.g);
    s.v = values_new(&s.g, &two, 21);
    memcpy(s.v.src[0], predicted, sizeof predicted);
    memcpy(s.v.src[1], target, sizeof target);
    s.g.step.valid_rows = VALID;
    return s;
}

static double value_of(const char *type, const struct sw_scaling *scaling)
{
    struct scene s = scene_of(type, scaling);
    scene_fix_pointers(&s);
    rig_forward(&s.g, &s.v);
    const double value = s.g.layer.type->value(&s.g.layer, s.g.result, 0);
    scene_free(&s);
    return value;
}

static void assert_value_is(double have, double want)
{
    if (!(fabs(have - want) <= 1e-12 * fabs(want)))
        fail_msg("%.15g, should be %.15g", have, want);
}

static void values_are_those_computed_by_hand(void **state)
{
    assert_value_is(value_of("mae", NULL), 12.5 / 8);
    assert_value_is(value_of("rmse", NULL), sqrt(38.25 / 8));
    /* Spreads 14 and 500, squared errors 5.25 and 33. */
    assert_value_is(value_of("r2", NULL), (1 - 5.25 / 14 + 1 - 33.0 / 500) / 2);
}

/* Each value has its own standard deviation; r2 has no unit. */
static void errors_are_in_the_units_of_the_data(void **state)
{
    double numbers[4] = {7, 8, 2, 10}; /* mean, mean, std, std */
    const struct sw_scaling scaling = {
        .count = 2, .mean = numbers, .std = numbers + 2, .factor = 1, .known = true};

    assert_value_is(value_of("mae", &scaling), (3.5 * 2 + 9 * 10.0) / 8);
    assert_value_is(value_of("rmse", &scaling), sqrt((5.25 * 4 + 33 * 100.0) / 8));
    assert_value_is(value_of("r2", &scaling), value_of("r2", NULL));
}

/* The sums of two batches give the value of all rows, not the mean of two values. */
static void values_come_from_the_sums_of_all_batches(void **state)
{
    struct scene s = scene_of("r2", NULL);
    struct sw_result total[2 * SW_ERROR_PAIRS] = {{0, 0}};
    const int64_t valid[2] = {3, 1};

    scene_fix_pointers(&s);
    for (int batch = 0, from = 0; batch < 2; from += (int)valid[batch++]) {
        memcpy(s.v.src[0], predicted[from], (size_t)valid[batch] * sizeof predicted[0]);
        memcpy(s.v.src[1], target[from], (size_t)valid[batch] * sizeof target[0]);
        s.g.step.valid_rows = valid[batch];
        rig_forward(&s.g, &s.v);
        for (int i = 0; i < 2 * SW_ERROR_PAIRS; i++) {
            total[i].sum += s.g.result[i].sum;
            total[i].weight += s.g.result[i].weight;
        }
    }
    assert_value_is(s.g.layer.type->value(&s.g.layer, total, 0),
                    (1 - 5.25 / 14 + 1 - 33.0 / 500) / 2);
    scene_free(&s);
}

static void values_without_a_meaning_are_nan(void **state)
{
    struct scene s = scene_of("r2", NULL);
    double r2;

    /* The first value never varies, so that only the second one counts. */
    scene_fix_pointers(&s);
    for (int i = 0; i < VALID; i++)
        s.v.src[1][2 * i] = 0.1f;
    rig_forward(&s.g, &s.v);
    assert_value_is(s.g.layer.type->value(&s.g.layer, s.g.result, 0), 1 - 33.0 / 500);
    for (int i = 0; i < VALID; i++)
        s.v.src[1][2 * i + 1] = 3;
    rig_forward(&s.g, &s.v);
    r2 = s.g.layer.type->value(&s.g.layer, s.g.result, 0);
    assert_true(isnan(r2));
    /* A prediction that is not a number is not left out. */
    memcpy(s.v.src[1], target, sizeof target);
    s.v.src[0][0] = NAN;
    rig_forward(&s.g, &s.v);
    r2 = s.g.layer.type->value(&s.g.layer, s.g.result, 0);
    assert_true(isnan(r2));
    s.g.step.valid_rows = 0;
    rig_forward(&s.g, &s.v);
    r2 = s.g.layer.type->value(&s.g.layer, s.g.result, 0);
    assert_true(isnan(r2));
    scene_free(&s);
}

static void any_layout_and_integers_are_accepted(void **state)
{
    const struct sw_layer_example wide = {.recipe = "",
                                          .src = {{4, {4, 9, 2, 3}, 0}, {2, {4, 54}, 7}}};

    for (int block = 0; block <= 16; block += 8) {
        struct scene s = scene_new("mae", &wide, block == 8, block);
        double sum = 0;

        scene_fix_pointers(&s);
        for (int i = 0; i < 4 * 54; i++)
            sum += fabs((double)s.v.src[0][i] - s.v.label[1][i]);
        rig_forward(&s.g, &s.v);
        assert_value_is(s.g.layer.type->value(&s.g.layer, s.g.result, 0), sum / (4 * 54));
        scene_free(&s);
    }
}

static void sources_of_other_shapes_are_refused(void **state)
{
    const struct sw_layer_example columns = {.recipe = "", .src = {{2, {4, 3}, 0}, {2, {4, 2}, 0}}};

    assert_refused("rmse", &columns, 0, "the same number of rows, and of values per row");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_those_computed_by_hand),
        cmocka_unit_test(errors_are_in_the_units_of_the_data),
        cmocka_unit_test(values_come_from_the_sums_of_all_batches),
        cmocka_unit_test(values_without_a_meaning_are_nan),
        cmocka_unit_test(any_layout_and_integers_are_accepted),
        cmocka_unit_test(sources_of_other_shapes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
