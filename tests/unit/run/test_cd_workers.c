/* ctest-labels: threads
 * ctest-timeout: 120
 * Boltzmann machines on several workers and devices: Gibbs chains have the same bits for any
 * distribution of rows; persistent chains survive checkpoints, and asynchronous groups have
 * separate chains. */
#include "worker/recurrent_state.h"
#include "workers_support.h"

/* 25 rows; 8 x 8 pictures as chances. */
#define STACK(k, more)                                                                             \
    "[job]\nsteps = 12\nbatch = 25\neval_batch = 20\nalgorithm = cd\n"                             \
    "[data train]\nformat = synthetic\nclasses = 4\nrecords = 200\nheight = 8\nwidth = 8\n"        \
    "scale = 0.00392156863\nshuffle = yes\n"                                                       \
    "[data test]\nformat = synthetic\nclasses = 4\nrecords = 53\nheight = 8\nwidth = 8\n"          \
    "scale = 0.00392156863\n"                                                                      \
    "[updater]\ntype = sgd\nlr = 0.1\nmomentum = 0.5\nweight_decay = 0.001\n"                      \
    "[updater *.bias]\ndecay_mult = 0\n"                                                           \
    "[layer image]\ntype = input\nfield = image\n"                                                 \
    "[layer vis]\ntype = rbm_visible\nsrc = image\nbinary = yes\n"                                 \
    "[layer rbm]\ntype = rbm_hidden\nsrc = vis\nhidden = 30\nk = " k "\n" more                     \
    "weight.init = gaussian\nweight.std = 0.1\n"                                                   \
    "[layer vis2]\ntype = rbm_visible\nsrc = rbm\n"                                                \
    "[layer rbm2]\ntype = rbm_hidden\nsrc = vis2\nhidden = 9\nunits = gaussian\n"                  \
    "weight.init = gaussian\nweight.std = 0.1\n"                                                   \
    "[updater *2.*]\nlr_mult = 0.1\n"
#define MACHINES(k, more)                                                                          \
    STACK(k, more)                                                                                 \
    "[layer ll]\ntype = log_likelihood\nsrc = vis, rbm\nchains = 15\ntemperatures = 50\n"          \
    "include = eval\n"                                                                             \
    "[layer pl]\ntype = pseudo_likelihood\nsrc = vis, rbm\ninclude = eval\n"

static const char fresh_chains[] = MACHINES("2", "sparsity = 0.1\n");
static const char kept_chains[] = MACHINES("3", "persistent = yes\n");

static double said(const char *run, const char *name)
{
    return ask("SELECT value FROM metrics WHERE run_id = %d AND split = 'test' AND name = '%s' AND "
               "step = 12",
               run_id(run), name);
}

/* Values, chains and what an evaluation says are those of one worker. */
static void assert_like(const char *run, const char *one)
{
    assert_equal_runs(one, run, 12);
    const char *const names[] = {"log_likelihood", "log_likelihood.log_partition",
                                 "pseudo_likelihood"};
    for (int i = 0; i < 3; i++)
        assert_true(fabs(said(run, names[i]) - said(one, names[i])) <
                    1e-3 * fabs(said(one, names[i])));
}

static void chains_do_not_depend_on_workers(void **state)
{
    const char *const recipes[] = {fresh_chains, kept_chains};
    char one[32], many[32];
    for (int i = 0; i < 2; i++) {
        snprintf(one, sizeof one, "one%d", i);
        train(.recipe = recipes[i], .name = one);
        for (int w = 2; w <= 3; w++) {
            snprintf(many, sizeof many, "w%d.%d", i, w);
            train(.recipe = recipes[i], .name = many, .oversubscribe = true,
                  .sets = {workers_set[w]});
            assert_like(many, one);
        }
        snprintf(many, sizeof many, "sim%d", i);
        train(.recipe = recipes[i], .name = many, .oversubscribe = true,
              .device = "sim:gpus=2,mem=64MiB", .sets = {workers_set[2]});
        assert_like(many, one);
    }
}

/* Hidden units are shared out: 15 and 15, or 10 each, and 5 and 4 of the second machine, whose rows
 * come from parts. */
