/* The feed with a history and a snapshot that are written while it reads: new rows arrive once and
 * in order, and a run that dies, is resumed or was never live is distinguished from a live one. */
#include "unit/history/history_support.h"

#include "ui/feed.h"
#include <signal.h>

static struct sw_ui_model *model_new(void)
{
    struct sw_ui_model *m = sw_calloc(1, sizeof *m);
    assert_non_null(m);
    sw_ui_model_clear(m);
    return m;
}

static void model_free(struct sw_ui_model *m)
{
    sw_ui_model_fini(m);
    sw_free(m);
}

struct job {
    struct sw_history *h;
    struct sw_history_producer *p;
    int loss, accuracy;
};

static struct job job_begin(const char *name)
{
    struct job j = {.h = begin(name)};
    j.p = producer(j.h);
    j.loss = series(j.h, "train", "loss");
    j.accuracy = series(j.h, "test", "accuracy");
    return j;
}

static void job_step(struct job *j, int64_t step)
{
    for (int worker = 0; worker < 2; worker++) {
        struct sw_step_time row = {.step = step,
                                   .worker = worker,
                                   .forward_ms = 10,
                                   .backward_ms = worker ? 60 : 20,
                                   .comm_exposed_ms = worker ? 0 : 40};
        sw_history_step_time(j->p, &row);
    }
    sw_history_point(j->p, j->loss, step, 1.0 / (double)step);
    if (step % 10 == 0)
        sw_history_point(j->p, j->accuracy, step, (double)step / 100);
    if (step % 10 == 0)
        assert_true(sw_history_flush(j->h, 5000));
}

static struct sw_feed *feed_of(const char *run, struct sw_ui_model *m)
{
    struct sw_feed *f;
    struct sw_err err;
    ok(sw_feed_new(&f, db_path(), &err), &err);
    ok(sw_feed_choose(f, run, m, &err), &err);
    return f;
}

static bool has_event(const struct sw_ui_model *m, const char *text)
{
    for (int i = 0; i < sw_ui_event_count(m); i++)
        if (strstr(sw_ui_event_at(m, i)->text, text))
            return true;
    return false;
}

static void new_rows_arrive_once_and_in_order(void **state)
{
    struct job j = job_begin("young");
    struct sw_ui_model *m = model_new();
    for (int64_t step = 1; step <= 20; step++)
        job_step(&j, step);
    struct sw_feed *f = feed_of("young", m);
    sw_feed_refresh(f, m, SW_FEED_ALL);
    const struct sw_ui_series *loss = sw_ui_series_find(m, "train", "loss");
    assert_non_null(loss);
    assert_int_equal(loss->count, 20);
    for (int64_t step = 21; step <= 30; step++)
        job_step(&j, step);
    sw_history_event(j.h, SW_LOG_WARN, "watchdog", "something is slow");
    sw_history_checkpoint(j.h, 30, "/x/checkpoint-30.safetensors", 1000, NULL, true);
    assert_true(sw_history_flush(j.h, 5000));
    sleep_ms(1050); /* what changes slowly is looked at once a second */
    sw_feed_refresh(f, m, SW_FEED_ALL);
    sw_feed_refresh(f, m, SW_FEED_ALL);
    assert_int_equal(loss->count, 30);
    assert_true(loss->trail.count == 30 && loss->trail.points[29].x == 30);
    assert_int_equal(sw_ui_series_find(m, NULL, "accuracy")->count, 3);
    assert_int_equal(m->ledger.worker_count, 2);
    assert_int_equal(sw_ui_bottleneck(m).bound, SW_BOUND_WORKER);
    assert_int_equal(sw_ui_bottleneck(m).worker, 1);
    assert_true(has_event(m, "something is slow") && has_event(m, "checkpoint-30"));
    assert_true(has_event(m, "step 20:  accuracy 0.2"));
    for (int i = 1; i < sw_ui_event_count(m); i++)
        assert_true(sw_ui_event_at(m, i - 1)->time <= sw_ui_event_at(m, i)->time);
    assert_int_equal(sw_ui_event_count(m), 5);
    assert_int_equal(m->checkpoint_step, 30);
    assert_true(m->row_count == 1 && m->rows[0].id == m->run.id);
    sw_feed_free(f);
    finish(j.h, SW_RUN_DONE);
    model_free(m);
}

