/* ctest-labels: threads
 * ctest-timeout: 120
 * job.on_nan: one batch of every epoch contains a value that overflows. Skipping its update equals
 * a run without the batch, rollback restores the newest checkpoint's values, stop ends the run, and
 * no checkpoint ever contains a value that is not finite. */
#include "workers_support.h"

enum { RECORDS = 40, BATCH = 8, BAD = 17 /* in the third of five batches */, COLUMNS = 6 };

/* Records from a formula, the bad batch with one huge value or left out. */
static void write_table(const char *name, bool bad_batch)
{
    char *path = in_home("%s", name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int r = 0; r < RECORDS; r++) {
        bool in_bad_batch = r / BATCH == BAD / BATCH;
        if (in_bad_batch && !bad_batch)
            continue;
        for (int c = 0; c < COLUMNS; c++)
            fprintf(f, "%g,", r == BAD && c == 2 ? 3e38 : sin(r * 7 + c * c) + (r % 4 == c));
        fprintf(f, "%d\n", r % 4);
    }
    fclose(f);
}

static const char *recipe_with(const char *updater)
{
    static char text[4096];
    snprintf(text, sizeof text,
             "[job]\nbatch = 8\neval_batch = 8\nsteps = 20\n"
             "[data train]\nformat = csv\npaths = %s\nscale = 2\n"
             "[data test]\nformat = csv\npaths = %s\nscale = 2\n"
             "[updater]\n%s\n"
             "[layer image]\ntype = input\nfield = image\n"
             "[layer label]\ntype = input\nfield = label\n"
             "[layer fc1]\ntype = inner_product\nsrc = image\noutputs = 12\nbias = no\n"
             "[layer bn1]\ntype = batch_norm\nsrc = fc1\n"
             "[layer act1]\ntype = activation\nsrc = bn1\nfunction = tanh\n"
             "[layer fc2]\ntype = inner_product\nsrc = act1\noutputs = 4\n"
             "[layer loss]\ntype = softmax_loss\nsrc = fc2, label\n",
             in_home("bad.csv"), in_home("clean.csv"), updater);
    return text;
}

#define SGD "type = sgd\nlr = 0.05\nmomentum = 0.9\nweight_decay = 0.001"
#define ADAM "type = adam\nlr = 0.01"

static void write_tables(void)
{
    write_table("bad.csv", true);
    write_table("clean.csv", false);
}

/* 16 steps without the bad batch: what 20 steps that skip four of them should be. */
static void train_clean(const char *name, const char *updater)
{
    char set[600];
    snprintf(set, sizeof set, "data.train.paths=%s", in_home("clean.csv"));
    train(.name = name, .recipe = recipe_with(updater), .sets = {set}, .steps = 16);
}

static int skipped(const char *name)
{
    return (int)ask("SELECT count(*) FROM events WHERE run_id = %d AND text LIKE '%%is skipped%%'",
                    run_id(name));
}

/* Parameters, updater state and running statistics. */
static void assert_no_difference(const char *a, int64_t at, const char *b, int64_t bt)
{
    assert_same_tensors_(checkpoint_path(a, at), checkpoint_path(b, bt), __FILE__, __LINE__);
}

static void stop_names_the_step(void **state)
{
    struct trial t = {.name = "stop", .recipe = recipe_with(SGD)};
    write_tables();
    t.recipe = recipe_with(SGD);
    assert_int_equal(trial_go(&t), SW_ERR_DIVERGED);
    assert_non_null(strstr(t.err.text, "step 3: the loss is not a number"));
    assert_int_equal(count_files("stop", ".safetensors"), 1); /* that of step 0 */
}

/* A device may be at the next step by the time that the bad one is found. The bad one is named, and
 * no checkpoint has a value of either: nothing is queued behind a step whose values are saved. */
