/* ctest-labels: threads
 * Gradients of fully-connected layers out of factors: whatever way they come together, with however
 * many workers, servers, groups and devices, parameters are those of one worker. */
#include "comm_support.h"

static const char *const ways[] = {SFB, ADAM};

static void factors_on_the_cpu_give_the_parameters_of_one_worker(void **state)
{
    (void)state;
    static const struct {
        const char *framework, *more, *servers;
    } cases[] = {
        {ALLREDUCE, "cluster.overlap=yes", NULL},
        {ALLREDUCE, "cluster.overlap=no", NULL},
        {SANDBLASTER, "cluster.overlap=yes", servers_set[1]},
        {SANDBLASTER, "cluster.copy=sync", servers_set[2]},
        {SANDBLASTER, "cluster.slice_size=1024", servers_set[2]},
        {ALLREDUCE, "job.grad_clip=norm:1000", NULL},
        {ALLREDUCE, "job.on_nan=skip", NULL},
    };
    comm_alone();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int workers = 2; workers <= 4; workers += i % 2 ? 1 : 2) {
            comm_train(.name = "many", .device = "cpu",
                       .sets = {ways[i % 2], cases[i].framework, workers_set[workers],
                                cases[i].more, cases[i].servers});
            assert_equal_runs("one", "many", COMM_STEPS);
        }
}

static void factors_between_devices_give_the_parameters_of_one_worker(void **state)
{
    (void)state;
    static const char *const modes[] = {"cluster.copy=async", "cluster.copy=sync",
                                        "cluster.copy=none"},
                             *const overlaps[] = {"cluster.overlap=yes", "cluster.overlap=no"};
    comm_alone();
    for (int i = 0; i < 12; i++) {
        bool adam = i % 2, bound = i / 2 % 2 && !(adam && i / 4 == 2);
        int workers = i < 6 ? 2 : 4;
        comm_train(.name = "many", .device = comm_sims[workers],
                   .sets = {ways[adam], bound ? ALLREDUCE : SANDBLASTER, workers_set[workers],
                            modes[i / 4], overlaps[i / 2 % 2], "cluster.slice_size=1024",
                            bound ? NULL : servers_set[2]});
        assert_equal_runs("one", "many", COMM_STEPS);
    }
}

/* ---- What moves ---- */

/* The physical counts of the ways (parallel training, section 5), in values: of one layer with P
 * parameters, M outputs and N inputs. */
static int64_t values_of(int layer, const char *way, int workers, int servers)
{
    int64_t m = comm_layers[layer].outputs, n = comm_layers[layer].inputs;
    int64_t p = comm_layers[layer].params, s = servers < m ? servers : m;
    if (strcmp(way, SFB) == 0)
        return (workers - 1) * COMM_ROWS * (m + n);
    if (strcmp(way, ADAM) == 0)
        return COMM_ROWS * (m + s * n) + workers * p;
    return 2 * p * workers;
}

static int64_t all_values(const char *way, int workers, int servers)
{
    int64_t values = 0;
    for (int l = 0; l < COMM_LAYERS; l++)
        values += values_of(l, way, workers, servers);
    return values;
}

/* The convolutions' matrices. */
enum { CONV_PARAMS = 16 * 9 * 3 + 16 + 16 * 9 * 16 + 16 };

static void assert_moved(const char *name, const char *way, int workers, int servers)
{
    int64_t conv = 2 * CONV_PARAMS * workers, all = all_values(way, workers, servers) + conv;
    int64_t factors = comm_bytes(name, "factor"),
            servers_bytes = comm_bytes(name, "d2h") + comm_bytes(name, "h2d");
    if (factors + servers_bytes != all * (int64_t)sizeof(float))
        fail_msg("%s, %d workers, %d servers: %lld and %lld bytes, not %lld", way, workers, servers,
                 (long long)factors, (long long)servers_bytes,
                 (long long)(all * (int64_t)sizeof(float)));
    assert_int_equal(factors > 0, strcmp(way, SFB) == 0);
    if (factors)
        assert_int_equal(servers_bytes, conv * (int64_t)sizeof(float));
}

static void devices_move_what_the_formulas_say(void **state)
{
    (void)state;
    static const char *const all[] = {SFB, ADAM, "cluster.comm=ps"}, *const modes[] = {
                                                                         "cluster.copy=async",
                                                                         "cluster.copy=none"};
    for (int i = 0; i < 12; i++) {
        int workers = 2 + i % 3, servers = 1 + i / 6;
        comm_train(.name = "many", .device = comm_sims[workers],
                   .sets = {all[i / 2 % 3], SANDBLASTER, workers_set[workers], modes[i % 2],
                            servers_set[servers], "cluster.slice_size=1024"});
        /* Every server has something of every convolution, too: gradients up, values down. */
        assert_moved("many", all[i / 2 % 3], workers, servers);
    }
}

