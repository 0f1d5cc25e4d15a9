/* ctest-labels: threads
 * ctest-timeout: 120
 * Requests to a running job by its control socket: pause, continue, checkpoint, stop, note. All
 * workers pause after the same step, nothing is lost or done twice, and the bits are those of a run
 * without requests. */
#include "history/control.h"
#include "workers_support.h"

enum { STEPS = 12 };

static const char *ask_job(const struct trial *t, const char *line)
{
    static char answer[SW_CONTROL_LINE];
    struct sw_err err;
    char *path = sw_control_path(sw_snapshot_file(t->job->events.snapshot));
    if (sw_control_ask(path, line, answer, sizeof answer, &err) != SW_OK)
        fail_msg("%s", err.text);
    sw_free(path);
    return answer;
}

/* All workers stand, at the same step; which. */
static int64_t paused_at(const struct trial *t)
{
    int workers = t->job->place.placement->worker_count;
    struct sw_slot_state s;
    int64_t step = -1;
    for (int i = 0; i < workers;) {
        sleep_ms(1);
        if (!sw_snapshot_read_slot(t->job->events.snapshot, i, &s) || s.phase != SW_PHASE_PAUSED)
            continue;
        assert_true(i == 0 || s.step == step);
        step = s.step;
        i++;
    }
    return step;
}

/* What a case does while the job is paused. */
struct talk {
    void (*during)(struct trial *t, int64_t step);
    const char *then; /* the line that ends the pause */
    int64_t step;
    struct hold hold;
};

static void hold_at_3(struct trial *t)
{
    struct talk *talk = t->user;
    talk->hold.behind = 3;
    hold_updates(t, &talk->hold);
}

static void pause_at_3(struct trial *t, const struct sw_job_event *e)
{
    struct talk *talk = t->user;
    if (e->type == SW_JOB_DISPLAY && e->step == 3) {
        assert_string_equal(ask_job(t, "pause"), "ok: the run will pause after the current step");
        atomic_store(&talk->hold.over, true);
    }
    if (e->type != SW_JOB_EVENT || !strstr(e->text, "paused by request after step "))
        return;
    talk->step = paused_at(t);
    assert_in_range(talk->step, 3, t->steps);
    if (talk->during)
        talk->during(t, talk->step);
    assert_memory_equal(ask_job(t, talk->then), "ok: ", 4);
}

static void run_and_talk(struct trial *t, struct talk *talk, const char *name, const char *workers)
{
    *t = (struct trial){.recipe = workers_recipe,
                        .name = name,
                        .sets = {workers, "job.eval_every=5"},
                        .oversubscribe = true,
                        .steps = STEPS,
                        .display = {.every_steps = 1},
                        .before = hold_at_3,
                        .on_event = pause_at_3,
                        .user = talk};
    trial_go(t);
}

static void stay_for_a_while(struct trial *t, int64_t step)
{
    sleep_ms(300);
    assert_int_equal(paused_at(t), step);
    assert_string_equal(ask_job(t, "note the rate  is too high"), "ok: noted");
    assert_non_null(strstr(ask_job(t, "note"), "error: note needs text"));
    assert_non_null(strstr(ask_job(t, "pauze"), "error: unknown request 'pauze'; use pause,"));
}

static void pause_does_not_change_the_bits(void **state)
{
    for (int workers = 1; workers <= 3; workers++) {
        char name[32];
        struct trial t;
        struct talk talk = {.during = stay_for_a_while, .then = "continue"};
        snprintf(name, sizeof name, "paused-%d", workers);
        run_and_talk(&t, &talk, name, workers_set[workers]);
        assert_int_equal(t.rc, SW_OK);
        grouped(.name = "straight", .steps = STEPS, .sets = {workers_set[workers]});
        assert_same_tensors(checkpoint_path("straight", STEPS), checkpoint_path(name, STEPS));
        assert_true(ask("SELECT count(*) = 1 FROM events WHERE run_id = %d AND source = 'note' AND "
                        "text = 'the rate  is too high'",
                        run_id(name)));
        assert_true(ask("SELECT count(*) = 2 FROM events WHERE run_id = %d AND "
                        "text LIKE '%%pause%% after step %d%%'",
                        run_id(name), (int)talk.step));
        assert_true(ask("SELECT count(*) = %d FROM step_time WHERE run_id = %d", STEPS * workers,
                        run_id(name)));
    }
}