static void stop_names_the_step_behind_which_a_device_went_ahead(void **state)
{
    static const char *const every[] = {"job.checkpoint_every=0", "job.checkpoint_every=2"};
    write_tables();
    train(.name = "two", .recipe = recipe_with(SGD), .steps = 2);
    for (int i = 0; i < 2; i++) {
        struct trial t = {.name = i ? "saved" : "unsaved",
                          .recipe = recipe_with(SGD),
                          .device = "sim:gpus=1,mem=64MiB",
                          .sets = {"cluster.copy=none", every[i]}};
        assert_int_equal(trial_open(&t), SW_OK);
        assert_int_equal(trial_run(&t), SW_ERR_DIVERGED);
        assert_non_null(strstr(t.err.text, "step 3: "));
        assert_int_equal(t.job->workers[0].step, 2);
        assert_int_equal(t.job->workers[0].flight.count, 2);
        trial_close(&t);
        assert_int_equal(count_files(t.name, ".safetensors"), 1 + i); /* step 0, and 2 */
    }
    assert_no_difference("two", 2, "saved", 2);
}

/* Two devices, each with its half of the batch: one has the loss, and both have the gradient. */
static void stop_names_the_step_behind_which_devices_went_ahead(void **state)
{
    static const char *const clip[] = {"job.grad_clip=norm:1e9", NULL};
    write_tables();
    train(.name = "two", .recipe = recipe_with(SGD), .steps = 2, .oversubscribe = true,
          .device = "sim:gpus=2,mem=64MiB", .sets = {"cluster.copy=none", "layer.bn1.sync=no"});
    for (int i = 0; i < 2; i++) {
        struct trial t = {
            .name = i ? "saved" : "clipped",
            .recipe = recipe_with(SGD),
            .device = "sim:gpus=2,mem=64MiB",
            .oversubscribe = true,
            .sets = {"cluster.copy=none", "job.checkpoint_every=2", "layer.bn1.sync=no", clip[i]}};
        assert_int_equal(trial_open(&t), SW_OK);
        assert_int_equal(t.job->workers[0].topology->workers, 2);
        assert_int_equal(trial_run(&t), SW_ERR_DIVERGED);
        if (!strstr(t.err.text, "step 3: ") && !strstr(t.err.text, "update 3"))
            fail_msg("%s", t.err.text);
        trial_close(&t);
        assert_int_equal(count_files(t.name, ".safetensors"), 2); /* steps 0 and 2 */
        assert_no_difference("two", 2, t.name, 2);
    }
}

static void skipped_update_equals_a_run_without_its_batch(void **state)
{
    static const char *const updaters[] = {SGD, ADAM};
    write_tables();
    for (int u = 0; u < 2; u++) {
        char clean[32], skip[32];
        snprintf(clean, sizeof clean, "clean%d", u);
        snprintf(skip, sizeof skip, "skip%d", u);
        train_clean(clean, updaters[u]);
        train(.name = skip, .recipe = recipe_with(updaters[u]), .sets = {"job.on_nan=skip"});
        assert_no_difference(clean, 16, skip, 20);
        assert_int_equal(skipped(skip), 4);
    }
    /* The losses and norms of the four steps are unknown, all others are there. */
    assert_int_equal(
        (int)ask("SELECT count(*) FROM metrics WHERE run_id = %d AND name = 'loss' AND "
                 "split = 'train' AND value IS NULL",
                 run_id("skip0")),
        4);
    assert_int_equal((int)ask("SELECT count(*) FROM metrics WHERE run_id = %d AND name = "
                              "'grad_norm' AND value > 0",
                              run_id("skip0")),
                     16);
}

/* Without the scale the value does not overflow by itself. Its square does, in the statistics of
 * the batch: what is divided by that is 0, and loss and gradients look fine. */
static void overflowing_statistics_are_detected(void **state)
{
    struct trial t = {.name = "poison", .sets = {"data.train.scale=1"}};
    write_tables();
    t.recipe = recipe_with(SGD);
    assert_int_equal(trial_go(&t), SW_ERR_DIVERGED);
    assert_non_null(strstr(t.err.text, "state.bn1.variance"));
    assert_int_equal(count_files("poison", ".safetensors"), 1);
    train(.name = "healed", .recipe = recipe_with(SGD),
          .sets = {"data.train.scale=1", "job.on_nan=skip"});
    assert_int_equal(skipped("healed"), 4);
}

