/* Each thread role failing at set-up, in a step, in evaluation and in a checkpoint: the run ends
 * within seconds, names the role and the cause, and leaves nothing running and nothing half-written
 * behind. What need not end a run (the history, a checkpoint on the way) does not. */
/* ctest-labels: threads */
#include "fault_support.h"
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { SECONDS = 10 }; /* sanitizers on a loaded machine; without them a tenth */

/* The tiny net on files: 64 records to train on, 40 to evaluate on, both at step 4, 8, 12. */
static const char *file_recipe(void)
{
    static char text[4096];
    snprintf(text, sizeof text,
             "[job]\nsteps = 12\nbatch = 16\neval_batch = 5\neval_every = 4\n"
             "checkpoint_every = 4\n"
             "[data train]\nformat = cifar10\npaths = %s/train.bin\nmean = 127\nstd = 64\n"
             "crop = 14\nmirror = yes\nshuffle = yes\n"
             "[data test]\nformat = cifar10\npaths = %s/test.bin\nmean = 127\nstd = 64\n"
             "crop = 14\n" UPDATER_SECTIONS NET_SECTIONS,
             home_dir, home_dir);
    return text;
}

/* Every case has a history of its own. */
static int with_files(void **state)
{
    static const char *const files[] = {"history.db", "history.db-wal", "history.db-shm"};
    (void)state;
    for (int i = 0; i < 3; i++)
        unlink(in_home("%s", files[i]));
    write_cifar("train.bin", 64, -1, 0);
    write_cifar("test.bin", 40, -1, 0);
    return 0;
}

/* No finite check on the way may miss: every value of every checkpoint is finite. */
static void assert_finite(const char *path)
{
    struct sw_st_file *f = open_tensors(path);
    for (size_t i = 0; i < sw_st_count(f); i++) {
        const struct sw_st_entry *e = sw_st_entry_at(f, i);
        float *values = tensor_bytes(f, e);
        for (size_t k = 0; k < e->bytes / sizeof *values; k++)
            assert_true(isfinite(values[k]));
        free(values);
    }
    sw_st_close(f);
}

/* What holds after every run, however it ended. */
struct before {
    int threads;
    long live;
};

static struct before look(void)
{
    return (struct before){.threads = count_threads(), .live = atomic_load(&fault_live)};
}

static void assert_nothing_left(struct trial *t, const struct before *b)
{
    const char *run = t->name;
    assert_false(t->stuck);
    assert_true(t->took_s < SECONDS);
    assert_true(threads_become(b->threads));
    trial_close(t);
    assert_int_equal(atomic_load(&fault_live), b->live);
    assert_int_equal(count_files(run, ".tmp-"), 0);
    assert_int_equal(count_files("singa-ws", ".live"), 0);
    for (int step = 0; step <= 12; step++)
        if (exists(checkpoint_path(run, step)))
            assert_finite(checkpoint_path(run, step));
}

/* Runs the trial under the plan. It fails with that code, and its message begins with the role and
 * holds the cause. */
static void must_fail(struct trial *t, struct fault_plan plan, int rc, const char *role,
                      const char *cause)
{
    struct before b = look();
    if (trial_open(t) != SW_OK)
        fail_msg("%s", t->err.text);
    fault_arm(plan);
    trial_run(t);
    fault_disarm(NULL);
    if (t->rc != rc || strncmp(t->err.text, role, strlen(role)) != 0 || !strstr(t->err.text, cause))
        fail_msg("%s: %d, not %d: \"%s\" has not %s and %s", t->name, t->rc, rc, t->err.text, role,
                 cause);
    assert_nothing_left(t, &b);
}

/* As must_fail, and the history has it, once. */
static void must_fail_on_record(struct trial *t, struct fault_plan plan, int rc, const char *role,
                                const char *cause)
{
    must_fail(t, plan, rc, role, cause);
    int id = run_id(t->name);
    assert_string_equal(ask_text("SELECT status FROM runs WHERE id = %d", id), "failed");
    assert_true(ask("SELECT ended_at IS NOT NULL FROM runs WHERE id = %d", id));
    assert_int_equal(
        (int)ask("SELECT count(*) FROM events WHERE run_id = %d AND level = 'error'", id), 1);
    assert_non_null(strstr(
        ask_text("SELECT text FROM events WHERE run_id = %d AND level = 'error'", id), cause));
}

