/* ctest-labels: threads
 * ctest-timeout: 180
 * Jobs whose products round their factors: they learn what fp32 learns. With fp16, gradients that
 * overflow: the same updates are skipped with any workers, on devices and with groups, and resume
 * during that is bit-identical. */
#include "workers_support.h"

enum { STEPS = 20 };

/* Large gradients at a large scale: the first updates overflow, and some later ones again, since
 * the scale grows quickly. */
#define FP16 "job.precision=fp16"
#define LARGE FP16, "job.loss_scale=16777216", "job.loss_scale_every=4", "layer.loss.weight=100"
#define SLOW "updater.lr=0.001"

static double metric(const char *run, const char *split, const char *name, int64_t step)
{
    return ask("SELECT value FROM metrics WHERE run_id = %d AND split = '%s' AND name = '%s' AND "
               "step = %lld",
               run_id(run), split, name, (long long)step);
}

static int overflows(const char *run)
{
    return (int)ask("SELECT count(*) FROM events WHERE run_id = %d AND text LIKE '%%is skipped%%"
                    "overflow at loss scale%%'",
                    run_id(run));
}

static const char *metadata(const char *run, int64_t step, const char *key, char out[128])
{
    struct sw_st_file *f = open_tensors(checkpoint_path(run, step));
    const char *text = sw_st_metadata(f, key);
    snprintf(out, 128, "%s", text ? text : "");
    sw_st_close(f);
    return out;
}

/* ---- Learning ---- */

static void every_precision_learns_what_fp32_learns(void **state)
{
    static const char *const sets[] = {"job.precision=fp32", "job.precision=tf32",
                                       "job.precision=bf16", FP16};
    static const char *const names[] = {"fp32", "tf32", "bf16", "fp16"};
    for (int i = 0; i < 4; i++) {
        train(.name = names[i], .sets = {sets[i]}, .steps = 120);
        assert_true(metric(names[i], "train", "loss", 1) > 1);
        double loss = metric(names[i], "test", "loss", 120),
               right = metric(names[i], "test", "accuracy", 120);
        if (!(right >= metric("fp32", "test", "accuracy", 120) - 0.04) ||
            !(fabs(loss - metric("fp32", "test", "loss", 120)) < 0.05))
            fail_msg("%s: loss %g, accuracy %g; fp32: %g, %g", names[i], loss, right,
                     metric("fp32", "test", "loss", 120), metric("fp32", "test", "accuracy", 120));
        if (i > 0)
            assert_non_null(differing_tensor(checkpoint_path("fp32", 120),
                                             checkpoint_path(names[i], 120), NULL));
    }
    assert_true(metric("fp32", "test", "accuracy", 120) > 0.8);
}

/* A rehearsal: what sim computes are the CPU's bits, whatever the precision. */
static void sim_has_the_bits_of_the_cpu(void **state)
{
    static const char *const sets[] = {"job.precision=tf32", "job.precision=bf16", FP16};
    for (int i = 0; i < 3; i++) {
        train(.name = "cpu", .recipe = workers_recipe, .steps = 8,
              .sets = {sets[i], workers_set[1], "job.repeat_exact=yes", "job.virtual_workers=1"});
        train(.name = "sim", .recipe = workers_recipe, .steps = 8, .device = "sim:mem=64MiB",
              .sets = {sets[i], workers_set[1], "job.repeat_exact=yes", "job.virtual_workers=1"});
        assert_same_tensors(checkpoint_path("cpu", 8), checkpoint_path("sim", 8));
    }
}

/* ---- Overflow ---- */

static void an_overflow_is_logged_and_halves_the_scale(void **state)
{
    int told = 0;
    train(.name = "large", .recipe = workers_recipe, .sets = {LARGE, SLOW});
    assert_true(metric("large", "train", "loss_scale", 1) == 16777216);
    for (int step = 1; step < STEPS; step++) {
        double now = metric("large", "train", "loss_scale", step),
               next = metric("large", "train", "loss_scale", step + 1);
        assert_true(next == now || next == 2 * now || next == now / 2);
        told += next < now;
    }
    if (told < 2 || overflows("large") < told || overflows("large") > STEPS * 3 / 4)
        fail_msg("%d, %d", told, overflows("large"));
    assert_true(metric("large", "train", "loss", STEPS) < metric("large", "train", "loss", 1));
    /* Norms are those of the gradients as they are. */
    assert_true(metric("large", "train", "grad_norm", STEPS) < 1e4);
}

/* With the same parts of a batch all have the same bits, so the same updates overflow. */
static void all_workers_skip_the_same_updates(void **state)
{
    static const char *const frameworks[] = {SANDBLASTER, ALLREDUCE};
    for (int workers = 1; workers <= 3; workers++)
        for (int i = 0; i < 2; i++) {
            char name[32];
            snprintf(name, sizeof name, "w%d-%d", workers, i);
            grouped(.name = name, .sets = {LARGE, SLOW, "job.repeat_exact=yes", frameworks[i],
                                           workers_set[workers], i ? NULL : servers_set[2]});
            assert_same_tensors(checkpoint_path("w1-0", STEPS), checkpoint_path(name, STEPS));
            assert_int_equal(overflows(name), overflows("w1-0"));
        }
    assert_true(overflows("w1-0") >= 2);
    grouped(.name = "sim2", .device = "sim:gpus=2,mem=64MiB",
            .sets = {LARGE, SLOW, "job.repeat_exact=yes", workers_set[2]});
    assert_same_tensors(checkpoint_path("w1-0", STEPS), checkpoint_path("sim2", STEPS));
}

/* What they learn depends on who comes first; a gradient that overflowed and was not skipped would
 * end the run. */
