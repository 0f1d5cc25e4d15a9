/* ctest-labels: threads
 * ctest-timeout: 240
 * repeat_exact: parameters, updater state, running statistics and recorded numbers have the same
 * bits for every number of workers, servers and math threads, on the CPU and on simulated devices,
 * and after a resume with other workers. */
#include "workers_support.h"

enum { STEPS = 6 };

/* All that is random, all that looks at neighbours or at the whole batch, a parameter that two
 * layers share, and rows that eight parts do not divide. */
static const char recipe[] =
    "[job]\nsteps = 6\nbatch = 27\neval_batch = 20\neval_every = 3\nrepeat_exact = "
    "yes\n" DATA_SECTIONS UPDATER_SECTIONS
    "[layer image]\ntype = input\nfield = image\n[layer label]\ntype = input\nfield = label\n"
    "[layer conv1]\ntype = convolution\nsrc = image\noutputs = 8\nkernel = 3\nbias = no\n"
    "[layer bn1]\ntype = batch_norm\nsrc = conv1\n"
    "[layer relu1]\ntype = activation\nsrc = bn1\nfunction = relu\n"
    "[layer conv2]\ntype = convolution\nsrc = relu1\noutputs = 16\nkernel = 3\npad = 1\n"
    "[layer norm2]\ntype = lrn\nsrc = conv2\nsize = 3\nalpha = 0.5\n"
    "[layer pool2]\ntype = pooling\nsrc = norm2\nmethod = max\nkernel = 2\nstride = 2\n"
    "[layer fc1]\ntype = inner_product\nsrc = pool2\noutputs = 24\n"
    "[layer drop]\ntype = dropout\nsrc = fc1\nratio = 0.3\n"
    "[layer fc2]\ntype = inner_product\nsrc = drop\noutputs = 24\n"
    "[layer act2]\ntype = activation\nsrc = fc2\nfunction = sigmoid\n"
    "[layer sparse]\ntype = sparsity\nsrc = act2\nrho = 0.4\nbeta = 0.1\n"
    "[layer fc3]\ntype = inner_product\nsrc = sparse\noutputs = 24\nweight.share = fc2.weight\n"
    "[layer ln]\ntype = layer_norm\nsrc = fc3\n"
    "[layer fc4]\ntype = inner_product\nsrc = ln\noutputs = 4\n"
    "[layer loss]\ntype = softmax_loss\nsrc = fc4, label\n"
    "[layer near]\ntype = euclidean_loss\nsrc = act2, drop\nweight = 0.01\n"
    "[layer accuracy]\ntype = accuracy\nsrc = fc4, label\n";

#define exact(...) train(.recipe = recipe, .oversubscribe = true, __VA_ARGS__)

/* What was recorded, but for times; the numbers of two runs that differ, and how many there are. */
static void assert_same_records(const char *a, const char *b)
{
    static const char from[] =
        "SELECT count(*) FROM metrics a JOIN metrics b ON a.split = b.split AND a.name = b.name "
        "AND "
        "a.step = b.step WHERE a.run_id = %d AND b.run_id = %d AND a.name <> 'samples_per_s'";
    char sql[512];
    snprintf(sql, sizeof sql, "%s AND a.value IS NOT b.value", from);
    int ia = run_id(a), ib = run_id(b);
    /* Two losses and their sum, accuracy, rate, in every step; evaluations. */
    assert_true(ask(from, ia, ib) >= 5 * STEPS + 4 * 2);
    int differing = (int)ask(sql, ia, ib);
    if (differing)
        fail_msg("%d recorded numbers of %s and %s differ", differing, a, b);
}

static void assert_same_runs(const char *a, const char *b)
{
    for (int step = 0; step <= STEPS; step += STEPS)
        assert_same_tensors(checkpoint_path(a, step), checkpoint_path(b, step));
    assert_same_records(a, b);
}

struct set_up {
    const char *name, *device, *threads; /* OMP_NUM_THREADS, which caps; NULL: one */
    const char *sets[4];
};

/* The OpenMP runtime is not instrumented: to the thread sanitizer its barriers are none. */
#ifdef __SANITIZE_THREAD__
static const bool one_thread_only = true;
#else
static const bool one_thread_only = false;
#endif

static void run_as(const struct set_up *u, const char *set, const char *another)
{
    const char *threads = u->threads && !one_thread_only ? u->threads : "1";
    assert_int_equal(setenv("OMP_NUM_THREADS", threads, 1), 0);
    struct trial t = {
        .recipe = recipe, .name = u->name, .device = u->device, .oversubscribe = true};
    int n = 0;
    for (int i = 0; i < 4 && u->sets[i]; i++)
        t.sets[n++] = u->sets[i];
    t.sets[n++] = set;
    t.sets[n++] = set ? another : NULL;
    trial_ok(&t);
}

static const struct set_up one = {.name = "one", .sets = {"cluster.workers_per_group=1"}};
static const struct set_up set_ups[] = {
    {.name = "again", .sets = {"cluster.workers_per_group=1"}},
    {.name = "threads", .threads = "2", .sets = {"cluster.workers_per_group=1"}},
    {.name = "two", .sets = {"cluster.workers_per_group=2"}},
    {.name = "two-threads", .threads = "2", .sets = {"cluster.workers_per_group=2"}},
    {.name = "three-two",
     .sets = {SANDBLASTER, "cluster.workers_per_group=3", "cluster.servers_per_group=2"}},
    {.name = "four-four",
     .sets = {SANDBLASTER, "cluster.workers_per_group=4", "cluster.servers_per_group=4",
              "cluster.slice_size=1024"}},
    {.name = "eight-three",
     .sets = {SANDBLASTER, "cluster.workers_per_group=8", "cluster.servers_per_group=3"}},
    {.name = "at-the-end", .sets = {"cluster.workers_per_group=3", "cluster.overlap=no"}},
};
enum { SET_UPS = sizeof set_ups / sizeof *set_ups };

