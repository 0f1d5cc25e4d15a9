/* ctest-labels: threads
 * ctest-timeout: 180
 * Groups that are synchronous over all, each of which splits the net for itself (the tech report's
 * hybrid): they share the rows of a batch, a worker shares its parts of parameters with the same
 * one of the other groups, and together they train to what one worker trains. */
#include "workers_support.h"

enum { STEPS = 12 };

#define CUSTOM "cluster.framework=custom"
static const char *const groups_set[] = {"", "cluster.worker_groups=1", "cluster.worker_groups=2",
                                         "cluster.worker_groups=3"};

/* Layers that add up over the batch, in rows and among split ones; labels that do not count. */
static const char sums_recipe[] = WORKERS_JOB DATA_SECTIONS UPDATER_SECTIONS
    "[layer image]\ntype = input\nfield = image\n[layer label]\ntype = input\nfield = label\n"
    "[layer conv1]\ntype = convolution\nsrc = image\noutputs = 8\nkernel = 3\nbias = no\n"
    "[layer bn1]\ntype = batch_norm\nsrc = conv1\n"
    "[layer act1]\ntype = activation\nsrc = bn1\nfunction = sigmoid\n"
    "[layer pool1]\ntype = pooling\nsrc = act1\nmethod = avg\nkernel = 2\nstride = 2\n"
    "[layer fc1]\ntype = inner_product\nsrc = pool1\noutputs = 24\nbias = no\n"
    "[layer bn2]\ntype = batch_norm\nsrc = fc1\n"
    "[layer act2]\ntype = activation\nsrc = bn2\nfunction = sigmoid\n"
    "[layer drop]\ntype = dropout\nsrc = act2\nratio = 0.3\n"
    "[layer sparse]\ntype = sparsity\nsrc = drop\nrho = 0.2\nbeta = 0.01\n"
    "[layer fc2]\ntype = inner_product\nsrc = sparse\noutputs = 4\n"
    "[layer loss]\ntype = softmax_loss\nsrc = fc2, label\nignore_label = 2\n"
    "[layer accuracy]\ntype = accuracy\nsrc = fc2, label\ninclude = eval\n";

/* How the layers are split, up to the first NULL. */
static const char *const splits[][3] = {
    {"job.partition=1"},
    {"layer.fc1.partition=1", "layer.fc2.partition=none"},
    {"layer.conv1.partition=1", "layer.fc1.partition=none"},
    {"job.partition=none"},
    {"layer.fc1.partition=1in", "layer.fc2.partition=1"},
};
enum { SPLITS = sizeof splits / sizeof *splits };

static double value(const char *run, const char *split, const char *name, int step)
{
    return ask("SELECT value FROM metrics WHERE run_id = %d AND split = '%s' AND name = '%s' AND "
               "step = %d",
               run_id(run), split, name, step);
}

static void equals_one_worker(const char *recipe, int split, int groups, int members,
                              const char *device)
{
    train(.name = "hybrid", .recipe = recipe, .steps = STEPS, .oversubscribe = true,
          .device = device,
          .sets = {CUSTOM, groups_set[groups], workers_set[members], "cluster.servers_per_group=2",
                   "cluster.slice_size=1024", splits[split][0],
                   splits[split][1] ? splits[split][1] : splits[split][0]});
    assert_equal_runs("one", "hybrid", STEPS);
    for (int step = 1; step <= STEPS; step++)
        assert_true(fabs(value("one", "train", "loss", step) -
                         value("hybrid", "train", "loss", step)) < 1e-4);
    assert_true(fabs(value("one", "test", "loss", STEPS) - value("hybrid", "test", "loss", STEPS)) <
                1e-4);
    assert_true(value("one", "test", "accuracy", STEPS) ==
                value("hybrid", "test", "accuracy", STEPS));
    assert_int_equal((int)ask("SELECT count(DISTINCT worker) FROM step_time WHERE run_id = %d",
                              run_id("hybrid")),
                     groups * members);
}