static void skipping_is_the_same_for_workers_servers_and_devices(void **state)
{
    write_tables();
    train(.name = "one", .recipe = recipe_with(SGD), .sets = {"job.on_nan=skip"});
    train(.name = "three", .recipe = recipe_with(SGD), .oversubscribe = true,
          .sets = {"job.on_nan=skip", SANDBLASTER, "cluster.workers_per_group=3",
                   "cluster.servers_per_group=2"});
    train(.name = "sim", .recipe = recipe_with(SGD), .oversubscribe = true,
          .device = "sim:gpus=2,mem=64MiB",
          .sets = {"job.on_nan=skip", ALLREDUCE, "cluster.workers_per_group=2"});
    assert_equal_runs("one", "three", 20);
    assert_equal_runs("one", "sim", 20);
    assert_int_equal(skipped("three"), 4);
    assert_int_equal(skipped("sim"), 4);
    /* Another worker keeps up the statistics, another one counts the loss. */
    for (int sim = 0; sim < 2; sim++) {
        train(.name = "elsewhere", .recipe = recipe_with(SGD), .oversubscribe = true,
              .device = sim ? "sim:gpus=3,mem=64MiB" : "cpu",
              .sets = {"job.on_nan=skip", ALLREDUCE, "cluster.workers_per_group=3",
                       "layer.bn1.location=1", "layer.loss.location=2"});
        assert_equal_runs("one", "elsewhere", 20);
        assert_int_equal(skipped("elsewhere"), 4);
    }
}

/* Devices that update by themselves ask the host about losses and statistics, and nothing else. */
static void devices_that_update_skip_the_same_updates(void **state)
{
    static const char *const updaters[] = {SGD, ADAM};
    write_tables();
    for (int u = 0; u < 2; u++)
        for (int devices = 1; devices <= 3; devices++) {
            static const char *const sims[] = {"", "sim:gpus=1,mem=64MiB", "sim:gpus=2,mem=64MiB",
                                               "sim:gpus=3,mem=64MiB"};
            const char *place[] = {devices == 3 ? "layer.bn1.location=1" : NULL,
                                   devices == 3 ? "layer.loss.location=2" : NULL};
            train(.name = "host", .recipe = recipe_with(updaters[u]), .oversubscribe = true,
                  .device = sims[devices], .sets = {"job.on_nan=skip", place[0], place[1]});
            train(.name = "device", .recipe = recipe_with(updaters[u]), .oversubscribe = true,
                  .device = sims[devices],
                  .sets = {"job.on_nan=skip", "cluster.copy=none", place[0], place[1]});
            assert_no_difference("host", 20, "device", 20);
            assert_int_equal(skipped("device"), 4);
            train(.name = "cut", .recipe = recipe_with(updaters[u]), .oversubscribe = true,
                  .device = sims[devices], .steps = 9,
                  .sets = {"job.on_nan=skip", "cluster.copy=none", place[0], place[1]});
            train(.resume = "cut", .resume_step = 9, .oversubscribe = true,
                  .device = sims[devices]);
            assert_no_difference("host", 20, "cut", 20);
        }
    /* Statistics alone. */
    for (int none = 0; none < 2; none++)
        train(.name = none ? "kept" : "copied", .recipe = recipe_with(SGD), .device = "sim:gpus=1",
              .sets = {"data.train.scale=1", "job.on_nan=skip",
                       none ? "cluster.copy=none" : "cluster.copy=async"});
    assert_no_difference("copied", 20, "kept", 20);
    assert_int_equal(skipped("kept"), 4);
}

/* What was dropped before a checkpoint still counts after a resume. */
static void resume_continues_with_the_count_of_skipped_updates(void **state)
{
    write_tables();
    train(.name = "through", .recipe = recipe_with(ADAM), .sets = {"job.on_nan=skip"});
    train(.name = "cut", .recipe = recipe_with(ADAM), .sets = {"job.on_nan=skip"}, .steps = 9);
    train(.resume = "cut", .resume_step = 9);
    assert_no_difference("through", 20, "cut", 20);
}

