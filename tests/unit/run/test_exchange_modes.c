/* ctest-labels: threads
 * Gradients of fully-connected layers from factors: however they are
 * exchanged, with however
 * many workers, servers, groups and devices, parameters are those of one worker. */
#include "comm_support.h"

#include "device/sim/stream.h"
#include "plan/choices.h"
#include "plan/saved_choices.h"
#include "run/memory.h"
#include "worker/input.h"

static const char *const exchange_modes[] = {SFB, ADAM};

static void factors_on_the_cpu_give_the_parameters_of_one_worker(void **state)
{
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
                       .sets = {exchange_modes[i % 2], cases[i].framework, workers_set[workers],
                                cases[i].more, cases[i].servers});
            assert_equal_runs("one", "many", COMM_STEPS);
        }
}

static void factors_between_devices_give_the_parameters_of_one_worker(void **state)
{
    static const char *const modes[] = {"cluster.copy=async", "cluster.copy=sync",
                                        "cluster.copy=none"},
                             *const overlaps[] = {"cluster.overlap=yes", "cluster.overlap=no"};
    comm_alone();
    for (int i = 0; i < 12; i++) {
        bool adam = i % 2, bound = i / 2 % 2 && !(adam && i / 4 == 2);
        int workers = i < 6 ? 2 : 4;
        comm_train(.name = "many", .device = comm_sims[workers],
                   .sets = {exchange_modes[adam], bound ? ALLREDUCE : SANDBLASTER,
                            workers_set[workers], modes[i / 4], overlaps[i / 2 % 2],
                            "cluster.slice_size=1024", bound ? NULL : servers_set[2]});
        assert_equal_runs("one", "many", COMM_STEPS);
    }
}

/* ---- What moves ---- */

/* The physical counts of the ways (parallel training, section 5), in values: of one layer with P
 * parameters, M outputs and N inputs. */
static int64_t values_of(int layer, const char *mode, int workers, int servers)
{
    int64_t m = comm_layers[layer].outputs, n = comm_layers[layer].inputs;
    int64_t p = comm_layers[layer].params, s = servers < m ? servers : m;
    if (strcmp(mode, SFB) == 0)
        return (workers - 1) * COMM_ROWS * (m + n);
    if (strcmp(mode, ADAM) == 0)
        return COMM_ROWS * (m + s * n) + workers * p;
    return 2 * p * workers;
}

static int64_t all_values(const char *mode, int workers, int servers)
{
    int64_t values = 0;
    for (int l = 0; l < COMM_LAYERS; l++)
        values += values_of(l, mode, workers, servers);
    return values;
}

static void assert_moved(const char *name, const char *mode, int workers, int servers)
{
    int64_t conv = 2 * CONV_PARAMS * workers, all = all_values(mode, workers, servers) + conv;
    int64_t factors = comm_bytes(name, "factor"),
            servers_bytes = comm_bytes(name, "d2h") + comm_bytes(name, "h2d");
    if (factors + servers_bytes != all * (int64_t)sizeof(float))
        fail_msg("%s, %d workers, %d servers: %lld and %lld bytes, not %lld", mode, workers,
                 servers, (long long)factors, (long long)servers_bytes,
                 (long long)(all * (int64_t)sizeof(float)));
    assert_int_equal(factors > 0, strcmp(mode, SFB) == 0);
    if (factors)
        assert_int_equal(servers_bytes, conv * (int64_t)sizeof(float));
}

static void devices_copy_the_bytes_of_the_formulas(void **state)
{
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
    for (int i = 0; i < 2; i++) {
        comm_train(.name = "many", .device = "cpu",
                   .sets = {exchange_modes[i], SANDBLASTER, workers_set[3], servers_set[2]});
        int64_t read = all_values(ADAM, 0, 2) + 3 * CONV_PARAMS;
        assert_int_equal(comm_bytes("many", "shared"), read * (int64_t)sizeof(float));
        assert_int_equal(comm_bytes("many", "factor"), 0);
    }
}

/* Beside whole gradients an update group has one array for each, and factors. */
static void factors_take_the_memory_that_is_planned(void **state)
{
    for (int i = 0; i < 6; i++) {
        struct trial t = {.recipe = comm_recipe,
                          .oversubscribe = true,
                          .steps = 2,
                          .device = comm_sims[3],
                          .sets = {exchange_modes[i % 2], SANDBLASTER, workers_set[3],
                                   servers_set[2],
                                   i < 2   ? "cluster.copy=async"
                                   : i < 4 ? "cluster.copy=none"
                                           : "cluster.rebalance=no"}};
        assert_planned_memory(&t);
    }
}

