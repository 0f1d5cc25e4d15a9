/* Gradients that come multiplied by a loss scale: the same values as without, to the bit; what an
 * overflow drops and halves; how the scale grows; and that every update group has its own scale.
 */
#include "decide_support.h"

static void multiply_gradients(struct stand *s, double by)
{
    for (int p = 0; p < TABLE_PARAMS; p++)
        for (int w = 0; w < s->table->args.workers; w++)
            for (int64_t e = 0; e < storage_of(s, p); e++)
                s->table->params[p].gradient[w][e] *= (float)by;
}

/* Random gradients of version v, multiplied as the table wants them. */
static void scaled_gradients(struct stand *s, uint64_t v)
{
    for (int p = 0; p < TABLE_PARAMS; p++)
        for (int w = 0; w < s->table->args.workers; w++) {
            const struct sw_param *param = sw_table_param(s->table, p);
            struct rng r = rng_of(v * 100 + (uint64_t)(p * 10 + w));
            float *plain = random_floats(&r, sw_desc_count(&param->layout), -1, 1);
            sw_desc_from_plain(&param->layout, plain, param->gradient[w]);
            free(plain);
        }
    multiply_gradients(s, sw_table_loss_scale(s->table, 0));
}

static struct sw_table_control control_of(const struct stand *s, int group, uint64_t version)
{
    struct sw_table_control d;
    assert_true(sw_table_control(s->table, group, version, &d));
    return d;
}

/* Momentum, decay, Adam's moments, clipping in both ways, and norms of whole parameters. */
static void a_loss_scale_changes_no_bits(void **state)
{
    static const struct plan_of_table plans[] = {
        {.momentum = 0.9, .weight_decay = 0.01},
        {.updater = "adam"},
        {.updater = "lars", .weight_decay = 0.01},
        {.clip_norm = 3},
        {.clip_value = 0.4},
        {.clip_value = 0.4, .clip_norm = 0.01, .bad = SW_BAD_DROPS},
    };
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++)
        for (int workers = 1; workers <= 3; workers++) {
            struct plan_of_table plan = plans[i];
            struct stand plain, scaled;
            plan.workers = workers;
            plan.servers = 2;
            plan.slice_elements = 1024;
            plan.lr = 0.1;
            plan.two_phases = true;
            stand_new(&plain, &plan);
            plan.loss_scale = 1024;
            plan.loss_scale_every = 2; /* it grows along the way */
            plan.two_phases = false;
            stand_new(&scaled, &plan);
            assert_true(sw_table_has_phases(scaled.table));
            for (uint64_t v = 1; v <= 6; v++) {
                scaled_gradients(&plain, v);
                scaled_gradients(&scaled, v);
                hand_over(&plain, v, true);
                hand_over(&scaled, v, true);
                assert_true(control_of(&plain, 0, v).grad_norm ==
                            control_of(&scaled, 0, v).grad_norm);
                assert_true(control_of(&plain, 0, v).loss_scale == 1);
                assert_true(control_of(&scaled, 0, v).loss_scale == ldexp(1024, (int)(v - 1) / 2));
            }
            assert_same_values(&plain, &scaled, "a loss scale");
            stand_free(&plain), stand_free(&scaled);
        }
}

static void an_overflow_drops_the_update_and_halves_the_scale(void **state)
{
    static const enum sw_table_bad bads[] = {SW_BAD_STOPS, SW_BAD_DROPS, SW_BAD_TELLS};
    for (int b = 0; b < 3; b++)
        for (int workers = 1; workers <= 3; workers++) {
            struct plan_of_table plan = {.workers = workers,
                                         .servers = 2,
                                         .slice_elements = 1024,
                                         .lr = 0.1,
                                         .updater = "adam",
                                         .bad = bads[b],
                                         .loss_scale = 16};
            struct stand s, without;
            stand_new(&s, &plan);
            stand_new(&without, &plan);
            for (uint64_t v = 1; v <= 4; v++) {
                scaled_gradients(&s, v > 2 ? v - 1 : v); /* the same as without the second */
                if (v == 2) /* at the last worker: the others hear of it by the decision */
                    s.table->params[2].gradient[workers - 1][1234] = INFINITY;
                hand_over(&s, v, true);
                struct sw_table_control d = control_of(&s, 0, v);
                assert_true(d.overflow == (v == 2) && d.dropped == (v == 2));
                assert_true(d.loss_scale == (v <= 2 ? 16 : 8));
            }
            for (uint64_t v = 1; v <= 3; v++) {
                scaled_gradients(&without, v);
                hand_over(&without, v, true);
            }
            assert_int_equal(sw_table_dropped(s.table), 1);
            assert_int_equal(sw_table_scale(s.table, 0).good, 2);
            assert_int_equal(sw_table_scale(without.table, 0).good, 3);
            assert_same_values(&s, &without, "an overflow");
            stand_free(&s), stand_free(&without);
        }
}

