/* Checkpoints and histories that cannot be written: training continues where that is possible, the
 * last good state is kept, and no incomplete file remains. */
/* ctest-labels: threads */
#include "fault_support.h"
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>

/* ---- checkpoints ---- */

/* What of a checkpoint's writing fails, counted over the calls of one that succeeds before it. */
struct part {
    const char *name;
    int kind, at;
    bool replaced; /* it fails when the new file is in place already */
};
static const struct part parts[] = {
    {"open", FAIL_OPEN, 3, false},       {"write", FAIL_WRITE, 3, false},
    {"sync", FAIL_SYNC, 3, false},       {"rename", FAIL_RENAME, 2, false},
    {"sync-folder", FAIL_SYNC, 4, true},
};
enum { PARTS = sizeof parts / sizeof *parts };

static struct fault_plan plan_of(const struct part *p, int times)
{
    return (struct fault_plan){
        .kinds = p->kind, .thread = "worker0.0", .at = p->at, .times = times, .error = ENOSPC};
}

static void checkpoint_that_fails_during_the_run_is_an_event(void **state)
{
    train(.name = "smooth", .recipe = file_recipe());
    for (int i = 0; i < PARTS; i++) {
        struct before b = look();
        struct trial t = {.name = parts[i].name, .recipe = file_recipe()};
        assert_int_equal(trial_open(&t), SW_OK);
        fault_arm(plan_of(&parts[i], 1));
        trial_run(&t);
        fault_disarm(NULL);
        if (t.rc != SW_OK)
            fail_msg("%s: %s", t.name, t.err.text);
        assert_int_equal(atomic_load(&fault_hits), 1);
        assert_int_equal(t.job->workers[0].failures.checkpoints, 1);
        assert_int_equal(t.told[SW_JOB_EVENT], 1);
        assert_non_null(strstr(t.text, "worker0.0: checkpoint 1 could not be written and training "
                                       "continues: checkpoint at step 4: "));
        assert_non_null(strstr(t.text, strerror(ENOSPC)));
        assert_nothing_left(&t, &b);
        assert_int_equal(exists(checkpoint_path(parts[i].name, 4)), parts[i].replaced);
        for (int step = 0; step <= 12; step += step ? 4 : 8)
            assert_same_tensors(checkpoint_path("smooth", step),
                                checkpoint_path(parts[i].name, step));
        assert_true(ask("SELECT count(*) = 1 FROM events WHERE run_id = %d AND level = 'error' AND"
                        " source = 'worker0.0' AND text LIKE '%%training continues%%'",
                        run_id(parts[i].name)));
        assert_string_equal(ask_text("SELECT group_concat(step) FROM checkpoints WHERE run_id = %d",
                                     run_id(parts[i].name)),
                            "0,8,12");
    }
}

/* How often the worker asks for memory does not depend on the run: half of it is in mid-run. */
static void checkpoint_without_memory_during_the_run_is_an_event(void **state)
{
    for (int round = 0; round < 2; round++) {
        static int half;
        struct before b = look();
        struct trial t = {.name = round ? "short1" : "short0", .recipe = file_recipe()};
        assert_int_equal(trial_open(&t), SW_OK);
        fault_arm((struct fault_plan){
            .kinds = FAIL_ALLOC, .thread = "worker0.0", .at = round ? half : 1 << 30, .times = 1});
        assert_int_equal(trial_run(&t), SW_OK);
        fault_disarm(NULL);
        half = atomic_load(&fault_calls) * 5 / 8; /* of checkpoints 0, 4, 8, 12: in the third */
        assert_int_equal(atomic_load(&fault_hits), round);
        assert_int_equal(t.job->workers[0].failures.checkpoints, round);
        assert_int_equal(t.told[SW_JOB_EVENT], round);
        assert_nothing_left(&t, &b);
    }
}