/* ---- Groups, layers, other updaters ---- */

/* Whoever makes a gradient out of factors rounds them as the product would have. */
static void factors_are_rounded_as_products_do(void **state)
{
    train(.recipe = comm_recipe, .name = "whole", .steps = 1, .device = "cpu",
          .sets = {"job.precision=bf16"});
    for (int i = 0; i < 4; i++) {
        train(.recipe = comm_recipe, .name = "factors", .steps = 1, .oversubscribe = true,
              .device = i < 2 ? "cpu" : "sim:gpus=2,mem=64MiB",
              .sets = {"job.precision=bf16", workers_set[2], exchange_modes[i % 2]});
        assert_true(difference_of_files(checkpoint_path("whole", 1), checkpoint_path("factors", 1),
                                        true, NULL) < 2e-6);
    }
}

static void groups_that_update_on_their_own_train_with_factors(void **state)
{
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
    comm_alone();
    comm_train(.name = "many", .device = "cpu",
               .sets = {SFB, "cluster.framework=hogwild", "cluster.worker_groups=1", workers_set[3],
                        "cluster.consistency=hogwild"});
    assert_equal_runs("one", "many", COMM_STEPS);
}

static void layers_have_their_own_exchange_modes(void **state)
{
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

static void resume_is_bit_identical(void **state)
{
    for (int i = 0; i < 4; i++) {
        home_begin(NULL);
        struct trial whole = {
            .recipe = comm_recipe,
            .oversubscribe = true,
            .name = "whole",
            .device = comm_sims[i < 2 ? 0 : 3],
            .steps = COMM_STEPS,
            .sets = {exchange_modes[i % 2], workers_set[3], "job.checkpoint_every=3"}};
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
    for (int i = 0; i < 3; i++) {
        home_begin(NULL);
        comm_train(.name = "one", .device = "cpu", .sets = {workers_set[1], "job.eval_every=2"});
        comm_train(.name = "many", .device = i == 2 ? "cpu" : "sim:gpus=2,mem=64MiB,slow=30",
                   .sets = {exchange_modes[i % 2], workers_set[2], "cluster.rebalance=yes",
                            "job.eval_every=2"});
        assert_equal_runs("one", "many", COMM_STEPS);
        home_end(NULL);
    }
}

static void a_device_that_is_lost_ends_the_run_for_all(void **state)
{
    for (int i = 0; i < 4; i++) {
        struct trial t = {.recipe = comm_recipe,
                          .oversubscribe = true,
                          .name = "lost",
                          .steps = COMM_STEPS,
                          .device = i < 2 ? "sim:gpus=3,mem=64MiB,fault=lost@150"
                                          : "sim:gpus=3,mem=64MiB,fault=hang@150",
                          .sets = {exchange_modes[i % 2], workers_set[3], "cluster.stall_s=3",
                                   "cluster.on_stall=stop"}};
        assert_int_not_equal(trial_go(&t), SW_OK);
        /* Who waits for what the device sends may hear of it first. */
        if (!strstr(t.err.text, "worker0.2") && !strstr(t.err.text, "sim:2"))
            fail_msg("%d: %s", i, t.err.text);
        assert_false(t.stuck);
        assert_true(exists(checkpoint_path("lost", 0)));
    }
}

/* ---- What auto takes ---- */

/* Poseidon 4.3.1: AlexNet between fc6 and fc7 on 4 nodes with 256 samples each. */
static void counts_are_those_of_the_papers(void **state)
{
    const struct sw_exchange_cost_args t = {
        .workers = 4, .servers = 1, .rows = 4 * 256, .inputs = 4096, .outputs = 4096};
    assert_int_equal(sw_exchange_count(SW_EXCHANGE_SFB, &t, 0).counted, 18874368);
    assert_int_equal(sw_exchange_count(SW_EXCHANGE_PS, &t, 0).counted, 134217728);
    assert_int_equal(sw_exchange_count(SW_EXCHANGE_ADAM, &t, 0).counted, 75497472);
    assert_int_equal(sw_exchange_count(SW_EXCHANGE_SFB, &t, 0).moved, 0); /* memory is shared */
    /* fc6 itself, 256 samples in all, on devices. */
    const struct sw_exchange_cost_args fc6 = {
        .workers = 4, .servers = 2, .rows = 256, .inputs = 9216, .outputs = 4096, .devices = true};
    struct sw_exchange_cost_args added = fc6;
    const int64_t p = 9216 * 4096;
    added.reduces = true;
    assert_int_equal(sw_exchange_count(SW_EXCHANGE_PS, &fc6, p).moved, 8 * p);
    assert_int_equal(sw_exchange_count(SW_EXCHANGE_PS, &added, p).moved, 6 * p);
    assert_int_equal(sw_exchange_count(SW_EXCHANGE_SFB, &fc6, p).moved, 3 * 256 * (9216 + 4096));
    assert_int_equal(sw_exchange_count(SW_EXCHANGE_ADAM, &fc6, p).moved,
                     256 * (4096 + 2 * 9216) + 4 * p);
}

static enum sw_exchange_mode quickest(const struct sw_exchange_cost_args *t)
{
    struct sw_exchange_price price;
    enum sw_exchange_mode best = SW_EXCHANGE_PS;
    sw_exchange_cost(t, &price);
    for (int mode = 0; mode < SW_EXCHANGE_MODES; mode++)
        best = price.ms[mode] < price.ms[best] ? (enum sw_exchange_mode)mode : best;
    return best;
}

/* Slow links want factors, quick ones and large batches whole matrices, and what is hidden behind
 * computing costs nothing. */
static void costs_weigh_links_against_products(void **state)
{
    struct sw_exchange_cost_args t = {.workers = 4,
                                      .servers = 1,
                                      .rows = 64,
                                      .inputs = 9216,
                                      .outputs = 4096,
                                      .devices = true,
                                      .flops_per_s = 1e13,
                                      .server_flops_per_s = 1e11,
                                      .memory_bytes_per_s = 1e10,
                                      .link_bytes_per_s = 1e9};
    struct sw_exchange_price shown, hidden;
    assert_int_equal(quickest(&t), SW_EXCHANGE_SFB);
    sw_exchange_cost(&t, &shown);
    t.hidden_s = 0.1;
    sw_exchange_cost(&t, &hidden);
    assert_true(fabs(shown.ms[SW_EXCHANGE_PS] - hidden.ms[SW_EXCHANGE_PS] - 100) < 1e-6);
    t.hidden_s = 0;
    t.rows = 1 << 20;
    assert_int_equal(quickest(&t), SW_EXCHANGE_PS);
    t.rows = 64;
    t.link_bytes_per_s = 1e15;
    assert_int_equal(quickest(&t), SW_EXCHANGE_PS);
    t.devices = false;
    t.server_flops_per_s = t.flops_per_s;
    t.servers = 4;
    assert_int_equal(quickest(&t), SW_EXCHANGE_SFB); /* the same work, and no sums */
    t.servers = 1;
    t.flops_per_s = t.server_flops_per_s = 1e10;
    assert_int_equal(quickest(&t), SW_EXCHANGE_PS);
}

/* fc6, fc7 and fc8 of AlexNet: each would be hidden behind what is computed below it, all of them
 * are not. Their prices add up to what the link is busy beyond that, in which the layers below that
 * were not asked have a part. */
static void layers_share_the_link_and_the_overlapping_computing(void **state)
{
    static const double inputs[] = {9216, 4096, 4096}, outputs[] = {4096, 4096, 1000};
    struct sw_exchange_cost_args t = {.workers = 4,
                                      .servers = 1,
                                      .rows = 256,
                                      .devices = true,
                                      .flops_per_s = INFINITY,
                                      .server_flops_per_s = INFINITY,
                                      .memory_bytes_per_s = 1e10,
                                      .link_bytes_per_s = 1e9,
                                      .hidden_s = 0.31};
    for (int conv = 0; conv < 2; conv++) {
        double sum_ms = 0, values = t.others = conv * 2300000;
        t.link = (struct sw_exchange_link){.busy_s = 0};
        for (int i = 0; i < 3; i++) {
            struct sw_exchange_price price;
            t.inputs = inputs[i];
            t.outputs = outputs[i];
            sw_exchange_cost(&t, &price);
            if (i == 0)
                assert_true(price.ms[SW_EXCHANGE_PS] < (conv ? 11 : 1e-9));
            sum_ms += price.ms[SW_EXCHANGE_PS];
            values += inputs[i] * outputs[i];
            t.link = price.link[SW_EXCHANGE_PS];
        }
        assert_true(fabs(sum_ms - (2 * 4 * values / 1e6 - 310)) < 1e-6);
        assert_int_equal(t.link.whole, values - (double)t.others);
        assert_true(fabs(t.link.exposed_s * 1e3 - sum_ms) < 1e-6);
    }
    /* Of one that has less time than those above it, what is late is late once. */
    struct sw_exchange_price price;
    t.link = (struct sw_exchange_link){.busy_s = 0.2, .exposed_s = 0.2};
    t.others = 0;
    sw_exchange_cost(&t, &price);
    assert_true(price.ms[SW_EXCHANGE_PS] == 0);
}

/* Poseidon's Algorithm 3, of K samples on each of P nodes and one master: factors go to all others
 * where (P-1)^2 K (M+N) < P K (M+N) + P M N, else to the master. By counts that is our rule, and by
 * prices it is, too, where links are all that costs and each has its own: (P-1) in place of
 * (P-1)^2 / P, which the paper counts. */
static void links_alone_choose_as_poseidon_does(void **state)
{
    static const int nodes[] = {2, 3, 4, 8, 16, 64}, samples[] = {1, 32, 128, 256, 1024, 8192};
    static const double sizes[][2] = {{9216, 4096}, {4096, 4096}, {4096, 1000}, {25088, 4096}};
    int compared = 0, sfb = 0;
    for (int i = 0; i < 6 * 6 * 4; i++) {
        double p = nodes[i % 6], k = samples[i / 6 % 6], m = sizes[i / 36][0], n = sizes[i / 36][1];
        double to_all = (p - 1) * (p - 1) * k * (m + n), to_one = p * k * (m + n) + p * m * n;
        struct sw_exchange_cost_args t = {.workers = (int)p,
                                          .servers = 1,
                                          .rows = p * k,
                                          .inputs = m,
                                          .outputs = n,
                                          .devices = true,
                                          .peers = true,
                                          .flops_per_s = INFINITY,
                                          .server_flops_per_s = INFINITY,
                                          .memory_bytes_per_s = INFINITY,
                                          .link_bytes_per_s = 1e9};
        struct sw_exchange_price price;
        sw_exchange_cost(&t, &price);
        assert_true((double)sw_exchange_count(SW_EXCHANGE_SFB, &t, 0).counted == to_all);
        assert_true((double)sw_exchange_count(SW_EXCHANGE_ADAM, &t, 0).counted == to_one);
        if (to_all < to_one && to_all * p / (p - 1) >= to_one)
            continue; /* between the two counts */
        bool all = price.ms[SW_EXCHANGE_SFB] < price.ms[SW_EXCHANGE_ADAM];
        assert_int_equal(all, to_all < to_one);
        compared++;
        sfb += all;
    }
    assert_true(compared > 130 && sfb > 30 && sfb < compared - 30);
}

static void auto_follows_the_link_and_a_resume_keeps_its_choice(void **state)
{
    struct trial slow = {
        .recipe = comm_recipe,
        .oversubscribe = true,
        .name = "auto",
        .steps = 3,
        .device = "sim:gpus=2,mem=64MiB,pcie=2MB/s,peer=no",
        .sets = {"cluster.comm=auto", workers_set[2], SANDBLASTER, "job.checkpoint_every=3"}};
    assert_int_equal(chosen(&slow, "fc6"), SW_EXCHANGE_SFB);
    struct trial alone = slow;
    alone.sets[1] = workers_set[1];
    alone.name = "alone";
    trial_ok(&alone);
    struct trial quick = slow, cut = slow;
    quick.device = "sim:gpus=2,mem=64MiB,peer=no,pcie=64GB/s";
    cut.sets[4] = "job.grad_clip=norm:1";
    assert_int_not_equal(chosen(&cut, "fc6"), SW_EXCHANGE_SFB);
    quick.sets[4] = "job.batch=2000";
    quick.sets[5] = "job.eval_batch=10";
    assert_int_not_equal(chosen(&quick, "fc6"), SW_EXCHANGE_SFB);
    trial_ok(&slow);
    /* What the file says counts, wherever the run goes on. */
    struct trial on = {.resume = "auto",
                       .resume_step = 3,
                       .steps = COMM_STEPS,
                       .oversubscribe = true,
                       .device = "sim:gpus=2,mem=64MiB,peer=no,pcie=64GB/s",
                       .out_dir = in_home("auto")};
    assert_int_equal(chosen(&on, "fc6"), SW_EXCHANGE_SFB);
    trial_ok(&on);
}

/* A job on two devices with a link so slow that factors always pay, and none of comm. */
#define SLOW_LINKS "sim:gpus=2,mem=64MiB,pcie=2MB/s,peer=no"

static void auto_is_the_default_between_devices(void **state)
{
    struct trial t = {.recipe = comm_recipe,
                      .oversubscribe = true,
                      .name = "default",
                      .steps = 3,
                      .device = SLOW_LINKS,
                      .sets = {workers_set[2], "job.checkpoint_every=3"}};
    struct trial exact = t, ps = t, cpu = t;

    assert_int_equal(chosen(&t, "fc6"), SW_EXCHANGE_SFB);
    trial_ok(&t);
    assert_false(exists(in_home("state/singa-ws/rates.json"))); /* a default measures nothing */

    exact.sets[2] = "job.repeat_exact=yes";
    ps.sets[2] = "cluster.comm=ps";
    cpu.device = "cpu";
    assert_int_equal(chosen(&exact, "fc6"), SW_EXCHANGE_PS);
    assert_int_equal(chosen(&ps, "fc6"), SW_EXCHANGE_PS);
    assert_int_equal(chosen(&cpu, "fc6"), SW_EXCHANGE_PS);

    struct trial on = {.resume = "default",
                       .resume_step = 3,
                       .steps = COMM_STEPS,
                       .oversubscribe = true,
                       .device = "sim:gpus=2,mem=64MiB,peer=no,pcie=64GB/s",
                       .out_dir = in_home("default")};
    assert_int_equal(chosen(&on, "fc6"), SW_EXCHANGE_SFB);
}

/* Where devices exchange factors only through servers, or not at all. */
static void the_default_keeps_to_what_is_possible(void **state)
{
    static const char *const sets[][2] = {{"job.grad_clip=norm:1", NULL},
                                          {"job.on_nan=skip", "cluster.copy=none"},
                                          {"cluster.consistency=async", "cluster.worker_groups=2"}};

    for (int i = 0; i < 3; i++) {
        struct trial t = {
            .recipe = comm_recipe,
            .oversubscribe = true,
            .steps = 2,
            .device = i == 2 ? "sim:gpus=4,mem=64MiB,pcie=2MB/s,peer=no" : SLOW_LINKS,
            .sets = {workers_set[2], "cluster.framework=custom", sets[i][0], sets[i][1]}};
        if (i == 1)
            t.sets[1] = ALLREDUCE;
        enum sw_exchange_mode mode = chosen(&t, "fc6");
        assert_int_equal(mode, i == 1 ? SW_EXCHANGE_PS : SW_EXCHANGE_ADAM);
    }
}

static const struct sw_throughputs *throughputs_of(void *throughputs)
{
    return throughputs;
}

/* Prices of fc7, above fc6, between four devices, and its mode, which fc6 has, too. kept: choices
 * of a checkpoint, or NULL. */
static enum sw_exchange_mode price_fc7(const char *kept, bool by_default,
                                       double ms[SW_EXCHANGE_MODES])
{
    static const struct sw_topology four = {.workers = 4,
                                            .devices = 4,
                                            .hosts = 1,
                                            .update_hosts = 1,
                                            .update_group_size = 4,
                                            .servers_per_group = 1};
    static const struct sw_cluster_conf asked;
    static const struct sw_job_conf conf = {.batch = 64};
    static const struct sw_device_request request = {.count = 4};
    struct sw_throughputs throughputs = {.worker_flops_per_s = 1e13,
                                         .server_flops_per_s = 1e11,
                                         .memory_bytes_per_s = 1e10,
                                         .link_bytes_per_s = 1e9};
    struct sw_exchange_plan p = {.cluster = &asked,
                                 .copy = SW_COPY_ASYNC,
                                 .comm = {.requested = SW_EXCHANGE_AUTO, .by_default = by_default},
                                 .args = {.conf = &conf,
                                          .topology = &four,
                                          .request = &request,
                                          .throughputs = throughputs_of,
                                          .user = &throughputs}};
    struct sw_err err = {0};
    struct sw_net_exchange comm;

    if (kept)
        assert_int_equal(sw_saved_choices_parse(kept, &p.comm.kept, &err), SW_OK);
    sw_exchange_modes_args(&p, &comm);
    /* Either layer alone is hidden behind the 6 ms that are computed below it. */
    const struct sw_net_exchange_layer fc6 = {.name = "fc6",
                                              .steps = 1,
                                              .inputs = 9216,
                                              .outputs = 4096,
                                              .forward_flops_below = 6e10},
                                       fc7 = {.name = "fc7",
                                              .steps = 1,
                                              .inputs = 4096,
                                              .outputs = 4096,
                                              .forward_flops_below = 6e10};
    const enum sw_exchange_mode mode = comm.choose(comm.user, &fc6);
    assert_int_equal(comm.choose(comm.user, &fc7), mode);
    memcpy(ms, p.comm.choices[1].ms, sizeof p.comm.choices[1].ms);
    sw_exchange_plan_fini(&p);
    return mode;
}

static void a_stored_choice_counts_its_time_on_the_link(void **state)
{
    double chosen_ms[SW_EXCHANGE_MODES], kept_ms[SW_EXCHANGE_MODES];

    assert_int_equal(price_fc7(NULL, false, chosen_ms), SW_EXCHANGE_SFB);
    assert_int_equal(
        price_fc7("{\"version\": 1, \"exchange\": [{\"layer\": \"fc6\", \"mode\": \"sfb\"}]}",
                  false, kept_ms),
        SW_EXCHANGE_SFB);

    assert_true(chosen_ms[SW_EXCHANGE_SFB] > 2);
    for (int mode = 0; mode < SW_EXCHANGE_MODES; mode++)
        assert_true(fabs(chosen_ms[mode] - kept_ms[mode]) < 1e-9);
}

/* Several workers that trained before `auto` was a default saved no mode. */
static void a_checkpoint_without_modes_keeps_whole_gradients(void **state)
{
    static const struct {
        const char *kept;
        bool by_default;
        enum sw_exchange_mode mode;
    } cases[] = {{"{\"version\": 1, \"workers\": 4, \"exchange\": []}", true, SW_EXCHANGE_PS},
                 {"{\"version\": 1, \"workers\": 4, \"exchange\": []}", false, SW_EXCHANGE_SFB},
                 {"{\"version\": 1, \"workers\": 1, \"exchange\": []}", true, SW_EXCHANGE_SFB},
                 {NULL, true, SW_EXCHANGE_SFB}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double ms[SW_EXCHANGE_MODES];
        assert_int_equal(price_fc7(cases[i].kept, cases[i].by_default, ms), cases[i].mode);
    }
}

/* ---- Between hosts ---- */

/* What hosts measure, and how often they do. */
struct network {
    double bytes_per_s; /* 0: a host is lost */
    int measured;
    struct sw_throughputs own;
};

static const struct sw_throughputs *own_throughputs(void *network)
{
    return &((struct network *)network)->own;
}

static int measure_network(void *user, struct sw_host_rates *rates, struct sw_err *err)
{
    struct network *n = user;

    n->measured++;
    if (n->bytes_per_s == 0)
        return sw_err_set(err, SW_ERR_LOST, "host b is lost");
    *rates = (struct sw_host_rates){.link_bytes_per_s = n->bytes_per_s,
                                    .flops_per_s = 1e12,
                                    .memory_bytes_per_s = 1e11,
                                    .source = "measured, from a to b"};
    return SW_OK;
}

static const struct sw_topology two_hosts = {.workers = 1,
                                             .hosts = 2,
                                             .update_hosts = 2,
                                             .update_group_size = 1,
                                             .update_groups = 1,
                                             .servers_per_group = 1};
static const struct sw_job_conf batch_256 = {.batch = 256};
/* A classifier of few outputs, whose factors are larger than its gradient, and AlexNet's fc6. */
static const struct sw_net_exchange_layer
    small = {.name = "small", .steps = 1, .inputs = 64, .outputs = 10, .rows = 128},
    large = {.name = "large", .steps = 1, .inputs = 9216, .outputs = 4096, .rows = 128};

static enum sw_exchange_mode choose_large(struct network *n, int64_t bandwidth, char rates[512],
                                          struct sw_err *err)
{
    const struct sw_cluster_conf asked = {.bandwidth = bandwidth};
    static const struct sw_device_request request;
    struct sw_exchange_plan p = {.cluster = &asked,
                                 .comm.requested = SW_EXCHANGE_AUTO,
                                 .args = {.conf = &batch_256,
                                          .topology = &two_hosts,
                                          .request = &request,
                                          .throughputs = own_throughputs,
                                          .host_rates = measure_network,
                                          .user = n}};
    struct sw_net_exchange comm;

    n->own = (struct sw_throughputs){
        .worker_flops_per_s = 1e11, .server_flops_per_s = 1e11, .memory_bytes_per_s = 1e10};
    n->measured = 0;
    sw_exchange_modes_args(&p, &comm);
    assert_int_equal(comm.choose(comm.user, &small), SW_EXCHANGE_PS);
    assert_int_equal(n->measured, 0);
    const enum sw_exchange_mode mode = comm.choose(comm.user, &large);
    assert_int_equal(comm.choose(comm.user, &large), mode);
    sw_exchange_modes_rates(&p, rates);
    const int rc = sw_exchange_modes_check(&p.comm, err);
    assert_int_equal(rc, n->bytes_per_s > 0 ? SW_OK : SW_ERR_LOST);
    sw_exchange_plan_fini(&p);
    return mode;
}

static void hosts_choose_by_the_rate_that_they_measured(void **state)
{
    struct network n = {.bytes_per_s = 1e8};
    char rates[512];
    struct sw_err err;

    assert_int_equal(choose_large(&n, 0, rates, &err), SW_EXCHANGE_SFB);
    assert_int_equal(n.measured, 1);
    assert_string_equal(rates, "chosen for 100.0 MB/s between hosts and 1e+03 GFLOP/s on each "
                               "(measured, from a to b)");

    n.bytes_per_s = 1e12;
    assert_int_equal(choose_large(&n, 0, rates, &err), SW_EXCHANGE_PS);
    assert_int_equal(n.measured, 1);
    assert_int_equal(choose_large(&n, 500000000000, rates, &err), SW_EXCHANGE_PS);
    assert_int_equal(n.measured, 1);
    assert_non_null(strstr(rates, "chosen for 500.0 GB/s (cluster.bandwidth) of 1.0 TB/s between"));

    /* So little may be sent that no rate matters. */
    assert_int_equal(choose_large(&n, 100000, rates, &err), SW_EXCHANGE_SFB);
    assert_int_equal(n.measured, 0);
    assert_non_null(strstr(rates, "(assumed: no rate changes a choice)"));

    n.bytes_per_s = 0;
    assert_int_equal(choose_large(&n, 0, rates, &err), SW_EXCHANGE_PS);
    assert_int_equal(n.measured, 1);
    assert_string_equal(err.text, "host b is lost");
}

/* Hosts with other numbers of rows and workers, and other processors, choose alike. */
static void the_choice_of_a_host_does_not_depend_on_its_own_rows(void **state)
{
    static const struct sw_cluster_conf asked;
    static const struct sw_device_request request;
    double ms[2][SW_EXCHANGE_MODES];

    for (int host = 0; host < 2; host++) {
        struct network n = {.own = {.worker_flops_per_s = host ? 1e9 : 1e11,
                                    .server_flops_per_s = host ? 1e9 : 1e11,
                                    .memory_bytes_per_s = host ? 1e9 : 1e11}};
        struct sw_topology t = two_hosts;
        struct sw_exchange_plan p = {.cluster = &asked,
                                     .comm.requested = SW_EXCHANGE_AUTO,
                                     .args = {.conf = &batch_256,
                                              .topology = &t,
                                              .request = &request,
                                              .throughputs = own_throughputs,
                                              .user = &n}};
        struct sw_net_exchange comm;
        struct sw_net_exchange_layer fc = large;

        t.workers = t.update_group_size = host ? 1 : 2;
        fc.rows = host ? 128 : 64;
        fc.forward_flops_below = fc.backward_flops_below = 1e9 * (double)fc.rows;
        sw_exchange_modes_args(&p, &comm);
        (void)comm.choose(comm.user, &fc);
        memcpy(ms[host], p.comm.choices[0].ms, sizeof ms[host]);
        sw_exchange_plan_fini(&p);
    }

    for (int mode = 0; mode < SW_EXCHANGE_MODES; mode++)
        assert_true(ms[0][mode] == ms[1][mode] || (isnan(ms[0][mode]) && isnan(ms[1][mode])));
}

/* ---- A wait that is left out ---- */

static int (*real_wait)(struct sw_stream *s, struct sw_event *e, struct sw_err *err);

static int planted_wait(struct sw_stream *s, struct sw_event *e, struct sw_err *err)
{
    bool left_out = strcmp(sw_sim_stream_of(s)->lane->name, "factors") == 0;
    return left_out ? SW_OK : real_wait(s, e, err);
}

static void leave_waits_out(struct trial *t)
{
    static struct sw_device_ops ops;
    ops = *t->job->workers[0].device->ops;
    real_wait = ops.event_wait;
    ops.event_wait = planted_wait;
    for (int w = 0; w < t->job->place.placement->worker_count; w++)
        t->job->workers[w].device->ops = &ops;
}

static void a_missing_wait_is_detected(void **state)
{
    struct trial t = {.recipe = comm_recipe,
                      .oversubscribe = true,
                      .name = "planted",
                      .steps = COMM_STEPS,
                      .device = comm_sims[3],
                      .before = leave_waits_out,
                      .sets = {SFB, workers_set[3]}};
    assert_int_equal(trial_go(&t), SW_ERR_INVALID);
    if (!strstr(t.err.text, "of stream factors") || !strstr(t.err.text, "no event between"))
        fail_msg("%s", t.err.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(factors_on_the_cpu_give_the_parameters_of_one_worker,
                                        home_begin, home_end),
        cmocka_unit_test_setup_teardown(factors_between_devices_give_the_parameters_of_one_worker,
                                        home_begin, home_end),
        cmocka_unit_test_setup_teardown(devices_copy_the_bytes_of_the_formulas, home_begin,
                                        home_end),
        cmocka_unit_test_setup_teardown(on_the_cpu_factors_are_read_where_they_are, home_begin,
                                        home_end),
        cmocka_unit_test_setup_teardown(factors_take_the_memory_that_is_planned, home_begin,
                                        home_end),
        cmocka_unit_test_setup_teardown(factors_are_rounded_as_products_do, home_begin, home_end),
        cmocka_unit_test_setup_teardown(groups_that_update_on_their_own_train_with_factors,
                                        home_begin, home_end),
        cmocka_unit_test_setup_teardown(one_group_of_hogwild_is_exact, home_begin, home_end),
        cmocka_unit_test_setup_teardown(layers_have_their_own_exchange_modes, home_begin, home_end),
        cmocka_unit_test_setup_teardown(frozen_layers_and_other_updaters_keep_to_one_worker,
                                        home_begin, home_end),
        cmocka_unit_test(resume_is_bit_identical),
        cmocka_unit_test(counts_are_those_of_the_papers),
        cmocka_unit_test(costs_weigh_links_against_products),
        cmocka_unit_test(layers_share_the_link_and_the_overlapping_computing),
        cmocka_unit_test(links_alone_choose_as_poseidon_does),
        cmocka_unit_test_setup_teardown(auto_follows_the_link_and_a_resume_keeps_its_choice,
                                        home_begin, home_end),
        cmocka_unit_test_setup_teardown(auto_is_the_default_between_devices, home_begin, home_end),
        cmocka_unit_test_setup_teardown(the_default_keeps_to_what_is_possible, home_begin,
                                        home_end),
        cmocka_unit_test(a_stored_choice_counts_its_time_on_the_link),
        cmocka_unit_test(a_checkpoint_without_modes_keeps_whole_gradients),
        cmocka_unit_test(hosts_choose_by_the_rate_that_they_measured),
        cmocka_unit_test(the_choice_of_a_host_does_not_depend_on_its_own_rows),
        cmocka_unit_test_setup_teardown(a_missing_wait_is_detected, home_begin, home_end),
        cmocka_unit_test(rows_that_move_take_their_factors_with_them),
        cmocka_unit_test_setup_teardown(a_device_that_is_lost_ends_the_run_for_all, home_begin,
                                        home_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