static void snapshot_makes_a_run_live(void **state)
{
    struct sw_err err;
    struct job j = job_begin("live");
    struct sw_ui_model *m = model_new();
    char *path = NULL, answer[512];
    struct sw_snapshot *s;
    job_step(&j, 10);
    struct sw_feed *f = feed_of("live", m);
    sw_feed_refresh(f, m, 0);
    assert_false(m->live);
    assert_int_equal(sw_ui_step(m), 10);
    assert_int_equal(sw_feed_request(f, "pause", answer, sizeof answer, &err), SW_ERR_NOTFOUND);

    ok(sw_snapshot_path(sw_history_run_uid(j.h), NULL, &path, &err), &err);
    ok(sw_snapshot_new(&s, path,
                       &(struct sw_snapshot_run){sw_history_run_id(j.h), sw_history_run_uid(j.h),
                                                 "live", 500, 2},
                       &err),
       &err);
    sw_slot_set_name(sw_snapshot_slot(s, 0), "worker0.0");
    sw_slot_set_name(sw_snapshot_slot(s, 1), "prefetch0.0 train 0");
    int64_t now_ns = sw_os()->monotonic_ns();
    sw_slot_phase(sw_snapshot_slot(s, 0), SW_PHASE_FORWARD, 43, 2, "conv2", now_ns);
    sw_slot_result(sw_snapshot_slot(s, 0), 42, 0.5, 420, now_ns);
    sw_feed_refresh(f, m, 0);
    assert_true(m->live);
    assert_int_equal(sw_ui_step(m), 42);
    assert_int_equal(m->run.steps, 500);
    assert_string_equal(m->threads[0].slot.layer_name, "conv2");
    assert_true(m->threads[0].busy == 1 && m->threads[1].busy == 0);
    assert_false(sw_ui_paused(m));
    sw_slot_phase(sw_snapshot_slot(s, 0), SW_PHASE_PAUSED, 42, -1, NULL, now_ns);
    sw_feed_refresh(f, m, 0);
    assert_true(sw_ui_paused(m));

    finish(j.h, SW_RUN_STOPPED);
    sw_snapshot_set_status(s, SW_RUN_STOPPED);
    sw_snapshot_free(s);
    sw_feed_refresh(f, m, 0);
    sw_feed_refresh(f, m, 0);
    assert_false(m->live);
    assert_int_equal(m->run.status, SW_RUN_STOPPED);
    assert_true(m->run.ended_at > 0 && sw_ui_elapsed(m) >= 0);
    sw_feed_free(f);
    sw_free(path);
    model_free(m);
}

static void truncated_snapshot_is_reported_once(void **state)
{
    struct sw_err err;
    struct job j = job_begin("cut");
    struct sw_ui_model *m = model_new();
    char *path = NULL;
    struct sw_snapshot *s;
    int told = 0;
    ok(sw_snapshot_path(sw_history_run_uid(j.h), NULL, &path, &err), &err);
    ok(sw_snapshot_new(&s, path,
                       &(struct sw_snapshot_run){sw_history_run_id(j.h), sw_history_run_uid(j.h),
                                                 "cut", 500, 40},
                       &err),
       &err);
    struct sw_feed *f = feed_of("cut", m);
    sw_feed_refresh(f, m, 0);
    assert_true(m->live);
    assert_int_equal(truncate(path, 0), 0);
    for (int i = 0; i < 3; i++) {
        sw_feed_refresh(f, m, 0);
        assert_false(m->live);
    }
    for (int i = 0; i < sw_ui_event_count(m); i++)
        told += strstr(sw_ui_event_at(m, i)->text, "was truncated from") != NULL;
    assert_int_equal(told, 1);
    sw_snapshot_free(s);
    finish(j.h, SW_RUN_DONE);
    sw_feed_free(f);
    sw_free(path);
    model_free(m);
}

static void run_with_dead_process_is_crashed(void **state)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        struct job j = job_begin("dead");
        sw_history_checkpoint(j.h, 7, "/x/checkpoint-7.safetensors", 1000, NULL, false);
        job_step(&j, 10);
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    struct sw_ui_model *m = model_new();
    struct sw_feed *f = feed_of("dead", m);
    sw_feed_refresh(f, m, SW_FEED_ALL);
    assert_int_equal(m->run.status, SW_RUN_CRASHED);
    assert_string_equal(sw_ui_status(m), "crashed");
    assert_int_equal(sw_ui_step(m), 10);
    assert_true(m->run.ended_at >= m->run.started_at && m->run.ended_at <= m->now);
    assert_true(sw_ui_elapsed(m) >= 0);
    assert_true(has_event(m, "crashed; singa-ws resume 1 continues from step 7"));
    int events = sw_ui_event_count(m);
    sleep_ms(1050);
    sw_feed_refresh(f, m, SW_FEED_ALL);
    assert_int_equal(sw_ui_event_count(m), events);
    sw_feed_free(f);
    model_free(m);
}

