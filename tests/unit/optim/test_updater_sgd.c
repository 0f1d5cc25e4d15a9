/* sgd against its formula in double, and the reports of values that are not finite. */
#include "updater_support.h"

enum { COUNT = 100003 }; /* several blocks and an odd end */

static const struct sw_updater *sgd(void)
{
    return find_updater("sgd");
}

static void *conf_of(double momentum)
{
    return updater_conf(sgd(), "momentum", momentum);
}

struct model {
    void *conf;
    float *w, *v, *g;
};

static struct model model_new(double momentum)
{
    struct model m = {conf_of(momentum), noise(0, COUNT), noise(1, COUNT), noise(2, COUNT)};
    return m;
}

static void model_free(struct model *m)
{
    free(m->conf), free(m->w), free(m->v), free(m->g);
}

/* Updates elements [from, to); returns true if something was not finite. */
static bool update(struct model *m, int64_t from, int64_t to)
{
    bool bad = false;
    struct sw_update_args a = {
        .value = m->w + from,
        .slot = {sgd()->slots(m->conf) ? m->v + from : NULL},
        .gradient = m->g + from,
        .count = to - from,
        .lr = 0.05f,
        .weight_decay = 0.004f,
        .gradient_scale = 0.25f,
        .step = 0,
        .non_finite = &bad,
    };
    sw_updater_apply(sgd(), m->conf, &a);
    return bad;
}

static void sgd_has_state_only_with_momentum(void **state)
{
    void *none = conf_of(0), *some = conf_of(0.9);
    assert_int_equal(sgd()->slots(none), 0);
    assert_int_equal(sgd()->slots(some), 1);
    assert_string_equal(sgd()->slot_names[0], "momentum");
    assert_null(sgd()->slot_names[1]);
    free(none), free(some);
}

static void check_formula(double momentum)
{
    struct model m = model_new(momentum);
    double *w = malloc(COUNT * sizeof *w), *v = malloc(COUNT * sizeof *v), worst = 0;
    for (int i = 0; i < COUNT; i++)
        w[i] = m.w[i], v[i] = m.v[i];
    for (int step = 0; step < 5; step++) {
        assert_false(update(&m, 0, COUNT));
        for (int i = 0; i < COUNT; i++) {
            v[i] = momentum * v[i] + 0.05 * (0.25 * m.g[i] + 0.004 * w[i]);
            w[i] -= v[i];
            worst = fmax(worst, fabs(w[i] - m.w[i]));
        }
    }
    if (worst > 1e-6)
        fail_msg("momentum %g: largest difference is %g", momentum, worst);
    free(w), free(v);
    model_free(&m);
}

static void sgd_matches_the_formula_in_double(void **state)
{
    check_formula(0);
    check_formula(0.9);
}

static void check_found(float bad_value, int at, double momentum)
{
    struct model m = model_new(momentum);
    m.g[at] = bad_value;
    if (!update(&m, 0, COUNT))
        fail_msg("gradient %g at %d was not noticed", (double)bad_value, at);
    model_free(&m);
}

static void non_finite_gradients_are_reported(void **state)
{
    for (int with = 0; with < 2; with++) {
        check_found(NAN, 0, 0.9 * with);
        check_found(INFINITY, 16384, 0.9 * with);
        check_found(-INFINITY, COUNT - 1, 0.9 * with);
    }
}

static void overflowing_values_are_reported(void **state)
{
    struct model m = model_new(0);
    m.w[5] = -3e38f, m.g[5] = 3e38f;
    bool bad = false;
    struct sw_update_args a = {.value = m.w,
                               .gradient = m.g,
                               .count = 10,
                               .lr = 1,
                               .gradient_scale = 1,
                               .non_finite = &bad};
    sw_updater_apply(sgd(), m.conf, &a);
    assert_true(bad);
    model_free(&m);
}

static void non_finite_flag_is_never_cleared(void **state)
{
    struct model m = model_new(0);
    bool bad = true;
    struct sw_update_args a = {.value = m.w,
                               .gradient = m.g,
                               .count = 10,
                               .lr = 1,
                               .gradient_scale = 1,
                               .non_finite = &bad};
    sw_updater_apply(sgd(), m.conf, &a);
    assert_true(bad);
    model_free(&m);
}

static void an_empty_range_changes_nothing(void **state)
{
    struct model m = model_new(0.9);
    float before = m.w[7];
    assert_false(update(&m, 7, 7));
    assert_true(m.w[7] == before);
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sgd_has_state_only_with_momentum),
        cmocka_unit_test(sgd_matches_the_formula_in_double),
        cmocka_unit_test(non_finite_gradients_are_reported),
        cmocka_unit_test(overflowing_values_are_reported),
        cmocka_unit_test(non_finite_flag_is_never_cleared),
        cmocka_unit_test(an_empty_range_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
