/* ctest-labels: threads
 * ctest-timeout: 300
 * Layers that the other tests of training do not use compute on several workers, and on simulated
 * devices whose memory the host cannot reach, what they compute on one. */
#include "workers_support.h"

enum { STEPS = 20 };

/* Pictures go down and up again; labels go in as vectors beside them, in a net of their own. */
static const char kinds_recipe[] = WORKERS_JOB DATA_SECTIONS UPDATER_SECTIONS
    "[layer image]\ntype = input\nfield = image\n[layer label]\ntype = input\nfield = label\n"
    "[layer conv]\ntype = convolution\nsrc = image\noutputs = 16\nkernel = 3\n"
    "dilation_x = 2\npad_x = 1\n"
    "[layer act]\ntype = activation\nsrc = conv\nfunction = tanh\n"
    "[layer norm]\ntype = lrn\nsrc = act\nregion = within_channel\nsize = 3\nalpha = 2\n"
    "[layer pool]\ntype = pooling\nsrc = norm\nmethod = avg\nkernel = 3\nstride = 2\npad = 1\n"
    "divide_by = inside\n"
    "[layer up]\ntype = deconvolution\nsrc = pool\noutputs = 6\nkernel = 4\nstride = 2\npad = 1\n"
    "groups = 2\n"
    "[layer act2]\ntype = activation\nsrc = up\nfunction = tanh\n"
    "[layer line]\ntype = flatten\nsrc = act2\naxis = 2\n"
    "[layer again]\ntype = reshape\nsrc = line\nshape = 0, 4, -1\n"
    "[layer fc]\ntype = inner_product\nsrc = again\noutputs = 4\n"
    "[layer loss]\ntype = softmax_loss\nsrc = fc, label\n"
    "[layer words]\ntype = embedding\nsrc = label\nvocabulary = 4\noutputs = 7\n"
    "[layer fc2]\ntype = inner_product\nsrc = words\noutputs = 4\ntranspose = yes\n"
    "[layer loss2]\ntype = softmax_loss\nsrc = fc2, label\n"
    "[layer ones]\ntype = onehot\nsrc = label\nclasses = 4\n"
    "[layer fc3]\ntype = inner_product\nsrc = ones\noutputs = 4\n"
    "[layer loss3]\ntype = softmax_loss\nsrc = fc3, label\n"
    "[layer accuracy]\ntype = accuracy\nsrc = fc, label\ninclude = eval\n";

#define kinds(...) train(.recipe = kinds_recipe, .oversubscribe = true, __VA_ARGS__)

static void workers_and_devices_make_no_difference(void **state)
{
    kinds(.name = "one");
    kinds(.name = "two", .sets = {ALLREDUCE, "cluster.workers_per_group=2"});
    kinds(.name = "sim", .device = "sim:gpus=2,mem=64MiB",
          .sets = {ALLREDUCE, "cluster.workers_per_group=2"});
    assert_equal_runs("one", "two", STEPS);
    assert_equal_runs("one", "sim", STEPS);
}

/* ---- by columns ---- */

/* What workers have of a layer's parameters together is the whole, and each its share. */
struct cut {
    const char *name;
    int64_t params[3]; /* of each worker */
};
static const struct cut *expected; /* ends with name NULL */
static int workers_expected;

static int64_t params_of(const struct sw_net *net, const char *name)
{
    const struct sw_layer *l = sw_net_layer(net, sw_net_find(net, name));
    int64_t count = 0;
    for (int p = 0; p < l->param_count; p++)
        count += sw_desc_count(&l->param[p].layout);
    return count;
}

static void check_cuts(struct trial *t)
{
    for (const struct cut *c = expected; c->name; c++)
        for (int w = 0; w < workers_expected; w++) {
            const struct sw_net *net = t->job->workers[w].train;
            assert_string_equal(sw_net_info(net, sw_net_find(net, c->name)).distribution, "columns");
            if (params_of(net, c->name) != c->params[w])
                fail_msg("worker %d has %lld parameters of %s, not %lld", w,
                         (long long)params_of(net, c->name), c->name, (long long)c->params[w]);
        }
}

/* A job in columns, on the CPU and on sim, and one that goes on with other workers: all have what
 * one worker has. */