static void asynchronous_groups_skip_their_own_updates(void **state)
{
    static const char *const frameworks[] = {"cluster.framework=downpour",
                                             "cluster.framework=hogwild"};
    char text[128];
    for (int i = 0; i < 2; i++) {
        grouped(.name = "async", .sets = {LARGE, SLOW, frameworks[i], "cluster.worker_groups=2"});
        assert_true(overflows("async") >= 2);
        double a, b;
        long long good;
        assert_int_equal(
            sscanf(metadata("async", STEPS, "loss_scale", text), "%lf %lld %lf", &a, &good, &b), 3);
        assert_true(a >= 1 && b >= 1 && a < 16777216 && b < 16777216);
    }
}

/* With on_nan = skip an overflow is none of its updates: running statistics stay, and there is no
 * warning. */
static void on_nan_does_not_count_overflows(void **state)
{
    static const char *const sets[] = {"job.on_nan=skip", "job.on_nan=rollback"};
    train(.name = "stop", .recipe = workers_recipe, .sets = {LARGE, SLOW});
    for (int i = 0; i < 2; i++) {
        train(.name = "skip", .recipe = workers_recipe, .sets = {LARGE, SLOW, sets[i]});
        assert_int_equal(overflows("skip"), overflows("stop"));
        assert_same_tensors(checkpoint_path("stop", STEPS), checkpoint_path("skip", STEPS));
        assert_int_equal((int)ask("SELECT count(*) FROM events WHERE run_id = %d AND text LIKE "
                                  "'%%not finite%%'",
                                  run_id("skip")),
                         0);
    }
}

static void resume_continues_with_the_loss_scale(void **state)
{
    char a[128], b[128];
    for (int workers = 1; workers <= 2; workers++) {
        grouped(.name = "whole",
                .sets = {LARGE, SLOW, "job.checkpoint_every=1", workers_set[workers]});
        for (int64_t from = 1; from < STEPS; from += 3) {
            grouped(.name = "part", .steps = from, .sets = {LARGE, SLOW, workers_set[workers]});
            assert_string_equal(metadata("part", from, "loss_scale", a),
                                metadata("whole", from, "loss_scale", b));
            grouped(.resume = "part", .resume_step = from,
                    .sets = {LARGE, SLOW, workers_set[workers]});
            assert_same_tensors(checkpoint_path("whole", STEPS), checkpoint_path("part", STEPS));
            assert_string_equal(metadata("part", STEPS, "loss_scale", a),
                                metadata("whole", STEPS, "loss_scale", b));
        }
    }
    assert_true(overflows("whole") >= 2);
}

/* ---- What is refused ---- */

static void assert_refused(const char *a, const char *b, const char *c, const char *device,
                           const char *says)
{
    struct trial t = {.sets = {a, b, c}, .device = device};
    int rc = trial_open(&t);
    if (rc != SW_ERR_INVALID || !strstr(sw_bytes_text(&t.messages), says))
        fail_msg("%d, not: %s\n%s", rc, says, sw_bytes_text(&t.messages));
    trial_close(&t);
}

static void unsupported_precision_settings_are_refused(void **state)
{
    assert_refused("job.precision=bf16", "job.loss_scale=8", NULL, NULL,
                   "only back-propagation with precision = fp16");
    assert_refused("job.loss_scale_every=8", NULL, NULL, NULL,
                   "only back-propagation with precision = fp16");
    assert_refused(FP16, "job.loss_scale=100", NULL, NULL, "must be a power of 2");
    assert_refused(FP16, "job.loss_scale=33554432", NULL, NULL, "loss_scale");
    assert_refused("job.precision=fp64", NULL, NULL, NULL, "fp16");
}

/* Sources are read as fp16, whatever the scale of gradients is. Where a maximum hides that from the
 * loss (that of oneDNN does, that of the plain plans hands on what is no number) the gradients show
 * it: until the scale is 1 they are thought to be its fault. */
static void activations_beyond_the_range_end_the_run(void **state)
{
    static const char linear[] = WORKERS_JOB DATA_SECTIONS UPDATER_SECTIONS
        "[layer image]\ntype = input\nfield = image\n[layer label]\ntype = input\nfield = label\n"
        "[layer fc1]\ntype = inner_product\nsrc = image\noutputs = 4\n"
        "[layer loss]\ntype = softmax_loss\nsrc = fc1, label\n";
    static const char *const recipes[] = {linear, tiny_recipe};
    static const char loss[] = "step 1: the loss is not a number",
                      gradients[] = "a smaller loss scale would not help";
    for (int i = 0; i < 2; i++) {
        struct trial t = {.name = "beyond",
                          .recipe = recipes[i],
                          .sets = {FP16, "data.train.std=1e-5", "job.loss_scale=4"}};
        assert_int_equal(trial_go(&t), SW_ERR_DIVERGED);
        bool hidden = i == 1 && strstr(t.err.text, gradients);
        if (!(hidden || strstr(t.err.text, loss)) || !strstr(t.err.text, "precision = bf16"))
            fail_msg("%s", t.err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_precision_learns_what_fp32_learns),
        cmocka_unit_test(sim_has_the_bits_of_the_cpu),
        cmocka_unit_test(an_overflow_is_logged_and_halves_the_scale),
        cmocka_unit_test(all_workers_skip_the_same_updates),
        cmocka_unit_test(asynchronous_groups_skip_their_own_updates),
        cmocka_unit_test(on_nan_does_not_count_overflows),
        cmocka_unit_test(resume_continues_with_the_loss_scale),
        cmocka_unit_test(unsupported_precision_settings_are_refused),
        cmocka_unit_test(activations_beyond_the_range_end_the_run),
    };
    return cmocka_run_group_tests(tests, home_begin, home_end);
}