static void resume_removes_superseded_points(void **state)
{
    struct sw_err err;
    struct job j = job_begin("resumed");
    struct sw_ui_model *m = model_new();
    for (int64_t step = 1; step <= 50; step++)
        job_step(&j, step);
    int64_t id = sw_history_run_id(j.h);
    finish(j.h, SW_RUN_STOPPED);
    struct sw_feed *f = feed_of("resumed", m);
    sw_feed_refresh(f, m, 0);
    assert_int_equal(sw_ui_series_find(m, "train", "loss")->last_step, 50);

    struct sw_run_info info = info_of("resumed");
    ok(sw_history_open(&j.h, db_path(), NULL, &err), &err);
    ok(sw_history_resume_run(j.h, id, 20, &info, &err), &err);
    j.p = producer(j.h);
    j.loss = series(j.h, "train", "loss");
    j.accuracy = series(j.h, "test", "accuracy");
    for (int64_t step = 21; step <= 30; step++)
        job_step(&j, step);
    sleep_ms(1050);
    sw_feed_refresh(f, m, 0);
    sw_feed_refresh(f, m, 0);
    const struct sw_ui_series *loss = sw_ui_series_find(m, "train", "loss");
    assert_true(loss->last_step == 30 && loss->count == 30);
    assert_true(m->resume_count == 1 && m->resume_steps[0] == 20);
    sw_feed_free(f);
    finish(j.h, SW_RUN_DONE);
    model_free(m);
}

static void run_is_selected_by_name_or_newest_running(void **state)
{
    struct sw_err err;
    struct job a = job_begin("first");
    finish(a.h, SW_RUN_DONE);
    struct job b = job_begin("second");
    struct job c = job_begin("third");
    finish(c.h, SW_RUN_DONE);
    struct sw_ui_model *m = model_new();
    struct sw_feed *f = feed_of(NULL, m);
    assert_string_equal(m->run.name, "second");
    ok(sw_feed_choose(f, "first", m, &err), &err);
    assert_string_equal(m->run.name, "first");
    assert_int_equal(sw_feed_choose(f, "nobody", m, &err), SW_ERR_NOTFOUND);
    assert_string_equal(m->run.name, "first");
    ok(sw_feed_overlay(f, 2, m, &err), &err);
    assert_int_equal(m->overlay_run, 2);
    ok(sw_feed_overlay(f, 0, m, &err), &err);
    assert_true(m->overlay_run == 0 && m->overlay_count == 0);
    finish(b.h, SW_RUN_DONE);
    sw_feed_free(f);
    model_free(m);
}

/* A stage or another plan has other roles, while the run trains. */
static void new_placements_replace_old_ones(void **state)
{
    struct job j = job_begin("moving");
    struct sw_ui_model *m = model_new();
    sw_history_placement(j.h, "worker0.0", "cpu", 0, "0-1", "all cores");
    sw_history_placement(j.h, "server0.0", "cpu", 0, "0-1", "all cores");
    job_step(&j, 10);
    struct sw_feed *f = feed_of("moving", m);
    sw_feed_refresh(f, m, SW_FEED_ALL);
    assert_int_equal(m->placement_count, 2);

    sw_history_placement_removed(j.h);
    for (int i = 0; i < 3; i++) {
        char role[32];
        snprintf(role, sizeof role, "worker0.%d", i);
        sw_history_placement(j.h, role, "cpu", 0, "0", "one core");
    }
    assert_true(sw_history_flush(j.h, 5000));
    sleep_ms(1050);
    sw_feed_refresh(f, m, SW_FEED_ALL);
    assert_int_equal(m->placement_count, 3);
    assert_string_equal(m->placements[2].unit, "worker0.2");
    sw_feed_free(f);
    finish(j.h, SW_RUN_DONE);
    model_free(m);
}

static double plan_part(const struct sw_ui_model *m, enum sw_ui_plan_part part)
{
    return m->plan.part_ms[part];
}