/* Every set-up against one worker, with what `set` changes in all of them. */
static void compare_all(const char *set, const char *another)
{
    run_as(&one, set, another);
    for (int i = 0; i < SET_UPS; i++) {
        run_as(&set_ups[i], set, another);
        assert_same_runs(one.name, set_ups[i].name);
    }
    assert_non_null(
        differing_tensor(checkpoint_path("one", 0), checkpoint_path("one", STEPS), "fc2.weight"));
}

static void every_set_up_has_the_same_bits(void **state)
{
    compare_all("job.virtual_workers=8", "updater.momentum=0.8");
}

/* The tree over five has a root on the right; norms of all gradients come in. */
static void repeat_exact_holds_in_two_phases_and_with_fewer_microbatches(void **state)
{
    compare_all("job.virtual_workers=12", "job.grad_clip=norm:0.5");
    run_as(&one, "job.virtual_workers=5", "job.grad_clip=norm:0.5");
    for (int i = 0; i < 6; i++) {
        run_as(&set_ups[i], "job.virtual_workers=5", "job.grad_clip=norm:0.5");
        assert_same_runs(one.name, set_ups[i].name);
    }
}

static void repeat_exact_holds_with_norms_of_layers(void **state)
{
    compare_all("updater.type=lars", "job.on_nan=skip");
}

/* And it is the same training as without, to rounding. */
static void microbatches_train_what_the_whole_batch_trains(void **state)
{
    static const char smooth[] = "layer.pool2.method=avg", tanh[] = "layer.relu1.function=tanh";
    run_as(&one, smooth, tanh);
    train(.recipe = recipe, .name = "whole",
          .sets = {smooth, tanh, "job.repeat_exact=no", "cluster.workers_per_group=1"});
    assert_equal_runs("whole", "one", STEPS);
    assert_non_null(
        differing_tensor(checkpoint_path("whole", STEPS), checkpoint_path("one", STEPS), NULL));
}

/* A simulated device computes with one thread, as every part does. */
static void simulated_devices_have_the_same_bits(void **state)
{
    static const struct set_up sims[] = {
        {.name = "sim-one", .device = "sim:gpus=1", .sets = {"cluster.workers_per_group=1"}},
        {.name = "sim-none",
         .device = "sim:gpus=1",
         .sets = {"cluster.workers_per_group=1", "cluster.copy=none"}},
        {.name = "sim-two", .device = "sim:gpus=2", .sets = {"cluster.workers_per_group=2"}},
        {.name = "sim-three",
         .device = "sim:gpus=3",
         .sets = {SANDBLASTER, "cluster.workers_per_group=3", "cluster.servers_per_group=2",
                  "cluster.copy=sync"}},
    };
    run_as(&one, "job.virtual_workers=8", "job.seed=3");
    for (size_t i = 0; i < sizeof sims / sizeof *sims; i++) {
        run_as(&sims[i], "job.virtual_workers=8", "job.seed=3");
        assert_same_runs(one.name, sims[i].name);
    }
}

static void resume_with_other_workers_is_bit_identical(void **state)
{
    static const char *const workers[] = {"cluster.workers_per_group=2",
                                          "cluster.workers_per_group=4",
                                          "cluster.workers_per_group=1"};
    run_as(&one, NULL, NULL);
    exact(.name = "changing", .sets = {"cluster.workers_per_group=3"}, .steps = 1);
    for (int i = 0; i < 3; i++) {
        struct trial t = {.recipe = recipe,
                          .resume = "changing",
                          .resume_step = i + 1,
                          .steps = i == 2 ? STEPS : i + 2,
                          .oversubscribe = true,
                          .sets = {workers[i]}};
        trial_ok(&t);
        /* Other workers are no reason to warn: what decides is the same. */
        assert_null(strstr(t.text, "not to the same bits"));
    }
    assert_same_tensors(checkpoint_path("one", STEPS), checkpoint_path("changing", STEPS));
}

static void assert_refused(const char *a, const char *b, const char *why)
{
    struct trial t = {.recipe = recipe, .oversubscribe = true, .sets = {a, b}};
    assert_int_equal(trial_open(&t), SW_ERR_INVALID);
    if (!strstr(sw_bytes_text(&t.messages), why))
        fail_msg("%s is not in: %s", why, sw_bytes_text(&t.messages));
    trial_close(&t);
}

static void settings_that_repeat_exact_excludes_are_refused_with_advice(void **state)
{
    assert_refused("layer.fc4.partition=1", NULL, "layer fc4: partition = 1: with repeat_exact");
    assert_refused("job.partition=none", NULL, "set it to 0, or remove the key");
    assert_refused("cluster.framework=downpour", "cluster.worker_groups=2",
                   "use sandblaster or allreduce");
    assert_refused("job.virtual_workers=3", "cluster.workers_per_group=4",
                   "use at most 3 workers, or raise job.virtual_workers");
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, home_begin, home_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH(every_set_up_has_the_same_bits),
        FRESH(repeat_exact_holds_in_two_phases_and_with_fewer_microbatches),
        FRESH(repeat_exact_holds_with_norms_of_layers),
        FRESH(microbatches_train_what_the_whole_batch_trains),
        FRESH(simulated_devices_have_the_same_bits),
        FRESH(resume_with_other_workers_is_bit_identical),
        FRESH(settings_that_repeat_exact_excludes_are_refused_with_advice),
    };
    return cmocka_run_group_tests_name("repeat_exact", tests, NULL, NULL);
}
