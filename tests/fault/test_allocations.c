/* Memory that runs out: the n-th allocation of a small job fails, once or with all that follow,
 * from its opening to its closing. It ends with an error that says so, or gets by without; it
 * neither crashes nor hangs, and gives back what it took. Only what goes through the operating
 * system's table fails: oneDNN, OpenBLAS and libgomp allocate on their own. */
/* ctest-labels: threads */
#include "fault_support.h"
#include "train/predict.h"

enum work {
    TRAIN,    /* opens, trains 4 steps with evaluations and checkpoints, closes */
    RESUME,   /* finds the reference run, goes on from its checkpoint 2 to 4 */
    EVALUATE, /* one pass with the reference's weights */
    PREDICT,  /* a layer's rows */
    PARTS,    /* trains with virtual workers */
    STAGED,   /* trains in two stages, the second of which takes from the first */
};

static const char staged_recipe[] =
    "[job]\nbatch = 16\neval_batch = 20\n" DATA_SECTIONS UPDATER_SECTIONS NET_SECTIONS
    "[layer more]\ntype = inner_product\nsrc = relu2\noutputs = 4\nstages = a\n"
    "[layer aside]\ntype = softmax_loss\nsrc = more, label\nstages = a\n"
    "[stage a]\nsteps = 2\n"
    "[stage b]\nsteps = 2\nfreeze = conv1\ninit_from = previous, more.weight -> fc2.weight\n";

static int take_info(void *user, const struct sw_predict_info *info, struct sw_err *err)
{
    (void)user, (void)info, (void)err;
    return SW_OK;
}

static int take_rows(void *user, int64_t count, const float *values, struct sw_err *err)
{
    (void)user, (void)count, (void)values, (void)err;
    return SW_OK;
}

static void predict(struct trial *t)
{
    const struct sw_predict_args args = {.weights = in_home("reference.safetensors"),
                                         .layer = "fc2"};
    const struct sw_predict_sink sink = {take_info, take_rows, NULL};
    struct sw_predict_info info;
    t->rc = sw_job_predict(t->job, &args, &sink, &info, &t->err);
}

static void do_work(enum work work, struct trial *t)
{
    struct sw_job_event e;
    t->predict = work == PREDICT;
    if (work == RESUME) {
        t->resume = "reference";
        t->resume_step = 2;
    }
    if (trial_open(t) != SW_OK)
        return;
    if (work == EVALUATE)
        t->rc = sw_job_evaluate(t->job, checkpoint_path("reference", 4), NULL, &e, &t->err);
    else if (work == PREDICT)
        predict(t);
    else
        trial_run(t);
}

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
    train(.name = "reference", .steps = 4, .sets = {"job.checkpoint_every=2"});
    unlink(in_home("reference.safetensors"));
    assert_int_equal(link(checkpoint_path("reference", 4), in_home("reference.safetensors")), 0);
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
    (void)state;
    fail_each(TRAIN, 1, 8);
}

static void all_allocations_fail_from_there_on(void **state)
{
    (void)state;
    fail_each(TRAIN, 0, 6);
}

static void one_allocation_fails_in_resume(void **state)
{
    (void)state;
    fail_each(RESUME, 1, 6);
}

static void one_allocation_fails_in_evaluation(void **state)
{
    (void)state;
    fail_each(EVALUATE, 1, 6);
}

static void one_allocation_fails_in_prediction(void **state)
{
    (void)state;
    fail_each(PREDICT, 1, 6);
}

static void one_allocation_fails_with_virtual_workers(void **state)
{
    (void)state;
    fail_each(PARTS, 1, 6);
}

static void one_allocation_fails_in_a_run_with_stages(void **state)
{
    (void)state;
    fail_each(STAGED, 1, 6);
}

/* Large blocks come as pages. The tiny net's arena is too small for that, so a larger one. */
static void pages_fail(void **state)
{
    (void)state;
    static const char *const sets[] = {"job.batch=512", "layer.conv1.outputs=16"};
    for (int at = 1; at < 20; at++) {
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
        assert_int_equal(t.rc, SW_ERR_NOMEM);
        assert_non_null(strstr(t.err.text, "bytes)"));
    }
    fail_msg("a job with more than 20 large blocks");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(one_allocation_fails, fault_disarm),
        cmocka_unit_test_teardown(all_allocations_fail_from_there_on, fault_disarm),
        cmocka_unit_test_teardown(one_allocation_fails_in_resume, fault_disarm),
        cmocka_unit_test_teardown(one_allocation_fails_in_evaluation, fault_disarm),
        cmocka_unit_test_teardown(one_allocation_fails_in_prediction, fault_disarm),
        cmocka_unit_test_teardown(one_allocation_fails_with_virtual_workers, fault_disarm),
        cmocka_unit_test_teardown(one_allocation_fails_in_a_run_with_stages, fault_disarm),
        cmocka_unit_test_teardown(pages_fail, fault_disarm),
    };
    return cmocka_run_group_tests_name("allocations", tests, fault_begin, home_end);
}