static void hidden_units_may_be_split(void **state)
{
    static const char *const recipes[] = {STACK("2", "sparsity = 0.1\n"),
                                          STACK("3", "persistent = yes\n")};
    static const char *const devices[] = {NULL, "sim:gpus=2,mem=64MiB", NULL,
                                          "sim:gpus=3,mem=64MiB"};
    char one[32], many[32];
    for (int i = 0; i < 2; i++) {
        snprintf(one, sizeof one, "one%d", i);
        train(.recipe = recipes[i], .name = one);
        for (int k = 0; k < 8; k++) {
            snprintf(many, sizeof many, "split%d.%d", i, k);
            train(.recipe = recipes[i], .name = many, .oversubscribe = true,
                  .device = devices[k % 4],
                  .sets = {workers_set[k % 4 < 2 ? 2 : 3], "layer.rbm.partition=1",
                           k < 4 ? "layer.rbm2.partition=0" : "layer.rbm2.partition=1"});
            assert_equal_runs(one, many, 12);
        }
    }
    /* Chains in parts are one in the file. */
    train(.recipe = recipes[1], .name = "half", .steps = 5, .oversubscribe = true,
          .sets = {workers_set[3], "layer.rbm.partition=1"});
    train(.recipe = recipes[1], .resume = "half", .resume_step = 5, .oversubscribe = true,
          .sets = {workers_set[2], "layer.rbm.partition=1"});
    assert_equal_runs("one1", "half", 12);
}

static void persistent_chains_continue_after_resume(void **state)
{
    train(.recipe = kept_chains, .name = "whole");
    train(.recipe = kept_chains, .name = "half", .steps = 5);
    struct sw_st_file *f = open_tensors(checkpoint_path("half", 5));
    const struct sw_st_entry *e = sw_st_find(f, "state.rbm.chain");
    assert_non_null(e);
    assert_int_equal(e->shape[0], 25);
    assert_int_equal(e->shape[1], 30);
    sw_st_close(f);
    train(.recipe = kept_chains, .resume = "half", .resume_step = 5, .oversubscribe = true,
          .sets = {workers_set[2]});
    assert_equal_runs("whole", "half", 12);
}

static void exact_runs_have_the_same_bits(void **state)
{
    train(.recipe = kept_chains, .name = "e1", .sets = {"job.repeat_exact=yes"});
    train(.recipe = kept_chains, .name = "e3", .oversubscribe = true,
          .sets = {"job.repeat_exact=yes", workers_set[3]});
    char *one = strdup(checkpoint_path("e1", 12));
    assert_same_tensors(one, checkpoint_path("e3", 12));
    free(one);
}

/* Nothing is learnt, so that it does not matter who is ahead: chains depend on the batch alone. */
#define APART                                                                                      \
    "cluster.framework=downpour", "cluster.worker_groups=2", "updater.lr=0", "job.eval_every=0"

static void read_chains(const char *run, int64_t step, int64_t groups, float *out)
{
    const struct sw_desc d = sw_desc_plain(SW_F32, 2, (const int64_t[]){25 * groups, 30});
    struct sw_tensor t = sw_tensor_view(NULL, &d, out);
    struct sw_st_file *f = open_tensors(checkpoint_path(run, step));
    const struct sw_st_entry *e = sw_st_find(f, "state.rbm.chain");
    struct sw_err err;
    assert_non_null(e);
    assert_int_equal(e->shape[0], 25 * groups);
    assert_int_equal(sw_st_read_tensor(f, "state.rbm.chain", &t, NULL, &err), SW_OK);
    sw_st_close(f);
}

static void asynchronous_groups_have_separate_chains(void **state)
{
    enum { EACH = 25 * 30 };
    static float whole[2 * EACH], again[2 * EACH], part[2 * EACH];
    train(.recipe = kept_chains, .name = "whole", .oversubscribe = true, .sets = {APART});
    read_chains("whole", 12, 2, whole);
    assert_memory_not_equal(whole, whole + EACH, EACH * sizeof *whole);
    train(.recipe = kept_chains, .name = "again", .oversubscribe = true,
          .sets = {APART, workers_set[2]});
    read_chains("again", 12, 2, again);
    assert_memory_equal(whole, again, sizeof whole);
    train(.recipe = kept_chains, .name = "half", .oversubscribe = true, .steps = 5,
          .sets = {APART});
    read_chains("half", 5, 2, part);
    assert_memory_not_equal(whole, part, sizeof whole);
    train(.recipe = kept_chains, .resume = "half", .resume_step = 5, .oversubscribe = true,
          .sets = {APART});
    read_chains("half", 12, 2, part);
    assert_memory_equal(whole, part, sizeof whole);
    /* While the first group is alone the other one has none; then it begins. */
    train(.recipe = kept_chains, .name = "warm", .oversubscribe = true, .steps = 7,
          .sets = {APART, "cluster.warmup_steps=3", "job.checkpoint_every=3"});
    read_chains("warm", 3, 2, part);
    for (int i = 0; i < EACH; i++)
        assert_true(part[EACH + i] == 0);
    read_chains("warm", 7, 2, part);
    assert_memory_not_equal(part, part + EACH, EACH * sizeof *part);
}

