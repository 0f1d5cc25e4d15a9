/* ctest-labels: threads
 * ctest-timeout: 120
 * Deep Boltzmann machines on several workers and devices: the same values for any distribution of
 * rows, chains in checkpoints, asynchronous groups, and what is refused. */
#include "workers_support.h"

/* 25 rows; 8 x 8 pictures as probabilities. */
#define HIDDEN(name, src, units)                                                                   \
    "[layer " name "]\ntype = rbm_hidden\nsrc = " src "\nhidden = " units "\nk = 2\n"              \
    "mean_field = 4\npersistent = yes\nweight.init = gaussian\nweight.std = 0.1\n"
#define MACHINE                                                                                    \
    "[job]\nsteps = 12\nbatch = 25\neval_batch = 20\nalgorithm = cd\n"                             \
    "[data train]\nformat = synthetic\nclasses = 4\nrecords = 200\nheight = 8\nwidth = 8\n"        \
    "scale = 0.00392156863\nshuffle = yes\n"                                                       \
    "[data test]\nformat = synthetic\nclasses = 4\nrecords = 53\nheight = 8\nwidth = 8\n"          \
    "scale = 0.00392156863\n"                                                                      \
    "[updater]\ntype = sgd\nlr = 0.1\nmomentum = 0.5\nweight_decay = 0.001\n"                      \
    "[layer image]\ntype = input\nfield = image\n"                                                 \
    "[layer vis]\ntype = rbm_visible\nsrc = image\nbinary = yes\n" HIDDEN("h1", "vis", "30")       \
        HIDDEN("h2", "h1", "12")
#define TOP HIDDEN("h3", "h2", "7")
#define BOUND(sources)                                                                             \
    "[layer bound]\ntype = variational_bound\nsrc = " sources "\nchains = 15\n"                    \
    "temperatures = 50\ninclude = eval\n"

static const char two[] = MACHINE BOUND("vis, h1, h2"),
                  three[] = MACHINE TOP BOUND("vis, h1, h2, h3");

static double bound(const char *run, const char *name)
{
    return ask("SELECT value FROM metrics WHERE run_id = %d AND split = 'test' AND name = '%s' AND "
               "step = 12",
               run_id(run), name);
}

/* Parameters alone: gradients are small differences of means, of which momentum keeps the rounding.
 */
static void assert_like(const char *run, const char *one)
{
    const char *const names[] = {"variational_bound", "variational_bound.log_partition",
                                 "variational_bound.log_partition_high"};
    char *first = strdup(checkpoint_path(one, 12));
    assert_true(difference_of_files(first, checkpoint_path(run, 12), true, NULL) <= 1e-4);
    free(first);
    for (int i = 0; i < 3; i++)
        assert_true(fabs(bound(run, names[i]) - bound(one, names[i])) <
                    1e-3 * fabs(bound(one, names[i])));
}

