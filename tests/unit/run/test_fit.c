/* ctest-labels: threads
 * Training within a memory budget: it has the bits of a run without a budget, on the CPU and on
 * devices, with one worker and in groups; the peak is that of the plan; refusals name a sufficient
 * budget. */
#include "run/memory.h"
#include "workers_support.h"

#include <sys/wait.h>

enum { STEPS = 8 };

/* Runs it as `name` within a budget; whether anything was repeated or swapped. */
static struct sw_job_fit run_within(struct trial like, const char *name, long long budget)
{
    char set[64];
    int n = 0;
    snprintf(set, sizeof set, "job.memory=fit:%lld", budget);
    while (like.sets[n])
        n++;
    like.sets[n] = set;
    like.name = name;
    if (trial_open(&like) != SW_OK)
        fail_msg("%s", like.err.text);
    struct sw_job_fit fit = sw_job_plan(like.job)->fit;
    assert_int_equal(fit.budget_bytes, budget);
    assert_true(like.device || (long long)sw_job_plan(like.job)->bytes.peak <= budget);
    if (trial_run(&like) != SW_OK)
        fail_msg("%s", like.err.text);
    for (int i = 0; like.device && i < like.job->place.placement->worker_count; i++) {
        const struct sw_worker *w = &like.job->workers[i];
        size_t peak = sw_device_bytes_of(w->device).peak;
        assert_int_equal(peak, sw_worker_device_bytes(w));
        assert_true((long long)peak <= budget);
    }
    trial_close(&like);
    return fit;
}

/* At the least budget, and in the middle between it and none. */
static void compare_budgets(const char *device, int workers, const char *more)
{
    struct trial like = {.recipe = budget_recipe,
                         .device = device,
                         .steps = STEPS,
                         .oversubscribe = true,
                         .sets = {workers_set[workers], more}};
    like.name = "kept";
    if (trial_open(&like) != SW_OK)
        fail_msg("%s", like.err.text);
    const struct sw_worker *w = &like.job->workers[0];
    long long all = device ? (long long)sw_worker_device_bytes(w)
                           : (long long)sw_job_plan(like.job)->bytes.peak;
    assert_int_equal(sw_job_plan(like.job)->fit.budget_bytes, 0);
    if (trial_run(&like) != SW_OK)
        fail_msg("%s", like.err.text);
    trial_close(&like);
    long long least = least_budget(like);
    assert_true(least < all);
    struct sw_job_fit fit = run_within(like, "least", least);
    assert_true(fit.recomputed + fit.offloaded > 0);
    assert_true(fit.saved_bytes > 0);
    if (!device)
        assert_int_equal(fit.offloaded, 0);
    run_within(like, "middle", (least + all) / 2);
    assert_same_tensors(checkpoint_path("kept", STEPS), checkpoint_path("least", STEPS));
    assert_same_tensors(checkpoint_path("kept", STEPS), checkpoint_path("middle", STEPS));
    home_end(NULL);
    home_begin(NULL);
}

static void a_run_on_the_cpu_keeps_its_bits_within_a_budget(void **state)
{
    for (int workers = 1; workers <= 3; workers++)
        compare_budgets(NULL, workers, NULL);
    compare_budgets(NULL, 2, "layer.fc1.partition=1");
    compare_budgets(NULL, 2, "job.repeat_exact=yes");
}

static void a_run_on_devices_keeps_its_bits_within_a_budget(void **state)
{
    compare_budgets("sim:gpus=1", 1, NULL);
    compare_budgets("sim:gpus=2,pcie=2GB/s,latency=20us", 2, NULL);
    compare_budgets("sim:gpus=1,pcie=100MB/s", 1, "cluster.copy=none");
    compare_budgets("sim:gpus=2", 2, "layer.fc1.partition=1");
    compare_budgets("sim:gpus=1", 1, "job.repeat_exact=yes");
}

/* Copies are cheap here and repeating is dear, or the other way round. */
static void link_throughput_selects_the_offloaded_activations(void **state)
{
    struct trial like = {.recipe = budget_recipe, .steps = 2, .device = "sim:gpus=1,pcie=500GB/s"};
    long long least = least_budget(like);
    assert_true(run_within(like, "fast", least + least / 8).offloaded > 0);
    like.device = "sim:gpus=1,pcie=1MB/s,mem=64MiB";
    assert_int_equal(run_within(like, "slow", least + least / 8).offloaded, 0);
}

