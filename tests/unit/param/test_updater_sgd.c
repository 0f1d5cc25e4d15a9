#include "base/philox.h"
#include "param/updater.h"
#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 100003 }; /* several blocks and an odd end */

/* The team's size, through the OpenMP runtime that the library brought. */
static void set_threads(int threads)
{
    void (*set)(int);
    *(void **)&set = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    assert_non_null(set);
    set(threads);
}

static const struct sw_updater *sgd(void)
{
    for (int i = 0; sw_updaters[i]; i++) {
        if (strcmp(sw_updaters[i]->base.name, "sgd") == 0)
            return sw_updaters[i];
    }
    fail_msg("no updater is named sgd");
    return NULL;
}

static void *conf_of(double momentum)
{
    const struct sw_opt *o = sgd()->base.opts;
    void *conf = calloc(1, sgd()->base.conf_bytes);
    while (strcmp(o->key, "momentum") != 0)
        o++;
    *(double *)((char *)conf + o->offset) = momentum;
    return conf;
}

static float *noise(uint32_t row)
{
    float *x = malloc(COUNT * sizeof *x);
    struct sw_philox key = sw_philox_stream(1, SW_PURPOSE_TEST, 0);
    for (uint32_t i = 0; i < COUNT; i++)
        x[i] = sw_philox_uniform(sw_philox_word(key, 0, row, i)) - 0.5f;
    return x;
}

struct model {
    void *conf;
    float *w, *v, *g;
};

static struct model model_new(double momentum)
{
    struct model m = {conf_of(momentum), noise(0), noise(1), noise(2)};
    return m;
}

static void model_free(struct model *m)
{
    free(m->conf), free(m->w), free(m->v), free(m->g);
}

/* Updates elements [from, to); returns whether something was not finite. */
static bool update(struct model *m, int64_t from, int64_t to)
{
    bool bad = false;
    float *slot[1] = {m->v + from};
    struct sw_update_args a = {
        .value = m->w + from,
        .slot = slot,
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

static void momentum_decides_about_state(void **state)
{
    (void)state;
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
    (void)state;
    check_formula(0);
    check_formula(0.9);
}

static void slices_equal_the_whole(void **state)
{
    (void)state;
    static const int64_t cut[] = {0, 1, 17, 16384, 16385, 40000, 99999, COUNT};
    struct model whole = model_new(0.9), sliced = model_new(0.9);
    update(&whole, 0, COUNT);
    for (int i = 6; i >= 0; i--)
        update(&sliced, cut[i], cut[i + 1]);
    assert_memory_equal(whole.w, sliced.w, COUNT * sizeof(float));
    assert_memory_equal(whole.v, sliced.v, COUNT * sizeof(float));
    model_free(&whole), model_free(&sliced);
}

static void thread_counts_give_equal_bits(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    puts("skipped: libgomp's synchronisation is invisible to the thread sanitizer");
    skip();
#endif
    struct model one = model_new(0.9);
    set_threads(1);
    update(&one, 0, COUNT);
    for (int threads = 2; threads <= 5; threads++) {
        struct model many = model_new(0.9);
        set_threads(threads);
        update(&many, 0, COUNT);
        assert_memory_equal(one.w, many.w, COUNT * sizeof(float));
        assert_memory_equal(one.v, many.v, COUNT * sizeof(float));
        model_free(&many);
    }
    set_threads(1);
    model_free(&one);
}

static void check_found(float bad_value, int at, double momentum)
{
    struct model m = model_new(momentum);
    m.g[at] = bad_value;
    if (!update(&m, 0, COUNT))
        fail_msg("gradient %g at %d was not noticed", (double)bad_value, at);
    model_free(&m);
}

static void non_finite_gradients_are_noticed(void **state)
{
    (void)state;
    for (int with = 0; with < 2; with++) {
        check_found(NAN, 0, 0.9 * with);
        check_found(INFINITY, 16384, 0.9 * with);
        check_found(-INFINITY, COUNT - 1, 0.9 * with);
    }
}

static void overflowing_values_are_noticed(void **state)
{
    (void)state;
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

static void non_finite_is_never_cleared(void **state)
{
    (void)state;
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

static void padding_stays_zero(void **state)
{
    (void)state;
    struct model m = model_new(0.9);
    for (int i = 100; i < 116; i++)
        m.w[i] = m.v[i] = m.g[i] = 0;
    for (int step = 0; step < 3; step++)
        update(&m, 0, COUNT);
    for (int i = 100; i < 116; i++)
        assert_true(m.w[i] == 0 && m.v[i] == 0);
    model_free(&m);
}

static void an_empty_range_changes_nothing(void **state)
{
    (void)state;
    struct model m = model_new(0.9);
    float before = m.w[7];
    assert_false(update(&m, 7, 7));
    assert_true(m.w[7] == before);
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(momentum_decides_about_state),
        cmocka_unit_test(sgd_matches_the_formula_in_double),
        cmocka_unit_test(slices_equal_the_whole),
        cmocka_unit_test(thread_counts_give_equal_bits),
        cmocka_unit_test(non_finite_gradients_are_noticed),
        cmocka_unit_test(overflowing_values_are_noticed),
        cmocka_unit_test(non_finite_is_never_cleared),
        cmocka_unit_test(padding_stays_zero),
        cmocka_unit_test(an_empty_range_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
