/* Out of memory: the n-th allocation of a small job fails, alone or with all later ones, from
 * opening to closing. The job ends with an error that says so, or succeeds without the memory; it
 * neither crashes nor hangs, and frees everything. Only allocations through the operating system's
 * table fail: oneDNN, OpenBLAS and libgomp allocate on their own. */
/* ctest-labels: threads */
#include "work_support.h"

static const char *how(const struct fault_plan *plan)
{
    return plan->times ? "once" : "and all behind it";
}

static int run_work(enum work work, struct fault_plan plan)
{
    struct trial t = {.name = "small",
                      .steps = 4,
                      .recipe = work == STAGED ? staged_recipe : NULL,
                      .sets = {"job.eval_every=2", "job.checkpoint_every=2",
                               work == PARTS ? "job.repeat_exact=yes" : NULL},
                      .display = {.every_steps = 1}};
    int threads = count_threads();
    long live = atomic_load(&fault_live);
    size_t device_bytes = sw_cpu_bytes_in_use();
    fault_arm(plan);
    do_work(work, &t);
    fault_disarm(NULL);
    if (t.rc != SW_OK && (t.err.code != t.rc || t.rc != SW_ERR_NOMEM))
        fail_msg("allocation %d, %s: %d, %s", plan.at, how(&plan), t.rc, t.err.text);
    assert_false(t.stuck);
    assert_true(t.took_s < SECONDS);
    trial_close(&t);
    assert_true(threads_become(threads));
    if (atomic_load(&fault_live) != live || sw_cpu_bytes_in_use() != device_bytes)
        fail_msg("allocation %d, %s: %ld blocks and %zu bytes of the device are left (%s)", plan.at,
                 how(&plan), atomic_load(&fault_live) - live, sw_cpu_bytes_in_use() - device_bytes,
                 t.err.text);
    assert_int_equal(count_files("small", ".tmp-"), 0);
    if (t.rc == SW_OK && (work == TRAIN || work == RESUME))
        assert_same_tensors(in_home("reference.safetensors"),
                            checkpoint_path(work == RESUME ? "reference" : "small", 4));
    return t.rc;
}

/* Each allocation, or as many at equal distances as take about `seconds`. */
static void fail_each(enum work work, int times, double seconds)
{
    int stride = 1, tried = 0, refused = 0;
    train_reference();
    assert_int_equal(run_work(work, (struct fault_plan){.kinds = FAIL_ALLOC, .at = 1 << 30}),
                     SW_OK);
    int calls = atomic_load(&fault_calls);
    double began = trial_clock();
    for (int at = 1; at <= calls; at += stride) {
        double used = trial_clock() - began, left = seconds - used;
        if (tried > 10 && left > 0)
            stride = (int)((calls - at) / (left / (used / tried) + 1)) + 1;
        if (left <= 0)
            stride = calls;
        int rc = run_work(
            work,
            (struct fault_plan){.kinds = FAIL_ALLOC, .at = at, .times = times, .error = ENOMEM});
        tried++;
        refused += rc != SW_OK;
    }
    print_message("%d of %d allocations tried, %d of them were missed\n", tried, calls, refused);
    assert_true(refused > tried / 4);
}

static void one_allocation_fails(void **state)
{
    fail_each(TRAIN, 1, 8);
}

static void all_later_allocations_fail(void **state)
{
    fail_each(TRAIN, 0, 6);
}

static void one_allocation_fails_in_resume(void **state)
{
    fail_each(RESUME, 1, 6);
}

static void one_allocation_fails_in_evaluation(void **state)
{
    fail_each(EVALUATE, 1, 6);
}

static void one_allocation_fails_in_prediction(void **state)
{
    fail_each(PREDICT, 1, 6);
}

static void one_allocation_fails_with_virtual_workers(void **state)
{
    fail_each(PARTS, 1, 6);
}

static void one_allocation_fails_in_a_run_with_stages(void **state)
{
    fail_each(STAGED, 1, 6);
}

/* Large blocks come as pages. The tiny net's arena is too small for that, so a larger one. Only the
 * block that is shared with those who watch is not needed: without it the run goes on. */
static void pages_fail(void **state)
{
    int unwatched = 0;
    static const char *const sets[] = {"job.batch=512", "layer.conv1.outputs=16"};
    for (int at = 1; at < 100; at++) {
        struct trial t = {.name = "large", .steps = 1, .sets = {sets[0], sets[1]}};
        long live = atomic_load(&fault_live);
        size_t device_bytes = sw_cpu_bytes_in_use();
        fault_arm((struct fault_plan){.kinds = FAIL_PAGES, .at = at, .times = 1, .error = ENOMEM});
        if (trial_open(&t) == SW_OK)
            trial_run(&t);
        fault_disarm(NULL);
        int hits = atomic_load(&fault_hits);
        trial_close(&t);
        assert_int_equal(atomic_load(&fault_live), live);
        assert_int_equal(sw_cpu_bytes_in_use(), device_bytes);
        if (hits == 0) {
            assert_true(at > 1);
            assert_int_equal(t.rc, SW_OK);
            return;
        }
        if (t.rc == SW_OK) {
            assert_int_equal(++unwatched, 1);
            continue;
        }
        assert_int_equal(t.rc, SW_ERR_NOMEM);
        assert_non_null(strstr(t.err.text, "bytes)"));
    }
    fail_msg("a job with more than 100 large blocks");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(one_allocation_fails, fault_disarm),
        cmocka_unit_test_teardown(all_later_allocations_fail, fault_disarm),
        cmocka_unit_test_teardown(one_allocation_fails_in_resume, fault_disarm),
        cmocka_unit_test_teardown(one_allocation_fails_in_evaluation, fault_disarm),
        cmocka_unit_test_teardown(one_allocation_fails_in_prediction, fault_disarm),
        cmocka_unit_test_teardown(one_allocation_fails_with_virtual_workers, fault_disarm),
        cmocka_unit_test_teardown(one_allocation_fails_in_a_run_with_stages, fault_disarm),
        cmocka_unit_test_teardown(pages_fail, fault_disarm),
    };
    return cmocka_run_group_tests_name("allocations", tests, fault_begin, home_end);
}