/* The peak is one of the whole process, so it is looked at in one of its own. */
static void compare_peak(struct trial like, bool within)
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char set[64];
        int n = 0;
        while (like.sets[n])
            n++;
        if (within)
            snprintf(set, sizeof set, "job.memory=fit:%lld", least_budget(like));
        like.sets[n] = within ? set : NULL;
        if (trial_open(&like) != SW_OK)
            _exit(1);
        size_t plan = sw_job_plan(like.job)->bytes.peak;
        int rc = trial_run(&like);
        size_t peak = like.last[SW_JOB_SUMMARY].peak_bytes;
        if (peak != plan)
            print_error("%s: peak %zu, plan %zu\n", like.device, peak, plan);
        _exit(rc == SW_OK && peak == plan ? 0 : 2);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void the_plan_is_the_peak_to_the_byte(void **state)
{
    static const char *const devices[] = {"cpu", "sim:mem=64MiB", "sim:gpus=2,mem=64MiB",
                                          "sim:gpus=2,mem=64MiB+cpu"};
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        struct trial like = {.recipe = budget_recipe,
                             .steps = 2,
                             .device = devices[i],
                             .oversubscribe = true,
                             .sets = {"job.eval_every=0"}};
        compare_peak(like, false);
        if (i == 3)
            break; /* devices and cores have no budget together, and values on the host */
        compare_peak(like, true);
        like.sets[1] = "cluster.copy=none";
        compare_peak(like, false);
    }
}

/* Without a budget, too; on a device's own account. */
static void job_that_exceeds_device_memory_is_refused_before_the_start(void **state)
{
    struct trial t = {.recipe = budget_recipe, .device = "sim:mem=256KiB"};
    assert_int_equal(trial_open(&t), SW_ERR_NOMEM);
    if (!strstr(t.err.text, "out of memory: training needs ") ||
        !strstr(t.err.text, " on sim:0, which has 262.1 kB: ") ||
        !strstr(t.err.text, "the largest array is both (activation), ") ||
        !strstr(t.err.text, "; try job.memory = fit:262144, or a smaller batch"))
        fail_msg("%s", t.err.text);
    assert_false(exists(in_home("run")));
    trial_close(&t);
    t.device = "sim:mem=64MiB";
    assert_int_equal(trial_open(&t), SW_OK);
    assert_true(sw_job_plan(t.job)->bytes.device > 0);
    trial_close(&t);
}

static void assert_refused(const char *device, const char *set, const char *memory, int code,
                           const char *says)
{
    struct trial t = {.recipe = budget_recipe, .device = device, .sets = {memory, set}};
    assert_int_equal(trial_open(&t), code);
    if (!strstr(code == SW_ERR_INVALID ? sw_bytes_text(&t.messages) : t.err.text, says))
        fail_msg("%s %s", t.err.text, sw_bytes_text(&t.messages));
    assert_false(exists(in_home("run")));
    trial_close(&t);
}

static void budget_that_is_too_small_is_refused_before_the_start(void **state)
{
    struct trial like = {.recipe = budget_recipe};
    char set[64];
    snprintf(set, sizeof set, "job.memory=fit:%lld", least_budget(like) - 1);
    assert_refused(NULL, NULL, set, SW_ERR_NOMEM, "pass, in addition to");
    assert_refused("sim:gpus=1", NULL, "job.memory=fit:20kB", SW_ERR_NOMEM,
                   "for parameters on the device");
    assert_refused(NULL, "job.eval_batch=2000", "job.memory=fit:8MB", SW_ERR_NOMEM,
                   "an evaluation needs");
    assert_refused(NULL, NULL, "job.memory=fit", SW_ERR_INVALID, "must be default or fit:SIZE");
    assert_refused(NULL, NULL, "job.memory=fit:-3MB", SW_ERR_INVALID, "must be default or");
    assert_refused(NULL, NULL, "job.memory=4GB", SW_ERR_INVALID, "must be default or fit:SIZE");
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, home_begin, home_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH(the_plan_is_the_peak_to_the_byte),
        FRESH(a_run_on_the_cpu_keeps_its_bits_within_a_budget),
        FRESH(a_run_on_devices_keeps_its_bits_within_a_budget),
        FRESH(link_throughput_selects_the_offloaded_activations),
        FRESH(budget_that_is_too_small_is_refused_before_the_start),
        FRESH(job_that_exceeds_device_memory_is_refused_before_the_start),
    };
    return cmocka_run_group_tests_name("fit", tests, NULL, NULL);
}
