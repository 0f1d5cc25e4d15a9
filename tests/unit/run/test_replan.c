/* ctest-labels: threads
 * ctest-timeout: 120
 * A run that goes on under another plan: after the next evaluation, with all steps and the bits of
 * a run that was not changed; under the old plan where the new one is impossible; and not at all if
 * it is to stop. */
#include "workers_support.h"

enum { STEPS = 12 };

/* What is requested after step 2, once. */
struct change {
    enum sw_job_request_kind requests[2];
    const char *set;
    struct hold hold;
    bool done;
};

static const struct sw_job_followed_plan plan = {.json = "{\"replaced\":[]}",
                                                 .predicted.step_ms = 5};

static void hold_at_2(struct trial *t)
{
    struct change *c = t->user;

    c->hold.behind = 2;
    hold_updates(t, &c->hold);
}

static void request_at_2(struct trial *t, const struct sw_job_event *e)
{
    struct change *c = t->user;
    struct sw_err err;

    if (e->type != SW_JOB_DISPLAY || e->step != 2 || c->done)
        return;

    c->done = true;
    char *overrides =
        sw_format("%s\n%s", sw_recipe_overrides(sw_job_recipe(t->job)), c->set ? c->set : "");
    assert_int_equal(sw_job_replan(t->job, overrides, "another one", &plan, &err), SW_OK);
    sw_free(overrides);
    for (int i = 0; i < 2 && c->requests[i]; i++)
        sw_job_request(t->job, c->requests[i]);
    atomic_store(&c->hold.over, true);
}

static void change(struct trial *t, struct change *c, const char *name)
{
    *t = (struct trial){.recipe = workers_recipe,
                        .name = name,
                        .sets = {workers_set[2], "job.eval_every=5", "job.repeat_exact=yes"},
                        .oversubscribe = true,
                        .steps = STEPS,
                        .display = {.every_steps = 1},
                        .before = hold_at_2,
                        .on_event = request_at_2,
                        .user = c};
    trial_go(t);
}

static void check_whole(const char *name, int rows)
{
    grouped(.name = "straight", .steps = STEPS,
            .sets = {workers_set[2], "job.eval_every=5", "job.repeat_exact=yes"});
    assert_same_tensors(checkpoint_path("straight", STEPS), checkpoint_path(name, STEPS));
    assert_true(ask("SELECT count(DISTINCT step) = %d AND count(*) = %d FROM step_time WHERE "
                    "run_id = %d",
                    STEPS, rows, run_id(name)));
    assert_true(ask("SELECT count(*) = 3 FROM metrics WHERE run_id = %d AND split <> 'train' AND "
                    "name = 'loss'",
                    run_id(name)));
}

static void another_plan_keeps_steps_and_bits(void **state)
{
    for (int workers = 1; workers <= 3; workers += 2) {
        char name[32];
        struct trial t;
        struct change c = {.requests = {SW_JOB_REPLAN}, .set = workers_set[workers]};

        snprintf(name, sizeof name, "changed-%d", workers);
        change(&t, &c, name);
        assert_int_equal(t.rc, SW_OK);
        check_whole(name, 5 * 2 + (STEPS - 5) * workers);
        assert_non_null(
            strstr(t.text, "plan: after step 5 the run follows another plan: another one"));
        assert_true(exists(checkpoint_path(name, 5)));
        assert_true(ask("SELECT count(*) = 2 AND max(from_step) = 5 AND count(ended_at) = 2 FROM "
                        "segments WHERE run_id = %d",
                        run_id(name)));
        assert_true(
            ask("SELECT workers = %d AND status = 'done' AND overrides LIKE '%%group=%d' FROM "
                "runs WHERE id = %d",
                workers, workers, run_id(name)));
        assert_true(ask("SELECT predicted_ms = 5 AND measured_ms > 0 FROM plans WHERE run_id = %d",
                        run_id(name)));
    }
}

static void an_impossible_plan_leaves_the_run_as_it_is(void **state)
{
    struct trial t;
    struct change c = {.requests = {SW_JOB_REPLAN}, .set = "cluster.workers_per_group=100"};

    change(&t, &c, "impossible");
    assert_int_equal(t.rc, SW_OK);
    check_whole("impossible", STEPS * 2);
    assert_null(strstr(t.text, "follows another plan"));
    assert_true(
        ask("SELECT count(*) = 1 FROM events WHERE run_id = %d AND source = 'plan' AND text "
            "LIKE 'the run keeps its plan: %%'",
            run_id("impossible")));
    assert_true(ask("SELECT workers = 2 AND overrides NOT LIKE '%%group=100%%' FROM runs WHERE "
                    "id = %d",
                    run_id("impossible")));
}

static void a_stop_comes_before_another_plan(void **state)
{
    struct trial t;
    struct change c = {.requests = {SW_JOB_REPLAN, SW_JOB_STOP}, .set = workers_set[1]};

    change(&t, &c, "stopped");
    assert_int_equal(t.rc, SW_ERR_CANCELLED);
    assert_true(ask("SELECT workers = 2 AND status = 'stopped' FROM runs WHERE id = %d",
                    run_id("stopped")));
    assert_true(ask("SELECT count(*) = 0 FROM plans WHERE run_id = %d", run_id("stopped")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_plan_keeps_steps_and_bits),
        cmocka_unit_test(an_impossible_plan_leaves_the_run_as_it_is),
        cmocka_unit_test(a_stop_comes_before_another_plan),
    };
    return cmocka_run_group_tests_name("replan", tests, home_begin, home_end);
}