/* Then it is not the scale's, and what the table does about bad gradients counts. */
static void at_scale_1_an_overflow_is_an_error(void **state)
{
    struct plan_of_table plan = {
        .workers = 1, .servers = 1, .slice_elements = 1024, .loss_scale = 2};
    struct stand s;
    struct sw_err err = {0};
    int rc = SW_OK;
    for (int drops = 0; drops < 2; drops++) {
        plan.bad = drops ? SW_BAD_DROPS : SW_BAD_STOPS;
        stand_new(&s, &plan);
        fill_gradients(&s, 0.5f);
        s.table->params[2].gradient[0][3000] = NAN;
        hand_over(&s, 1, true);
        assert_true(sw_table_loss_scale(s.table, 0) == 1);
        s.table->params[2].gradient[0][3000] = NAN; /* sums lie in its place */
        if (drops) {
            hand_over(&s, 2, true);
            struct sw_table_control d = control_of(&s, 0, 2);
            assert_true(d.dropped && !d.overflow && d.bad_param == 2);
            assert_true(sw_table_loss_scale(s.table, 0) == 1);
        } else {
            for (int p = 0; p < TABLE_PARAMS && rc == SW_OK; p++)
                rc = deliver(&s, 0, p, 2, &err);
            assert_int_equal(rc, SW_ERR_DIVERGED);
            assert_non_null(strstr(err.text, "step 2"));
        }
        stand_free(&s);
    }
}

/* A loss that is not finite says nothing about the scale. */
static void a_nonfinite_loss_keeps_the_scale(void **state)
{
    struct stand s;
    stand_new(&s, &(struct plan_of_table){.workers = 2,
                                          .servers = 1,
                                          .slice_elements = 1024,
                                          .bad = SW_BAD_DROPS,
                                          .loss_scale = 64});
    fill_gradients(&s, NAN);
    hand_over(&s, 1, false);
    struct sw_table_control d = control_of(&s, 0, 1);
    assert_true(d.dropped && !d.overflow && sw_table_loss_scale(s.table, 0) == 64);
    stand_free(&s);
}

static void the_scale_doubles_after_good_updates_up_to_its_limit(void **state)
{
    struct sw_loss_scale s = {.value = 1 << 22};
    for (int i = 1; i <= 20; i++) {
        sw_loss_scale_made(&s, 3);
        assert_true(s.value == fmin(ldexp(1, 22 + i / 3), SW_LOSS_SCALE_MOST));
    }
    sw_loss_scale_halve(&s);
    assert_true(s.value == SW_LOSS_SCALE_MOST / 2 && s.good == 0);
    for (int i = 0; i < 20; i++)
        sw_loss_scale_made(&s, 0);
    assert_true(s.value == SW_LOSS_SCALE_MOST / 2);
    s = (struct sw_loss_scale){0};
    sw_loss_scale_made(&s, 1);
    assert_true(s.value == 0 && sw_loss_scale_factor(&s) == 1 && !sw_loss_scale_can_halve(&s));
}

/* Asynchronous groups have their own loss scales. */
static void every_update_group_has_its_own_scale(void **state)
{
    const struct sw_table_rule *rules[] = {&sw_table_async, &sw_table_hogwild};
    for (int i = 0; i < 2; i++) {
        struct stand s;
        struct sw_err err;
        stand_new(&s, &(struct plan_of_table){.workers = 2,
                                              .servers = 1,
                                              .slice_elements = 1024,
                                              .groups = 2,
                                              .staleness = -1,
                                              .rule = rules[i],
                                              .loss_scale = 32});
        fill_gradients(&s, 1);
        s.table->params[1].gradient[1][0] = -INFINITY;
        for (int p = 0; p < TABLE_PARAMS; p++)
            for (int w = 0; w < 2; w++)
                ASSERT_OK(sw_table_update(s.table, w, p, 1, &err));
        ASSERT_OK(pump(&s, &err));
        assert_true(!control_of(&s, 0, 1).dropped && control_of(&s, 1, 1).overflow);
        assert_true(sw_table_loss_scale(s.table, 0) == 32 && sw_table_loss_scale(s.table, 1) == 16);
        sw_table_put_scale(s.table, 1, (struct sw_loss_scale){4, 7});
        assert_true(sw_table_loss_scale(s.table, 1) == 4 && sw_table_scale(s.table, 1).good == 7);
        stand_free(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loss_scale_changes_no_bits),
        cmocka_unit_test(an_overflow_drops_the_update_and_halves_the_scale),
        cmocka_unit_test(at_scale_1_an_overflow_is_an_error),
        cmocka_unit_test(a_nonfinite_loss_keeps_the_scale),
        cmocka_unit_test(the_scale_doubles_after_good_updates_up_to_its_limit),
        cmocka_unit_test(every_update_group_has_its_own_scale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
