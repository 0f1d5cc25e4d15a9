/* ctest-labels: threads
 * ctest-timeout: 300
 * Updates that depend on all gradients and run on devices (copy = none): loss scaling, clipping by
 * norm, layer-wise rates, and gradient norms in stop_at give the bits and the events of servers on
 * the host, with one device and with several, for every reducer; and a run resumes with either of
 * them. */
#include "worker/segments.h"
#include "workers_support.h"

#include "device/sim/sim.h"

enum { STEPS = 16 };

#define ASYNC "cluster.copy=async"
#define NONE "cluster.copy=none"
#define PS "cluster.comm=ps" /* sums, whose bits do not depend on who makes them */
#define NO_OVERLAP "cluster.overlap=no"
/* Large gradients at a large scale: the first updates overflow, and some later ones again, since
 * the scale grows quickly. */
#define FP16                                                                                       \
    "job.precision=fp16", "job.loss_scale=16777216", "job.loss_scale_every=4",                     \
        "layer.loss.weight=100", "updater.lr=0.001"
#define CLIP "job.grad_clip=norm:0.1"

static const char *const sims[] = {"", "sim:gpus=1,mem=64MiB", "sim:gpus=2,mem=64MiB",
                                   "sim:gpus=3,mem=64MiB"};

#define LARS                                                                                       \
    WORKERS_JOB DATA_SECTIONS                                                                      \
        "[updater]\ntype = lars\nlr = 2\nweight_decay = 0.0005\ntrust = 0.002\n" WORKERS_NET

/* Rows of the first run that the second has not. */
static int missing(const char *what, const char *a, const char *b)
{
    return (int)ask("SELECT count(*) FROM (SELECT %s WHERE run_id = %d EXCEPT SELECT %s WHERE "
                    "run_id = %d)",
                    what, run_id(a), what, run_id(b));
}

static const char events[] = "text FROM (SELECT * FROM events WHERE text LIKE '%is skipped%')";
static const char metrics[] =
    "step, name, value FROM (SELECT * FROM metrics WHERE split = 'train' AND "
    "name IN ('grad_norm', 'loss_scale', 'loss'))";

static int skips(const char *run)
{
    return (int)ask("SELECT count(*) FROM events WHERE run_id = %d AND text LIKE '%%is skipped%%'",
                    run_id(run));
}

/* The same parameters, updater state and scale, curves and events. */
static void assert_same_runs(const char *a, const char *b)
{
    assert_same_tensors(checkpoint_path(a, STEPS), checkpoint_path(b, STEPS));
    assert_int_equal(missing(events, a, b) + missing(events, b, a), 0);
    assert_int_equal(missing(metrics, a, b) + missing(metrics, b, a), 0);
    assert_int_equal((int)ask("SELECT count(*) FROM metrics WHERE run_id = %d AND name = "
                              "'grad_norm'",
                              run_id(b)),
                     STEPS);
}

#define run_of(...) train(.oversubscribe = true, .steps = STEPS, __VA_ARGS__)
#define run(...) run_of(.recipe = workers_recipe, __VA_ARGS__)

/* Runs it where servers decide and where devices do, with gradients that only one worker has, that
 * devices add up, and that servers do. */
static void compare(const char *recipe, const char *a, const char *b, const char *c, const char *d,
                    const char *e)
{
    static const char *const hosts[] = {"", "host1", "host2", "host3"};
    recipe = recipe ? recipe : workers_recipe;
    for (int devices = 1; devices <= 3; devices++) {
        run_of(.name = hosts[devices], .recipe = recipe, .device = sims[devices],
               .sets = {PS, ASYNC, a, b, c, d, e});
        run_of(.name = "device", .recipe = recipe, .device = sims[devices],
               .sets = {PS, NONE, a, b, c, d, e});
        assert_same_runs(hosts[devices], "device");
    }
    run_of(.name = "late", .recipe = recipe, .device = sims[1],
           .sets = {PS, NONE, NO_OVERLAP, a, b, c, d, e});
    assert_same_runs("host1", "late");
    run_of(.name = "served", .recipe = recipe, .device = sims[2],
           .sets = {PS, NONE, SANDBLASTER, servers_set[2], a, b, c, d, e});
    assert_same_runs("host2", "served");
#define SPLIT "layer.fc1.partition=1", "layer.conv2.partition=none"
    run_of(.name = "host", .recipe = recipe, .device = sims[2],
           .sets = {PS, ASYNC, SPLIT, a, b, c, d, e});
    run_of(.name = "split", .recipe = recipe, .device = sims[2],
           .sets = {PS, NONE, SPLIT, NO_OVERLAP, a, b, c, d, e});
    assert_same_runs("host", "split");
}