static void split_nets_of_several_groups_equal_one_worker(void **state)
{
    grouped(.name = "one", .steps = STEPS);
    for (int s = 0; s < SPLITS; s++)
        for (int groups = 2; groups <= 3; groups++)
            for (int members = 1; members <= 3; members++)
                equals_one_worker(workers_recipe, s, groups, members, NULL);
}

static void sums_are_over_the_whole_batch(void **state)
{
    train(.name = "one", .recipe = sums_recipe, .steps = STEPS);
    for (int s = 0; s < SPLITS; s++)
        for (int groups = 2; groups <= 3; groups++)
            equals_one_worker(sums_recipe, s, groups, 2, NULL);
}

/* A layer that one worker has whole is with that one of every group, and so are its sums. */
static void a_location_is_in_every_group(void **state)
{
    train(.name = "one", .recipe = sums_recipe, .steps = STEPS);
    train(.name = "hybrid", .recipe = sums_recipe, .steps = STEPS, .oversubscribe = true,
          .sets = {CUSTOM, groups_set[2], workers_set[2], "layer.fc1.location=1",
                   "layer.bn2.location=0", "layer.sparse.location=1"});
    assert_equal_runs("one", "hybrid", STEPS);
}

static void separate_devices_train_the_same_values(void **state)
{
    train(.name = "one", .recipe = sums_recipe, .steps = STEPS);
    for (int s = 0; s < SPLITS; s++)
        equals_one_worker(sums_recipe, s, 2, 2, "sim:gpus=4,mem=64MiB");
}

static void norms_are_those_of_whole_parameters(void **state)
{
    static const char lars[] = WORKERS_JOB DATA_SECTIONS
        "[updater]\ntype = lars\nlr = 2\nweight_decay = 0.0005\ntrust = 0.002\n" WORKERS_NET;
    train(.name = "one", .recipe = lars, .steps = STEPS, .sets = {"job.grad_clip=norm:0.5"});
    train(.name = "hybrid", .recipe = lars, .steps = STEPS, .oversubscribe = true,
          .sets = {CUSTOM, groups_set[2], workers_set[2], "job.partition=1",
                   "job.grad_clip=norm:0.5"});
    assert_equal_runs("one", "hybrid", STEPS);
}

/* Twice the same bits, also when a run is cut in two. */
static void a_hybrid_repeats_itself_and_resumes(void **state)
{
#define HYBRID CUSTOM, groups_set[2], workers_set[2], "job.partition=1"
    grouped(.name = "a", .steps = STEPS, .sets = {HYBRID});
    grouped(.name = "b", .steps = STEPS, .sets = {HYBRID});
    assert_same_tensors(checkpoint_path("a", STEPS), checkpoint_path("b", STEPS));
    grouped(.name = "c", .steps = 5, .sets = {HYBRID});
    grouped(.resume = "c", .resume_step = 5, .steps = STEPS, .sets = {HYBRID});
    assert_same_tensors(checkpoint_path("a", STEPS), checkpoint_path("c", STEPS));
}

/* Features move inside groups only. */
static void activations_move_only_within_the_group(void **state)
{
    grouped(.name = "moves", .steps = STEPS, .sets = {HYBRID});
    int id = run_id("moves");
    assert_true(
        ask("SELECT sum(bytes) FROM link_traffic WHERE run_id = %d AND kind = 'feature'", id) > 0);
    assert_int_equal((int)ask("SELECT count(*) FROM link_traffic WHERE run_id = %d AND kind = "
                              "'feature' AND substr(from_unit, 7, 1) != substr(to_unit, 7, 1)",
                              id),
                     0);
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, home_begin, home_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH(split_nets_of_several_groups_equal_one_worker),
        FRESH(sums_are_over_the_whole_batch),
        FRESH(a_location_is_in_every_group),
        FRESH(separate_devices_train_the_same_values),
        FRESH(norms_are_those_of_whole_parameters),
        FRESH(a_hybrid_repeats_itself_and_resumes),
        FRESH(activations_move_only_within_the_group),
    };
    return cmocka_run_group_tests_name("hybrid", tests, NULL, NULL);
}