/* The chains of a file with those of two groups, as `groups` groups take them up. */
static void check_heirs(int groups, const char *set)
{
    enum { EACH = 25 * 30 };
    static float before[2 * EACH];
    struct trial t = {.recipe = kept_chains,
                      .name = "heirs",
                      .oversubscribe = true,
                      .sets = {"cluster.framework=downpour", set}};
    struct sw_err err;
    read_chains("two", 2, 2, before);
    assert_int_equal(trial_open(&t), SW_OK);
    assert_int_equal(sw_recurrent_state_allocate(&t.job->state.recurrent, t.job->place.host, &err),
                     SW_OK);
    struct sw_st_file *f = open_tensors(checkpoint_path("two", 2));
    assert_int_equal(sw_recurrent_state_read(t.job->workers, f, &err), SW_OK);
    sw_st_close(f);
    for (int g = 0; g < groups; g++)
        assert_memory_equal(t.job->state.recurrent.items[0].value + g * EACH, before + g % 2 * EACH,
                            EACH * sizeof *before);
    trial_close(&t);
}

static void another_number_of_groups_takes_the_chains_up(void **state)
{
    train(.recipe = kept_chains, .name = "two", .oversubscribe = true, .steps = 2, .sets = {APART});
    check_heirs(1, "cluster.worker_groups=1");
    check_heirs(2, "cluster.worker_groups=2");
    check_heirs(3, "cluster.worker_groups=3");
    train(.recipe = kept_chains, .resume = "two", .resume_step = 2, .steps = 4,
          .oversubscribe = true, .sets = {"cluster.framework=hogwild", "cluster.worker_groups=3"});
    train(.recipe = kept_chains, .resume = "two", .resume_step = 4, .oversubscribe = true,
          .sets = {ALLREDUCE, "cluster.worker_groups=1", workers_set[2]});
}

static void unsupported_boltzmann_machines_are_refused(void **state)
{
    static const struct {
        const char *set[3], *text;
    } bad[] = {
        {{"layer.rbm.src=image"}, "must be an rbm_visible layer, but image is input"},
        {{"layer.rbm2.src=vis"}, "visible layer of another trained machine"},
        {{"job.algorithm=bptt"}, "bptt needs a recurrent layer"},
        {{"layer.rbm.location=1"}, "cannot be on one worker"},
        {{"layer.rbm.partition=1", "cluster.workers_per_group=2"},
         "a reconstruction or a metric needs its whole weight"},
        {{"layer.vis.partition=1", "cluster.workers_per_group=2"}, "rbm_visible does not support"},
        {{"layer.ll.chains=21"}, "but an evaluation batch has 20 rows"},
        {{"layer.rbm.sparsity=0.1", "layer.rbm.units=gaussian"},
         "sparsity requires units = bernoulli"},
        {{"layer.vis.units=gaussian"}, "binary = yes requires units = bernoulli"},
        {{"job.algorithm=bp"}, "no loss layer"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct trial t = {.recipe = fresh_chains, .name = "bad", .oversubscribe = true};
        for (int k = 0; k < 3; k++)
            t.sets[k] = bad[i].set[k];
        if (trial_open(&t) == SW_OK)
            fail_msg("%s: nobody says so", bad[i].text);
        if (!strstr(sw_bytes_text(&t.messages), bad[i].text) && !strstr(t.err.text, bad[i].text))
            fail_msg("%s: %s%s", bad[i].text, sw_bytes_text(&t.messages), t.err.text);
        trial_close(&t);
    }
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, home_begin, home_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH(chains_do_not_depend_on_workers),
        FRESH(hidden_units_may_be_split),
        FRESH(persistent_chains_continue_after_resume),
        FRESH(exact_runs_have_the_same_bits),
        FRESH(asynchronous_groups_have_separate_chains),
        FRESH(another_number_of_groups_takes_the_chains_up),
        FRESH(unsupported_boltzmann_machines_are_refused),
    };
    return cmocka_run_group_tests_name("cd_workers", tests, NULL, NULL);
}
