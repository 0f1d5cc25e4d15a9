/* ctest-labels: threads
 * ctest-timeout: 120
 * job.freeze: frozen parameters keep their values, all others train to the same bits as with a
 * learning rate of 0 for the frozen ones, and backward omits gradients that are not needed. */
#include "workers_support.h"

/* A normalisation and a shared parameter among the usual layers. */
static const char recipe[] = WORKERS_JOB DATA_SECTIONS UPDATER_SECTIONS
    "[layer image]\ntype = input\nfield = image\n[layer label]\ntype = input\nfield = label\n"
    "[layer conv1]\ntype = convolution\nsrc = image\noutputs = 16\nkernel = 3\npad = 1\n"
    "[layer relu1]\ntype = activation\nsrc = conv1\nfunction = relu\n"
    "[layer pool1]\ntype = pooling\nsrc = relu1\nmethod = avg\nkernel = 2\nstride = 2\n"
    "[layer conv2]\ntype = convolution\nsrc = pool1\noutputs = 12\nkernel = 3\nbias = no\n"
    "[layer bn2]\ntype = batch_norm\nsrc = conv2\n"
    "[layer act2]\ntype = activation\nsrc = bn2\nfunction = tanh\n"
    "[layer fc1]\ntype = inner_product\nsrc = act2\noutputs = 24\n"
    "[layer act3]\ntype = activation\nsrc = fc1\nfunction = tanh\n"
    "[layer fc2]\ntype = inner_product\nsrc = act3\noutputs = 24\n"
    "[layer act4]\ntype = activation\nsrc = fc2\nfunction = tanh\n"
    "[layer fc3]\ntype = inner_product\nsrc = act4\noutputs = 24\nweight.share = fc2.weight\n"
    "[layer act5]\ntype = activation\nsrc = fc3\nfunction = tanh\n"
    "[layer fc4]\ntype = inner_product\nsrc = act5\noutputs = 4\n"
    "[layer loss]\ntype = softmax_loss\nsrc = fc4, label\n"
    "[layer accuracy]\ntype = accuracy\nsrc = fc4, label\ninclude = eval\n";

enum { STEPS = 20 };

static const char *const params[] = {"conv1.weight", "conv1.bias", "conv2.weight", "bn2.scale",
                                     "bn2.bias",     "fc1.weight", "fc1.bias",     "fc2.weight",
                                     "fc2.bias",     "fc3.bias",   "fc4.weight",   "fc4.bias"};
enum { PARAMS = sizeof params / sizeof *params };

/* What is frozen, by a pattern and by the names it fits. */
static const struct {
    const char *freeze, *names;
} cases[] = {
    {"conv1", "conv1.weight conv1.bias"},
    {"conv*", "conv1.weight conv1.bias conv2.weight"},
    {"conv2", "conv2.weight"}, /* in the middle: its source still needs a gradient */
    {"*.bias", "conv1.bias bn2.bias fc1.bias fc2.bias fc3.bias fc4.bias"},
    {"fc1.weight, bn2", "fc1.weight bn2.scale bn2.bias"},
    {"fc2.weight", "fc2.weight"}, /* and so that of fc3 */
    {"conv?.*, bn2, fc1, fc2, fc3", "conv1.weight conv1.bias conv2.weight bn2.scale "
                                    "bn2.bias fc1.weight fc1.bias fc2.weight fc2.bias fc3.bias"},
};
enum { CASES = sizeof cases / sizeof *cases };

static bool is_frozen(int c, const char *param)
{
    return strstr(cases[c].names, param) != NULL;
}

static const char *freeze_set(int c)
{
    static char set[CASES][128];
    snprintf(set[c], sizeof set[c], "job.freeze=%s", cases[c].freeze);
    return set[c];
}

/* The recipe with rate 0 for what case c freezes. */
static const char *with_rate_zero(int c)
{
    static char text[8192];
    int n = snprintf(text, sizeof text, "%s", recipe);
    for (int p = 0; p < PARAMS; p++)
        if (is_frozen(c, params[p]))
            n += snprintf(text + n, sizeof text - (size_t)n, "[updater %s]\nlr_mult = 0\n",
                          params[p]);
    return text;
}

static void freezing_equals_a_learning_rate_of_zero(void **state)
{
    for (int c = 0; c < CASES; c++) {
        char zero[16], frozen[32];
        snprintf(zero, sizeof zero, "zero%d", c);
        snprintf(frozen, sizeof frozen, "frozen%d", c);
        train(.name = zero, .recipe = with_rate_zero(c));
        train(.name = frozen, .recipe = recipe, .sets = {freeze_set(c)});
        const char *a = checkpoint_path(zero, STEPS), *b = checkpoint_path(frozen, STEPS);
        const char *start = checkpoint_path(frozen, 0);
        struct sw_st_file *f = open_tensors(b);
        for (int p = 0; p < PARAMS; p++) {
            char slot[64];
            if (differing_tensor(a, b, params[p]))
                fail_msg("freeze = %s: %s differs", cases[c].freeze, params[p]);
            bool same = !differing_tensor(start, b, params[p]);
            if (same != is_frozen(c, params[p]))
                fail_msg("freeze = %s: %s %s", cases[c].freeze, params[p],
                         same ? "is not trained" : "has changed");
            snprintf(slot, sizeof slot, "updater.%s.momentum", params[p]);
            assert_true((sw_st_find(f, slot) == NULL) == is_frozen(c, params[p]));
        }
        assert_null(differing_tensor(a, b, "state."));
        sw_st_close(f);
    }
}