static void cut_train(struct trial *t)
{
    (void)t;
    assert_int_equal(truncate(in_home("train.bin"), 3 * CIFAR_RECORD), 0);
}

static void cut_test(struct trial *t)
{
    (void)t;
    assert_int_equal(truncate(in_home("test.bin"), 30 * CIFAR_RECORD), 0);
}

static void cut_train_at_step_3(struct trial *t, const struct sw_job_event *e)
{
    if (e->type == SW_JOB_DISPLAY && e->step == 3)
        cut_train(t);
}

/* ---- prefetch ---- */

static void prefetch_that_cannot_start(void **state)
{
    (void)state;
    struct trial t = {.name = "start", .recipe = file_recipe()};
    must_fail_on_record(&t, (struct fault_plan){.start = "prefetch train"}, SW_ERR_NOMEM,
                        "job: ", "cannot start thread prefetch train");
    struct trial e = {.name = "start-eval", .recipe = file_recipe()};
    must_fail_on_record(&e, (struct fault_plan){.start = "prefetch test"}, SW_ERR_NOMEM,
                        "job: ", "cannot start thread prefetch test");
}

static void file_cut_short_before_step_1(void **state)
{
    (void)state;
    struct trial t = {.name = "cut", .recipe = file_recipe(), .before = cut_train};
    must_fail_on_record(&t, (struct fault_plan){0}, SW_ERR_FORMAT,
                        "prefetch train: data train: record ", "train.bin");
    assert_int_equal(t.last[SW_JOB_SUMMARY].step, 0);
    assert_int_equal(t.last[SW_JOB_SUMMARY].status, SW_RUN_FAILED);
}

static void file_cut_short_under_the_run(void **state)
{
    (void)state;
    struct trial t = {.name = "cut-later",
                      .recipe = file_recipe(),
                      .steps = 1000000,
                      .sets = {"job.checkpoint_every=0", "job.eval_every=0"},
                      .display = {.every_steps = 1},
                      .on_event = cut_train_at_step_3};
    must_fail_on_record(&t, (struct fault_plan){0}, SW_ERR_FORMAT,
                        "prefetch train: data train: record ", "train.bin");
    assert_true(t.last[SW_JOB_SUMMARY].step >= 3);
    assert_true(exists(checkpoint_path("cut-later", 0)));
}

static void read_error_in_a_step(void **state)
{
    (void)state;
    struct trial t = {.name = "eio", .recipe = file_recipe()};
    must_fail_on_record(
        &t, (struct fault_plan){.kinds = FAIL_READ, .thread = "prefetch train", .at = 70},
        SW_ERR_IO, "prefetch train: data train: record ", strerror(EIO));
    assert_true(t.last[SW_JOB_SUMMARY].step < 12);
}

/* 15 of 40 records are read ahead; the file ends behind the 30th: step 4 is done, its evaluation
 * is not. */
static void file_cut_short_in_evaluation(void **state)
{
    (void)state;
    struct trial t = {.name = "cut-eval",
                      .recipe = file_recipe(),
                      .before = cut_test,
                      .display = {.every_steps = 1}};
    must_fail_on_record(&t, (struct fault_plan){0}, SW_ERR_FORMAT,
                        "prefetch test: data test: record 30: ", "test.bin");
    assert_int_equal(t.last[SW_JOB_SUMMARY].step, 4);
    assert_int_equal(t.told[SW_JOB_EVAL], 0);
    assert_false(exists(checkpoint_path("cut-eval", 4)));
}

static void label_out_of_range_is_found_at_opening(void **state)
{
    (void)state;
    write_cifar("train.bin", 64, 20, 11);
    struct trial t = {.name = "label", .recipe = file_recipe()};
    struct before b = look();
    assert_int_equal(trial_go(&t), SW_ERR_FORMAT);
    assert_non_null(strstr(t.err.text, "train.bin: record 20: label 11, expected 0 to 9"));
    assert_int_equal(atomic_load(&fault_live), b.live);
    assert_false(exists(in_home("label")));
}

/* ---- worker ---- */

static void worker_that_cannot_start(void **state)
{
    (void)state;
    struct trial t = {.name = "no-worker", .recipe = file_recipe()};
    must_fail_on_record(&t, (struct fault_plan){.start = "worker0.0"}, SW_ERR_NOMEM,
                        "job: ", "cannot start thread worker0.0");
    assert_int_equal(count_files("no-worker", ""), 0);
}