static void last_checkpoint_failing_is_an_error(void **state)
{
    for (int i = 0; i < PARTS; i++) {
        struct trial t = {.name = "last",
                          .recipe = file_recipe(),
                          .steps = 6,
                          .sets = {"job.checkpoint_every=0"}};
        must_fail_on_record(&t, plan_of(&parts[i], 0), SW_ERR_IO,
                            "worker0.0: checkpoint at step 6: ", strerror(ENOSPC));
        assert_int_equal(t.told[SW_JOB_EVENT], 0);
        assert_int_equal(t.last[SW_JOB_SUMMARY].status, SW_RUN_FAILED);
        assert_true(exists(checkpoint_path("last", 0)));
        assert_int_equal(exists(checkpoint_path("last", 6)), parts[i].replaced);
        unlink(checkpoint_path("last", 6));
    }
}

/* A file of that name from before is replaced whole or not at all. */
static void last_checkpoint_failing_keeps_the_file_before_it(void **state)
{
    train(.name = "kept", .recipe = file_recipe(), .steps = 8);
    for (int i = 0; i < PARTS; i++) {
        struct trial t = {.name = "kept",
                          .recipe = file_recipe(),
                          .resume = "kept",
                          .resume_step = 4,
                          .steps = 8};
        struct part p = parts[i];
        /* It reads a file at first, and writes none. */
        p.at -= p.kind == FAIL_RENAME || p.kind == FAIL_OPEN ? 1 : 2;
        must_fail(&t, plan_of(&p, 0), SW_ERR_IO,
                  "worker0.0: checkpoint at step 8: ", strerror(ENOSPC));
        assert_finite(checkpoint_path("kept", 8));
    }
    train(.name = "whole", .recipe = file_recipe(), .steps = 8);
    assert_same_tensors(checkpoint_path("whole", 8), checkpoint_path("kept", 8));
}

static void stop_at_step_2(struct trial *t, const struct sw_job_event *e)
{
    if (e->type == SW_JOB_DISPLAY && e->step == 2)
        sw_job_request(t->job, SW_JOB_STOP);
}

static void checkpoint_failing_on_a_stop_is_an_error(void **state)
{
    struct trial t = {.name = "stopped",
                      .recipe = file_recipe(),
                      .steps = 1000000,
                      .sets = {"job.checkpoint_every=0", "job.eval_every=0"},
                      .display = {.every_steps = 1},
                      .on_event = stop_at_step_2};
    must_fail_on_record(&t, plan_of(&parts[1], 0), SW_ERR_IO, "worker0.0: checkpoint at step ",
                        strerror(ENOSPC));
    assert_int_equal(count_files("stopped", ""), 1);
    assert_true(exists(checkpoint_path("stopped", 0)));
}

/* ---- history ---- */

static void history_that_cannot_be_anywhere(void **state)
{
    struct trial t = {
        .name = "nowhere-at-all", .recipe = file_recipe(), .out_dir = in_home("train.bin/out")};
    must_fail(&t, (struct fault_plan){0}, SW_ERR_IO, "", "train.bin");
    struct trial w = {.name = "no-writer", .recipe = file_recipe()};
    must_fail(&w, (struct fault_plan){.start = "history"}, SW_ERR_NOMEM, "",
              "cannot start thread history");
}

static void history_without_a_database_is_spooled(void **state)
{
    struct before b = look();
    struct trial t = {
        .name = "spooled", .recipe = file_recipe(), .db = in_home("train.bin/history.db")};
    assert_int_equal(trial_open(&t), SW_OK);
    assert_int_equal(trial_run(&t), SW_OK);
    assert_nothing_left(&t, &b);
    assert_true(exists(checkpoint_path("spooled", 12)));
    assert_int_equal(count_files("spooled", "metrics.jsonl"), 1);
    assert_int_equal(sw_history_waiting(in_home("train.bin/history.db")), 0);
}

static sqlite3 *locker;
static double locked_s;

/* Somebody else holds the database for seconds of training, until rows go elsewhere, up to the end
 * of the last step. */