static void on_the_cpu_factors_are_read_where_they_are(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        comm_train(.name = "many", .device = "cpu",
                   .sets = {ways[i], SANDBLASTER, workers_set[3], servers_set[2]});
        int64_t read = all_values(ADAM, 0, 2) + 3 * CONV_PARAMS;
        assert_int_equal(comm_bytes("many", "shared"), read * (int64_t)sizeof(float));
        assert_int_equal(comm_bytes("many", "factor"), 0);
    }
}

/* Beside whole gradients a party has one array for each, and factors. */
static void factors_take_the_memory_that_is_planned(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        struct trial t = {.recipe = comm_recipe,
                          .oversubscribe = true,
                          .steps = 2,
                          .device = comm_sims[3],
                          .sets = {ways[i % 2], SANDBLASTER, workers_set[3], servers_set[2],
                                   i < 2   ? "cluster.copy=async"
                                   : i < 4 ? "cluster.copy=none"
                                           : "cluster.rebalance=no"}};
        assert_int_equal(trial_open(&t), SW_OK);
        if (trial_run(&t) != SW_OK)
            fail_msg("%s", t.err.text);
        for (int w = 0; w < 3; w++) {
            const struct sw_worker *worker = &t.job->workers[w];
            assert_int_equal(sw_device_bytes_of(worker->device).peak,
                             worker->arena_bytes + sw_worker_replica_bytes(worker) +
                                 sw_states_device_bytes(worker));
        }
        trial_close(&t);
    }
}

/* ---- Groups, layers, other updaters ---- */

static void groups_that_update_on_their_own_train_with_factors(void **state)
{
    (void)state;
    static const char *const kinds[] = {"cluster.consistency=async", "cluster.consistency=ssp",
                                        "cluster.consistency=hogwild"};
    for (int i = 0; i < 5; i++) {
        comm_train(.name = "apart", .device = i < 3 ? "cpu" : comm_sims[4],
                   .sets = {ADAM, "cluster.framework=custom", "cluster.worker_groups=2",
                            workers_set[2], kinds[i % 3],
                            i % 3 == 1 ? "cluster.staleness=2" : "cluster.rebalance=no"});
        double first = ask("SELECT value FROM metrics WHERE run_id = %d AND split = 'train' AND "
                           "name = 'loss' AND step = 1",
                           run_id("apart"));
        assert_true(isfinite(first));
    }
}

/* A group alone makes the updates that one worker makes, whatever the rule between groups. */
static void one_group_of_hogwild_is_exact(void **state)
{
    (void)state;
    comm_alone();
    comm_train(.name = "many", .device = "cpu",
               .sets = {SFB, "cluster.framework=hogwild", "cluster.worker_groups=1", workers_set[3],
                        "cluster.consistency=hogwild"});
    assert_equal_runs("one", "many", COMM_STEPS);
}

static void layers_have_ways_of_their_own(void **state)
{
    (void)state;
    comm_alone();
    comm_train(.name = "many", .device = comm_sims[2],
               .sets = {"layer.fc6.comm=sfb", "layer.fc7.comm=adam", "layer.fc8.comm=ps",
                        SANDBLASTER, workers_set[2], servers_set[1]});
    assert_equal_runs("one", "many", COMM_STEPS);
    int64_t to_servers = CONV_PARAMS + comm_layers[2].params;
    assert_int_equal(comm_bytes("many", "factor"),
                     values_of(0, SFB, 2, 1) * (int64_t)sizeof(float));
    assert_int_equal(comm_bytes("many", "d2h") + comm_bytes("many", "h2d"),
                     (4 * to_servers + values_of(1, ADAM, 2, 1)) * (int64_t)sizeof(float));
}

