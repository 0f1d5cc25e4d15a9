/* Updates in two phases: update control changes no bits, clipping by norm, dropped updates, and
 * norms that do not depend on how a table is partitioned. */
#include "decide_support.h"

static double norm_of(const struct stand *s, uint64_t version)
{
    struct sw_table_control d;
    assert_true(sw_table_control(s->table, 0, version, &d));
    return d.grad_norm;
}

/* ---- Deciding alone changes nothing ---- */

static void two_phases_without_clipping_equal_one_phase(void **state)
{
    for (int workers = 1; workers <= 3; workers++) {
        struct plan_of_table plan = {.workers = workers,
                                     .servers = 1,
                                     .slice_elements = 1 << 20,
                                     .lr = 0.1,
                                     .momentum = 0.9,
                                     .weight_decay = 0.01};
        struct stand one, two, clip;
        stand_new(&one, &plan);
        plan.two_phases = true;
        plan.servers = 4;
        plan.slice_elements = 1024;
        plan.plain = true;
        stand_new(&two, &plan);
        plan.two_phases = false;
        plan.clip_norm = 1e9;
        plan.servers = 2;
        stand_new(&clip, &plan);
        assert_false(sw_table_has_phases(one.table));
        assert_true(sw_table_has_phases(two.table) && sw_table_has_phases(clip.table));
        for (uint64_t v = 1; v <= 5; v++) {
            random_update(&one, v);
            random_update(&two, v);
            random_update(&clip, v);
        }
        assert_same_values(&one, &two, "two phases");
        assert_same_values(&one, &clip, "a limit that is not reached");
        stand_free(&one), stand_free(&two), stand_free(&clip);
    }
}

/* ---- Norms ---- */

/* All elements are c: the norm is c sqrt(elements). */
static void the_norm_is_that_of_all_gradients(void **state)
{
    for (int workers = 1; workers <= 3; workers++) {
        struct stand s;
        struct sw_table_control d;
        stand_new(
            &s, &(struct plan_of_table){
                    .workers = workers, .servers = 2, .slice_elements = 1024, .two_phases = true});
        double elements = (double)sw_table_elements(s.table);
        assert_false(sw_table_control(s.table, 0, 1, &d));
        for (uint64_t v = 1; v <= 6; v++) {
            fill_gradients(&s, 0.25f * (float)v);
            hand_over(&s, v, true);
            double want = 0.25 * (double)v * workers * sqrt(elements);
            assert_true(fabs(norm_of(&s, v) - want) < 1e-12 * want);
        }
        assert_false(sw_table_control(s.table, 0, 7, &d));
        assert_false(sw_table_control(s.table, 0, 1, &d)); /* forgotten */
        stand_free(&s);
    }
}

static void norms_do_not_depend_on_slices(void **state)
{
    static const struct {
        int servers;
        int64_t slice_elements;
    } cuts[] = {{1, 1 << 20}, {1, 1024}, {3, 2000}, {4, 1024}};
    double norm[4];
    for (size_t i = 0; i < 4; i++) {
        struct stand s;
        stand_new(&s, &(struct plan_of_table){.workers = 2,
                                              .servers = cuts[i].servers,
                                              .slice_elements = cuts[i].slice_elements,
                                              .two_phases = true});
        random_update(&s, 1);
        norm[i] = norm_of(&s, 1);
        stand_free(&s);
    }
    for (size_t i = 1; i < 4; i++)
        assert_true(norm[i] == norm[0]);
    assert_true(norm[0] > 0);
}

/* w = w0 - g min(1, limit / |g|), by sgd at rate 1. */
static void check_clipped(int workers, double limit)
{
    struct stand s;
    stand_new(&s, &(struct plan_of_table){.workers = workers,
                                          .servers = 2,
                                          .slice_elements = 1024,
                                          .init = SW_INIT_CONSTANT,
                                          .clip_norm = limit});
    double elements = (double)sw_table_elements(s.table), each = 0.5 * workers;
    double norm = each * sqrt(elements), want = -each * fmin(1, limit / norm);
    fill_gradients(&s, 0.5f);
    hand_over(&s, 1, true);
    assert_true(fabs(norm_of(&s, 1) - norm) < 1e-12 * norm);
    for (int p = 0; p < TABLE_PARAMS; p++) {
        float *w = plain_of_table(&s, p, -1);
        for (int64_t i = 0; i < sw_desc_count(&sw_table_param(s.table, p)->layout); i++)
            if (fabs((double)w[i] - want) > 1e-6 * fabs(want))
                fail_msg("%d workers, limit %g: %.9g, not %.9g", workers, limit, (double)w[i],
                         want);
        free(w);
    }
    stand_free(&s);
}