static void check_columns(const char *recipe, int workers, const struct cut *cuts, const char *more)
{
    static const char *const sims[] = {"", "", "sim:gpus=2,mem=64MiB", "sim:gpus=3,mem=64MiB"};
    expected = cuts;
    workers_expected = workers;
    train(.recipe = recipe, .name = "whole", .steps = STEPS, .sets = {more});
    train(.recipe = recipe, .name = "cut", .steps = STEPS, .oversubscribe = true,
          .before = check_cuts, .sets = {workers_set[workers], "job.partition=1", more});
    train(.recipe = recipe, .name = "cut-sim", .steps = STEPS, .oversubscribe = true,
          .device = sims[workers], .before = check_cuts,
          .sets = {workers_set[workers], "job.partition=1", more});
    assert_equal_runs("whole", "cut", STEPS);
    assert_equal_runs("whole", "cut-sim", STEPS);
    train(.recipe = recipe, .name = "half", .steps = 7, .oversubscribe = true,
          .sets = {workers_set[workers], "job.partition=1", more});
    train(.recipe = recipe, .resume = "half", .resume_step = 7, .steps = STEPS,
          .oversubscribe = true,
          .sets = {workers_set[5 - workers], workers == 2 ? "job.partition=1" : "job.partition=0"});
    assert_equal_runs("whole", "half", STEPS);
}

static void layers_are_split_by_columns(void **state)
{
    /* `up` has the channels of the source that belong to its group. */
    static const struct cut halves[] = {{"norm", {0, 0}},
                                        {"pool", {0, 0}},
                                        {"up", {8 * 3 * 16 + 3, 8 * 3 * 16 + 3}},
                                        {"line", {0, 0}},
                                        {"again", {0, 0}},
                                        {"words", {4 * 4, 4 * 3}},
                                        {"fc2", {7 * 2 + 2, 7 * 2 + 2}},
                                        {NULL, {0}}},
                            thirds[] = {{"norm", {0, 0, 0}},
                                        {"up", {16 * 2 * 16 + 2, 16 * 2 * 16 + 2, 16 * 2 * 16 + 2}},
                                        {"words", {4 * 3, 4 * 2, 4 * 2}},
                                        {"fc2", {7 * 2 + 2, 7 + 1, 7 + 1}},
                                        {NULL, {0}}};
    check_columns(kinds_recipe, 2, halves, NULL);
    check_columns(kinds_recipe, 3, thirds, "layer.up.groups=1");
}

/* Lists of tokens become their mean, and one vector each, where columns are steps and stay whole.
 */
static const char lists_recipe[] =
    "[job]\nsteps = 20\nbatch = 25\n[data train]\nformat = synthetic\nkind = sequences\n"
    "classes = 8\nrecords = 200\nlength = 5\n" UPDATER_SECTIONS
    "[layer text]\ntype = input\nfield = tokens\n[layer next]\ntype = input\nfield = target\n"
    "[layer mean]\ntype = embedding_mean\nsrc = text\nvocabulary = 8\noutputs = 7\n"
    "[layer fc]\ntype = inner_product\nsrc = mean\noutputs = 40\n"
    "[layer ones]\ntype = onehot\nsrc = text\nclasses = 8\n"
    "[layer flat]\ntype = flatten\nsrc = ones\n"
    "[layer loss]\ntype = euclidean_loss\nsrc = fc, flat\n"
    "[layer words]\ntype = embedding\nsrc = text\nvocabulary = 8\noutputs = 6\n"
    "[layer out]\ntype = inner_product\nsrc = words\noutputs = 8\naxis = 2\n"
    "[layer loss2]\ntype = softmax_loss\nsrc = out, next\n";

static void means_of_vectors_are_split_by_columns(void **state)
{
    static const struct cut cuts[] = {{"mean", {8 * 3, 8 * 2, 8 * 2}},
                                      {"fc", {14 * 7 + 14, 13 * 7 + 13, 13 * 7 + 13}},
                                      {NULL, {0}}};
    check_columns(lists_recipe, 3, cuts, NULL);
    struct trial t = {.recipe = lists_recipe,
                      .oversubscribe = true,
                      .sets = {workers_set[2], "layer.words.partition=1"}};
    assert_int_equal(trial_open(&t), SW_ERR_INVALID);
    assert_non_null(strstr(
        sw_bytes_text(&t.messages),
        "embedding does not support this partition: its columns are the steps of a sequence"));
    trial_close(&t);
}

/* Weights that are stored the other way round are cut the other way round. */
static void transposed_weights_are_split_by_columns_of_their_source(void **state)
{
    train(.recipe = kinds_recipe, .name = "one", .steps = STEPS);
    for (int workers = 2; workers <= 3; workers++) {
        train(.recipe = kinds_recipe, .name = "inputs", .steps = STEPS, .oversubscribe = true,
              .sets = {workers_set[workers], "layer.fc2.partition=1in"});
        assert_equal_runs("one", "inputs", STEPS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_and_devices_make_no_difference),
        cmocka_unit_test(layers_are_split_by_columns),
        cmocka_unit_test(means_of_vectors_are_split_by_columns),
        cmocka_unit_test(transposed_weights_are_split_by_columns_of_their_source),
    };
    return cmocka_run_group_tests(tests, home_begin, home_end);
}
