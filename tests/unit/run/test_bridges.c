/* ctest-labels: threads
 * ctest-timeout: 300
 * What goes between workers that reach each other's memory is read where it lies, as far as it can
 * be, and is not written again before the last reader has done with it, however slow he is. And the
 * order of a net's layers: everything is sent at once and waited for late, so that workers which
 * have layers of different depth work on different parts at the same time. */
#include "workers_support.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <time.h>

enum { STEPS = 10 };

/* ---- workers that are slow now and then ---- */

static atomic_bool dawdles, dawdled;

/* Some operations take up to a millisecond longer; which is any thread's own chance. */
static void dawdle(void)
{
    static _Thread_local uint64_t word;
    if (!dawdles)
        return;
    if (word == 0)
        word = (uint64_t)(uintptr_t)&word;
    word = word * 6364136223846793005u + 1442695040888963407u;
    dawdled = true;
    if (word >> 61 == 0)
        nanosleep(&(struct timespec){.tv_nsec = (long)(word >> 32 & 0xfffff)}, NULL);
}

static const struct sw_device_ops *real;

static int slow_run(struct sw_stream *s, const struct sw_op *op, const void *args,
                    struct sw_err *err)
{
    dawdle();
    return real->run(s, op, args, err);
}

static int slow_copy_2d(struct sw_stream *s, const struct sw_copy_2d *c, struct sw_err *err)
{
    dawdle();
    int rc = real->copy_2d(s, c, err);
    dawdle();
    return rc;
}

/* This program's sw_cpu_open_as takes the place of the library's, calls it, and changes the device.
 */
int sw_cpu_open_as(bool reference, enum sw_precision precision, struct sw_device **out,
                   struct sw_err *err)
{
    static struct sw_device_ops slow;
    int (*open)(bool, enum sw_precision, struct sw_device **, struct sw_err *);
    *(void **)&open = dlsym(RTLD_NEXT, "sw_cpu_open_as");
    int rc = open(reference, precision, out, err);
    if (rc != SW_OK)
        return rc;
    real = (*out)->ops;
    slow = *real;
    slow.run = slow_run;
    slow.copy_2d = slow_copy_2d;
    (*out)->ops = &slow;
    return SW_OK;
}

/* ---- nets ---- */

#define INPUTS                                                                                     \
    "[layer image]\ntype = input\nfield = image\n[layer label]\ntype = input\nfield = label\n"
#define FC(name, src, outputs)                                                                     \
    "[layer " name "]\ntype = inner_product\nsrc = " src "\noutputs = " outputs "\n"
#define ACT(name, src) "[layer " name "]\ntype = activation\nfunction = tanh\nsrc = " src "\n"

/* The shape of MDNN (SINGA, TOMM, Figure 7): features of a picture and of a text, each with a loss
 * of its own, and their distance as a third. */
static const char mdnn[] = WORKERS_JOB DATA_SECTIONS UPDATER_SECTIONS INPUTS
    "[layer conv]\ntype = convolution\nsrc = image\noutputs = 12\nkernel = 3\n" ACT(
        "act",
        "conv") "[layer pool]\ntype = pooling\nsrc = act\nmethod = avg\nkernel = 2\nstride = 2\n"
                "[layer norm]\ntype = lrn\nsrc = pool\nsize = 3\n" FC("visual", "norm", "16")
                    FC("hidden", "image", "24") ACT("logistic", "hidden")
                        FC("textual", "logistic", "16") FC("scores_v", "visual", "4") FC(
                            "scores_t", "textual",
                            "4") "[layer image_loss]\ntype = softmax_loss\nsrc = scores_v, label\n"
                                 "[layer text_loss]\ntype = softmax_loss\nsrc = scores_t, label\n"
                                 "[layer distance]\ntype = euclidean_loss\nsrc = visual, "
                                 "textual\nweight = 0.02\n"
                                 "[layer accuracy]\ntype = accuracy\nsrc = scores_v, "
                                 "label\ninclude = eval\n";