/* The newest plan of the selected run, also when it is replaced while the run trains. */
static void newest_plan_of_the_run_is_read(void **state)
{
    static const char first[] =
        "{\"framework\":\"allreduce\",\"worker_groups\":1,\"workers_per_group\":2,"
        "\"compute_ms\":30,\"layers\":[{\"name\":\"fc1\",\"partition\":\"0\",\"compute_ms\":12}]}";
    struct sw_err err;
    struct job other = job_begin("unplanned");
    finish(other.h, SW_RUN_DONE);
    struct job j = job_begin("planned");
    struct sw_ui_model *m = model_new();

    sw_history_plan(j.h, first, 40, NULL);
    sw_history_layer_time(j.h, "fc1", 0, 4, 6, 10);
    sw_history_layer_time(j.h, "fc1", 1, 8, 12, 10);
    for (int64_t step = 1; step <= 20; step++)
        job_step(&j, step);
    struct sw_feed *f = feed_of("planned", m);
    sw_feed_refresh(f, m, SW_FEED_ALL);
    assert_true(m->plan.known && m->plan.step_ms == 40 && isnan(m->plan.mean_ms));
    assert_string_equal(m->plan.shape, "allreduce, 1 group of 2 workers");
    assert_true(plan_part(m, SW_UI_PLAN_COMPUTE) == 30 && isnan(plan_part(m, SW_UI_PLAN_WAIT)));
    assert_true(sw_ui_plan_layer_ms("fc1", m->layers, m->layer_count) == 20);
    assert_true(m->layers[0].forward_ms == 6 && m->layers[0].backward_ms == 9);

    sw_history_plan(j.h, "{\"compute_ms\":50,\"layers\":[]}", 55, NULL);
    sw_history_plan_measured(j.h, 61);
    assert_true(sw_history_flush(j.h, 5000));
    sleep_ms(1050);
    sw_feed_refresh(f, m, SW_FEED_ALL);
    assert_true(m->plan.step_ms == 55 && m->plan.mean_ms == 61 && m->plan.layer_count == 0);
    assert_true(plan_part(m, SW_UI_PLAN_COMPUTE) == 50);

    ok(sw_feed_choose(f, "unplanned", m, &err), &err);
    sw_feed_refresh(f, m, SW_FEED_ALL);
    assert_false(m->plan.known);
    ok(sw_feed_choose(f, "planned", m, &err), &err);
    sw_feed_refresh(f, m, SW_FEED_ALL);
    assert_true(m->plan.known && plan_part(m, SW_UI_PLAN_COMPUTE) == 50);
    sw_feed_free(f);
    finish(j.h, SW_RUN_DONE);
    model_free(m);
}

static void output_lines_become_events(void **state)
{
    struct job j = job_begin("loud");
    struct sw_ui_model *m = model_new();
    char *path = sw_format("%s/" SW_UI_OUTPUT, sw_history_out_dir(j.h));
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs("one\ntw", out);
    fflush(out);
    struct sw_feed *f = feed_of("loud", m);
    sw_feed_refresh(f, m, 0);
    assert_int_equal(sw_ui_event_count(m), 1);
    fputs("o\n\x1b[2Jthree\n", out);
    fclose(out);
    sw_feed_refresh(f, m, 0);
    assert_true(sw_ui_event_count(m) == 3 && has_event(m, "two"));
    sw_feed_free(f);
    finish(j.h, SW_RUN_DONE);
    model_free(m);
    sw_free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(new_rows_arrive_once_and_in_order, home_begin, home_end),
        cmocka_unit_test_setup_teardown(snapshot_makes_a_run_live, home_begin, home_end),
        cmocka_unit_test_setup_teardown(truncated_snapshot_is_reported_once, home_begin, home_end),
        cmocka_unit_test_setup_teardown(run_with_dead_process_is_crashed, home_begin, home_end),
        cmocka_unit_test_setup_teardown(resume_removes_superseded_points, home_begin, home_end),
        cmocka_unit_test_setup_teardown(run_is_selected_by_name_or_newest_running, home_begin,
                                        home_end),
        cmocka_unit_test_setup_teardown(new_placements_replace_old_ones, home_begin, home_end),
        cmocka_unit_test_setup_teardown(newest_plan_of_the_run_is_read, home_begin, home_end),
        cmocka_unit_test_setup_teardown(output_lines_become_events, home_begin, home_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
