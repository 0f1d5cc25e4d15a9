/* ctest-labels: threads
 * ctest-timeout: 120
 * Workers on simulated devices, whose memory the host cannot reach and whose copies take place
 * late: they train to what workers on the CPU train, evaluate and write checkpoints like them. */
#include "workers_support.h"

#include "device/sim/sim.h"

#include <dlfcn.h>

enum { STEPS = 20 };

/* This program's sw_sim_open takes the place of the library's, and calls it: copies may take their
 * time. */
static int64_t copy_delay_us;

int sw_sim_open(const struct sw_sim_conf *conf, int index, struct sw_device **out,
                struct sw_err *err)
{
    int (*real)(const struct sw_sim_conf *, int, struct sw_device **, struct sw_err *);
    struct sw_sim_conf slow = *conf;
    *(void **)&real = dlsym(RTLD_NEXT, "sw_sim_open");
    slow.copy_delay_us = copy_delay_us;
    return real(&slow, index, out, err);
}

static const char *const sims[] = {"", "sim:gpus=1,mem=64MiB", "sim:gpus=2,mem=64MiB",
                                   "sim:gpus=3,mem=64MiB", "sim:gpus=4,mem=64MiB"};

/* Smooth, with sums over the group; 50 rows over 4 are 13, 13, 12, 12. */
static const char norm_recipe[] =
    "[job]\nsteps = 20\nbatch = 50\neval_batch = 20\n" DATA_SECTIONS UPDATER_SECTIONS
    "[layer image]\ntype = input\nfield = image\n[layer label]\ntype = input\nfield = label\n"
    "[layer conv1]\ntype = convolution\nsrc = image\noutputs = 8\nkernel = 3\nbias = no\n"
    "[layer bn1]\ntype = batch_norm\nsrc = conv1\n"
    "[layer act1]\ntype = activation\nsrc = bn1\nfunction = tanh\n"
    "[layer pool1]\ntype = pooling\nsrc = act1\nmethod = avg\nkernel = 2\nstride = 2\n"
    "[layer fc1]\ntype = inner_product\nsrc = pool1\noutputs = 24\nbias = no\n"
    "[layer bn2]\ntype = batch_norm\nsrc = fc1\n"
    "[layer act2]\ntype = activation\nsrc = bn2\nfunction = tanh\n"
    "[layer fc2]\ntype = inner_product\nsrc = act2\noutputs = 4\n"
    "[layer loss]\ntype = softmax_loss\nsrc = fc2, label\n"
    "[layer accuracy]\ntype = accuracy\nsrc = fc2, label\ninclude = eval\n";

static double metric(const char *run, const char *split, const char *name, int step)
{
    return ask("SELECT value FROM metrics WHERE run_id = %d AND split = '%s' AND name = '%s' AND "
               "step = %d",
               run_id(run), split, name, step);
}

/* That it was real: every worker on a device of its own that computed, with a copy of the
 * parameters there, and servers on the host. */
static void check_devices(struct trial *t)
{
    const struct sw_placement *p = t->job->place.placement;
    assert_true(t->job->place.devices.driver->caps.simulated);
    for (int w = 0; w < p->worker_count; w++) {
        char name[16];
        snprintf(name, sizeof name, "sim:%d", w);
        assert_string_equal(p->rows[w].device, name);
        assert_false(t->job->workers[w].device->host_memory);
        for (int k = 0; k < w; k++)
            assert_ptr_not_equal(t->job->workers[w].device, t->job->workers[k].device);
    }
    assert_true(t->job->place.host->host_memory);
}

static int64_t operations[8];

static void note_operations(struct trial *t)
{
    for (int w = 0; w < t->job->place.placement->worker_count; w++)
        operations[w] = sw_sim_operations(t->job->workers[w].device);
}