static void lock_while_it_trains(struct trial *t, const struct sw_job_event *e)
{
    if (e->type == SW_JOB_START) {
        assert_int_equal(sqlite3_open(in_home("history.db"), &locker), SQLITE_OK);
        sqlite3_busy_timeout(locker, 60000);
        assert_int_equal(sqlite3_exec(locker, "PRAGMA wal_autocheckpoint = 0; BEGIN IMMEDIATE",
                                      NULL, NULL, NULL),
                         SQLITE_OK);
        locked_s = trial_clock();
    } else if (e->type == SW_JOB_DISPLAY && trial_clock() - locked_s > 3 &&
               count_files(t->name, "metrics.jsonl") == 1) {
        sw_job_request(t->job, SW_JOB_STOP);
    } else if (e->type == SW_JOB_SUMMARY) {
        assert_int_equal(count_files(t->name, "metrics.jsonl"), 1);
        assert_int_equal(sqlite3_exec(locker, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
        sqlite3_close(locker);
    }
}

static void locked_database_does_not_stop_training(void **state)
{
    train(.name = "first", .recipe = file_recipe(), .steps = 1); /* makes the database */
    struct before b = look();
    struct trial t = {.name = "locked",
                      .steps = 100000000,
                      .display = {.every_steps = 10},
                      .on_event = lock_while_it_trains};
    assert_int_equal(trial_open(&t), SW_OK);
    assert_int_equal(trial_run(&t), SW_ERR_CANCELLED);
    int64_t steps = t.last[SW_JOB_SUMMARY].step;
    assert_true(steps > 10);
    assert_nothing_left(&t, &b);
    assert_int_equal(sw_history_waiting(in_home("history.db")), 0);
    assert_true(ask("SELECT count(*) = %lld AND count(DISTINCT step) = %lld AND max(step) = %lld"
                    " FROM step_time WHERE run_id = %d",
                    (long long)steps, (long long)steps, (long long)steps, run_id("locked")));
    assert_string_equal(ask_text("PRAGMA integrity_check"), "ok");
}

static off_t size_of(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? st.st_size : 0;
}

/* From now on no file grows beyond what the database's log needs: a disk that is full for it, with
 * room for checkpoints. */
static void fill_disk_while_it_trains(struct trial *t, const struct sw_job_event *e)
{
    struct rlimit limit;
    if (e->type != SW_JOB_START && e->type != SW_JOB_SUMMARY)
        return;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = e->type == SW_JOB_START ? (rlim_t)size_of(in_home("history.db-wal")) + 400000
                                             : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void full_disk_does_not_stop_training(void **state)
{
    signal(SIGXFSZ, SIG_IGN);
    struct before b = look();
    struct trial t = {.name = "full-history", .steps = 4000, .on_event = fill_disk_while_it_trains};
    assert_int_equal(trial_open(&t), SW_OK);
    assert_int_equal(trial_run(&t), SW_OK);
    assert_nothing_left(&t, &b);
    assert_true(exists(checkpoint_path("full-history", 4000)));
    assert_string_equal(ask_text("PRAGMA integrity_check"), "ok");
    /* What did not fit went to the run's spool and can be brought home. */
    struct sw_err err;
    if (sw_history_merge(in_home("history.db"), NULL, NULL, &err) != SW_OK)
        fail_msg("%s", err.text);
    assert_int_equal(sw_history_waiting(in_home("history.db")), 0);
    assert_true(ask("SELECT count(*) >= 1 FROM events WHERE run_id = %d AND source = 'history' AND"
                    " level = 'warning'",
                    run_id("full-history")));
    assert_true(
        ask("SELECT count(*) = 4000 FROM step_time WHERE run_id = %d", run_id("full-history")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(checkpoint_that_fails_during_the_run_is_an_event),
        CASE(checkpoint_without_memory_during_the_run_is_an_event),
        CASE(last_checkpoint_failing_is_an_error),
        CASE(last_checkpoint_failing_keeps_the_file_before_it),
        CASE(checkpoint_failing_on_a_stop_is_an_error),
        CASE(history_that_cannot_be_anywhere),
        CASE(history_without_a_database_is_spooled),
        CASE(locked_database_does_not_stop_training),
        CASE(full_disk_does_not_stop_training),
    };
    return cmocka_run_group_tests_name("storage", tests, fault_begin, home_end);
}