static void save_now(struct trial *t, int64_t step)
{
    ask_job(t, "checkpoint");
    for (int ms = 0; ms < 120000 && !exists(checkpoint_path(t->name, step)); ms++)
        sleep_ms(1);
    assert_true(exists(checkpoint_path(t->name, step)));
    assert_int_equal(paused_at(t), step);
}

static void checkpoint_is_written_in_a_pause(void **state)
{
    struct trial t;
    struct talk talk = {.during = save_now, .then = "continue"};
    run_and_talk(&t, &talk, "saved", workers_set[2]);
    assert_int_equal(t.rc, SW_OK);
    grouped(.resume = "saved", .resume_step = talk.step, .steps = STEPS);
    grouped(.name = "straight", .steps = STEPS, .sets = {workers_set[2]});
    assert_same_tensors(checkpoint_path("straight", STEPS), checkpoint_path("saved", STEPS));
}

static void stop_ends_a_pause_at_its_step(void **state)
{
    for (int saves = 0; saves < 2; saves++) {
        struct trial t;
        struct talk talk = {.during = saves ? save_now : NULL, .then = "stop"};
        run_and_talk(&t, &talk, saves ? "stopped-saved" : "stopped", workers_set[3]);
        assert_int_equal(t.rc, SW_ERR_CANCELLED);
        assert_int_equal(t.last[SW_JOB_SUMMARY].step, talk.step);
        assert_true(exists(checkpoint_path(t.name, talk.step)));
        assert_false(exists(checkpoint_path(t.name, talk.step + 1)));
        grouped(.resume = t.name, .resume_step = talk.step, .steps = STEPS);
    }
}

/* An evaluation that would take hours is under way when the request comes. */
static void stop_in_evaluation(struct trial *t, const struct sw_job_event *e)
{
    struct sw_slot_state s = {0};
    if (e->type != SW_JOB_DISPLAY || e->step != 1)
        return;
    while (!sw_snapshot_read_slot(t->job->events.snapshot, 0, &s) || s.phase != SW_PHASE_EVALUATE)
        sleep_ms(1);
    assert_memory_equal(ask_job(t, "stop"), "ok: ", 4);
}

static void stop_ends_an_evaluation(void **state)
{
    for (int workers = 1; workers <= 3; workers++) {
        char name[32];
        snprintf(name, sizeof name, "left-%d", workers);
        struct trial t = {
            .recipe = workers_recipe,
            .name = name,
            .sets = {workers_set[workers], "job.eval_every=1", "data.test.records=1000000000"},
            .oversubscribe = true,
            .steps = STEPS,
            .display = {.every_steps = 1},
            .on_event = stop_in_evaluation};
        assert_int_equal(trial_go(&t), SW_ERR_CANCELLED);
        assert_int_equal(t.last[SW_JOB_SUMMARY].step, 1);
        assert_int_equal(t.told[SW_JOB_EVAL], 0);
        assert_true(exists(checkpoint_path(name, 1)));
        grouped(.resume = name, .resume_step = 1, .steps = STEPS,
                .sets = {"job.eval_every=0", "data.test.records=50"});
        grouped(.name = "straight", .steps = STEPS, .sets = {workers_set[workers]});
        assert_same_tensors(checkpoint_path("straight", STEPS), checkpoint_path(name, STEPS));
    }
}

static void abort_now(struct trial *t, int64_t step)
{
    sw_job_request(t->job, SW_JOB_ABORT);
}

static void abort_ends_a_pause(void **state)
{
    struct trial t;
    struct talk talk = {.during = abort_now, .then = "note aborted"};
    run_and_talk(&t, &talk, "aborted", workers_set[2]);
    assert_int_equal(t.rc, SW_ERR_LIBRARY);
    assert_false(t.stuck);
}

