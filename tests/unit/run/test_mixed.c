/* ctest-labels: threads
 * ctest-timeout: 120
 * Workers on devices together with workers on CPUs: they have the bits of workers that are all on
 * CPUs, for every reducer and every split of the net; shared evaluations; asynchronous groups;
 * resume with other workers; rows by speed; a failing device; and refused combinations. */
#include "workers_support.h"

enum { STEPS = 12 };

#define MIXED_2 "sim:gpus=1,mem=64MiB+cpu"
#define MIXED_3 "sim:gpus=2,mem=64MiB+cpu"

static double metric(const char *run, const char *split, const char *name, int step)
{
    return ask("SELECT value FROM metrics WHERE run_id = %d AND split = '%s' AND name = '%s' AND "
               "step = %d",
               run_id(run), split, name, step);
}

/* That it was real: who computed where. */
static void note_devices(struct trial *t)
{
    const struct sw_job *job = t->job;
    int gpus = job->place.devices.count, workers = job->place.placement->worker_count;
    assert_true(gpus < workers);
    for (int w = 0; w < workers; w++) {
        char name[16] = "cpu";
        if (w < gpus)
            snprintf(name, sizeof name, "sim:%d", w);
        assert_string_equal(job->workers[w].device->name, name);
        assert_string_equal(job->place.placement->rows[w].device, name);
    }
}

/* The same job on CPUs and on both; sets is what both have. */
static void compare_of(const char *recipe, const char *device, const char *const sets[TRIAL_SETS])
{
    struct trial cpus = {.recipe = recipe, .name = "cpus", .steps = STEPS, .oversubscribe = true};
    memcpy(cpus.sets, sets, sizeof cpus.sets);
    struct trial mixed = cpus;
    mixed.name = "mixed";
    mixed.device = device;
    mixed.before = note_devices;
    trial_ok(&cpus);
    trial_ok(&mixed);
    assert_same_tensors(checkpoint_path("cpus", STEPS), checkpoint_path("mixed", STEPS));
    assert_true(metric("cpus", "test", "loss", STEPS) == metric("mixed", "test", "loss", STEPS));
}

static void compare(const char *device, const char *const sets[TRIAL_SETS])
{
    compare_of(workers_recipe, device, sets);
    assert_true(metric("cpus", "test", "accuracy", STEPS) ==
                metric("mixed", "test", "accuracy", STEPS));
}

static void both_train_to_the_bits_of_cpus(void **state)
{
    static const char *const ways[][TRIAL_SETS] = {
        {ALLREDUCE, "cluster.workers_per_group=3", "job.eval_every=5"},
        {SANDBLASTER, "cluster.workers_per_group=3", "cluster.servers_per_group=2"},
        {ALLREDUCE, "cluster.workers_per_group=3", "cluster.copy=sync"},
        {"cluster.framework=custom", "cluster.worker_groups=2", "cluster.workers_per_group=2",
         "job.partition=1"},
        {ALLREDUCE, "cluster.workers_per_group=3", "job.grad_clip=norm:1", "cluster.overlap=no"},
        {ALLREDUCE, "cluster.workers_per_group=4", "job.repeat_exact=yes"},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        home_begin(NULL);
        compare(MIXED_3, ways[i]);
        home_end(NULL);
    }
}

/* The device brings running statistics to the host's memory, where CPUs read them as they are. */
static void running_statistics_are_the_same_on_both(void **state)
{
    static const char *const sets[TRIAL_SETS] = {ALLREDUCE, "cluster.workers_per_group=3",
                                                 "job.eval_every=2", "job.on_nan=skip"};
    compare_of(budget_recipe, MIXED_3, sets);
}

/* A worker for every GPU and one for the cores, unless somebody says how many. */
static void without_a_number_cores_have_one_worker(void **state)
{
    struct trial t = {.recipe = workers_recipe, .oversubscribe = true, .device = MIXED_3};
    assert_int_equal(trial_open(&t), SW_OK);
    assert_int_equal(t.job->place.placement->worker_count, 3);
    note_devices(&t);
    trial_close(&t);
    t = (struct trial){.recipe = workers_recipe,
                       .oversubscribe = true,
                       .device = MIXED_3,
                       .sets = {"cluster.workers_per_group=2"}};
    assert_int_equal(trial_open(&t), SW_OK); /* then all of them have one */
    assert_string_equal(t.job->workers[1].device->name, "sim:1");
    trial_close(&t);
}