static void clipping_by_norm_matches_the_closed_form(void **state)
{
    for (int workers = 1; workers <= 3; workers++) {
        check_clipped(workers, 0.01);
        check_clipped(workers, 5);
        check_clipped(workers, 1000);
    }
}

/* In both modes the limit is that of the sum over the workers. */
static void clipping_by_value_is_the_same_in_one_and_two_phases(void **state)
{
    struct plan_of_table plan = {.workers = 3,
                                 .servers = 1,
                                 .slice_elements = 4096,
                                 .lr = 0.1,
                                 .momentum = 0.9,
                                 .clip_value = 0.4};
    struct stand one, two, not ;
    stand_new(&one, &plan);
    plan.two_phases = true;
    stand_new(&two, &plan);
    plan.clip_value = 0;
    stand_new(&not, &plan);
    for (uint64_t v = 1; v <= 3; v++) {
        random_update(&one, v);
        random_update(&two, v);
        random_update(&not, v);
    }
    assert_same_values(&one, &two, "clipped by value");
    assert_true(norm_of(&two, 1) < norm_of(&not, 1));
    assert_true(norm_of(&two, 1) <= 0.4 * sqrt((double)sw_table_elements(two.table)));
    stand_free(&one), stand_free(&two), stand_free(&not );
}

/* ---- An updater that needs norms ---- */

/* The first update of lars is lr trust |w| / |g| g, and biases that are zero move by lr g. */
static void lars_gets_the_norms_of_whole_parameters(void **state)
{
    struct stand s;
    stand_new(
        &s, &(struct plan_of_table){
                .workers = 2, .servers = 3, .slice_elements = 1024, .lr = 0.5, .updater = "lars"});
    fill_gradients(&s, 0.25f);
    float *before[TABLE_PARAMS];
    for (int p = 0; p < TABLE_PARAMS; p++)
        before[p] = plain_of_table(&s, p, -1);
    hand_over(&s, 1, true);
    for (int p = 0; p < TABLE_PARAMS; p++) {
        int64_t n = sw_desc_count(&sw_table_param(s.table, p)->layout);
        double squares = 0;
        for (int64_t i = 0; i < n; i++)
            squares += (double)before[p][i] * (double)before[p][i];
        double ratio = squares > 0 ? 0.001 * sqrt(squares) / (0.5 * sqrt((double)n)) : 1;
        float *after = plain_of_table(&s, p, -1);
        for (int64_t i = 0; i < n; i++) {
            double want = (double)before[p][i] - 0.5 * ratio * 0.5;
            assert_true(fabs((double)after[i] - want) < 1e-7 + 1e-6 * fabs(want));
        }
        free(before[p]), free(after);
    }
    stand_free(&s);
}

/* ---- What is not finite ---- */

static void a_nonfinite_gradient_drops_the_whole_update(void **state)
{
    struct plan_of_table plan = {.workers = 2,
                                 .servers = 2,
                                 .slice_elements = 1024,
                                 .lr = 0.1,
                                 .updater = "adam",
                                 .bad = SW_BAD_DROPS};
    struct stand s, without;
    struct sw_table_control d;
    stand_new(&s, &plan);
    stand_new(&without, &plan);
    for (uint64_t v = 1; v <= 3; v++) {
        fill_gradients(&s, 0.25f);
        if (v == 2)
            s.table->params[2].gradient[1][1234] = NAN;
        hand_over(&s, v, true);
        assert_true(sw_table_control(s.table, 0, v, &d));
        assert_true(d.dropped == (v == 2));
        assert_int_equal(d.bad_param, v == 2 ? 2 : -1);
    }
    assert_int_equal(sw_table_dropped(s.table), 1);
    /* As if it had never been: also for what counts updates, the bias correction. */
    for (uint64_t v = 1; v <= 2; v++) {
        fill_gradients(&without, 0.25f);
        hand_over(&without, v, true);
    }
    assert_same_values(&s, &without, "an update that was dropped");
    stand_free(&s), stand_free(&without);
}

