/* Each thread role failing at set-up, in a step and in evaluation: the run ends within seconds,
 * names the role and the cause, and leaves nothing running behind. */
/* ctest-labels: threads */
#include "fault_support.h"
#include <sys/syscall.h>
#include <sys/wait.h>

static void truncate_train(struct trial *t)
{
    assert_int_equal(truncate(in_home("train.bin"), 3 * CIFAR_RECORD), 0);
}

static void truncate_test(struct trial *t)
{
    assert_int_equal(truncate(in_home("test.bin"), 30 * CIFAR_RECORD), 0);
}

static void truncate_train_at_step_3(struct trial *t, const struct sw_job_event *e)
{
    if (e->type == SW_JOB_DISPLAY && e->step == 3)
        truncate_train(t);
}

/* ---- prefetch ---- */

static void prefetch_that_cannot_start(void **state)
{
    struct trial t = {.name = "start", .recipe = file_recipe()};
    must_fail_on_record(&t, (struct fault_plan){.start = "prefetch train"}, SW_ERR_NOMEM,
                        "job: ", "cannot start thread prefetch train");
    struct trial e = {.name = "start-eval", .recipe = file_recipe()};
    must_fail_on_record(&e, (struct fault_plan){.start = "prefetch test"}, SW_ERR_NOMEM,
                        "job: ", "cannot start thread prefetch test");
}

static void file_truncated_before_step_1_ends_the_run(void **state)
{
    struct trial t = {.name = "cut", .recipe = file_recipe(), .before = truncate_train};
    must_fail_on_record(&t, (struct fault_plan){0}, SW_ERR_FORMAT,
                        "prefetch train: data train: record ", "train.bin");
    assert_int_equal(t.last[SW_JOB_SUMMARY].step, 0);
    assert_int_equal(t.last[SW_JOB_SUMMARY].status, SW_RUN_FAILED);
}

static void file_truncated_during_the_run_ends_the_run(void **state)
{
    struct trial t = {.name = "cut-later",
                      .recipe = file_recipe(),
                      .steps = 1000000,
                      .sets = {"job.checkpoint_every=0", "job.eval_every=0"},
                      .display = {.every_steps = 1},
                      .on_event = truncate_train_at_step_3};
    must_fail_on_record(&t, (struct fault_plan){0}, SW_ERR_FORMAT,
                        "prefetch train: data train: record ", "train.bin");
    assert_true(t.last[SW_JOB_SUMMARY].step >= 3);
    assert_true(exists(checkpoint_path("cut-later", 0)));
}

static void read_error_in_a_step(void **state)
{
    struct trial t = {.name = "eio", .recipe = file_recipe()};
    must_fail_on_record(
        &t, (struct fault_plan){.kinds = FAIL_READ, .thread = "prefetch train", .at = 70},
        SW_ERR_IO, "prefetch train: data train: record ", strerror(EIO));
    assert_true(t.last[SW_JOB_SUMMARY].step < 12);
}

/* 15 of 40 records are read ahead; the file ends behind the 30th: step 4 is done, its evaluation
 * is not. */
static void file_truncated_in_evaluation_ends_the_run(void **state)
{
    struct trial t = {.name = "cut-eval",
                      .recipe = file_recipe(),
                      .before = truncate_test,
                      .display = {.every_steps = 1}};
    must_fail_on_record(&t, (struct fault_plan){0}, SW_ERR_FORMAT,
                        "prefetch test: data test: record 30: ", "test.bin");
    assert_int_equal(t.last[SW_JOB_SUMMARY].step, 4);
    assert_int_equal(t.told[SW_JOB_EVAL], 0);
    assert_false(exists(checkpoint_path("cut-eval", 4)));
}

static void label_out_of_range_is_found_at_opening(void **state)
{
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
    struct trial t = {.name = "no-worker", .recipe = file_recipe()};
    must_fail_on_record(&t, (struct fault_plan){.start = "worker0.0"}, SW_ERR_NOMEM,
                        "job: ", "cannot start thread worker0.0");
    assert_int_equal(count_files("no-worker", ""), 0);
}