/* Between run and close the devices can be asked what they did. */
static void run_on_sim(struct trial *t)
{
    t->recipe = t->recipe ? t->recipe : workers_recipe;
    t->oversubscribe = true;
    t->before = check_devices;
    if (trial_open(t) != SW_OK || trial_run(t) != SW_OK)
        fail_msg("%s: %s", t->name, t->err.text);
    note_operations(t);
    for (int w = 0; w < t->job->place.placement->worker_count; w++) {
        assert_true(operations[w] > 20 * STEPS);
        assert_non_null(sw_exchange_marks(t->job->workers[w].exchange, 0));
    }
    trial_close(t);
}
#define on_sim(...) run_on_sim(&(struct trial){__VA_ARGS__})

static void sim_equals_cpu(void **state)
{
    static const struct {
        int workers;
        const char *name, *sets[2];
    } runs[] = {{1, "sim-1", {NULL}},
                {2, "sim-2", {NULL}},
                {3, "sim-3", {SANDBLASTER, "cluster.servers_per_group=2"}},
                {4, "sim-4", {SANDBLASTER, NULL}}};
    grouped(.name = "cpu");
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        /* The number of workers is that of the devices. */
        on_sim(.name = runs[i].name, .device = sims[runs[i].workers],
               .sets = {runs[i].sets[0], runs[i].sets[1]});
        assert_equal_runs("cpu", runs[i].name, STEPS);
        assert_int_equal(
            (int)ask("SELECT count(*) FROM step_time WHERE run_id = %d", run_id(runs[i].name)),
            STEPS * runs[i].workers);
        assert_int_equal((int)ask("SELECT count(*) FROM placement WHERE run_id = %d AND device "
                                  "LIKE 'sim:%%'",
                                  run_id(runs[i].name)),
                         runs[i].workers);
        assert_string_equal(ask_text("SELECT device FROM runs WHERE id = %d", run_id(runs[i].name)),
                            sims[runs[i].workers]);
    }
}

#define PS "cluster.comm=ps" /* the default on the CPU */

/* One math thread on both sides, so the same operations in the same order. */
static void workers_on_sim_have_the_bits_of_workers_on_cpu(void **state)
{
    for (int workers = 1; workers <= 4; workers++) {
        grouped(.name = "cpu", .sets = {workers_set[workers]});
        on_sim(.name = "sim", .device = sims[workers], .sets = {PS});
        assert_same_tensors(checkpoint_path("cpu", STEPS), checkpoint_path("sim", STEPS));
        on_sim(.name = "again", .device = sims[workers], .sets = {PS});
        assert_same_tensors(checkpoint_path("sim", STEPS), checkpoint_path("again", STEPS));
        for (int step = 1; step <= STEPS; step++)
            assert_true(metric("cpu", "train", "loss", step) ==
                        metric("sim", "train", "loss", step));
        assert_true(metric("cpu", "test", "accuracy", STEPS) ==
                    metric("sim", "test", "accuracy", STEPS));
    }
}

static void batch_norm_on_sim_equals_cpu(void **state)
{
    train(.recipe = norm_recipe, .name = "cpu");
    for (int workers = 1; workers <= 4; workers++) {
        char name[16];
        snprintf(name, sizeof name, "sim-%d", workers);
        on_sim(.recipe = norm_recipe, .name = name, .device = sims[workers]);
        assert_equal_runs("cpu", name, STEPS);
        assert_true(fabs(metric("cpu", "test", "loss", STEPS) -
                         metric(name, "test", "loss", STEPS)) < 1e-4);
    }
}

/* In the middle of training, too: what follows has the bits of a run without. */
static void evaluations_and_checkpoints_disturb_nothing(void **state)
{
    on_sim(.recipe = norm_recipe, .name = "plain", .device = sims[2], .sets = {PS});
    on_sim(.recipe = norm_recipe, .name = "busy", .device = sims[2],
           .sets = {PS, "job.eval_every=3", "job.checkpoint_every=4"});
    assert_same_tensors(checkpoint_path("plain", STEPS), checkpoint_path("busy", STEPS));
    train(.recipe = norm_recipe, .name = "cpu-busy", .oversubscribe = true,
          .sets = {workers_set[2], "job.eval_every=3", "job.checkpoint_every=4"});
    for (int step = 3; step < STEPS; step += 3)
        assert_true(metric("busy", "test", "loss", step) ==
                    metric("cpu-busy", "test", "loss", step));
    for (int step = 4; step <= STEPS; step += 4)
        assert_same_tensors(checkpoint_path("cpu-busy", step), checkpoint_path("busy", step));
}