static void frozen_layers_and_other_updaters_keep_to_one_worker(void **state)
{
    (void)state;
    static const char *const sets[] = {"job.freeze=fc6.bias", "job.freeze=fc7", "updater.type=adam",
                                       "updater.type=lars"};
    static char adam[4096];
    const char *momentum = strstr(comm_recipe, "momentum = 0.9\n");
    snprintf(adam, sizeof adam, "%.*s%s", (int)(momentum - comm_recipe), comm_recipe,
             momentum + strlen("momentum = 0.9\n"));
    for (int i = 0; i < 8; i++) {
        bool sim = i % 2, lars = i / 2 == 3;
        const char *more = i / 2 == 2 ? "updater.lr=0.001" : "updater.lr=0.01";
        const char *recipe = i / 2 == 2 ? adam : comm_recipe;
        train(.recipe = recipe, .steps = COMM_STEPS, .name = "one", .device = "cpu",
              .sets = {sets[i / 2], more, workers_set[1]});
        train(.recipe = recipe, .steps = COMM_STEPS, .name = "many", .oversubscribe = true,
              .device = sim ? comm_sims[3] : "cpu",
              .sets = {sim && lars ? ADAM : SFB, workers_set[3], sets[i / 2], more});
        assert_equal_runs("one", "many", COMM_STEPS);
    }
}

/* ---- Going on, and ends ---- */

static void a_run_goes_on_with_the_same_bits(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        home_begin(NULL);
        struct trial whole = {.recipe = comm_recipe,
                              .oversubscribe = true,
                              .name = "whole",
                              .device = comm_sims[i < 2 ? 0 : 3],
                              .steps = COMM_STEPS,
                              .sets = {ways[i % 2], workers_set[3], "job.checkpoint_every=3"}};
        struct trial half = whole;
        half.name = "half";
        half.steps = 3;
        trial_ok(&whole);
        trial_ok(&half);
        train(.resume = "half", .resume_step = 3, .steps = COMM_STEPS, .oversubscribe = true,
              .device = whole.device, .out_dir = in_home("half"));
        assert_same_tensors(checkpoint_path("whole", COMM_STEPS),
                            checkpoint_path("half", COMM_STEPS));
        home_end(NULL);
    }
}

static void rows_that_move_take_their_factors_with_them(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        home_begin(NULL);
        comm_train(.name = "one", .device = "cpu", .sets = {workers_set[1], "job.eval_every=2"});
        comm_train(.name = "many", .device = i == 2 ? "cpu" : "sim:gpus=2,mem=64MiB,slow=30",
                   .sets = {ways[i % 2], workers_set[2], "cluster.rebalance=yes",
                            "job.eval_every=2"});
        assert_equal_runs("one", "many", COMM_STEPS);
        home_end(NULL);
    }
}

static void a_device_that_is_lost_ends_the_run_for_all(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct trial t = {
            .recipe = comm_recipe,
            .oversubscribe = true,
            .name = "lost",
            .steps = COMM_STEPS,
            .device = i < 2 ? "sim:gpus=3,mem=64MiB,fault=lost@150"
                            : "sim:gpus=3,mem=64MiB,fault=hang@150",
            .sets = {ways[i % 2], workers_set[3], "cluster.stall_s=0.3", "cluster.on_stall=stop"}};
        assert_int_not_equal(trial_go(&t), SW_OK);
        /* Who waits for what the device sends may hear of it first. */
        if (!strstr(t.err.text, "worker0.2") && !strstr(t.err.text, "sim:2"))
            fail_msg("%d: %s", i, t.err.text);
        assert_false(t.stuck);
        assert_true(exists(checkpoint_path("lost", 0)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(factors_on_the_cpu_give_the_parameters_of_one_worker,
                                        home_begin, home_end),
        cmocka_unit_test_setup_teardown(factors_between_devices_give_the_parameters_of_one_worker,
                                        home_begin, home_end),
        cmocka_unit_test_setup_teardown(devices_move_what_the_formulas_say, home_begin, home_end),
        cmocka_unit_test_setup_teardown(on_the_cpu_factors_are_read_where_they_are, home_begin,
                                        home_end),
        cmocka_unit_test_setup_teardown(factors_take_the_memory_that_is_planned, home_begin,
                                        home_end),
        cmocka_unit_test_setup_teardown(groups_that_update_on_their_own_train_with_factors,
                                        home_begin, home_end),
        cmocka_unit_test_setup_teardown(one_group_of_hogwild_is_exact, home_begin, home_end),
        cmocka_unit_test_setup_teardown(layers_have_ways_of_their_own, home_begin, home_end),
        cmocka_unit_test_setup_teardown(frozen_layers_and_other_updaters_keep_to_one_worker,
                                        home_begin, home_end),
        cmocka_unit_test(a_run_goes_on_with_the_same_bits),
        cmocka_unit_test(rows_that_move_take_their_factors_with_them),
        cmocka_unit_test_setup_teardown(a_device_that_is_lost_ends_the_run_for_all, home_begin,
                                        home_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