static void overflows_are_those_that_servers_find(void **state)
{
    compare(NULL, FP16);
    assert_true(skips("device") >= 2 && skips("split") >= 2);
}

static void clipping_by_norm_has_the_bits_of_servers(void **state)
{
    compare(NULL, CLIP, NULL, NULL, NULL, NULL);
    run(.name = "free", .device = sims[1], .sets = {NONE});
    assert_true(difference(checkpoint_path("free", STEPS), checkpoint_path("device", STEPS)) >
                1e-3);
    /* The limit of elements grows with the scale. */
    run(.name = "host", .device = sims[1], .sets = {ASYNC, "job.grad_clip=value:0.01", FP16});
    run(.name = "device", .device = sims[1], .sets = {NONE, "job.grad_clip=value:0.01", FP16});
    assert_same_runs("host", "device");
}

static void rates_by_norms_have_the_bits_of_servers(void **state)
{
    compare(LARS, CLIP, NULL, NULL, NULL, NULL);
}

/* Whoever decided before. */
static void resume_continues_with_the_skipped_updates_and_scale(void **state)
{
    static const char *const modes[] = {ASYNC, NONE};
    for (int devices = 1; devices <= 2; devices++) {
        run(.name = "whole", .device = sims[devices], .sets = {PS, ASYNC, FP16});
        assert_true(skips("whole") >= 2);
        for (int i = devices - 1; i < 4; i += 2) {
            grouped(.name = "part", .steps = 3 + 2 * i, .device = sims[devices],
                    .sets = {PS, modes[i % 2], FP16});
            grouped(.resume = "part", .resume_step = 3 + 2 * i, .steps = STEPS,
                    .device = sims[devices], .sets = {PS, modes[1 - i / 2], FP16});
            assert_same_runs("whole", "part");
        }
    }
}

static void a_norm_ends_the_run_at_the_same_step(void **state)
{
    for (int devices = 1; devices <= 2; devices++) {
        char stop[64];
        run(.name = "whole", .device = sims[devices],
            .sets = {PS, ASYNC, "job.stop_at=grad_norm<0"});
        double least =
            ask("SELECT min(value) FROM metrics WHERE run_id = %d AND name = 'grad_norm' "
                "AND step < %d",
                run_id("whole"), STEPS);
        int at = (int)ask("SELECT step FROM metrics WHERE run_id = %d AND name = 'grad_norm' AND "
                          "value <= %.17g",
                          run_id("whole"), least);
        snprintf(stop, sizeof stop, "job.stop_at=grad_norm<=%.17g", least);
        run(.name = "host", .device = sims[devices], .sets = {PS, ASYNC, stop});
        run(.name = "device", .device = sims[devices], .sets = {PS, NONE, stop});
        assert_same_tensors(checkpoint_path("host", at), checkpoint_path("device", at));
    }
}

/* Who has no parameters of his own goes by what the others say. */
static void workers_without_parameters_take_part_in_update_control(void **state)
{
    static const char *const sets[] = {"layer.conv1.location=0", "layer.conv2.location=0",
                                       "layer.fc1.location=0", "layer.fc2.location=0"};
    static const char *const modes[] = {ASYNC, NONE};
    for (int i = 0; i < 2; i++)
        run(.name = modes[i] + strlen("cluster.copy="), .device = sims[2],
            .sets = {modes[i], CLIP, sets[0], sets[1], sets[2], sets[3]});
    assert_same_runs("async", "none");
}

