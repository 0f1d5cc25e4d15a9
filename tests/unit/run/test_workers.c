/* ctest-labels: threads
 * ctest-timeout: 120
 * Several workers and servers train to what one worker trains: dropout, shuffling, random crops and
 * mirrors, normalisation across channels, pooling; evaluation, resuming, stopping, the history. */
#include "workers_support.h"

enum { STEPS = 20, RECORDS = 53 };

static const struct setup {
    const char *name, *sets[3];
    int workers, servers;
} setups[] = {
    {"s2-1", {SANDBLASTER, "cluster.workers_per_group=2", "cluster.servers_per_group=1"}, 2, 1},
    {"s2-2", {SANDBLASTER, "cluster.workers_per_group=2", "cluster.servers_per_group=2"}, 2, 2},
    {"s3-1", {SANDBLASTER, "cluster.workers_per_group=3"}, 3, 1},
    {"s3-2", {SANDBLASTER, "cluster.workers_per_group=3", "cluster.servers_per_group=2"}, 3, 2},
    {"a2", {ALLREDUCE, "cluster.workers_per_group=2"}, 2, 2},
    {"a3", {ALLREDUCE, "cluster.workers_per_group=3", "cluster.slice_size=1024"}, 3, 3},
};
enum { SETUPS = sizeof setups / sizeof *setups };

#define run_setup(s, ...) grouped(.sets = {(s)->sets[0], (s)->sets[1], (s)->sets[2]}, __VA_ARGS__)

/* Everything the history says of the work: a row of time per step and worker, gradients to every
 * server; together they are all gradients of all workers. */
static void assert_on_record(const struct setup *s, const char *name)
{
    int id = run_id(name);
    int64_t gradient_bytes = (int64_t)ask("SELECT params FROM runs WHERE id = %d", id) * 4;
    assert_int_equal((int)ask("SELECT count(*) FROM step_time WHERE run_id = %d", id),
                     STEPS * s->workers);
    assert_int_equal((int)ask("SELECT count(DISTINCT worker) FROM step_time WHERE run_id = %d", id),
                     s->workers);
    assert_int_equal((int)ask("SELECT workers FROM runs WHERE id = %d", id), s->workers);
    assert_int_equal(
        (int)ask("SELECT count(*) FROM placement WHERE run_id = %d AND unit LIKE '%%.%%'", id),
        s->workers + s->servers);
    assert_int_equal((int)ask("SELECT count(*) FROM link_traffic WHERE run_id = %d AND "
                              "from_unit LIKE 'worker0.%%' AND to_unit LIKE 'server0.%%'",
                              id),
                     STEPS * s->workers * s->servers);
    /* The storage of a blocked layout is at least what it holds. */
    int64_t sent = (int64_t)ask(
        "SELECT sum(bytes) FROM link_traffic WHERE run_id = %d AND step = 7 AND kind = 'shared'",
        id);
    assert_true(sent >= gradient_bytes * s->workers && sent < 2 * gradient_bytes * s->workers);
    assert_true(ask("SELECT min(bytes) > 0 FROM link_traffic WHERE run_id = %d", id));
}

static double evaluated(const char *run, const char *metric, int step)
{
    return ask("SELECT value FROM metrics WHERE run_id = %d AND split = 'test' AND name = '%s' AND "
               "step = %d",
               run_id(run), metric, step);
}

static void groups_of_workers_and_servers_equal_one_worker(void **state)
{
    grouped(.name = "one");
    for (const struct setup *s = setups; s < setups + SETUPS; s++) {
        run_setup(s, .name = s->name);
        assert_equal_runs("one", s->name, STEPS);
        assert_on_record(s, s->name);
    }
}

static void two_runs_of_one_set_up_have_the_same_bits(void **state)
{
    for (const struct setup *s = setups; s < setups + SETUPS; s++) {
        char again[32];
        snprintf(again, sizeof again, "%s-again", s->name);
        run_setup(s, .name = s->name);
        run_setup(s, .name = again);
        assert_same_tensors(checkpoint_path(s->name, STEPS), checkpoint_path(again, STEPS));
        assert_true(evaluated(s->name, "loss", STEPS) == evaluated(again, "loss", STEPS));
    }
}

/* How the servers share the parameters, and who runs them, changes no bit. */
static void servers_do_not_change_the_bits(void **state)
{
    for (int i = 0; i < SETUPS; i++) {
        const struct setup *s = &setups[i];
        run_setup(s, .name = s->name);
        for (int k = 0; k < i; k++)
            if (setups[k].workers == s->workers)
                assert_same_tensors(checkpoint_path(setups[k].name, STEPS),
                                    checkpoint_path(s->name, STEPS));
    }
}