static void seat_both_nowhere(struct trial *t)
{
    for (int i = 0; i < 2; i++) {
        t->job->placement->rows[i].cores = (struct sw_core_set){0};
        sw_core_set_add(&t->job->placement->rows[i].cores, 1000);
    }
}

static void worker_that_cannot_be_bound(void **state)
{
    (void)state;
    struct trial t = {.name = "unbound", .recipe = file_recipe(), .before = seat_both_nowhere};
    must_fail_on_record(&t, (struct fault_plan){0}, SW_ERR_INVALID, "worker0.0: ", "core 1000");
}

static void worker_without_memory_at_set_up(void **state)
{
    (void)state;
    struct trial t = {.name = "poor", .recipe = file_recipe()};
    must_fail_on_record(&t,
                        (struct fault_plan){.kinds = FAIL_ALLOC, .thread = "worker0.0", .at = 1},
                        SW_ERR_NOMEM, "worker0.0: ", "out of memory");
    assert_int_equal(count_files("poor", ""), 0);
}

static void first_checkpoint_on_a_full_disk(void **state)
{
    (void)state;
    struct trial t = {.name = "full", .recipe = file_recipe()};
    must_fail_on_record(
        &t,
        (struct fault_plan){.kinds = FAIL_WRITE, .thread = "worker0.0", .at = 1, .error = ENOSPC},
        SW_ERR_IO, "worker0.0: checkpoint at step 0: ", strerror(ENOSPC));
    assert_int_equal(count_files("full", ""), 0);
}

static void label_beyond_the_scores_in_step_1(void **state)
{
    (void)state;
    struct trial t = {.name = "scores", .recipe = file_recipe(), .sets = {"layer.fc2.outputs=2"}};
    must_fail_on_record(&t, (struct fault_plan){0}, SW_ERR_INVALID,
                        "worker0.0: layer loss: ", "label");
    assert_int_equal(t.last[SW_JOB_SUMMARY].step, 0);
}

static void label_beyond_the_scores_in_evaluation(void **state)
{
    (void)state;
    write_cifar("test.bin", 40, 20, 9);
    struct trial t = {.name = "scores-eval", .recipe = file_recipe()};
    must_fail_on_record(&t, (struct fault_plan){0}, SW_ERR_INVALID,
                        "worker0.0: layer loss: ", "is 9");
    assert_int_equal(t.last[SW_JOB_SUMMARY].step, 4);
}

/* The first update is huge but finite, the next loss is not. */
static void loss_that_is_not_finite(void **state)
{
    (void)state;
    struct trial t = {.name = "diverged",
                      .recipe = file_recipe(),
                      .sets = {"updater.lr=1e30", "job.checkpoint_every=1"}};
    must_fail_on_record(&t, (struct fault_plan){0}, SW_ERR_DIVERGED,
                        "worker0.0: step 2: ", "the loss is ");
    assert_int_equal(t.last[SW_JOB_SUMMARY].step, 1);
    assert_true(exists(checkpoint_path("diverged", 1)));
    assert_false(exists(checkpoint_path("diverged", 2)));
}

static int emit_nan(void *user, struct sw_st_sink *sink, struct sw_err *err)
{
    float values[4] = {0, 1, NAN, 2};
    (void)user;
    return sw_st_emit(sink, values, sizeof values, err);
}

static void values_to_start_from_that_are_not_finite(void **state)
{
    (void)state;
    struct sw_err err;
    struct sw_st_writer *w = sw_st_writer_new();
    int64_t shape[] = {4};
    assert_int_equal(sw_st_writer_add(w, "fc2.bias", SW_ST_F32, 1, shape, emit_nan, NULL, &err),
                     SW_OK);
    assert_int_equal(sw_st_writer_write(w, in_home("nan.safetensors"), 0644, NULL, NULL, &err),
                     SW_OK);
    sw_st_writer_free(w);
    struct trial t = {
        .name = "nan", .recipe = file_recipe(), .init_from = in_home("nan.safetensors")};
    must_fail_on_record(&t, (struct fault_plan){0}, SW_ERR_INVALID, "worker0.0: ", "fc2.bias");
    assert_int_equal(count_files("nan", ""), 0);
}

/* ---- server ---- */

static void update_that_is_not_finite(void **state)
{
    (void)state;
    struct trial t = {.name = "burst", .recipe = file_recipe(), .sets = {"updater.lr=1e39"}};
    must_fail_on_record(&t, (struct fault_plan){0}, SW_ERR_DIVERGED, "server0.0: step 1: ", "fc2.");
    assert_int_equal(t.last[SW_JOB_SUMMARY].step, 0);
    assert_int_equal(count_files("burst", "checkpoint-"), 1);
}