static void resume_works_between_sim_and_cpu(void **state)
{
    on_sim(.recipe = norm_recipe, .name = "whole", .device = sims[2]);
    train(.recipe = norm_recipe, .name = "half", .device = sims[2], .oversubscribe = true,
          .steps = 9);
    train(.resume = "half", .resume_step = 9, .steps = STEPS, .device = sims[2],
          .oversubscribe = true);
    assert_same_tensors(checkpoint_path("whole", STEPS), checkpoint_path("half", STEPS));
    train(.recipe = norm_recipe, .name = "moved", .device = sims[3], .oversubscribe = true,
          .steps = 9);
    train(.resume = "moved", .resume_step = 9, .steps = STEPS, .device = "cpu",
          .oversubscribe = true, .sets = {workers_set[1]});
    assert_equal_runs("whole", "moved", STEPS);
}

/* A copy fills its destination with NaN when its turn comes, and brings the bytes later: whoever
 * does not wait for it computes with them. */
static void slow_copies_change_no_bit(void **state)
{
    static const char *const mixed[] = {"layer.fc1.partition=1", "layer.conv2.partition=none"};
    on_sim(.recipe = norm_recipe, .name = "quick", .device = sims[2], .sets = {"job.eval_every=5"});
    on_sim(.name = "quick-mixed", .device = sims[2], .sets = {mixed[0], mixed[1]});
    copy_delay_us = 300;
    on_sim(.recipe = norm_recipe, .name = "slow", .device = sims[2], .sets = {"job.eval_every=5"});
    on_sim(.name = "slow-mixed", .device = sims[2], .sets = {mixed[0], mixed[1]});
    copy_delay_us = 0;
    assert_same_tensors(checkpoint_path("quick", STEPS), checkpoint_path("slow", STEPS));
    assert_same_tensors(checkpoint_path("quick-mixed", STEPS),
                        checkpoint_path("slow-mixed", STEPS));
    for (int step = 5; step <= STEPS; step += 5)
        assert_true(metric("quick", "test", "loss", step) == metric("slow", "test", "loss", step));
}

static void every_worker_needs_a_device(void **state)
{
    struct trial few = {.recipe = workers_recipe,
                        .device = sims[4],
                        .oversubscribe = true,
                        .sets = {workers_set[2]}};
    assert_int_equal(trial_open(&few), SW_OK);
    assert_int_equal(few.job->place.placement->worker_count, 2);
    trial_close(&few);
    struct trial many = {.recipe = workers_recipe,
                         .device = sims[2],
                         .oversubscribe = true,
                         .sets = {workers_set[3]}};
    assert_int_equal(trial_open(&many), SW_ERR_INVALID);
    if (!strstr(sw_bytes_text(&many.messages),
                "3 workers need a device each, but there are 2: use at "
                "most 2 workers, or device = sim:gpus=3"))
        fail_msg("%s / %s", many.err.text, sw_bytes_text(&many.messages));
    trial_close(&many);
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, home_begin, home_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH(sim_equals_cpu),
        FRESH(workers_on_sim_have_the_bits_of_workers_on_cpu),
        FRESH(batch_norm_on_sim_equals_cpu),
        FRESH(evaluations_and_checkpoints_disturb_nothing),
        FRESH(resume_works_between_sim_and_cpu),
        FRESH(slow_copies_change_no_bit),
        FRESH(every_worker_needs_a_device),
    };
    return cmocka_run_group_tests_name("sim workers", tests, NULL, NULL);
}