static void a_nonfinite_loss_drops_the_whole_update(void **state)
{
    struct stand s;
    struct sw_table_control d;
    stand_new(&s, &(struct plan_of_table){.workers = 3,
                                          .servers = 1,
                                          .slice_elements = 1024,
                                          .init = SW_INIT_CONSTANT,
                                          .bad = SW_BAD_DROPS});
    fill_gradients(&s, 1);
    hand_over(&s, 1, false);
    assert_true(sw_table_control(s.table, 0, 1, &d) && d.dropped);
    assert_int_equal(d.bad_param, -1);
    for (int64_t e = 0; e < storage_of(&s, 2); e++)
        assert_true(sw_table_param(s.table, 2)->value[e] == 0);
    hand_over(&s, 2, true);
    assert_true(sw_table_control(s.table, 0, 2, &d) && !d.dropped);
    assert_true(sw_table_param(s.table, 4)->value[0] < 0);
    stand_free(&s);
}

static void infinities_are_found_before_clipping(void **state)
{
    struct stand s;
    struct sw_table_control d;
    stand_new(&s, &(struct plan_of_table){.workers = 1,
                                          .servers = 1,
                                          .slice_elements = 1024,
                                          .clip_value = 1,
                                          .bad = SW_BAD_DROPS});
    fill_gradients(&s, 0.5f);
    s.table->params[0].gradient[0][0] = -INFINITY;
    hand_over(&s, 1, true);
    assert_true(sw_table_control(s.table, 0, 1, &d) && d.dropped && d.bad_param == 0);
    stand_free(&s);
}

static void a_nonfinite_gradient_is_an_error_naming_the_parameter(void **state)
{
    struct stand s;
    struct sw_err err = {0};
    int rc = SW_OK;
    stand_new(&s, &(struct plan_of_table){
                      .workers = 1, .servers = 1, .slice_elements = 1024, .clip_norm = 1});
    fill_gradients(&s, 0.5f);
    s.table->params[2].gradient[0][3000] = INFINITY;
    for (int p = 0; p < TABLE_PARAMS && rc == SW_OK; p++)
        rc = deliver(&s, 0, p, 1, &err);
    assert_int_equal(rc, SW_ERR_DIVERGED);
    assert_non_null(strstr(err.text, "step 1"));
    assert_non_null(strstr(err.text, "fc.weight"));
    stand_free(&s);
}

/* Finite gradients, but the new value overflows. */
static void overflow(struct stand *s)
{
    fill_gradients(s, -1e30f);
    s->table->params[3].value[0] = 3.4e38f;
    s->table->params[3].gradient[0][0] = -3.4e38f;
}

static void overflowing_values_are_an_error_or_reported(void **state)
{
    struct plan_of_table plan = {
        .workers = 1, .servers = 1, .slice_elements = 1024, .bad = SW_BAD_DROPS};
    struct stand s;
    struct sw_err err = {0};
    stand_new(&s, &plan);
    overflow(&s);
    for (int p = 0; p < TABLE_PARAMS; p++)
        ASSERT_OK(deliver(&s, 0, p, 1, &err));
    ASSERT_OK(sw_table_report_loss(s.table, 0, true, &err));
    assert_int_equal(pump(&s, &err), SW_ERR_DIVERGED);
    assert_non_null(strstr(err.text, "fc.bias"));
    stand_free(&s);

    plan.bad = SW_BAD_TELLS;
    stand_new(&s, &plan);
    overflow(&s);
    assert_int_equal(sw_table_nonfinite_param(s.table), -1);
    hand_over(&s, 1, true);
    assert_int_equal(sw_table_nonfinite_param(s.table), 3);
    sw_table_put_version(s.table, 1, 1, 1);
    assert_int_equal(sw_table_nonfinite_param(s.table), -1);
    assert_int_equal(sw_table_dropped(s.table), 1);
    stand_free(&s);
}

static void apply_messages_without_a_result_are_refused(void **state)
{
    struct stand s;
    struct sw_err err = {0};
    struct sw_message m = {.kind = SW_MSG_APPLY, .from = 1, .version = 1};
    stand_new(&s, &(struct plan_of_table){
                      .workers = 1, .servers = 1, .slice_elements = 1024, .two_phases = true});
    assert_int_equal(sw_table_serve(s.table, 0, &m, &err), SW_ERR_INVALID);
    assert_non_null(strstr(err.text, "update 1 has no result of update control"));
    hand_over(&s, 1, true);
    assert_int_equal(sw_table_serve(s.table, 0, &m, &err), SW_ERR_INVALID); /* twice */
    stand_free(&s);
    stand_new(&s, &(struct plan_of_table){.workers = 1, .servers = 1, .slice_elements = 1024});
    assert_int_equal(sw_table_serve(s.table, 0, &m, &err), SW_ERR_INVALID);
    assert_non_null(strstr(err.text, "message apply"));
    stand_free(&s);
}

