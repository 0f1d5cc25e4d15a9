/* ctest-labels: threads
 * ctest-timeout: 120
 * job.stop_at: a run ends, as done, at the first step at which a condition holds, at the same step
 * with any workers, with an evaluation, a checkpoint and an event. */
#include "workers_support.h"

static double metric_at(const char *run, const char *split, const char *name, int64_t step)
{
    return ask("SELECT value FROM metrics WHERE run_id = %d AND split = '%s' AND name = '%s' AND "
               "step = %lld",
               run_id(run), split, name, (long long)step);
}

static int64_t last_step(const char *run)
{
    return (int64_t)ask("SELECT max(step) FROM metrics WHERE run_id = %d AND name = 'loss' AND "
                        "split = 'train'",
                        run_id(run));
}

/* The first step of run `full` at which a metric of training is below the limit. */
static int64_t first_below(const char *name, double limit)
{
    return (int64_t)ask("SELECT min(step) FROM metrics WHERE run_id = %d AND split = 'train' AND "
                        "name = '%s' AND value <= %.17g",
                        run_id("full"), name, limit);
}

/* A run that goes to its end, with norms that are known. */
static void full(void)
{
    static bool done;
    if (!done)
        grouped(.name = "full", .steps = 20, .sets = {"job.grad_clip=norm:1e9"});
    done = true;
}

static void check_end(const char *run, int64_t step, const char *says)
{
    assert_int_equal(last_step(run), step);
    assert_string_equal(ask_text("SELECT status FROM runs WHERE id = %d", run_id(run)), "done");
    assert_int_equal((int)ask("SELECT count(*) FROM events WHERE run_id = %d AND text LIKE "
                              "'step %lld: stop_at %s reached with %%'",
                              run_id(run), (long long)step, says),
                     1);
    assert_int_equal((int)ask("SELECT count(*) FROM checkpoints WHERE run_id = %d AND step = %lld",
                              run_id(run), (long long)step),
                     1);
    assert_true(metric_at(run, "test", "loss", step) > 0); /* the end is evaluated */
}

static void the_loss_of_training_ends_the_run(void **state)
{
    char set[64];
    full();
    double limit = metric_at("full", "train", "loss", 12);
    int64_t step = first_below("loss", limit);
    assert_true(step > 0 && step < 20);
    snprintf(set, sizeof set, "job.stop_at=train.loss<=%.17g", limit);
    grouped(.name = "loss", .sets = {set});
    check_end("loss", step, "train.loss<=%");
}

static void the_norm_of_gradients_ends_the_run(void **state)
{
    char set[64];
    full();
    double limit = metric_at("full", "train", "grad_norm", 9) * 1.0001;
    int64_t step = first_below("grad_norm", limit);
    assert_true(step > 0 && step < 20);
    snprintf(set, sizeof set, "job.stop_at=grad_norm <= %.17g", limit);
    grouped(.name = "norm1", .sets = {set});
    check_end("norm1", step, "grad_norm%");
    grouped(.name = "norm3", .sets = {set, SANDBLASTER, "cluster.workers_per_group=3",
                                      "cluster.servers_per_group=2"});
    check_end("norm3", step, "grad_norm%");
    grouped(.name = "norms", .device = "sim:gpus=2,mem=64MiB",
            .sets = {set, ALLREDUCE, "cluster.workers_per_group=2"});
    check_end("norms", step, "grad_norm%");
}

/* Known at evaluations only: the first of them is at step 5. */
static void a_metric_of_evaluation_ends_the_run(void **state)
{
    grouped(.name = "eval1", .sets = {"job.stop_at=accuracy>=0", "job.eval_every=5"});
    check_end("eval1", 5, "accuracy>=0");
    grouped(.name = "eval2", .sets = {"job.stop_at=test.loss<1e9,train.loss<0", "job.eval_every=7",
                                      ALLREDUCE, "cluster.workers_per_group=2"});
    check_end("eval2", 7, "test.loss<1e9");
}

/* Several: the first that holds. One that never holds: the whole run, and a strict limit is. */
static void conditions_that_do_not_hold_change_nothing(void **state)
{
    full();
    grouped(.name = "never",
            .sets = {"job.stop_at=loss<0, accuracy>1, train.loss>1e9", "job.eval_every=3"});
    assert_int_equal(last_step("never"), 20);
    assert_same_tensors(checkpoint_path("full", 20), checkpoint_path("never", 20));
    assert_int_equal((int)ask("SELECT count(*) FROM events WHERE run_id = %d AND text LIKE "
                              "'%%stop_at%%'",
                              run_id("never")),
                     0);
}

static void stopped_run_can_be_resumed(void **state)
{
    struct trial t = {.resume = "eval1", .resume_step = 5, .oversubscribe = true};
    t.recipe = workers_recipe;
    assert_int_equal(trial_go(&t), SW_OK);
    assert_int_equal(last_step("eval1"), 10); /* the next evaluation */
}

static void check_refused(const char *set, const char *why)
{
    struct trial t = {.name = "refused", .recipe = workers_recipe, .sets = {set}};
    assert_int_equal(trial_open(&t), SW_ERR_INVALID);
    if (!strstr(sw_bytes_text(&t.messages), why))
        fail_msg("'%s' does not say '%s'", sw_bytes_text(&t.messages), why);
    trial_close(&t);
}

static void invalid_conditions_are_refused(void **state)
{
    check_refused("job.stop_at=acuracy>=0.9", "accuracy");
    check_refused("job.stop_at=accuracy", "must be a metric, one of < <= > >=, and a number");
    check_refused("job.stop_at=accuracy>=much", "must be a metric");
    check_refused("job.stop_at=loss<1,>2", "must be a metric");
    check_refused("job.stop_at=val.loss<1", "has this metric");
    check_refused("job.stop_at=train.accuracy>1", "has this metric"); /* in evaluation only */
    check_refused("job.grad_clip=5", "value:X or norm:X");
    check_refused("job.grad_clip=norm:0", "value:X or norm:X");
    check_refused("job.grad_clip=norm:", "value:X or norm:X");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_loss_of_training_ends_the_run),
        cmocka_unit_test(the_norm_of_gradients_ends_the_run),
        cmocka_unit_test(a_metric_of_evaluation_ends_the_run),
        cmocka_unit_test(conditions_that_do_not_hold_change_nothing),
        cmocka_unit_test(stopped_run_can_be_resumed),
        cmocka_unit_test(invalid_conditions_are_refused),
    };
    return cmocka_run_group_tests(tests, home_begin, home_end);
}