static const struct sw_job_layer *row(const struct sw_job *job, const char *name)
{
    const struct sw_job_plan *p = sw_job_plan(job);
    for (int i = 0; i < p->layer_count; i++)
        if (strcmp(p->layers[i].name, name) == 0)
            return &p->layers[i];
    fail_msg("no layer %s", name);
    return NULL;
}

/* Work of backward relative to forward. */
static void check_work(const char *set, double conv1, double conv2, double fc1)
{
    struct trial t = {.recipe = recipe, .sets = {set}};
    assert_int_equal(trial_open(&t), SW_OK);
    const struct {
        const char *name;
        double want;
    } rows[] = {{"conv1", conv1}, {"conv2", conv2}, {"fc1", fc1}};
    for (size_t i = 0; i < 3; i++) {
        const struct sw_job_layer *r = row(t.job, rows[i].name);
        if (r->flops_backward != rows[i].want * r->flops_forward)
            fail_msg("%s: %s: %g of %g", set, r->name, r->flops_backward, r->flops_forward);
    }
    trial_close(&t);
}

static void backward_omits_gradients_of_frozen_layers(void **state)
{
    check_work(NULL, 1, 2, 2); /* the picture needs no gradient */
    check_work("job.freeze=conv1", 0, 1, 2);
    check_work("job.freeze=conv2", 1, 1, 2);
    check_work("job.freeze=conv1.weight", 1, 2, 2); /* its bias is trained */
    check_work("job.freeze=conv1, conv2, bn2", 0, 0, 1);
    check_work("job.freeze=conv*, bn2, fc1", 0, 0, 0);
}

/* Neither gradients nor features' gradients take memory. */
static void frozen_layers_allocate_less(void **state)
{
    struct trial all = {.recipe = recipe}, some = {.recipe = recipe};
    some.sets[0] = "job.freeze=conv*, bn2, fc1";
    assert_int_equal(trial_open(&all), SW_OK);
    assert_int_equal(trial_open(&some), SW_OK);
    assert_true(sw_job_plan(some.job)->bytes.arena < sw_job_plan(all.job)->bytes.arena);
    assert_true(sw_job_plan(some.job)->bytes.state < sw_job_plan(all.job)->bytes.state);
    assert_int_equal(sw_job_plan(some.job)->params, sw_job_plan(all.job)->params);
    trial_close(&all), trial_close(&some);
}

static void workers_and_devices_make_no_difference(void **state)
{
    static const int some[] = {1, 3, 4, 5};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        char one[32], other[32];
        const char *set = freeze_set(some[i]);
#define RUN(...)                                                                                   \
    train(.name = other, .recipe = recipe, .oversubscribe = true, __VA_ARGS__);                    \
    assert_equal_runs(one, other, STEPS)
        snprintf(one, sizeof one, "one%zu", i);
        train(.name = one, .recipe = recipe, .sets = {set});
        snprintf(other, sizeof other, "three%zu", i);
        RUN(.sets = {set, SANDBLASTER, "cluster.workers_per_group=3",
                     "cluster.servers_per_group=2"});
        snprintf(other, sizeof other, "sim%zu", i);
        RUN(.device = "sim:gpus=2,mem=64MiB",
            .sets = {set, ALLREDUCE, "cluster.workers_per_group=2", "job.grad_clip=norm:1e9"});
        snprintf(other, sizeof other, "cols%zu", i);
        RUN(.sets = {set, ALLREDUCE, "cluster.workers_per_group=2", "layer.conv1.partition=1",
                     "layer.conv2.partition=1", "layer.fc1.partition=1"});
    }
}

static void resume_is_bit_identical(void **state)
{
    train(.name = "whole", .recipe = recipe, .sets = {freeze_set(4)});
    train(.name = "part", .recipe = recipe, .sets = {freeze_set(4)}, .steps = 7);
    train(.resume = "part", .resume_step = 7);
    assert_same_tensors(checkpoint_path("whole", STEPS), checkpoint_path("part", STEPS));
}

static void check_refused(const char *set, const char *why)
{
    struct trial t = {.recipe = recipe, .sets = {set}};
    assert_int_equal(trial_open(&t), SW_ERR_INVALID);
    if (!strstr(sw_bytes_text(&t.messages), why))
        fail_msg("'%s' does not say '%s'", sw_bytes_text(&t.messages), why);
    trial_close(&t);
}

static void patterns_without_a_match_are_refused(void **state)
{
    check_refused("job.freeze=conv1, conv9.*", "no parameter matches 'conv9.*'");
    check_refused("job.freeze=fc3.weight", "no parameter matches"); /* it is that of fc2 */
    check_refused("job.freeze=*", "all parameters are frozen");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(freezing_equals_a_learning_rate_of_zero),
        cmocka_unit_test(backward_omits_gradients_of_frozen_layers),
        cmocka_unit_test(frozen_layers_allocate_less),
        cmocka_unit_test(workers_and_devices_make_no_difference),
        cmocka_unit_test(resume_is_bit_identical),
        cmocka_unit_test(patterns_without_a_match_are_refused),
    };
    return cmocka_run_group_tests(tests, home_begin, home_end);
}