/* ---- Who updates elsewhere decides there ---- */

static int settle(struct stand *s, uint64_t version, int bad_param, struct sw_err *err)
{
    double scale = sw_table_loss_scale(s->table, 0);
    struct sw_update_control_result d = {.grad_norm = (double)version,
                                         .loss_scale = scale,
                                         .scale = (float)(1 / scale),
                                         .bad_param = bad_param,
                                         .dropped = bad_param >= 0};
    return sw_table_settle(s->table, &d, version, err);
}

/* Several workers say the same: the first counts. */
static void the_first_device_result_counts(void **state)
{
    struct stand s;
    struct sw_err err;
    struct sw_table_control d;
    stand_new(&s, &(struct plan_of_table){.workers = 2,
                                          .servers = 1,
                                          .slice_elements = 1024,
                                          .loss_scale = 2,
                                          .loss_scale_every = 2,
                                          .updates_on_device = true});
    assert_true(sw_table_has_phases(s.table) && sw_table_is_controlled_on_device(s.table));
    for (uint64_t v = 1; v <= 2; v++)
        for (int worker = 0; worker < 2; worker++) {
            ASSERT_OK(settle(&s, v, -1, &err));
            assert_true(sw_table_control(s.table, 0, v, &d) &&
                        !sw_table_control(s.table, 0, v + 1, &d));
            assert_true(d.grad_norm == (double)v && !d.dropped);
        }
    assert_true(sw_table_loss_scale(s.table, 0) == 4);
    for (uint64_t v = 3; v <= 4; v++)
        for (int worker = 0; worker < 2; worker++) {
            ASSERT_OK(settle(&s, v, 1, &err));
            assert_true(sw_table_control(s.table, 0, v, &d) && d.overflow && d.bad_param == 1);
            assert_int_equal(sw_table_dropped(s.table), v - 2);
        }
    assert_true(sw_table_loss_scale(s.table, 0) == 1);
    assert_int_equal(settle(&s, 7, -1, &err), SW_ERR_INVALID);
    assert_int_equal(settle(&s, 5, 2, &err), SW_ERR_DIVERGED);
    assert_non_null(
        strstr(err.text, "step 5: the gradient or new value of fc.weight is not finite"));
    stand_free(&s);
}

/* Measured where they are, without being changed. */
static void device_norms_match_server_norms(void **state)
{
    enum { COUNT = 2 * SW_GATHER_BLOCK + 5, BLOCKS = 3 };
    struct rng r = rng_of(3);
    double there[BLOCKS], here[BLOCKS];
    for (int clips = 0; clips < 2; clips++) {
        float *x = random_floats(&r, COUNT, -1, 1), limit = clips ? 0.3f : 0;
        float *copy = get_floats(COUNT);
        memcpy(copy, x, COUNT * sizeof *x);
        const float *in[1] = {copy};
        struct sw_gather_args a = {.sum = {.in = in, .count = 1},
                                   .gradient = copy,
                                   .count = COUNT,
                                   .clip_value = limit,
                                   .squares = there};
        sw_gather_measure(x, COUNT, limit, here);
        assert_true(sw_gather(&a));
        assert_memory_equal(here, there, sizeof here);
        x[COUNT - 1] = (float)NAN;
        sw_gather_measure(x, COUNT, limit, here);
        assert_true(isfinite(here[1]) && !isfinite(here[2]));
        free(x), free(copy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_device_result_counts),
        cmocka_unit_test(device_norms_match_server_norms),
        cmocka_unit_test(two_phases_without_clipping_equal_one_phase),
        cmocka_unit_test(the_norm_is_that_of_all_gradients),
        cmocka_unit_test(norms_do_not_depend_on_slices),
        cmocka_unit_test(clipping_by_norm_matches_the_closed_form),
        cmocka_unit_test(clipping_by_value_is_the_same_in_one_and_two_phases),
        cmocka_unit_test(lars_gets_the_norms_of_whole_parameters),
        cmocka_unit_test(a_nonfinite_gradient_drops_the_whole_update),
        cmocka_unit_test(a_nonfinite_loss_drops_the_whole_update),
        cmocka_unit_test(infinities_are_found_before_clipping),
        cmocka_unit_test(a_nonfinite_gradient_is_an_error_naming_the_parameter),
        cmocka_unit_test(overflowing_values_are_an_error_or_reported),
        cmocka_unit_test(apply_messages_without_a_result_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