#define IMAGE_PATH                                                                                 \
    "layer.conv.location=0", "layer.act.location=0", "layer.pool.location=0",                      \
        "layer.norm.location=0", "layer.visual.location=0", "layer.scores_v.location=0",           \
        "layer.image_loss.location=0"
#define TEXT_PATH                                                                                  \
    "layer.hidden.location=1", "layer.logistic.location=1", "layer.textual.location=1",            \
        "layer.scores_t.location=1", "layer.text_loss.location=1"

static struct sw_layer *layer_of(const struct trial *t, int worker, const char *name)
{
    struct sw_net *net = t->job->workers[worker].train;
    int i = sw_net_find(net, name);
    if (i < 0)
        fail_msg("there is no %s", name);
    return sw_net_output_layer(net, i);
}

static void mdnn_has_a_path_on_each_worker(void **state)
{
    static const char *const devices[] = {"cpu", "sim:gpus=2,mem=64MiB"};
    train(.recipe = mdnn, .name = "one", .steps = STEPS);
    for (int i = 0; i < 2; i++) {
        train(.recipe = mdnn, .name = "two", .steps = STEPS, .oversubscribe = true,
              .device = devices[i],
              .sets = {workers_set[2], IMAGE_PATH, TEXT_PATH, "layer.distance.location=1"});
        assert_equal_runs("one", "two", STEPS);
    }
    /* Each path needs the other worker's pictures and labels; the features of one go to the other
     * and their gradient comes back. Nothing else moves. */
    struct trial t = {.recipe = mdnn};
    assert_int_equal(trial_open(&t), SW_OK);
    int64_t picture = sw_desc_features(&layer_of(&t, 0, "image")->dst.desc);
    trial_close(&t);
    assert_int_equal((int64_t)ask("SELECT sum(bytes) FROM link_traffic WHERE run_id = %d AND step "
                                  "= 1 AND kind = 'feature'",
                                  run_id("two")),
                     25 * (picture + 1 + 2 * 16) * 4);
}

/* ---- memory that is handed over ---- */

static void activation_on_the_cpu_is_read_in_place(void **state)
{
    struct trial t = {.recipe = mdnn,
                      .steps = 2,
                      .oversubscribe = true,
                      .sets = {workers_set[2], IMAGE_PATH, TEXT_PATH, "layer.distance.location=1"}};
    assert_int_equal(trial_open(&t), SW_OK);
    assert_int_equal(trial_run(&t), SW_OK);
    /* Forward: the distance reads the visual features in the first worker's memory. */
    assert_non_null(layer_of(&t, 0, "visual")->dst.data);
    assert_ptr_equal(layer_of(&t, 1, "visual:one1")->dst.data, layer_of(&t, 0, "visual")->dst.data);
    assert_true(
        sw_net_info(t.job->workers[1].train, sw_net_find(t.job->workers[1].train, "visual:one1"))
            .handed);
    assert_int_equal(sw_job_plan(t.job)->bytes.exchange, 0);
    trial_close(&t);
    /* Backward: where nobody else gives a gradient it is read in the second worker's. */
    struct trial alone = {.recipe = mdnn,
                          .steps = 2,
                          .oversubscribe = true,
                          .sets = {workers_set[2], "layer.hidden.location=0",
                                   "layer.logistic.location=1", "layer.textual.location=1"}};
    assert_int_equal(trial_open(&alone), SW_OK);
    assert_int_equal(trial_run(&alone), SW_OK);
    assert_non_null(layer_of(&alone, 1, "hidden:one1")->dst.grad);
    assert_ptr_equal(layer_of(&alone, 0, "hidden")->dst.grad,
                     layer_of(&alone, 1, "hidden:one1")->dst.grad);
    trial_close(&alone);
}

