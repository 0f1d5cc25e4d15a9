/* ctest-labels: threads
 * ctest-timeout: 120
 * Factors of fully-connected layers between the devices of asynchronous groups, under a bound of
 * staleness. */
#include "comm_support.h"

#define SSP(s) "cluster.framework=custom", "cluster.consistency=ssp", "cluster.staleness=" #s
#define SLOW_LINKS "sim:gpus=2,mem=64MiB,pcie=2MB/s,peer=no"

/* The factors of all rows of a step have gone to all other workers; other layers are summed and
 * updated on the host. */
static void assert_sent(const char *name, int workers, int64_t rows)
{
    int64_t values = 0;
    for (int l = 0; l < COMM_LAYERS; l++)
        values += (workers - 1) * rows * (comm_layers[l].inputs + comm_layers[l].outputs);
    assert_int_equal(comm_bytes(name, "factor"), values * (int64_t)sizeof(float));
    assert_int_equal(comm_bytes(name, "d2h") + comm_bytes(name, "h2d"),
                     workers * 2 * CONV_PARAMS * (int64_t)sizeof(float));
}

/* What one group makes of its factors under SSP are the updates of one worker. */
static void one_group_under_ssp_is_exact(void **state)
{
    comm_alone();
    for (int workers = 2; workers <= 4; workers++) {
        comm_train(.name = "many", .device = comm_sims[workers],
                   .sets = {SFB, SSP(2), "cluster.worker_groups=1", workers_set[workers],
                            workers == 3 ? "cluster.copy=sync" : "cluster.overlap=yes"});
        assert_equal_runs("one", "many", COMM_STEPS);
        assert_sent("many", workers, COMM_ROWS);
    }
}

/* Several groups send the factors of all their rows to all devices, and no matrices, and read
 * values that are not staler than the bound. */
static void groups_under_ssp_send_factors_only(void **state)
{
    static const char *const groups[] = {"cluster.worker_groups=2", "cluster.worker_groups=4"},
                             *const copies[] = {"cluster.copy=async", "cluster.copy=sync"};
    for (int i = 0; i < 4; i++) {
        const int count = i / 2 ? 4 : 2;
        comm_train(.name = "ssp", .device = comm_sims[4],
                   .sets = {SFB, SSP(1), groups[i / 2], workers_set[4 / count], copies[i % 2],
                            "job.eval_every=4"});
        assert_sent("ssp", 4, count * COMM_ROWS);
        assert_true(ask("SELECT max(staleness) FROM step_time WHERE run_id = %d", run_id("ssp")) <=
                    1);
    }
}

/* Two groups of one device each draw the batches of two that send whole gradients, and come as far
 * with them, with momentum. */
static void factors_under_ssp_converge_as_whole_gradients_do(void **state)
{
    double loss[2];
    for (int i = 0; i < 2; i++) {
        train(.recipe = comm_recipe, .oversubscribe = true, .name = "ssp", .steps = 60,
              .device = comm_sims[2],
              .sets = {i ? SFB : "cluster.comm=ps", SSP(2), "cluster.worker_groups=2"});
        double first = ask("SELECT value FROM metrics WHERE run_id = %d AND split = 'train' AND "
                           "name = 'loss' AND step = 1",
                           run_id("ssp"));
        loss[i] = ask("SELECT avg(value) FROM metrics WHERE run_id = %d AND split = 'train' AND "
                      "name = 'loss' AND step > 50",
                      run_id("ssp"));
        print_message("loss %g, then %g\n", first, loss[i]);
        assert_true(loss[i] < 0.8 * first);
    }
    assert_true(fabs(loss[0] - loss[1]) < 0.25 * loss[0]);
}

/* A resumed run continues from values and updater state that all devices had, and counts on. */
static void groups_under_ssp_resume(void **state)
{
    struct trial t = {.resume = "ssp",
                      .resume_step = 3,
                      .steps = COMM_STEPS,
                      .oversubscribe = true,
                      .device = comm_sims[4],
                      .out_dir = in_home("ssp")};
    train(.recipe = comm_recipe, .oversubscribe = true, .name = "ssp", .device = comm_sims[4],
          .steps = 3,
          .sets = {SFB, SSP(1), "cluster.worker_groups=2", workers_set[2],
                   "job.checkpoint_every=2"});
    assert_int_equal(trial_open(&t), SW_OK);
    if (trial_run(&t) != SW_OK)
        fail_msg("%s", t.err.text);
    const struct sw_table *table = t.job->params.copies[0].table;
    for (int i = 0; i < table->slice_count; i++)
        assert_int_equal(table->slices[i].version, 2 * COMM_STEPS);
    trial_close(&t);
    assert_true(ask("SELECT count(*) FROM metrics WHERE run_id = %d AND split = 'train' AND "
                    "name = 'loss' AND step > 3 AND value < 10",
                    run_id("ssp")) >= 3);
}