static void values_do_not_depend_on_workers(void **state)
{
    const char *const recipes[] = {two, three};
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

static void a_resumed_run_has_the_same_bits(void **state)
{
    train(.recipe = two, .name = "whole");
    train(.recipe = two, .name = "half", .steps = 5);
    struct sw_st_file *f = open_tensors(checkpoint_path("half", 5));
    const struct sw_st_entry *h1 = sw_st_find(f, "state.h1.chain"),
                             *h2 = sw_st_find(f, "state.h2.chain");
    assert_true(h1 && h1->shape[0] == 25 && h1->shape[1] == 30);
    assert_true(h2 && h2->shape[0] == 25 && h2->shape[1] == 12);
    sw_st_close(f);
    train(.recipe = two, .resume = "half", .resume_step = 5);
    char *whole = strdup(checkpoint_path("whole", 12));
    assert_same_tensors(whole, checkpoint_path("half", 12));
    free(whole);
}

static void exact_runs_have_the_same_bits(void **state)
{
    train(.recipe = three, .name = "e1", .sets = {"job.repeat_exact=yes"});
    train(.recipe = three, .name = "e3", .oversubscribe = true,
          .sets = {"job.repeat_exact=yes", workers_set[3]});
    char *one = strdup(checkpoint_path("e1", 12));
    assert_same_tensors(one, checkpoint_path("e3", 12));
    free(one);
}

/* Nothing is learnt, so that groups do not depend on each other. */
#define APART                                                                                      \
    "cluster.framework=downpour", "cluster.worker_groups=2", "updater.lr=0", "job.eval_every=0"

static void asynchronous_groups_have_separate_chains(void **state)
{
    train(.recipe = two, .name = "whole", .oversubscribe = true, .sets = {APART});
    struct sw_st_file *f = open_tensors(checkpoint_path("whole", 12));
    assert_int_equal(sw_st_find(f, "state.h1.chain")->shape[0], 50);
    sw_st_close(f);
    train(.recipe = two, .name = "half", .oversubscribe = true, .steps = 5, .sets = {APART});
    train(.recipe = two, .resume = "half", .resume_step = 5, .oversubscribe = true,
          .sets = {APART});
    char *whole = strdup(checkpoint_path("whole", 12));
    assert_same_tensors(whole, checkpoint_path("half", 12));
    free(whole);
    train(.recipe = two, .name = "hogwild", .oversubscribe = true,
          .sets = {"cluster.framework=hogwild", "cluster.worker_groups=2"});
    assert_true(isfinite(bound("hogwild", "variational_bound")));
}

/* Layers that are frozen take part in the chains. */
static void frozen_layers_take_part(void **state)
{
    train(.recipe = two, .name = "frozen", .sets = {"job.freeze=h1, vis"});
    train(.recipe = two, .name = "first", .steps = 1, .sets = {"job.freeze=h1, vis"});
    struct sw_st_file *a = open_tensors(checkpoint_path("frozen", 12)),
                      *b = open_tensors(checkpoint_path("first", 1));
    const char *const names[] = {"h1.weight", "h2.weight", "state.h1.chain"};
    for (int i = 0; i < 3; i++) {
        const struct sw_st_entry *e = sw_st_find(a, names[i]);
        float *x = tensor_bytes(a, e), *y = tensor_bytes(b, sw_st_find(b, names[i]));
        assert_int_equal(memcmp(x, y, e->bytes) == 0, i == 0);
        free(x);
        free(y);
    }
    sw_st_close(a);
    sw_st_close(b);
}

static void unsupported_machines_are_refused(void **state)
{
    static const struct {
        const char *set[3], *text;
    } bad[] = {
        {{"layer.h1.k=3"}, "k of h1 differs"},
        {{"layer.h2.mean_field=3"}, "mean_field of h1 differs"},
        {{"layer.h1.persistent=no"}, "persistent of h1 differs"},
        {{"layer.h3.src=h1"}, "another hidden layer already reads h1"},
        {{"layer.h3.units=gaussian"}, "need units = bernoulli"},
        {{"layer.h1.doubled=down"}, "doubled = down is not for its place"},
        {{"layer.h3.doubled=up"}, "use down"},
        {{"layer.h2.doubled=up"}, "use both"},
        {{"layer.h1.partition=1", "cluster.workers_per_group=2"}, "read both neighbors"},
        {{"layer.h2.location=1"}, "cannot be on one worker"},
        {{"layer.bound.src=vis, h1, h2"}, "needs all layers of a deep Boltzmann machine"},
        {{"layer.bound.src=vis, h2, h1, h3"}, "needs all layers of a deep Boltzmann machine"},
        {{"layer.bound.chains=21"}, "but an evaluation batch has 20 rows"},
        {{"layer.vis.units=gaussian", "layer.vis.binary=no"},
         "variational_bound needs bernoulli units"},
        {{"layer.bound.type=log_likelihood", "layer.bound.src=vis, h1"}, "use variational_bound"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct trial t = {.recipe = three, .name = "bad", .oversubscribe = true};
        for (int k = 0; k < 3; k++)
            t.sets[k] = bad[i].set[k];
        if (trial_open(&t) == SW_OK)
            fail_msg("%s: not refused", bad[i].text);
        if (!strstr(sw_bytes_text(&t.messages), bad[i].text) && !strstr(t.err.text, bad[i].text))
            fail_msg("%s: %s%s", bad[i].text, sw_bytes_text(&t.messages), t.err.text);
        trial_close(&t);
    }
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, home_begin, home_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH(values_do_not_depend_on_workers), FRESH(a_resumed_run_has_the_same_bits),
        FRESH(exact_runs_have_the_same_bits),   FRESH(asynchronous_groups_have_separate_chains),
        FRESH(frozen_layers_take_part),         FRESH(unsupported_machines_are_refused),
    };
    return cmocka_run_group_tests_name("dbm_workers", tests, NULL, NULL);
}