static void slow_readers_change_no_bit(void **state)
{
    static const char *const sets[][8] = {
        {IMAGE_PATH},
        {TEXT_PATH, "layer.distance.location=1"},
        {"job.partition=1"},
        {"job.partition=1in", "layer.pool.location=1"},
        {"layer.conv.location=1", "layer.pool.location=0", "layer.visual.partition=1",
         "layer.scores_v.location=0", "layer.image_loss.location=2", "layer.textual.location=2"},
        /* A worker to whom nothing comes back is ahead as far as it may be. */
        {"job.partition=none"},
    };
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        for (int slow = 0; slow < 2; slow++) {
            dawdles = slow;
            dawdled = false;
            train(.recipe = mdnn, .name = slow ? "slow" : "quick", .steps = STEPS,
                  .oversubscribe = true,
                  .sets = {workers_set[3], "job.eval_every=4", "job.eval_batch=7", sets[i][0],
                           sets[i][1], sets[i][2], sets[i][3], sets[i][4], sets[i][5], sets[i][6],
                           sets[i][7]});
            dawdles = false;
            assert_int_equal(dawdled, slow); /* or it is another device that is used */
            if (!slow)
                continue;
            assert_same_tensors(checkpoint_path("quick", STEPS), checkpoint_path("slow", STEPS));
            for (int step = 4; step <= STEPS; step += 4)
                assert_true(ask("SELECT count(DISTINCT value) FROM metrics WHERE run_id IN (%d, "
                                "%d) AND split = 'test' AND name = 'loss' AND step = %d",
                                run_id("quick"), run_id("slow"), step) == 1);
        }
}

/* ---- order ---- */

/* Two layers over three parts of every picture, of which each goes on from the one before: all
 * parts of a layer have the same parameters. */
#define PART(n) "[layer x" n "]\ntype = slice\nsrc = image\nparts = 3\npart = " n "\n"
#define STEP(layer, n, x, before)                                                                  \
    FC(layer "x" n, x, "12")                                                                       \
    "weight.share = " layer "x0.weight\nbias.share = " layer                                       \
    "x0.bias\n" FC(layer "h" n, before, "12") "weight.share = " layer                              \
                                              "h1.weight\nbias.share = " layer "h1.bias\n"         \
                                              "[layer " layer "s" n                                \
                                              "]\ntype = eltwise\nsrc = " layer "x" n ", " layer   \
                                              "h" n "\n" ACT(layer n, layer "s" n)

static const char stack[] =
    WORKERS_JOB DATA_SECTIONS UPDATER_SECTIONS INPUTS PART("0") PART("1") PART("2")
    /* The first part has nothing before it; the second is where the parameters are at home. */
    FC("ax0", "x0", "12") ACT("a0", "ax0") FC("ah1", "a0", "12") FC(
        "ax1", "x1",
        "12") "weight.share = ax0.weight\nbias.share = ax0.bias\n"
              "[layer as1]\ntype = eltwise\nsrc = ax1, ah1\n" ACT("a1", "as1") STEP(
                  "a", "2", "x2", "a1") FC("bx0", "a0", "12") ACT("b0", "bx0") FC("bh1", "b0", "12")
                  FC("bx1", "a1",
                     "12") "weight.share = bx0.weight\nbias.share = bx0.bias\n"
                           "[layer bs1]\ntype = eltwise\nsrc = bx1, bh1\n" ACT(
                               "b1", "bs1") STEP("b", "2", "a2", "b1")
                               FC("scores", "b2",
                                  "4") "[layer loss]\ntype = softmax_loss\nsrc = scores, label\n";

/* The recipe with every layer of the stack on a worker of its letter; owned by the caller. */
static char *stack_on(int a, int b)
{
    struct sw_bytes text = {0};
    for (const char *s = stack, *next; *s; s = next) {
        next = strchr(s, '\n') + 1;
        sw_bytes_printf(&text, "%.*s", (int)(next - s), s);
        bool of_stack = strncmp(s, "[layer a", 8) == 0 || strncmp(s, "[layer b", 8) == 0;
        if (of_stack)
            sw_bytes_printf(&text, "location = %d\n", s[7] == 'a' ? a : b);
    }
    return sw_bytes_take(&text);
}