static void seat_both_nowhere(struct trial *t)
{
    for (int i = 0; i < 2; i++) {
        t->job->place.placement->rows[i].cores = (struct sw_core_set){0};
        sw_core_set_add(&t->job->place.placement->rows[i].cores, 1000);
    }
}

static void worker_that_cannot_be_bound(void **state)
{
    struct trial t = {.name = "unbound", .recipe = file_recipe(), .before = seat_both_nowhere};
    must_fail_on_record(&t, (struct fault_plan){0}, SW_ERR_INVALID, "worker0.0: ", "core 1000");
}

static void worker_without_memory_at_set_up(void **state)
{
    struct trial t = {.name = "poor", .recipe = file_recipe()};
    must_fail_on_record(&t,
                        (struct fault_plan){.kinds = FAIL_ALLOC, .thread = "worker0.0", .at = 1},
                        SW_ERR_NOMEM, "worker0.0: ", "out of memory");
    assert_int_equal(count_files("poor", ""), 0);
}

static void first_checkpoint_on_a_full_disk(void **state)
{
    struct trial t = {.name = "full", .recipe = file_recipe()};
    must_fail_on_record(
        &t,
        (struct fault_plan){.kinds = FAIL_WRITE, .thread = "worker0.0", .at = 1, .error = ENOSPC},
        SW_ERR_IO, "worker0.0: checkpoint at step 0: ", strerror(ENOSPC));
    assert_int_equal(count_files("full", ""), 0);
}

static void label_beyond_the_scores_in_step_1(void **state)
{
    struct trial t = {.name = "scores", .recipe = array_recipe(), .sets = {"layer.fc2.outputs=2"}};
    must_fail_on_record(&t, (struct fault_plan){0}, SW_ERR_INVALID, "prefetch t", "class 2");
    assert_int_equal(t.last[SW_JOB_SUMMARY].step, 0);
}

static void label_beyond_the_scores_in_evaluation(void **state)
{
    write_arrays("test", 40, 20, 9);
    struct trial t = {.name = "scores-eval", .recipe = array_recipe()};
    must_fail_on_record(&t, (struct fault_plan){0}, SW_ERR_INVALID, "prefetch test: ", "class 9");
    assert_int_equal(t.last[SW_JOB_SUMMARY].step, 4);
}

/* The first update is huge but finite, the next loss is not. */
static void loss_that_is_not_finite(void **state)
{
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
    float values[10] = {0, 1, NAN, 2};
    return sw_st_emit(sink, values, sizeof values, err);
}

static void values_to_start_from_that_are_not_finite(void **state)
{
    struct sw_err err;
    struct sw_st_writer *w = sw_st_writer_new();
    int64_t shape[] = {10};
    assert_int_equal(sw_st_writer_add(w, "fc2.bias", (struct sw_st_shape){SW_ST_F32, 1, shape},
                                      emit_nan, NULL, &err),
                     SW_OK);
    assert_int_equal(sw_st_writer_write(w, in_home("nan.safetensors"), 0644, NULL, NULL, &err),
                     SW_OK);
    sw_st_writer_free(w);
    struct trial t = {
        .name = "nan", .recipe = file_recipe(), .init_from = in_home("nan.safetensors")};
    must_fail_on_record(&t, (struct fault_plan){0}, SW_ERR_FORMAT, "worker0.0: ", "fc2.bias");
    assert_int_equal(count_files("nan", ""), 0);
}

/* ---- server ---- */

static void update_that_is_not_finite(void **state)
{
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
    t->job->place.placement->rows[1].cores = (struct sw_core_set){0};
    sw_core_set_add(&t->job->place.placement->rows[1].cores, 1000);
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
    if (!has_two_cores())
        skip();
    struct trial t = {.name = "no-server", .recipe = file_recipe(), .before = seat_server_apart};
    must_fail_on_record(&t, (struct fault_plan){.start = "server0.0"}, SW_ERR_NOMEM,
                        "job: ", "cannot start thread server0.0");
}

