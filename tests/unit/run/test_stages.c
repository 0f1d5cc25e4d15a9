/* Runs in stages, from the inside: what one stage passes to the next, with statistics, several
 * workers and recurrent state; a stop and a failure between two; a rollback at a stage's beginning.
 */
/* ctest-labels: threads */
#include "workers_support.h"

#define NORM_NET                                                                                   \
    "[layer image]\ntype = input\nfield = image\n[layer label]\ntype = input\nfield = label\n"     \
    "[layer conv1]\ntype = convolution\nsrc = image\noutputs = 8\nkernel = 3\nbias = no\n"         \
    "[layer bn]\ntype = batch_norm\nsrc = conv1\nmomentum = 0.5\n"                                 \
    "[layer relu1]\ntype = activation\nsrc = bn\nfunction = relu\n"                                \
    "[layer fc1]\ntype = inner_product\nsrc = relu1\noutputs = 6\nstages = first\n"                \
    "[layer loss1]\ntype = softmax_loss\nsrc = fc1, label\nstages = first\n"                       \
    "[layer fc2]\ntype = inner_product\nsrc = relu1\noutputs = 4\nstages = second, third\n"        \
    "[layer loss2]\ntype = softmax_loss\nsrc = fc2, label\nstages = second, third\n"
static const char recipe[] =
    "[job]\nbatch = 12\neval_batch = 20\n" DATA_SECTIONS UPDATER_SECTIONS NORM_NET
    "[stage first]\nsteps = 6\n"
    "[stage second]\nsteps = 5\nupdater.type = adam\nupdater.lr = 0.001\nfreeze = conv1\n"
    "[stage third]\nsteps = 4\nbatch = 9\n";

static void values_and_statistics_go_from_stage_to_stage(void **state)
{
    train(.name = "all", .recipe = recipe, .sets = {"job.checkpoint_every=1"});
    const char *before = checkpoint_path("all", 5), *ported = checkpoint_path("all", 6),
               *in_second = checkpoint_path("all", 10), *in_third = checkpoint_path("all", 11),
               *last = checkpoint_path("all", 15);
    /* Frozen in the second, trained in the others. */
    assert_non_null(differing_tensor(before, ported, "conv1."));
    assert_null(differing_tensor(ported, in_second, "conv1."));
    assert_non_null(differing_tensor(in_third, last, "conv1."));
    /* Statistics go on from what they were: with so quick a momentum a fresh start would show. */
    assert_non_null(differing_tensor(before, ported, "state.bn."));
    assert_non_null(differing_tensor(ported, in_second, "state.bn."));
    /* What no layer has any more is as its stage left it. */
    assert_null(differing_tensor(ported, last, "fc1."));
    struct sw_st_file *f = open_tensors(last);
    assert_string_equal(sw_st_metadata(f, "stage"), "third");
    assert_string_equal(sw_st_metadata(f, "stage_from"), "11");
    assert_null(sw_st_find(f, "updater.fc1.weight.momentum"));
    assert_null(sw_st_find(f, "updater.fc2.weight.mean"));
    assert_non_null(sw_st_find(f, "updater.fc2.weight.momentum"));
    sw_st_close(f);
    /* Adam counts the updates of its own stage. */
    f = open_tensors(in_second);
    assert_string_equal(sw_st_metadata(f, "updates"), "4");
    sw_st_close(f);
}

static void statistics_of_a_new_stage_are_those_of_the_file(void **state)
{
    train(.name = "stats", .recipe = recipe, .steps = 6);
    const char *ended = checkpoint_path("stats", 6);
    struct sw_st_file *f = open_tensors(ended);
    assert_string_equal(sw_st_metadata(f, "stage"), "first");
    assert_string_equal(sw_st_metadata(f, "stage_over"), "yes");
    sw_st_close(f);
    char *kept = in_home("ended.safetensors");
    assert_int_equal(link(ended, kept), 0);
    train(.resume = "stats", .resume_step = 6, .recipe = recipe, .steps = 7);
    assert_null(differing_tensor(kept, checkpoint_path("stats", 6), "state.bn."));
    assert_null(differing_tensor(kept, checkpoint_path("stats", 6), "bn."));
    assert_null(differing_tensor(kept, checkpoint_path("stats", 6), "fc1."));
}