static int place_of(const struct trial *t, const char *name)
{
    int i = sw_net_find(t->job->workers[0].train, name);
    if (i < 0)
        fail_msg("there is no %s", name);
    return i;
}

/* Each part is sent right behind the layer that makes it, and taken right before the layer that
 * reads it: the lower worker is at the third part when the upper one begins with the first. */
static void check_order(struct trial *t)
{
    for (int n = 0; n < 3; n++) {
        char a[24], b[24], out[24], in[24];
        snprintf(a, sizeof a, "a%d", n);
        snprintf(b, sizeof b, "bx%d", n);
        snprintf(out, sizeof out, "a%d>one1", n);
        snprintf(in, sizeof in, "a%d:one1", n);
        assert_int_equal(place_of(t, out), place_of(t, a) + 1);
        assert_int_equal(place_of(t, in), place_of(t, b) - 1);
        assert_true(place_of(t, "a2>one1") < place_of(t, in));
        if (n > 0)
            assert_true(place_of(t, in) > place_of(t, n == 1 ? "bx0" : "b1"));
    }
}

static void a_stack_on_two_workers_works_on_two_parts_at_a_time(void **state)
{
    char *places[] = {stack_on(0, 1), stack_on(1, 0), stack_on(1, 1)};
    train(.recipe = stack, .name = "one", .steps = STEPS);
    for (int i = 0; i < 3; i++)
        for (int sim = 0; sim < 2; sim++) {
            train(.recipe = places[i], .name = "two", .steps = STEPS, .oversubscribe = true,
                  .before = i == 0 ? check_order : NULL,
                  .device = sim ? "sim:gpus=2,mem=64MiB" : "cpu", .sets = {workers_set[2]});
            assert_equal_runs("one", "two", STEPS);
        }
    for (int i = 0; i < 3; i++)
        sw_free(places[i]);
}

/* What is read in two ways gets its gradient from both: where one of them lies with another worker,
 * the other is not added to it there. */
static void a_gradient_that_lies_elsewhere_is_not_added_to(void **state)
{
    static const char text[] = WORKERS_JOB DATA_SECTIONS UPDATER_SECTIONS
        "[layer image]\ntype = input\nfield = image\n[layer label]\ntype = input\nfield = label\n"
        "[layer fc]\ntype = inner_product\nsrc = image\noutputs = 6\n"
        "[layer act]\ntype = activation\nsrc = fc\nfunction = tanh\n"
        "[layer both]\ntype = concat\nsrc = act, fc\n"
        "[layer loss]\ntype = softmax_loss\nsrc = both, label\n";
    train(.recipe = text, .name = "one", .steps = STEPS);
    for (int workers = 2; workers <= 3; workers++) {
        train(.recipe = text, .name = "many", .steps = STEPS, .oversubscribe = true,
              .sets = {workers_set[workers], "layer.fc.partition=1in", "layer.both.location=1"});
        assert_equal_runs("one", "many", STEPS);
    }
}

static void layers_that_share_a_parameter_are_in_one_place(void **state)
{
    struct trial t = {.recipe = stack,
                      .oversubscribe = true,
                      .sets = {workers_set[2], "layer.ax0.location=1", "layer.ax2.location=0"}};
    assert_int_equal(trial_open(&t), SW_ERR_INVALID);
    if (!strstr(sw_bytes_text(&t.messages),
                "it shares weight with layer ax0, which is on another worker: give both the same "
                "location, or split both by rows"))
        fail_msg("%s", sw_bytes_text(&t.messages));
    trial_close(&t);
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, home_begin, home_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH(mdnn_has_a_path_on_each_worker),
        FRESH(activation_on_the_cpu_is_read_in_place),
        FRESH(slow_readers_change_no_bit),
        FRESH(a_stack_on_two_workers_works_on_two_parts_at_a_time),
        FRESH(a_gradient_that_lies_elsewhere_is_not_added_to),
        FRESH(layers_that_share_a_parameter_are_in_one_place),
    };
    return cmocka_run_group_tests_name("bridges", tests, NULL, NULL);
}