/* The same with a server that is a thread. */
static void seat_server_apart(struct trial *t)
{
    assert_true(give_server_a_core(t->job));
}

static void seat_server_nowhere(struct trial *t)
{
    t->job->placement->rows[1].cores = (struct sw_core_set){0};
    sw_core_set_add(&t->job->placement->rows[1].cores, 1000);
}

static bool has_two_cores(void)
{
    struct sw_machine *m = NULL;
    struct sw_err err;
    assert_int_equal(sw_machine_here(&m, &err), SW_OK);
    int cores = m->core_count;
    sw_machine_free(m);
    if (cores < 2)
        print_message("skipped: this machine has one core\n");
    return cores >= 2;
}

static void server_thread_that_cannot_start(void **state)
{
    (void)state;
    if (!has_two_cores())
        skip();
    struct trial t = {.name = "no-server", .recipe = file_recipe(), .before = seat_server_apart};
    must_fail_on_record(&t, (struct fault_plan){.start = "server0.0"}, SW_ERR_NOMEM,
                        "job: ", "cannot start thread server0.0");
}

static void server_thread_that_cannot_be_bound(void **state)
{
    (void)state;
    struct trial t = {.name = "nowhere", .recipe = file_recipe(), .before = seat_server_nowhere};
    must_fail_on_record(&t, (struct fault_plan){0}, SW_ERR_INVALID, "server0.0: ", "core 1000");
}

static void server_thread_with_an_update_that_is_not_finite(void **state)
{
    (void)state;
    if (!has_two_cores())
        skip();
    struct trial t = {.name = "apart",
                      .recipe = file_recipe(),
                      .before = seat_server_apart,
                      .sets = {"updater.lr=1e39", "job.eval_every=1"}};
    must_fail_on_record(&t, (struct fault_plan){0}, SW_ERR_DIVERGED,
                        "server0.0: step 1: ", "not finite");
    assert_int_equal(t.told[SW_JOB_EVAL], 0);
}

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

static void checkpoint_failing_on_the_way_is_an_event(void **state)
{
    (void)state;
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
        assert_int_equal(t.job->workers[0].checkpoint_failures, 1);
        assert_int_equal(t.told[SW_JOB_EVENT], 1);
        assert_non_null(strstr(t.text, "worker0.0: checkpoint 1 could not be written and training "
                                       "goes on: checkpoint at step 4: "));
        assert_non_null(strstr(t.text, strerror(ENOSPC)));
        assert_nothing_left(&t, &b);
        assert_int_equal(exists(checkpoint_path(parts[i].name, 4)), parts[i].replaced);
        for (int step = 0; step <= 12; step += step ? 4 : 8)
            assert_same_tensors(checkpoint_path("smooth", step),
                                checkpoint_path(parts[i].name, step));
        assert_true(ask("SELECT count(*) = 1 FROM events WHERE run_id = %d AND level = 'error' AND"
                        " source = 'worker0.0' AND text LIKE '%%goes on%%'",
                        run_id(parts[i].name)));
        assert_string_equal(ask_text("SELECT group_concat(step) FROM checkpoints WHERE run_id = %d",
                                     run_id(parts[i].name)),
                            "0,8,12");
    }
}

/* How often the worker asks for memory does not depend on the run: half of it is in mid-run. */
static void checkpoint_without_memory_on_the_way_is_an_event(void **state)
{
    (void)state;
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
        assert_int_equal(t.job->workers[0].checkpoint_failures, round);
        assert_int_equal(t.told[SW_JOB_EVENT], round);
        assert_nothing_left(&t, &b);
    }
}

static void last_checkpoint_failing_is_an_error(void **state)
{
    (void)state;
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
    (void)state;
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
    (void)state;
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
    (void)state;
    struct trial t = {
        .name = "nowhere-at-all", .recipe = file_recipe(), .out_dir = in_home("train.bin/out")};
    must_fail(&t, (struct fault_plan){0}, SW_ERR_IO, "", "train.bin");
    struct trial w = {.name = "no-writer", .recipe = file_recipe()};
    must_fail(&w, (struct fault_plan){.start = "history"}, SW_ERR_NOMEM, "",
              "cannot start thread history");
}