static void several_workers_equal_one_worker(void **state)
{
    static const char *const workers[] = {"cluster.workers_per_group=2",
                                          "cluster.workers_per_group=3"};
    train(.name = "one", .recipe = recipe);
    for (int i = 0; i < 2; i++) {
        train(.name = "several", .recipe = recipe, .sets = {workers[i]}, .oversubscribe = true);
        assert_true(difference_of_files(checkpoint_path("one", 15), checkpoint_path("several", 15),
                                        true, NULL) < 1e-4);
    }
    /* Devices that update count the updates of a stage, too. */
    static const char *const updates[][2] = {{"cluster.copy=async"},
                                             {"cluster.copy=none"},
                                             {"cluster.copy=none", "job.partition=1"},
                                             {"cluster.comm=sfb"}};
    for (int i = 0; i < 4; i++) {
        train(.name = "devices", .recipe = recipe,
              .sets = {workers[0], updates[i][0], updates[i][1]}, .device = "sim:gpus=2,mem=64MiB",
              .oversubscribe = true);
        assert_true(difference_of_files(checkpoint_path("one", 15), checkpoint_path("devices", 15),
                                        true, NULL) < 1e-4);
    }
    /* And a stage may have others than the one before. */
    train(.name = "mixed", .recipe = recipe, .sets = {"stage.second.cluster.workers_per_group=3"},
          .oversubscribe = true);
    assert_true(difference_of_files(checkpoint_path("one", 15), checkpoint_path("mixed", 15), true,
                                    NULL) < 1e-4);
}

/* Opens a run and trains its first stage. */
static void train_first(struct trial *t)
{
    assert_int_equal(trial_open(t), SW_OK);
    assert_false(sw_job_has_next(t->job));
    assert_int_equal(sw_job_run(t->job, trial_observe, t, &t->stuck, &t->err), SW_OK);
    assert_true(sw_job_has_next(t->job));
    assert_int_equal(t->told[SW_JOB_SUMMARY], 0);
}

static void a_run_closed_between_two_stages_can_be_resumed(void **state)
{
    struct trial t = {.name = "left", .recipe = recipe};
    train(.name = "through", .recipe = recipe);
    train_first(&t);
    assert_true(ask("SELECT status = 'running' FROM runs WHERE id = %d", run_id("left")));
    trial_close(&t);
    assert_true(ask("SELECT status = 'stopped' FROM runs WHERE id = %d", run_id("left")));
    train(.resume = "left", .resume_step = 6, .recipe = recipe);
    assert_true(ask("SELECT status = 'done' FROM runs WHERE id = %d", run_id("left")));
    assert_same_tensors(checkpoint_path("through", 15), checkpoint_path("left", 15));
}

static void a_request_between_two_stages_reaches_the_next(void **state)
{
    struct trial t = {.name = "asked", .recipe = recipe};
    train_first(&t);
    sw_job_request(t.job, SW_JOB_STOP);
    assert_int_equal(sw_job_next(&t.job, &t.messages, &t.err), SW_OK);
    assert_string_equal(sw_job_plan(t.job)->stage, "second");
    assert_int_equal(sw_job_run(t.job, trial_observe, &t, &t.stuck, &t.err), SW_ERR_CANCELLED);
    assert_false(sw_job_has_next(t.job));
    assert_int_equal(t.told[SW_JOB_SUMMARY], 1);
    assert_int_equal(t.last[SW_JOB_SUMMARY].step, 7);
    trial_close(&t);
}

/* The checkpoint that the next stage begins from is gone. */
static void a_stage_that_cannot_begin_keeps_the_run_resumable(void **state)
{
    struct trial t = {.name = "gone", .recipe = recipe};
    train_first(&t);
    unlink(checkpoint_path("gone", 6));
    assert_int_equal(sw_job_next(&t.job, &t.messages, &t.err), SW_ERR_NOTFOUND);
    trial_close(&t);
    assert_true(ask("SELECT status = 'stopped' FROM runs WHERE id = %d", run_id("gone")));
}

/* It goes back to its own beginning, not to the net of the stage before. */
static void a_rollback_at_a_stages_beginning_finds_its_values(void **state)
{
    struct trial t = {.name = "back",
                      .recipe = recipe,
                      .sets = {"stage.second.updater.type=sgd", "stage.second.updater.lr=1e38",
                               "job.on_nan=rollback"}};
    assert_int_equal(trial_go(&t), SW_ERR_DIVERGED);
    assert_non_null(strstr(t.text, "rolled back to the values of step 6"));
    assert_non_null(strstr(t.err.text, "rollbacks to the same checkpoint"));
    struct sw_st_file *f = open_tensors(checkpoint_path("back", 6));
    assert_string_equal(sw_st_metadata(f, "stage"), "second");
    sw_st_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_and_statistics_go_from_stage_to_stage),
        cmocka_unit_test(statistics_of_a_new_stage_are_those_of_the_file),
        cmocka_unit_test(several_workers_equal_one_worker),
        cmocka_unit_test(a_run_closed_between_two_stages_can_be_resumed),
        cmocka_unit_test(a_request_between_two_stages_reaches_the_next),
        cmocka_unit_test(a_stage_that_cannot_begin_keeps_the_run_resumable),
        cmocka_unit_test(a_rollback_at_a_stages_beginning_finds_its_values),
    };
    return cmocka_run_group_tests_name("stages", tests, home_begin, home_end);
}