/* One worker's step is one graph, decision and updates included; others wait for gradients. */
static void a_whole_step_is_a_graph(void **state)
{
    static const char *const sets[] = {"job.precision=fp16", CLIP, "job.stop_at=grad_norm<0"};
    for (int devices = 1; devices <= 2; devices++)
        for (int i = 0; i < 4; i++) {
            struct trial t = {.name = "graph",
                              .recipe = i == 3 ? LARS : workers_recipe,
                              .device = sims[devices],
                              .steps = STEPS,
                              .oversubscribe = true,
                              .sets = {NONE, i < 3 ? sets[i] : NULL}};
            if (devices == 2 && i != 1)
                continue;
            if (trial_open(&t) != SW_OK || trial_run(&t) != SW_OK)
                fail_msg("%s / %s", t.err.text, sw_bytes_text(&t.messages));
            const struct sw_segments *s = t.job->workers[0].segments;
            int layers = sw_net_layer_count(t.job->workers[0].train);
            assert_int_equal(sw_segments_count(s) == 1, devices == 1);
            assert_true(sw_segments_stats(s).graphs >= 1);
            /* All values are there when a step begins. */
            for (int k = 1; k < sw_segments_count(s); k++)
                assert_true(sw_segments_at(s, k)->from >= layers);
            trial_close(&t);
        }
}

/* A gradient that is not finite names its parameter, and no value has taken it up. */
static void a_bad_gradient_ends_the_run(void **state)
{
    for (int none = 0; none < 2; none++) {
        struct trial t = {.name = "bad",
                          .recipe = workers_recipe,
                          .device = sims[1],
                          .steps = STEPS,
                          .sets = {none ? NONE : ASYNC, CLIP, "layer.loss.weight=1000000",
                                   "job.batch=10", "job.precision=fp16", "job.loss_scale=1"}};
        if (trial_go(&t) != SW_ERR_DIVERGED)
            fail_msg("%s / %s", t.err.text, sw_bytes_text(&t.messages));
        assert_non_null(strstr(t.err.text, "is not finite (NaN or Inf); a smaller loss scale "
                                           "would not help"));
    }
}

/* Nothing of a gradient comes to the host, only what was decided. */
static void gradients_stay_where_they_are(void **state)
{
    uint64_t bytes[2];
    for (int clips = 0; clips < 2; clips++) {
        struct trial t = {.name = "kept",
                          .recipe = workers_recipe,
                          .device = sims[1],
                          .steps = STEPS,
                          .sets = {NONE, clips ? CLIP : NULL}};
        if (trial_open(&t) != SW_OK || trial_run(&t) != SW_OK)
            fail_msg("%s / %s", t.err.text, sw_bytes_text(&t.messages));
        bytes[clips] = sw_sim_traffic(t.job->workers[0].device, SW_SIM_OUT).bytes;
        trial_close(&t);
    }
    /* A wait a step, and those of values that are brought home. */
    assert_int_equal((bytes[1] - bytes[0]) % sizeof(struct sw_update_control_result), 0);
    assert_true(bytes[1] - bytes[0] <= (STEPS + 8) * sizeof(struct sw_update_control_result));
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, home_begin, home_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH(overflows_are_those_that_servers_find),
        FRESH(clipping_by_norm_has_the_bits_of_servers),
        FRESH(rates_by_norms_have_the_bits_of_servers),
        FRESH(resume_continues_with_the_skipped_updates_and_scale),
        FRESH(a_norm_ends_the_run_at_the_same_step),
        FRESH(workers_without_parameters_take_part_in_update_control),
        FRESH(a_whole_step_is_a_graph),
        FRESH(a_bad_gradient_ends_the_run),
        FRESH(gradients_stay_where_they_are),
    };
    return cmocka_run_group_tests_name("device decisions", tests, NULL, NULL);
}