static void history_without_a_database_is_spooled(void **state)
{
    (void)state;
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

/* Somebody else holds the database for three seconds of training, up to the end of the last step.
 */
static void lock_while_it_trains(struct trial *t, const struct sw_job_event *e)
{
    if (e->type == SW_JOB_START) {
        assert_int_equal(sqlite3_open(in_home("history.db"), &locker), SQLITE_OK);
        sqlite3_busy_timeout(locker, 5000);
        assert_int_equal(sqlite3_exec(locker, "PRAGMA wal_autocheckpoint = 0; BEGIN IMMEDIATE",
                                      NULL, NULL, NULL),
                         SQLITE_OK);
        locked_s = trial_clock();
    } else if (e->type == SW_JOB_DISPLAY && trial_clock() - locked_s > 3) {
        sw_job_request(t->job, SW_JOB_STOP);
    } else if (e->type == SW_JOB_SUMMARY) {
        assert_int_equal(count_files(t->name, "metrics.jsonl"), 1);
        assert_int_equal(sqlite3_exec(locker, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
        sqlite3_close(locker);
    }
}

static void locked_database_does_not_stop_training(void **state)
{
    (void)state;
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
    (void)t;
    if (e->type != SW_JOB_START && e->type != SW_JOB_SUMMARY)
        return;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = e->type == SW_JOB_START ? (rlim_t)size_of(in_home("history.db-wal")) + 400000
                                             : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void full_disk_does_not_stop_training(void **state)
{
    (void)state;
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

/* ---- a role that does not end ---- */

static void abort_at_start(struct trial *t, const struct sw_job_event *e)
{
    if (e->type == SW_JOB_START)
        sw_job_request(t->job, SW_JOB_ABORT);
}

static int run_stuck(void)
{
    struct trial t = {.name = "stuck", .recipe = file_recipe(), .on_event = abort_at_start};
    if (trial_open(&t) != SW_OK)
        return 2;
    fault_arm((struct fault_plan){.hangs = "prefetch train"});
    trial_run(&t);
    if (t.rc != SW_ERR_LIBRARY || !t.stuck)
        return 3;
    if (!strstr(t.err.text, "prefetch of training data did not end within 5 s: job: aborted"))
        return 4;
    return t.took_s > 4 && t.took_s < 5 + SECONDS ? 0 : 5;
}

/* Its memory is in use for ever, so the process leaves without looking back; the system call
 * itself, since the thread sanitizer counts threads in _exit. */
static void role_that_hangs_is_named_and_left_behind(void **state)
{
    (void)state;
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        syscall(SYS_exit_group, run_stuck());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_string_equal(ask_text("SELECT status FROM runs WHERE name = 'stuck'"), "failed");
    assert_true(ask("SELECT count(*) = 1 FROM events WHERE run_id = %d AND text LIKE"
                    " '%%did not end within 5 s%%'",
                    run_id("stuck")));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, with_files, fault_disarm)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(prefetch_that_cannot_start),
        CASE(file_cut_short_before_step_1),
        CASE(file_cut_short_under_the_run),
        CASE(read_error_in_a_step),
        CASE(file_cut_short_in_evaluation),
        CASE(label_out_of_range_is_found_at_opening),
        CASE(worker_that_cannot_start),
        CASE(worker_that_cannot_be_bound),
        CASE(worker_without_memory_at_set_up),
        CASE(first_checkpoint_on_a_full_disk),
        CASE(label_beyond_the_scores_in_step_1),
        CASE(label_beyond_the_scores_in_evaluation),
        CASE(loss_that_is_not_finite),
        CASE(values_to_start_from_that_are_not_finite),
        CASE(update_that_is_not_finite),
        CASE(server_thread_that_cannot_start),
        CASE(server_thread_that_cannot_be_bound),
        CASE(server_thread_with_an_update_that_is_not_finite),
        CASE(checkpoint_failing_on_the_way_is_an_event),
        CASE(checkpoint_without_memory_on_the_way_is_an_event),
        CASE(last_checkpoint_failing_is_an_error),
        CASE(last_checkpoint_failing_keeps_the_file_before_it),
        CASE(checkpoint_failing_on_a_stop_is_an_error),
        CASE(history_that_cannot_be_anywhere),
        CASE(history_without_a_database_is_spooled),
        CASE(locked_database_does_not_stop_training),
        CASE(full_disk_does_not_stop_training),
        CASE(role_that_hangs_is_named_and_left_behind),
    };
    return cmocka_run_group_tests_name("roles", tests, fault_begin, home_end);
}