/* 53 records: with batches of 10, the last has 3 rows for up to 3 workers; with batches of 7, four.
 */
static void evaluation_counts_every_record_once(void **state)
{
    static const char *const batches[] = {"job.eval_batch=10", "job.eval_batch=7",
                                          "job.eval_batch=53", "job.eval_batch=60"};
    grouped(.name = "teacher", .steps = 5);
    char weights[512];
    snprintf(weights, sizeof weights, "%s", checkpoint_path("teacher", 5));
    for (size_t b = 0; b < sizeof batches / sizeof *batches; b++) {
        grouped(.name = "alone", .steps = 1, .init_from = weights,
                .sets = {batches[b], "updater.lr=1e-9"});
        double loss = evaluated("alone", "loss", 1), accuracy = evaluated("alone", "accuracy", 1);
        /* A share of 53. */
        assert_true(fabs(accuracy * RECORDS - round(accuracy * RECORDS)) < 1e-6);
        for (int workers = 2; workers <= 4; workers++) {
            char name[32];
            snprintf(name, sizeof name, "with-%d", workers);
            grouped(.name = name, .steps = 1, .init_from = weights,
                    .sets = {batches[b], "updater.lr=1e-9", workers_set[workers]});
            assert_true(evaluated(name, "accuracy", 1) == accuracy);
            assert_true(fabs(evaluated(name, "loss", 1) - loss) < 1e-5 * loss);
        }
    }
}

static void resuming_with_the_same_workers_gives_the_same_bits(void **state)
{
    for (int workers = 2; workers <= 3; workers++) {
        const char *set = workers_set[workers];
        grouped(.name = "whole", .sets = {set});
        grouped(.name = "half", .sets = {set}, .steps = 9);
        grouped(.resume = "half", .resume_step = 9, .steps = STEPS);
        assert_same_tensors(checkpoint_path("whole", STEPS), checkpoint_path("half", STEPS));
        assert_int_equal(
            (int)ask("SELECT count(*) FROM step_time WHERE run_id = %d", run_id("half")),
            STEPS * workers);
    }
}

static void resume_with_other_workers_continues_the_curve(void **state)
{
    static const int pairs[][2] = {{1, 3}, {2, 3}, {3, 2}, {3, 1}};
    grouped(.name = "whole");
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char name[32];
        snprintf(name, sizeof name, "%d-to-%d", pairs[i][0], pairs[i][1]);
        grouped(.name = name, .sets = {workers_set[pairs[i][0]]}, .steps = 9);
        grouped(.resume = name, .resume_step = 9, .steps = STEPS,
                .sets = {workers_set[pairs[i][1]]});
        assert_equal_runs("whole", name, STEPS);
        assert_int_equal((int)ask("SELECT count(*) FROM step_time WHERE run_id = %d AND step = 15",
                                  run_id(name)),
                         pairs[i][1]);
    }
}

/* ---- ends ---- */

static void stop_at_step_3(struct trial *t, const struct sw_job_event *e)
{
    if (e->type == SW_JOB_DISPLAY && e->step == 3)
        sw_job_request(t->job, SW_JOB_STOP);
}

static void a_stop_ends_all_workers_after_the_same_step(void **state)
{
    for (int workers = 2; workers <= 3; workers++) {
        struct trial t = {.recipe = workers_recipe,
                          .name = workers == 2 ? "stopped-2" : "stopped-3",
                          .oversubscribe = true,
                          .sets = {workers_set[workers]},
                          .steps = 100000,
                          .display = {.every_steps = 1},
                          .on_event = stop_at_step_3};
        assert_int_equal(trial_open(&t), SW_OK);
        assert_int_equal(trial_run(&t), SW_ERR_CANCELLED);
        int64_t step = t.job->workers[0].step;
        assert_true(step >= 3);
        for (int w = 0; w < workers; w++) {
            assert_int_equal(t.job->workers[w].step, step);
            assert_true(t.job->workers[w].end.stopped);
        }
        trial_close(&t);
        assert_true(exists(checkpoint_path(t.name, step)));
        /* It goes on from there as if nothing had been. */
        grouped(.resume = t.name, .resume_step = step, .steps = step + 3);
        grouped(.name = "straight", .sets = {workers_set[workers]}, .steps = step + 3);
        assert_same_tensors(checkpoint_path("straight", step + 3),
                            checkpoint_path(t.name, step + 3));
    }
}

/* ---- refusals ---- */