/* With a checkpoint after every step there is nothing to lose but the bad update. */
static void rollback_restores_the_newest_checkpoint(void **state)
{
    write_tables();
    train_clean("undisturbed", ADAM);
    train(.name = "rolled", .recipe = recipe_with(ADAM),
          .sets = {"job.on_nan=rollback", "job.checkpoint_every=1"});
    assert_no_difference("undisturbed", 16, "rolled", 20);
    assert_int_equal((int)ask("SELECT count(*) FROM events WHERE run_id = %d AND text LIKE "
                              "'update %% rolled back to the values of step %%'",
                              run_id("rolled")),
                     4);
    /* Step 3 fails and brings those of step 2, whatever came in between. */
    assert_null(differing_tensor(checkpoint_path("rolled", 2), checkpoint_path("rolled", 3), "fc"));
    assert_non_null(
        differing_tensor(checkpoint_path("rolled", 3), checkpoint_path("rolled", 4), "fc"));
}

/* Steps 3, 8 and 13 lead back to step 0; step 18 is once too often. */
static void rollbacks_to_one_checkpoint_are_limited(void **state)
{
    struct trial t = {.name = "loop", .sets = {"job.on_nan=rollback"}};
    write_tables();
    t.recipe = recipe_with(SGD);
    assert_int_equal(trial_go(&t), SW_ERR_DIVERGED);
    assert_non_null(strstr(t.err.text, "step 18"));
    assert_non_null(strstr(t.err.text, "3 rollbacks to the same checkpoint"));
}

static void rolling_back_is_the_same_for_workers_and_devices(void **state)
{
    write_tables();
#define SETS "job.on_nan=rollback", "job.checkpoint_every=4"
    train(.name = "r1", .recipe = recipe_with(SGD), .sets = {SETS});
    train(.name = "r2", .recipe = recipe_with(SGD), .oversubscribe = true,
          .sets = {SETS, ALLREDUCE, "cluster.workers_per_group=2"});
    train(.name = "rs", .recipe = recipe_with(SGD), .oversubscribe = true,
          .device = "sim:gpus=2,mem=64MiB",
          .sets = {SETS, ALLREDUCE, "cluster.workers_per_group=2"});
    train(.name = "elsewhere", .recipe = recipe_with(SGD), .oversubscribe = true,
          .device = "sim:gpus=2,mem=64MiB",
          .sets = {SETS, ALLREDUCE, "cluster.workers_per_group=2", "layer.bn1.location=1"});
    assert_equal_runs("r1", "r2", 20);
    assert_equal_runs("r1", "rs", 20);
    assert_equal_runs("r1", "elsewhere", 20);
}

/* Every copy of that worker's device takes a while. */
static void be_late(struct trial *t)
{
    const int *late = t->user;
    sw_sim_device_of(t->job->workers[*late].device)->conf.copy_delay_us = 3000;
}

/* Running statistics are in the job's memory, where one worker brings them and all read them: when
 * one begins, after a rollback, and for an evaluation. However late one comes, nobody writes there
 * meanwhile, which sim would say. */
static void statistics_are_not_changed_while_a_device_reads_them(void **state)
{
    static const char *const policies[] = {"job.on_nan=rollback", "job.on_nan=skip"};
    write_tables();
    for (int late = 0; late < 2; late++)
        for (int i = 0; i < 4; i++)
            train(.name = "late", .recipe = recipe_with(SGD), .oversubscribe = true, .steps = 10,
                  .device = "sim:gpus=2,mem=64MiB", .before = be_late, .user = &late,
                  .sets = {policies[i % 2], "job.checkpoint_every=2", "job.eval_every=3", ALLREDUCE,
                           "cluster.workers_per_group=2",
                           i / 2 ? "layer.bn1.location=1" : "layer.bn1.sync=no"});
}

/* New values that overflow: nothing to go on from when skipping, but there is when rolling back. */
static void overflowing_values_roll_back(void **state)
{
    struct trial t = {.name = "over", .sets = {"job.on_nan=skip"}};
    char recipe[4096];
    write_tables();
    snprintf(recipe, sizeof recipe, "%s", recipe_with("type = sgd\nlr = 3e38\nweight_decay = 100"));
    t.recipe = recipe;
    assert_int_equal(trial_go(&t), SW_ERR_DIVERGED);
    assert_non_null(strstr(t.err.text, "the gradient or new value of"));
    t = (struct trial){.name = "over2", .recipe = recipe, .sets = {"job.on_nan=rollback"}};
    assert_int_equal(trial_go(&t), SW_ERR_DIVERGED);
    assert_non_null(strstr(t.err.text, "rollbacks to the same checkpoint"));
    assert_int_equal(count_files("over2", ".safetensors"), 1);
}