/* A split net, whose parameters lie on the servers of workers that have not got them. */
static void split_net_pauses_and_ends(void **state)
{
    struct talk talk = {.then = "continue"};
    struct trial t = {.recipe = workers_recipe,
                      .name = "split",
                      .sets = {workers_set[3], ALLREDUCE, "layer.fc1.partition=1",
                               "layer.fc2.partition=none", "cluster.slice_size=1024"},
                      .oversubscribe = true,
                      .steps = STEPS,
                      .display = {.every_steps = 1},
                      .before = hold_at_3,
                      .on_event = pause_at_3,
                      .user = &talk};
    trial_ok(&t);
    assert_true(talk.step >= 3);
}

/* Asynchronous groups meet for a pause. */
static void groups_pause_at_the_same_step(void **state)
{
    static const char *const all[][5] = {
        {"cluster.framework=downpour", "cluster.worker_groups=2", "cluster.workers_per_group=2"},
        {"cluster.framework=downpour", "cluster.worker_groups=3", "cluster.staleness=2"},
        {"cluster.framework=hogwild", "cluster.worker_groups=2", "job.eval_every=3"},
        {"cluster.framework=hogwild", "cluster.worker_groups=2", "cluster.server_groups=2",
         "cluster.sync_period=2"},
        {"cluster.framework=custom", "cluster.worker_groups=3", "cluster.consistency=async",
         "cluster.server_groups=2", "job.on_nan=skip"},
        {"cluster.framework=custom", "cluster.worker_groups=2", "cluster.workers_per_group=2",
         "job.partition=1"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        for (int stops = 0; stops < 2; stops++) {
            char name[32];
            struct talk talk = {.during = save_now, .then = stops ? "stop" : "continue"};
            struct trial t = {.recipe = workers_recipe,
                              .name = name,
                              .oversubscribe = true,
                              .steps = stops ? 100000 : 200,
                              .display = {.every_steps = 1},
                              .on_event = pause_at_3,
                              .user = &talk};
            snprintf(name, sizeof name, "groups-%zu-%d", i, stops);
            memcpy(t.sets, all[i], sizeof all[i]);
            trial_go(&t);
            assert_int_equal(t.rc, stops ? SW_ERR_CANCELLED : SW_OK);
            int64_t last = stops ? talk.step : 200;
            assert_int_equal(t.last[SW_JOB_SUMMARY].step, last);
            /* Every worker has made every step once. */
            assert_int_equal((int)ask("SELECT count(*) = (SELECT %d * workers FROM runs WHERE id = "
                                      "%d) FROM step_time WHERE run_id = %d",
                                      (int)last, run_id(name), run_id(name)),
                             1);
        }
    }
}

/* Also those who rest while the first group trains alone stand in the pause, behind its step. */
static void sleeping_workers_pause_with_all(void **state)
{
    struct talk talk = {.during = save_now, .then = "continue"};
    struct trial t = {.recipe = workers_recipe,
                      .name = "resting",
                      .sets = {"cluster.framework=downpour", "cluster.worker_groups=3",
                               "cluster.warmup_steps=100"},
                      .oversubscribe = true,
                      .steps = 120,
                      .display = {.every_steps = 1},
                      .before = hold_at_3,
                      .on_event = pause_at_3,
                      .user = &talk};
    trial_ok(&t);
    assert_in_range(talk.step, 3, 119);
    assert_int_equal(
        (int)ask("SELECT count(*) FROM step_time WHERE run_id = %d", run_id("resting")),
        100 + 3 * 20);
}

static void the_socket_is_removed(void **state)
{
    glob_t found;
    assert_int_equal(glob(in_home("singa-ws/*"), 0, NULL, &found), GLOB_NOMATCH);
    globfree(&found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pause_does_not_change_the_bits),
        cmocka_unit_test(checkpoint_is_written_in_a_pause),
        cmocka_unit_test(stop_ends_a_pause_at_its_step),
        cmocka_unit_test(stop_ends_an_evaluation),
        cmocka_unit_test(abort_ends_a_pause),
        cmocka_unit_test(split_net_pauses_and_ends),
        cmocka_unit_test(groups_pause_at_the_same_step),
        cmocka_unit_test(sleeping_workers_pause_with_all),
        cmocka_unit_test(the_socket_is_removed),
    };
    return cmocka_run_group_tests_name("requests", tests, home_begin, home_end);
}
