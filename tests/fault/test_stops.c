/* A stop request that arrives at the n-th call of the operating system (an allocation, a read, a
 * write) of a small job, from opening to closing. The work ends as stopped and frees its memory,
 * and either there is a checkpoint from which resume is bit-identical, or a message says that there
 * is none. SW_STOPS sets the number of moments that are tried for each kind of work. */
/* ctest-labels: threads */
#include "work_support.h"

enum { MOMENTS = 12 };

static int moments(void)
{
    const char *text = getenv("SW_STOPS");
    return text && atoi(text) > 0 ? atoi(text) : MOMENTS;
}

static int forget(void **state)
{
    sw_stop_reset();
    return fault_disarm(state);
}

static int64_t newest_checkpoint(const char *name)
{
    int64_t newest = -1;
    for (int64_t step = 0; step <= 4; step++)
        if (exists(checkpoint_path(name, step)))
            newest = step;
    return newest;
}

static void remove_run(const char *name)
{
    for (int64_t step = 0; step <= 4; step++)
        unlink(checkpoint_path(name, step));
}

/* From what a stopped run has left to the end: the bits are those of one that was not stopped. */
static void go_on(const char *name, const char *recipe, const char *reference)
{
    const int64_t step = newest_checkpoint(name);
    assert_in_range(step, 0, 4);
    train(.recipe = recipe, .resume = name, .resume_step = step);
    assert_same_tensors(reference, checkpoint_path(name, 4));
}

static struct trial small(enum work work)
{
    return (struct trial){.name = "small",
                          .steps = work == STAGED ? 0 : 4,
                          .recipe = work == STAGED ? staged_recipe : NULL,
                          .sets = {"job.eval_every=2", "job.checkpoint_every=2",
                                   work == PARTS ? "job.repeat_exact=yes" : NULL},
                          .display = {.every_steps = 1}};
}

/* Calls of the work's threads count; the history's writer goes by the clock. */
static int run_work(enum work work, int at, int stops, bool *resumable)
{
    struct trial t = small(work);
    int threads = count_threads();
    long live = atomic_load(&fault_live);
    sw_stop_reset();
    fault_arm((struct fault_plan){
        .kinds = FAIL_ALLOC | FAIL_READ | FAIL_OPEN | FAIL_WRITE, .at = at, .stops = stops});
    do_work(work, &t);
    fault_disarm(NULL);
    *resumable = t.job && sw_job_resumable(t.job);
    assert_false(t.stuck);
    if (stops == 1 && t.rc != SW_OK && t.rc != SW_ERR_CANCELLED)
        fail_msg("call %d: %d, %s", at, t.rc, t.err.text);
    if (t.rc == SW_ERR_CANCELLED)
        assert_non_null(strstr(t.err.text, "stopped by request"));
    trial_close(&t);
    assert_false(sw_stop_is_held());
    sw_stop_reset();
    assert_true(threads_become(threads));
    if (atomic_load(&fault_live) != live)
        fail_msg("call %d: %ld blocks are left (%s)", at, atomic_load(&fault_live) - live,
                 t.err.text);
    assert_int_equal(count_files("small", ".tmp-"), 0);
    return t.rc;
}

/* What is left of a run that was stopped. */
static void check_rest(enum work work, bool resumable, const char *reference)
{
    if (work == EVALUATE || work == PREDICT)
        return;
    const char *name = work == RESUME ? "reference" : "small";
    if (work != RESUME && !resumable)
        assert_int_equal(newest_checkpoint(name), -1);
    else
        go_on(name, work == STAGED ? staged_recipe : NULL, reference);
}

/* A reference that was not stopped, and how many calls that takes. */
static int whole(enum work work, const char *reference)
{
    bool resumable;
    remove_run("small");
    assert_int_equal(run_work(work, 1 << 30, 1, &resumable), SW_OK);
    const int calls = atomic_load(&fault_calls);
    if (work == EVALUATE || work == PREDICT)
        return calls;
    unlink(reference);
    assert_int_equal(link(checkpoint_path(work == RESUME ? "reference" : "small", 4), reference),
                     0);
    return calls;
}

static void stop_each(enum work work, int stops)
{
    char reference[512];
    int tried = 0, stopped = 0;
    bool resumable;
    train_reference();
    snprintf(reference, sizeof reference, "%s", in_home("whole.safetensors"));
    const int calls = whole(work, reference);
    for (int i = 0; i < moments(); i++, tried++) {
        const int at = 1 + (int)((int64_t)calls * i / moments());
        remove_run("small");
        if (work == RESUME)
            unlink(checkpoint_path("reference", 4));
        int rc = run_work(work, at, stops, &resumable);
        stopped += rc != SW_OK;
        /* Only what is nearly over may end as if nobody had asked. */
        if (rc == SW_OK && i < moments() / 2)
            fail_msg("call %d of %d: the request was lost", at, calls);
        if (rc == SW_ERR_CANCELLED)
            check_rest(work, resumable, reference);
    }
    print_message("%d of %d moments (of %d calls) ended the work\n", stopped, tried, calls);
}

static void training_stops(void **state)
{
    stop_each(TRAIN, 1);
}

static void two_requests_abort_a_training(void **state)
{
    stop_each(TRAIN, 2);
}

static void a_training_with_virtual_workers_stops(void **state)
{
    stop_each(PARTS, 1);
}

static void a_training_in_stages_stops(void **state)
{
    stop_each(STAGED, 1);
}

static void a_resumed_training_stops(void **state)
{
    stop_each(RESUME, 1);
}

static void an_evaluation_stops(void **state)
{
    stop_each(EVALUATE, 1);
}

static void a_prediction_stops(void **state)
{
    stop_each(PREDICT, 1);
}

/* Between two stages no job is in motion, and none is open: the request is for the next one. */
static void a_request_between_two_stages_is_not_lost(void **state)
{
    struct trial t = small(STAGED);
    sw_stop_reset();
    remove_run("small");
    assert_int_equal(trial_open(&t), SW_OK);
    assert_int_equal(sw_job_run(t.job, trial_observe, &t, &t.stuck, &t.err), SW_OK);
    assert_true(sw_job_has_next(t.job));
    sw_stop_request(0);
    assert_int_equal(sw_job_next(&t.job, &t.messages, &t.err), SW_ERR_CANCELLED);
    assert_true(sw_job_resumable(t.job));
    trial_close(&t);
    assert_int_equal(newest_checkpoint("small"), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(training_stops, forget),
        cmocka_unit_test_teardown(two_requests_abort_a_training, forget),
        cmocka_unit_test_teardown(a_training_with_virtual_workers_stops, forget),
        cmocka_unit_test_teardown(a_training_in_stages_stops, forget),
        cmocka_unit_test_teardown(a_resumed_training_stops, forget),
        cmocka_unit_test_teardown(an_evaluation_stops, forget),
        cmocka_unit_test_teardown(a_prediction_stops, forget),
        cmocka_unit_test_teardown(a_request_between_two_stages_is_not_lost, forget),
    };
    return cmocka_run_group_tests_name("stops", tests, fault_begin, home_end);
}