/* Opening fails with both texts in what the user is told. */
static void assert_refused(struct trial *t, const char *reason, const char *advice)
{
    t->recipe = t->recipe ? t->recipe : workers_recipe;
    if (trial_open(t) == SW_OK)
        fail_msg("nobody refused: %s", reason);
    assert_int_equal(t->rc, SW_ERR_INVALID);
    const char *told = sw_bytes_text(&t->messages);
    if (!strstr(told, reason) && !strstr(t->err.text, reason))
        fail_msg("\"%s\" or \"%s\" has not \"%s\"", told, t->err.text, reason);
    if (!strstr(told, advice) && !strstr(t->err.text, advice))
        fail_msg("\"%s\" or \"%s\" has not \"%s\"", told, t->err.text, advice);
    trial_close(t);
}

static void more_workers_than_rows_are_refused(void **state)
{
    struct trial t = {.sets = {"job.batch=3", "cluster.workers_per_group=4"},
                      .oversubscribe = true};
    assert_refused(&t, "4 workers cannot share a batch of 3 rows", "at most 3");
    struct trial e = {.sets = {"job.eval_batch=2", "cluster.workers_per_group=3"},
                      .oversubscribe = true};
    assert_refused(&e, "3 workers cannot share a batch of 2 rows in evaluations", "at most 2");
    /* As advised: a row for each. */
    grouped(.name = "rows", .steps = 2,
            .sets = {"job.batch=3", "job.eval_batch=3", workers_set[3]});
}

static void allreduce_with_other_numbers_of_servers_is_refused(void **state)
{
    struct trial t = {.sets = {ALLREDUCE, workers_set[2], "cluster.servers_per_group=1"},
                      .oversubscribe = true};
    assert_refused(&t, "allreduce has one server per worker",
                   "--set cluster.servers_per_group=2, or --framework sandblaster");
    struct trial f = {
        .sets = {workers_set[3], servers_set[2]}, .framework = "allreduce", .oversubscribe = true};
    assert_refused(&f, "allreduce has one server per worker", "cluster.servers_per_group=3,");
    grouped(.name = "said", .steps = 2, .sets = {ALLREDUCE, workers_set[2], servers_set[2]});
    grouped(.name = "sand", .steps = 2, .sets = {workers_set[2], servers_set[1]},
            .framework = "sandblaster");
    assert_string_equal(ask_text("SELECT framework FROM runs WHERE id = %d", run_id("sand")),
                        "sandblaster");
}

static int math_threads(void)
{
    struct sw_machine *m = NULL;
    struct sw_err err;
    assert_int_equal(sw_machine_here(&m, &err), SW_OK);
    int threads = sw_machine_threads(m);
    sw_machine_free(m);
    return threads;
}

static void more_workers_than_cores_need_permission(void **state)
{
    char set[64], batch[64], reason[64], advice[64];
    int threads = math_threads(), workers = threads + 1;
    snprintf(set, sizeof set, "cluster.workers_per_group=%d", workers);
    snprintf(batch, sizeof batch, "job.batch=%d", 2 * workers);
    snprintf(reason, sizeof reason, "%d workers need a core each", workers);
    snprintf(advice, sizeof advice, "at most %d, or add --oversubscribe", threads);
    struct trial t = {.sets = {set, batch}};
    if (2 * workers > 64) {
        print_message("skipped: this machine has too many cores for this\n");
        skip();
    }
    t.sets[2] = "job.eval_batch=64";
    assert_refused(&t, reason, advice);
    grouped(.name = "crowded", .steps = 2, .sets = {set, batch, "job.eval_batch=64"});
    snprintf(set, sizeof set, "cluster.workers_per_group=%d", threads);
    train(.recipe = workers_recipe, .name = "fit", .steps = 2,
          .sets = {set, batch, "job.eval_batch=64"});
}

static void unknown_frameworks_name_the_known_ones(void **state)
{
    struct trial t = {.framework = "sandblasterr"};
    assert_refused(&t, "sandblasterr", "sandblaster");
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, home_begin, home_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH(groups_of_workers_and_servers_equal_one_worker),
        FRESH(two_runs_of_one_set_up_have_the_same_bits),
        FRESH(servers_do_not_change_the_bits),
        FRESH(evaluation_counts_every_record_once),
        FRESH(resuming_with_the_same_workers_gives_the_same_bits),
        FRESH(resume_with_other_workers_continues_the_curve),
        FRESH(a_stop_ends_all_workers_after_the_same_step),
        FRESH(more_workers_than_rows_are_refused),
        FRESH(allreduce_with_other_numbers_of_servers_is_refused),
        FRESH(more_workers_than_cores_need_permission),
        FRESH(unknown_frameworks_name_the_known_ones),
    };
    return cmocka_run_group_tests_name("workers", tests, NULL, NULL);
}