static void server_thread_that_cannot_be_bound(void **state)
{
    struct trial t = {.name = "nowhere", .recipe = file_recipe(), .before = seat_server_nowhere};
    must_fail_on_record(&t, (struct fault_plan){0}, SW_ERR_INVALID, "server0.0: ", "core 1000");
}

static void server_thread_with_an_update_that_is_not_finite(void **state)
{
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

/* ---- a role that does not end ---- */

static struct sw_thread aborter;

/* A reader that has not begun to read would end without reading. */
static void abort_when_it_hangs(void *job)
{
    while (!atomic_load(&fault_hangs))
        sleep_ms(1);
    sw_job_request(job, SW_JOB_ABORT);
}

static void start_aborter(struct trial *t, const struct sw_job_event *e)
{
    struct sw_err err;
    if (e->type == SW_JOB_START)
        assert_int_equal(sw_thread_start(&aborter, "aborter", abort_when_it_hangs, t->job, &err),
                         SW_OK);
}

static int run_stuck(void)
{
    struct trial t = {.name = "stuck", .recipe = file_recipe(), .on_event = start_aborter};
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
static void role_that_hangs_is_named_and_abandoned(void **state)
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        syscall(SYS_exit_group, run_stuck());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_string_equal(ask_text("SELECT status FROM runs WHERE name = 'stuck'"), "failed");
    assert_int_equal(count_files("singa-ws", ""), 0);
    assert_true(ask("SELECT count(*) = 1 FROM events WHERE run_id = %d AND text LIKE"
                    " '%%did not end within 5 s%%'",
                    run_id("stuck")));
}

/* An all-reduce library whose abort does not return: without a limit the run would not end. */
static bool never_ends(struct sw_collective *c, int timeout_ms)
{
    sleep_ms(timeout_ms > 0 ? (unsigned)timeout_ms : 0);
    return false;
}

static struct sw_collective_ops sound, planted;

static int open_planted(const struct sw_collective_args *args, struct sw_collective **out,
                        struct sw_err *err)
{
    int rc = sound.open(args, out, err);
    if (rc == SW_OK)
        (*out)->ops = &planted;
    return rc;
}

static void plant_abort(struct trial *t)
{
    struct sw_sums *sums = &t->job->exchange.sums;

    sound = planted = *sums->library;
    planted.open = open_planted;
    planted.abort_ends = never_ends;
    sums->library = &planted;
}

static int run_without_end(void)
{
    struct trial t = {.name = "endless",
                      .recipe = file_recipe(),
                      .device = "sim:gpus=2,mem=64MiB,fault=lost@600",
                      .oversubscribe = true,
                      .steps = 1000,
                      .before = plant_abort,
                      .sets = {"cluster.copy=none", "cluster.all_reduce=library"}};
    if (trial_open(&t) != SW_OK)
        return 5;
    trial_run(&t);
    if (t.rc != SW_ERR_LIBRARY || !t.stuck)
        return 2;
    if (!strstr(t.err.text, "the abort of the all-reduce library did not end within 5 s: "))
        return 3;
    return strstr(t.err.text, "the device is lost") ? 0 : 4;
}

static void abort_that_hangs_is_named_and_abandoned(void **state)
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        syscall(SYS_exit_group, run_without_end());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_string_equal(ask_text("SELECT status FROM runs WHERE name = 'endless'"), "failed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(prefetch_that_cannot_start),
        CASE(file_truncated_before_step_1_ends_the_run),
        CASE(file_truncated_during_the_run_ends_the_run),
        CASE(read_error_in_a_step),
        CASE(file_truncated_in_evaluation_ends_the_run),
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
        CASE(role_that_hangs_is_named_and_abandoned),
        CASE(abort_that_hangs_is_named_and_abandoned),
    };
    return cmocka_run_group_tests_name("roles", tests, fault_begin, home_end);
}