/* What asynchronous groups still do not do says why, and what to do instead. */
static void factors_that_devices_cannot_exchange_are_refused(void **state)
{
    static const struct {
        const char *sets[5], *says;
    } cases[] = {
        {{"cluster.framework=custom", "cluster.consistency=async"}, "without a staleness bound"},
        {{"cluster.framework=hogwild", "cluster.staleness=2"},
         "hogwild updates values on the host"},
        {{SSP(2), "cluster.warmup_steps=2"}, "during warmup_steps one group trains alone"},
        {{SSP(2), "cluster.server_groups=2"}, "server groups merge values on the host"},
        {{SSP(2), "job.grad_clip=norm:1"}, "need all gradients before any update"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct trial t = {.recipe = comm_recipe,
                          .oversubscribe = true,
                          .steps = 2,
                          .device = comm_sims[2],
                          .sets = {SFB, "cluster.worker_groups=2"}};
        for (int k = 0; k < 5; k++)
            t.sets[2 + k] = cases[i].sets[k];
        assert_int_equal(trial_open(&t), SW_ERR_INVALID);
        if (!strstr(t.err.text, cases[i].says))
            fail_msg("%zu: %s", i, t.err.text);
        trial_close(&t);
    }
}

/* Groups of one device exchange factors, too, unless the bound makes each device store many. */
static void the_default_weighs_factors_of_all_groups(void **state)
{
    static const struct {
        const char *sets[4];
        enum sw_exchange_mode mode;
    } cases[] = {{{SSP(1)}, SW_EXCHANGE_SFB},
                 {{SSP(100)}, SW_EXCHANGE_ADAM},
                 {{"cluster.framework=custom", "cluster.consistency=async"}, SW_EXCHANGE_ADAM}};

    for (int i = 0; i < 3; i++) {
        struct trial t = {.recipe = comm_recipe,
                          .oversubscribe = true,
                          .steps = 2,
                          .device = SLOW_LINKS,
                          .sets = {"cluster.worker_groups=2"}};
        memcpy(&t.sets[1], cases[i].sets, sizeof cases[i].sets);
        assert_int_equal(chosen(&t, "fc6"), cases[i].mode);
    }
}

static void factors_of_several_rounds_take_the_memory_that_is_planned(void **state)
{
    struct trial t = {.recipe = comm_recipe,
                      .oversubscribe = true,
                      .steps = 2,
                      .device = comm_sims[3],
                      .sets = {SFB, SSP(2), "cluster.worker_groups=3"}};
    assert_planned_memory(&t);
}

static void a_device_that_is_lost_ends_the_run_for_all_groups(void **state)
{
    static const char *const faults[] = {"sim:gpus=3,mem=64MiB,fault=lost@150",
                                         "sim:gpus=3,mem=64MiB,fault=hang@150"};
    for (int i = 0; i < 2; i++) {
        struct trial t = {.recipe = comm_recipe,
                          .oversubscribe = true,
                          .name = "lost",
                          .steps = COMM_STEPS,
                          .device = faults[i],
                          .sets = {SFB, SSP(2), "cluster.worker_groups=3", "cluster.stall_s=3",
                                   "cluster.on_stall=stop"}};
        assert_int_not_equal(trial_go(&t), SW_OK);
        /* Who waits for what the device sends may hear of it first. */
        if (!strstr(t.err.text, "worker2.0") && !strstr(t.err.text, "sim:2"))
            fail_msg("%d: %s", i, t.err.text);
        assert_false(t.stuck);
        assert_true(exists(checkpoint_path("lost", 0)));
    }
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, home_begin, home_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH(one_group_under_ssp_is_exact),
        FRESH(groups_under_ssp_send_factors_only),
        FRESH(factors_under_ssp_converge_as_whole_gradients_do),
        FRESH(groups_under_ssp_resume),
        FRESH(factors_that_devices_cannot_exchange_are_refused),
        FRESH(the_default_weighs_factors_of_all_groups),
        FRESH(factors_of_several_rounds_take_the_memory_that_is_planned),
        FRESH(a_device_that_is_lost_ends_the_run_for_all_groups),
    };
    return cmocka_run_group_tests_name("factors under ssp", tests, NULL, NULL);
}