static void asynchronous_groups_run_on_both(void **state)
{
    static const char *const ways[][TRIAL_SETS] = {
        {"cluster.framework=downpour", "cluster.worker_groups=2"},
        {"cluster.framework=downpour", "cluster.worker_groups=2", "cluster.staleness=2"},
        {"cluster.framework=hogwild", "cluster.worker_groups=2"},
        {"cluster.framework=downpour", "cluster.worker_groups=2", "cluster.workers_per_group=2"},
    };
    for (int i = 0; i < 4; i++) {
        struct trial t = {.recipe = workers_recipe,
                          .name = "apart",
                          .device = MIXED_2,
                          .steps = 3 * STEPS,
                          .oversubscribe = true,
                          .before = note_devices};
        memcpy(t.sets, ways[i], sizeof t.sets);
        trial_ok(&t);
        assert_true(metric("apart", "train", "loss", 3 * STEPS) <
                    metric("apart", "train", "loss", 1));
        assert_true(metric("apart", "test", "accuracy", 3 * STEPS) > 0.5);
    }
}

static void a_resume_may_be_on_others(void **state)
{
    static const char *const three[TRIAL_SETS] = {SANDBLASTER, "cluster.workers_per_group=3",
                                                  "job.checkpoint_every=5"};
    compare(MIXED_3, three);
    struct trial half = {.recipe = workers_recipe,
                         .name = "half",
                         .steps = 5,
                         .oversubscribe = true,
                         .device = MIXED_3};
    memcpy(half.sets, three, sizeof half.sets);
    trial_ok(&half);
    struct trial rest = {.resume = "half",
                         .resume_step = 5,
                         .steps = STEPS,
                         .device = MIXED_2,
                         .oversubscribe = true,
                         .out_dir = in_home("half")};
    trial_ok(&rest);
    assert_same_tensors(checkpoint_path("cpus", STEPS), checkpoint_path("half", STEPS));
}

/* A device and the CPU beside it, whichever is slow. */
static void rows_are_distributed_by_speed(void **state)
{
    struct trial t = {
        .recipe = workers_recipe,
        .name = "slow",
        .steps = 40,
        .device = MIXED_2,
        .oversubscribe = true,
        .before = plant_speeds,
        .sets = {ALLREDUCE, "job.batch=64", "job.eval_every=10", "cluster.rebalance=yes"}};
    assert_int_equal(trial_open(&t), SW_OK);
    assert_int_equal(trial_run(&t), SW_OK);
    int64_t rows = sw_worker_rows(&t.job->workers[0], SW_SPLIT_TRAIN);
    trial_close(&t);
    assert_int_equal(rows, 48);
}

static void a_device_that_fails_ends_the_run_for_both(void **state)
{
    struct trial lost = {.recipe = workers_recipe,
                         .name = "lost",
                         .steps = STEPS,
                         .oversubscribe = true,
                         .device = "sim:gpus=1,mem=64MiB,fault=lost@300+cpu"};
    assert_int_equal(trial_go(&lost), SW_ERR_LIBRARY);
    assert_non_null(strstr(lost.err.text, "sim:0"));
    assert_false(lost.stuck);
}

static void refused(const char *set, const char *says)
{
    struct trial t = {
        .recipe = workers_recipe, .device = MIXED_2, .oversubscribe = true, .sets = {set}};
    assert_int_equal(trial_open(&t), SW_ERR_INVALID);
    if (!strstr(sw_bytes_text(&t.messages), says))
        fail_msg("%s / %s", t.err.text, sw_bytes_text(&t.messages));
    trial_close(&t);
}

static void unsupported_mixed_jobs_are_refused(void **state)
{
    refused("cluster.copy=none", "the parameters are updated on the host");
    /* Another number of workers is no remedy for that. */
    struct trial t = {.recipe = workers_recipe,
                      .device = MIXED_2,
                      .oversubscribe = true,
                      .sets = {"cluster.copy=none"}};
    assert_int_equal(trial_open(&t), SW_ERR_INVALID);
    assert_null(strstr(sw_bytes_text(&t.messages), "hint"));
    trial_close(&t);
    refused("job.memory=fit:32MB", "this job uses both: remove memory = fit");
    refused("cluster.comm=sfb", "gradients are summed on the host");
    refused("job.partition=1", "a group with 1 workers on devices and 1 on CPUs");
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, home_begin, home_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_train_to_the_bits_of_cpus),
        FRESH(running_statistics_are_the_same_on_both),
        FRESH(without_a_number_cores_have_one_worker),
        FRESH(asynchronous_groups_run_on_both),
        FRESH(a_resume_may_be_on_others),
        FRESH(rows_are_distributed_by_speed),
        FRESH(a_device_that_fails_ends_the_run_for_both),
        FRESH(unsupported_mixed_jobs_are_refused),
    };
    return cmocka_run_group_tests_name("mixed", tests, NULL, NULL);
}