/* ---- Clipping ---- */

static void clipping_without_effect_changes_no_bits(void **state)
{
    grouped(.name = "free", .sets = {ALLREDUCE, "cluster.workers_per_group=2"});
    grouped(.name = "norm",
            .sets = {ALLREDUCE, "cluster.workers_per_group=2", "job.grad_clip=norm:1e9"});
    grouped(.name = "value",
            .sets = {ALLREDUCE, "cluster.workers_per_group=2", "job.grad_clip=value:1e9"});
    assert_no_difference("free", 20, "norm", 20);
    assert_no_difference("free", 20, "value", 20);
    assert_int_equal((int)ask("SELECT count(*) FROM metrics WHERE run_id = %d AND "
                              "name = 'grad_norm' AND value > 0",
                              run_id("norm")),
                     20);
}

static void clipping_is_the_same_for_workers_and_devices(void **state)
{
    grouped(.name = "c1", .sets = {"job.grad_clip=norm:0.1"});
    grouped(.name = "c3", .sets = {SANDBLASTER, "cluster.workers_per_group=3",
                                   "cluster.servers_per_group=2", "job.grad_clip=norm:0.1"});
    grouped(.name = "columns", .sets = {ALLREDUCE, "cluster.workers_per_group=2", "job.partition=1",
                                        "job.grad_clip=norm:0.1"});
    grouped(.name = "cs", .device = "sim:gpus=2,mem=64MiB",
            .sets = {ALLREDUCE, "cluster.workers_per_group=2", "job.grad_clip=norm:0.1"});
    assert_equal_runs("c1", "c3", 20);
    assert_equal_runs("c1", "columns", 20);
    assert_equal_runs("c1", "cs", 20);
    assert_true(difference(checkpoint_path("c1", 20), checkpoint_path("free", 20)) > 1e-3);
}

/* Norms of parameters of which workers hold parts. */
static void lars_is_the_same_for_split_parameters(void **state)
{
    static const char recipe[] = WORKERS_JOB DATA_SECTIONS
        "[updater]\ntype = lars\nlr = 2\nweight_decay = 0.0005\ntrust = 0.002\n" WORKERS_NET;
    train(.name = "l1", .recipe = recipe);
    train(.name = "l2", .recipe = recipe, .oversubscribe = true,
          .sets = {ALLREDUCE, "cluster.workers_per_group=2", "job.partition=1"});
    assert_equal_runs("l1", "l2", 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stop_names_the_step),
        cmocka_unit_test(stop_names_the_step_behind_which_a_device_went_ahead),
        cmocka_unit_test(stop_names_the_step_behind_which_devices_went_ahead),
        cmocka_unit_test(skipped_update_equals_a_run_without_its_batch),
        cmocka_unit_test(overflowing_statistics_are_detected),
        cmocka_unit_test(skipping_is_the_same_for_workers_servers_and_devices),
        cmocka_unit_test(devices_that_update_skip_the_same_updates),
        cmocka_unit_test(resume_continues_with_the_count_of_skipped_updates),
        cmocka_unit_test(rollback_restores_the_newest_checkpoint),
        cmocka_unit_test(rollbacks_to_one_checkpoint_are_limited),
        cmocka_unit_test(rolling_back_is_the_same_for_workers_and_devices),
        cmocka_unit_test(statistics_are_not_changed_while_a_device_reads_them),
        cmocka_unit_test(overflowing_values_roll_back),
        cmocka_unit_test(clipping_without_effect_changes_no_bits),
        cmocka_unit_test(clipping_is_the_same_for_workers_and_devices),
        cmocka_unit_test(lars_is_the_same_for_split_parameters),
    };
    return cmocka_run_group_tests(tests, home_begin, home_end);
}
