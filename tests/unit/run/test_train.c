/* Training through the library: bit-identical runs where promised, the meaning of steps, epochs,
 * evaluation and requests, and what a run leaves in the history. */
#include "infer/evaluate_alone.h"
#include "train_support.h"

/* ---- the same bits ---- */

static void same_seed_gives_the_same_bits(void **state)
{
    train(.name = "one", .steps = 20);
    train(.name = "two", .steps = 20);
    train(.name = "other", .steps = 20, .sets = {"job.seed=2"});
    assert_same_tensors(checkpoint_path("one", 20), checkpoint_path("two", 20));
    assert_non_null(differing_tensor(checkpoint_path("one", 0), checkpoint_path("other", 0), NULL));
    assert_non_null(
        differing_tensor(checkpoint_path("one", 20), checkpoint_path("other", 20), NULL));
    assert_true(ask("SELECT count(*) = 20 FROM metrics a JOIN metrics b USING (split, name, step)"
                    " WHERE a.run_id = %d AND b.run_id = %d AND name = 'loss' AND"
                    " split = 'train' AND a.value = b.value",
                    run_id("one"), run_id("two")));
}

/* Dropout, crop, mirror and order all matter: without one of them the bits are others. */
static void every_random_operation_takes_part(void **state)
{
    static const char *const without[] = {"layer.drop.ratio=0", "data.train.crop_method=centre",
                                          "data.train.mirror=no", "data.train.shuffle=no"};
    train(.name = "all", .steps = 3);
    for (int i = 0; i < 4; i++) {
        train(.name = "less", .steps = 3, .sets = {without[i]});
        assert_non_null(
            differing_tensor(checkpoint_path("all", 3), checkpoint_path("less", 3), NULL));
    }
}

static void resume_at_step_30_is_bit_identical_to_60_steps(void **state)
{
    train(.name = "whole");
    train(.name = "half", .steps = 30);
    struct trial rest = {.resume = "half", .resume_step = 30, .steps = 60};
    trial_ok(&rest);
    assert_int_equal(rest.last[SW_JOB_SUMMARY].step, 60);
    assert_same_tensors(checkpoint_path("whole", 60), checkpoint_path("half", 60));
    /* The second half does train: not only do both ends agree. */
    assert_non_null(
        differing_tensor(checkpoint_path("half", 30), checkpoint_path("half", 60), NULL));
    assert_non_null(differing_tensor(checkpoint_path("half", 30), checkpoint_path("half", 60),
                                     "updater.conv1.weight.momentum"));
    assert_true(ask("SELECT count(*) = 60 FROM metrics a JOIN metrics b USING (split, name, step)"
                    " WHERE a.run_id = %d AND b.run_id = %d AND name = 'loss' AND"
                    " split = 'train' AND a.value = b.value",
                    run_id("whole"), run_id("half")));
    assert_string_equal(
        ask_text("SELECT group_concat(from_step) FROM segments WHERE run_id = %d", run_id("half")),
        "0,30");
    assert_string_equal(ask_text("SELECT status FROM runs WHERE name = 'half'"), "done");
}

static void resume_works_from_every_step(void **state)
{
    enum { STEPS = 15 };
    train(.name = "each", .steps = STEPS, .sets = {"job.checkpoint_every=1", "job.eval_every=4"});
    char *reference = in_home("reference.safetensors");
    assert_int_equal(rename(checkpoint_path("each", STEPS), reference), 0);
    for (int step = STEPS - 1; step >= 0; step--) {
        train(.resume = "each", .resume_step = step, .steps = STEPS);
        char *again = checkpoint_path("each", STEPS);
        reference = in_home("reference.safetensors");
        assert_same_tensors(reference, again);
        assert_int_equal(unlink(again), 0);
    }
    assert_true(ask("SELECT count(*) = %d AND max(step) = %d FROM step_time WHERE run_id = %d",
                    STEPS, STEPS, run_id("each")));
}

/* Evaluations, checkpoints and displays along the way change nothing. */
static void evaluations_and_checkpoints_change_no_bits(void **state)
{
    train(.name = "quiet", .steps = 25);
    train(.name = "busy", .steps = 25, .display = {.every_steps = 1},
          .sets = {"job.checkpoint_every=3", "job.eval_every=2", "job.eval_batch=7",
                   "data.train.workers=3", "data.train.prefetch=5"});
    assert_same_tensors(checkpoint_path("quiet", 25), checkpoint_path("busy", 25));
}

static void resume_refuses_what_does_not_fit(void **state)
{
    train(.name = "fits", .steps = 2);
    struct trial t = {.resume = "fits", .resume_step = 2, .sets = {"layer.fc1.outputs=25"}};
    assert_int_equal(trial_open(&t), SW_ERR_INVALID); /* before anything is written */
    assert_non_null(strstr(t.err.text, "fc1.weight is F32 24x288 in the file, but F32 25x288"));
    trial_close(&t);
    assert_string_equal(ask_text("SELECT status FROM runs WHERE name = 'fits'"), "done");
    struct trial missing = {.resume = "fits", .resume_step = 1};
    assert_int_equal(trial_go(&missing), SW_ERR_NOTFOUND);
    assert_non_null(strstr(missing.err.text, "checkpoint-1.safetensors"));
}

/* ---- learning ---- */

static void loss_falls(void **state)
{
    struct trial t = {.name = "learns"};
    trial_ok(&t);
    double first = ask("SELECT avg(value) FROM metrics WHERE run_id = %d AND name = 'loss' AND"
                       " split = 'train' AND step <= 5",
                       run_id("learns"));
    double last = ask("SELECT avg(value) FROM metrics WHERE run_id = %d AND name = 'loss' AND"
                      " split = 'train' AND step > 50",
                      run_id("learns"));
    assert_true(first > 1.2 && first < 2.2); /* ln 4 = 1.39 for a guess */
    assert_true(last < 0.5 * first);
    const struct sw_job_event *e = &t.last[SW_JOB_EVAL];
    assert_string_equal(e->metric[1].name, "accuracy");
    assert_true(e->metric[1].value > 0.7); /* a guess has 0.25 */
}

static double taken_value(const char *run, int64_t step)
{
    struct sw_st_file *f = open_tensors(checkpoint_path(run, step));
    float value;
    struct sw_err err;
    assert_int_equal(
        sw_st_read(f, sw_st_find(f, "updater.fc2.bias.momentum"), 0, sizeof value, &value, &err),
        SW_OK);
    sw_st_close(f);
    return (double)value;
}

static void init_from_takes_parameters_by_name(void **state)
{
    train(.name = "teacher", .steps = 5);
    struct trial same = {.name = "same", .steps = 1, .init_from = checkpoint_path("teacher", 5)};
    trial_ok(&same);
    static const char *const params[] = {"conv1.weight", "conv1.bias", "fc1.weight",
                                         "fc1.bias",     "fc2.weight", "fc2.bias"};
    for (int i = 0; i < 6; i++)
        assert_null(
            differing_tensor(checkpoint_path("teacher", 5), checkpoint_path("same", 0), params[i]));
    assert_true(taken_value("teacher", 5) != 0);
    assert_true(taken_value("same", 0) == 0); /* the updater begins anew */
    assert_non_null(strstr(same.text, "6 of 6 parameters start from"));

    /* A net with another head: its own layer keeps its own initial values. */
    char *other = sw_format(
        "[job]\nsteps = 1\nbatch = 16\neval_batch = 20\n" DATA_SECTIONS UPDATER_SECTIONS "%s",
        NET_SECTIONS);
    for (char *p = other; (p = strstr(p, "fc2"));)
        memcpy(p, "top", 3);
    struct trial head = {
        .name = "head", .recipe = other, .init_from = checkpoint_path("teacher", 5)};
    trial_ok(&head);
    assert_null(
        differing_tensor(checkpoint_path("head", 0), checkpoint_path("teacher", 5), "fc1.weight"));
    assert_non_null(strstr(head.text, "4 of 6 parameters start from"));
    sw_free(other);

    /* Nothing in common, another shape, no file. */
    struct trial shape = {.name = "shape",
                          .init_from = checkpoint_path("teacher", 5),
                          .sets = {"layer.fc1.outputs=25"}};
    assert_int_equal(trial_go(&shape), SW_ERR_INVALID);
    assert_non_null(strstr(shape.err.text, "fc1.weight"));
    struct trial gone = {.name = "gone", .init_from = in_home("gone.safetensors")};
    assert_int_equal(trial_go(&gone), SW_ERR_NOTFOUND);
    assert_non_null(strstr(gone.err.text, "gone.safetensors"));
}

/* ---- steps ---- */

static void steps_option_keeps_the_horizon(void **state)
{
    struct trial t = {.name = "short", .steps = 5};
    assert_int_equal(trial_open(&t), SW_OK);
    assert_int_equal(sw_job_plan(t.job)->steps, 5);
    assert_int_equal(t.job->span.horizon, 60);
    assert_int_equal(trial_run(&t), SW_OK);
    trial_close(&t);
    assert_true(exists(checkpoint_path("short", 5)));
    struct trial longer = {.name = "long", .steps = 70};
    assert_int_equal(trial_open(&longer), SW_OK);
    assert_int_equal(longer.job->span.horizon, 60);
    assert_int_equal(trial_run(&longer), SW_OK);
    trial_close(&longer);
    /* Step t uses the schedule at t - 1: (1 + 0.01 (t-1))^-0.75. */
    for (int step = 1; step <= 5; step++) {
        double expected = 0.02 * pow(1 + 0.01 * (step - 1), -0.75);
        for (int i = 0; i < 2; i++)
            assert_true(ask("SELECT abs(value - %.17g) < 1e-12 FROM metrics WHERE run_id = %d AND"
                            " name = 'lr' AND step = %d",
                            expected, run_id(i ? "long" : "short"), step));
    }
}

static void epochs_become_steps(void **state)
{
    static const struct {
        const char *set;
        int64_t steps;
    } cases[] = {
        {"job.epochs=1", 13}, {"job.epochs=2", 25}, {"job.epochs=0.5", 7}, {"job.epochs=4", 50}};
    for (int i = 0; i < 4; i++) { /* 200 records in batches of 16, rounded up at the end */
        struct trial t = {.sets = {cases[i].set}};
        assert_int_equal(trial_open(&t), SW_OK);
        assert_int_equal(sw_job_plan(t.job)->steps, cases[i].steps);
        assert_int_equal(t.job->span.horizon, cases[i].steps);
        trial_close(&t);
    }
    train(.name = "epoch", .sets = {"job.epochs=1"});
    assert_true(exists(checkpoint_path("epoch", 13)));
}

/* ---- evaluation ---- */

static void evaluate_weights(const char *weights, const char *set, struct sw_job_event *out)
{
    struct trial t = {.sets = {set}};
    struct sw_err err;
    assert_int_equal(trial_open(&t), SW_OK);
    if (sw_job_evaluate(t.job, weights, out, &err) != SW_OK)
        fail_msg("%s", err.text);
    assert_string_equal(out->split, "test"); /* borrowed from the job */
    trial_close(&t);
}

/* 53 records: 10 leaves a last batch of 3, 7 one of 4, 100 is larger than all. */
static void evaluation_counts_every_record_once(void **state)
{
    train(.name = "judged", .steps = 6);
    char *weights = checkpoint_path("judged", 6);
    struct sw_job_event one, e;
    evaluate_weights(weights, "job.eval_batch=1", &one);
    assert_int_equal(one.metric_count, 2);
    double hits = one.metric[1].value * 53;
    assert_true(fabs(hits - round(hits)) < 1e-9);
    assert_true(hits > 13 && hits < 53); /* neither a guess nor all: a miscount would show */
    static const char *const sets[] = {"job.eval_batch=7", "job.eval_batch=10", "job.eval_batch=53",
                                       "job.eval_batch=100"};
    for (int i = 0; i < 4; i++) {
        evaluate_weights(weights, sets[i], &e);
        assert_true(e.metric[1].value == one.metric[1].value);
        assert_true(fabs(e.metric[0].value - one.metric[0].value) < 1e-5);
    }
}

static void evaluation_in_training_is_that_of_eval(void **state)
{
    struct sw_job_event e;
    struct trial t = {.name = "both", .steps = 9, .sets = {"job.eval_every=3"}};
    trial_ok(&t);
    assert_int_equal(t.told[SW_JOB_EVAL], 3);
    evaluate_weights(checkpoint_path("both", 9), NULL, &e);
    for (int i = 0; i < 2; i++) {
        assert_string_equal(e.metric[i].name, t.last[SW_JOB_EVAL].metric[i].name);
        assert_true(e.metric[i].value == t.last[SW_JOB_EVAL].metric[i].value);
    }
    assert_string_equal(
        ask_text("SELECT group_concat(step) FROM metrics WHERE run_id = %d AND split = 'test' AND"
                 " name = 'accuracy'",
                 run_id("both")),
        "3,6,9");
    /* Initial values, and the other split. */
    struct trial other = {.split = "train"};
    struct sw_err err;
    assert_int_equal(trial_open(&other), SW_OK);
    assert_int_equal(sw_job_evaluate(other.job, NULL, &e, &err), SW_OK);
    assert_string_equal(e.split, "train");
    assert_true(e.metric[0].value > 1.2 && e.metric[0].value < 2.2);
    trial_close(&other);
    struct trial none = {.split = "nosuch"};
    assert_int_equal(trial_open(&none), SW_ERR_INVALID);
    assert_non_null(strstr(none.err.text, "has no [data nosuch]; it has train, test"));
    trial_close(&none);
}

static void val_comes_before_test(void **state)
{
    char *recipe = sw_format("%s[data val]\nformat = synthetic\nclasses = 4\nrecords = 31\n"
                             "height = 16\nwidth = 16\nmean = 127\nstd = 64\ncrop = 14\n",
                             tiny_recipe);
    train(.name = "val", .recipe = recipe, .steps = 2);
    sw_free(recipe);
    assert_string_equal(ask_text("SELECT group_concat(DISTINCT split) FROM metrics WHERE"
                                 " run_id = %d AND name = 'accuracy'",
                                 run_id("val")),
                        "val");
}

/* Nothing to evaluate on; and an epoch shorter than a batch. */
static void training_data_alone_are_enough(void **state)
{
    struct trial t = {.name = "alone",
                      .recipe =
                          "[job]\nsteps = 6\nbatch = 16\neval_every = 2\n[data train]\n"
                          "format = synthetic\nclasses = 4\nrecords = 5\nheight = 16\nwidth = 16\n"
                          "mean = 127\nstd = 64\nshuffle = yes\n" UPDATER_SECTIONS NET_SECTIONS};
    struct sw_err err;
    struct sw_job_event e;
    trial_ok(&t);
    assert_int_equal(t.told[SW_JOB_EVAL], 0);
    assert_int_equal(t.told[SW_JOB_CHECKPOINT], 2);
    assert_true(exists(checkpoint_path("alone", 6)));
    assert_int_equal(trial_open(&t), SW_OK);
    assert_int_equal(sw_job_evaluate(t.job, NULL, &e, &err), SW_ERR_NOTFOUND);
    assert_non_null(strstr(err.text, "[data test]"));
    trial_close(&t);
}

/* ---- results by name ---- */

static double metric_of(const struct sw_job_event *e, const char *name)
{
    for (int i = 0; i < e->metric_count; i++)
        if (sw_str_eq(e->metric[i].name, name))
            return e->metric[i].value;
    fail_msg("there is no metric %s", name);
    return 0;
}

/* With neither an evaluation nor a checkpoint at its last step a run ends there all the same. */
static void a_run_without_evaluations_and_checkpoints_ends(void **state)
{
    static const char bare[] =
        "[job]\nsteps = 7\nbatch = 8\ncheckpoint_ends = no\n[data train]\nformat = synthetic\n"
        "classes = 4\nrecords = 40\nheight = 8\nwidth = 8\n[updater]\ntype = sgd\nlr = 0.01\n"
        "[layer image]\ntype = input\nfield = image\n"
        "[layer label]\ntype = input\nfield = label\n"
        "[layer fc]\ntype = inner_product\nsrc = image\noutputs = 4\n"
        "[layer loss]\ntype = softmax_loss\nsrc = fc, label\n";
    train(.recipe = bare, .name = "bare");
    assert_int_equal(count_files("bare", "checkpoint-"), 0);
    assert_true(ask("SELECT max(step) = 7 FROM metrics WHERE run_id = %d", run_id("bare")));
}

static void two_metrics_of_a_type_have_their_own_names(void **state)
{
    static const char recipe[] =
        "[job]\nsteps = 4\nbatch = 16\neval_batch = 20\n" DATA_SECTIONS UPDATER_SECTIONS
            NET_SECTIONS "[layer low]\ntype = inner_product\nsrc = relu1\noutputs = 4\n"
        "[layer aside]\ntype = softmax_loss\nsrc = low, label\nweight = 0.25\n"
        "[layer top2]\ntype = accuracy\nsrc = fc2, label\ntop_k = 2\ninclude = eval\n";
    struct trial t = {.name = "two", .recipe = recipe};
    trial_ok(&t);
    const struct sw_job_event *e = &t.last[SW_JOB_EVAL];
    assert_int_equal(e->metric_count, 6);
    assert_string_equal(e->metric[0].name, "loss");
    assert_true(metric_of(e, "accuracy") == metric_of(e, "accuracy.accuracy"));
    assert_true(metric_of(e, "accuracy.top2") > metric_of(e, "accuracy"));
    /* loss is the weighted sum of both, and the aside counts a quarter. */
    double top = metric_of(e, "softmax_loss.loss"), aside = metric_of(e, "softmax_loss.aside");
    assert_true(fabs(metric_of(e, "loss") - top - aside) < 1e-9);
    assert_true(top > 0.5 && aside > 0.1 && aside < 0.25 * 2.5);
    assert_string_equal(ask_text("SELECT group_concat(name) FROM (SELECT DISTINCT name FROM metrics"
                                 " WHERE run_id = %d AND split = 'test' ORDER BY name)",
                                 run_id("two")),
                        "accuracy,accuracy.accuracy,accuracy.top2,loss,softmax_loss.aside,"
                        "softmax_loss.loss");
}

/* ---- checkpoints and requests ---- */

static void checkpoints_are_written_when_due(void **state)
{
    struct trial t = {.name = "due", .steps = 10, .sets = {"job.checkpoint_every=4"}};
    trial_ok(&t);
    assert_int_equal(t.told[SW_JOB_CHECKPOINT], 4);
    assert_int_equal(count_files("due", ""), 4);
    static const int steps[] = {0, 4, 8, 10};
    for (int i = 0; i < 4; i++)
        assert_true(exists(checkpoint_path("due", steps[i])));
    assert_string_equal(
        ask_text("SELECT group_concat(step) FROM checkpoints WHERE run_id = %d", run_id("due")),
        "0,4,8,10");
    assert_true(ask("SELECT count(*) = 4 FROM checkpoints WHERE run_id = %d AND bytes > 1000 AND"
                    " length(checksum) = 32 AND path LIKE '/%%/due/checkpoint-%%.safetensors'",
                    run_id("due")));
}

/* What a trial asks for when it hears of step `at`. */
struct request {
    int64_t at;
    enum sw_job_request_kind kind;
    struct hold hold;
};

static void hold_for_request(struct trial *t)
{
    struct request *r = t->user;
    r->hold.behind = r->at;
    hold_updates(t, &r->hold);
}

static void ask_at_step(struct trial *t, const struct sw_job_event *e)
{
    struct request *r = t->user;
    if (e->type != SW_JOB_DISPLAY || e->step != r->at)
        return;
    sw_job_request(t->job, r->kind);
    atomic_store(&r->hold.over, true);
}

static void stop_writes_a_checkpoint_to_resume_from(void **state)
{
    train(.name = "unstopped", .steps = 400);
    struct request r = {.at = 7, .kind = SW_JOB_STOP};
    struct trial t = {.name = "stopped",
                      .steps = 400,
                      .display = {.every_steps = 1},
                      .before = hold_for_request,
                      .on_event = ask_at_step,
                      .user = &r};
    assert_int_equal(trial_go(&t), SW_ERR_CANCELLED);
    int64_t step = t.last[SW_JOB_SUMMARY].step;
    assert_true(step >= 7 && step < 400);
    assert_int_equal(t.last[SW_JOB_SUMMARY].status, SW_RUN_STOPPED);
    assert_int_equal(t.last[SW_JOB_CHECKPOINT].step, step);
    assert_int_equal(t.told[SW_JOB_EVAL], 0);
    assert_true(exists(checkpoint_path("stopped", step)));
    assert_string_equal(ask_text("SELECT status FROM runs WHERE name = 'stopped'"), "stopped");
    train(.resume = "stopped", .resume_step = step, .steps = 400);
    assert_same_tensors(checkpoint_path("unstopped", 400), checkpoint_path("stopped", 400));
}

/* A stop that comes before the first step: one step is made, and saved. */
static void ask_before(struct trial *t)
{
    sw_job_request(t->job, SW_JOB_STOP);
}

static void stop_before_the_first_step_stops(void **state)
{
    struct trial t = {.name = "early", .before = ask_before};
    assert_int_equal(trial_go(&t), SW_ERR_CANCELLED);
    assert_int_equal(t.last[SW_JOB_SUMMARY].step, 1);
    assert_true(exists(checkpoint_path("early", 1)));
    /* At the last step there is nothing left to stop. */
    struct trial done = {.name = "done", .steps = 1, .before = ask_before};
    trial_ok(&done);
    assert_int_equal(done.told[SW_JOB_EVAL], 1);
    assert_int_equal(done.last[SW_JOB_SUMMARY].status, SW_RUN_DONE);
}

static void checkpoint_request_saves_and_training_continues(void **state)
{
    struct request r = {.at = 5, .kind = SW_JOB_CHECKPOINT_NOW};
    struct trial t = {.name = "now",
                      .steps = 300,
                      .display = {.every_steps = 1},
                      .before = hold_for_request,
                      .on_event = ask_at_step,
                      .user = &r};
    trial_ok(&t);
    assert_int_equal(t.told[SW_JOB_CHECKPOINT], 3); /* 0, the one asked for, 300 */
    int64_t step = (int64_t)ask("SELECT step FROM checkpoints WHERE run_id = %d AND"
                                " step NOT IN (0, 300)",
                                run_id("now"));
    assert_true(step >= 5 && step < 300);
    assert_true(exists(checkpoint_path("now", step)));
}

static void abort_ends_at_once_without_a_checkpoint(void **state)
{
    struct request r = {.at = 5, .kind = SW_JOB_ABORT};
    struct trial t = {.name = "aborted",
                      .steps = 100000000,
                      .display = {.every_steps = 5},
                      .on_event = ask_at_step,
                      .user = &r};
    assert_int_equal(trial_go(&t), SW_ERR_LIBRARY);
    assert_non_null(strstr(t.err.text, "job: aborted by request"));
    assert_int_equal(count_files("aborted", ""), 1); /* checkpoint 0 */
    assert_string_equal(ask_text("SELECT status FROM runs WHERE name = 'aborted'"), "failed");
    assert_true(ask("SELECT count(*) = 1 FROM events WHERE run_id = %d AND source = 'job' AND"
                    " level = 'error' AND text LIKE '%%aborted by request%%'",
                    run_id("aborted")));
}

static void stop_at_third_display(struct trial *t, const struct sw_job_event *e)
{
    if (e->type == SW_JOB_DISPLAY && t->told[SW_JOB_DISPLAY] == 3)
        sw_job_request(t->job, SW_JOB_STOP);
}

static void displays_follow_the_policy(void **state)
{
    struct trial t = {.steps = 12, .display = {.first_steps = 2, .every_steps = 5}};
    trial_ok(&t);
    assert_int_equal(t.told[SW_JOB_START], 1);
    assert_int_equal(t.told[SW_JOB_SUMMARY], 1);
    static const int64_t steps[] = {1, 2, 5, 10, 12}; /* the last step is always shown */
    assert_int_equal(t.told[SW_JOB_DISPLAY], 5);
    assert_memory_equal(t.displayed, steps, sizeof steps);
    /* By time: not more often than once every_s, and at the end. */
    struct trial timed = {.steps = 4000, .display = {.every_s = 0.1}};
    trial_ok(&timed);
    assert_in_range(timed.told[SW_JOB_DISPLAY], 1, (int)(timed.took_s / 0.1) + 2);
    assert_int_equal(timed.last[SW_JOB_DISPLAY].step, 4000);
    /* A run that only ends because it is shown three times. */
    struct trial often = {
        .steps = 100000000, .display = {.every_s = 1e-6}, .on_event = stop_at_third_display};
    assert_int_equal(trial_go(&often), SW_ERR_CANCELLED);
    assert_true(often.told[SW_JOB_DISPLAY] >= 3);
}

/* ---- what a run leaves in the history ---- */

static void history_has_the_series_of_training(void **state)
{
    train(.name = "series", .steps = 8, .sets = {"job.eval_every=4"});
    int id = run_id("series");
    static const char *const names[] = {"lr", "loss", "samples_per_s"};
    for (int i = 0; i < 3; i++)
        assert_true(ask("SELECT count(*) = 8 AND min(step) = 1 AND max(step) = 8 AND min(value) > 0"
                        " FROM metrics WHERE run_id = %d AND split = 'train' AND name = '%s'",
                        id, names[i]));
    assert_true(ask("SELECT count(DISTINCT name) = 3 FROM metrics WHERE run_id = %d AND"
                    " split = 'train'",
                    id));
    assert_string_equal(
        ask_text("SELECT group_concat(name || step) FROM (SELECT name, step FROM metrics WHERE"
                 " run_id = %d AND split = 'test' ORDER BY name, step)",
                 id),
        "accuracy4,accuracy8,loss4,loss8");
    assert_true(ask("SELECT status = 'done' AND workers = 1 AND batch = 16 AND seed = 1 AND"
                    " framework = 'allreduce' AND device = 'cpu' AND params > 0 AND"
                    " flops_per_sample > 0 FROM runs WHERE id = %d",
                    id));
}

/* A row per step and worker, whose parts are the whole step. The rate of the step says how long it
 * took, from a clock read at the same two moments. */
static void step_time_accounts_for_every_step(void **state)
{
    train(.name = "timed", .steps = 50, .sets = {"job.eval_every=10"});
    int id = run_id("timed");
    assert_true(ask("SELECT count(*) = 50 AND count(DISTINCT step) = 50 AND max(worker) = 0 FROM"
                    " step_time WHERE run_id = %d",
                    id));
    double worst =
        ask("SELECT max(abs(parts / whole - 1)) FROM (SELECT read_ms + decode_ms + h2d_ms +"
            " forward_ms + backward_ms + update_ms + comm_exposed_ms + wait_ms + idle_ms AS parts,"
            " 16e3 / m.value AS whole FROM step_time s JOIN metrics m ON m.run_id = s.run_id AND"
            " m.step = s.step AND m.name = 'samples_per_s' WHERE s.run_id = %d)",
            id);
    assert_true(worst >= 0 && worst < 0.03);
    assert_true(ask("SELECT min(forward_ms) > 0 AND min(backward_ms) > 0 AND min(update_ms) > 0 AND"
                    " min(read_ms + decode_ms) >= 0 AND max(comm_hidden_ms) = 0 FROM step_time"
                    " WHERE run_id = %d",
                    id));
    /* The times of the layers add up to those of the steps. */
    double layers = ask("SELECT sum((forward_ms + backward_ms) * samples) FROM layer_time WHERE"
                        " run_id = %d",
                        id),
           steps = ask("SELECT sum(forward_ms + backward_ms) FROM step_time WHERE run_id = %d", id);
    assert_true(
        ask("SELECT count(*) = 10 AND max(samples) = 50 FROM layer_time WHERE run_id = %d", id));
    assert_true(fabs(layers / steps - 1) < 0.01);
}

static void traffic_and_placement_are_recorded(void **state)
{
    train(.name = "placed", .steps = 6);
    int id = run_id("placed");
    double params = ask("SELECT params FROM runs WHERE id = %d", id);
    assert_true(ask("SELECT count(*) = 6 AND min(bytes) >= %.0f AND max(bytes) = min(bytes) FROM"
                    " link_traffic WHERE run_id = %d AND from_unit = 'worker0.0' AND"
                    " to_unit = 'server0.0'",
                    4 * params, id));
    assert_string_equal(
        ask_text("SELECT group_concat(unit) FROM (SELECT unit FROM placement WHERE run_id = %d AND"
                 " device = 'cpu' AND length(cores) > 0 AND length(reason) > 10 ORDER BY unit)",
                 id),
        "history,main,server0.0,worker0.0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_seed_gives_the_same_bits),
        cmocka_unit_test(every_random_operation_takes_part),
        cmocka_unit_test(resume_at_step_30_is_bit_identical_to_60_steps),
        cmocka_unit_test(resume_works_from_every_step),
        cmocka_unit_test(evaluations_and_checkpoints_change_no_bits),
        cmocka_unit_test(resume_refuses_what_does_not_fit),
        cmocka_unit_test(loss_falls),
        cmocka_unit_test(init_from_takes_parameters_by_name),
        cmocka_unit_test(steps_option_keeps_the_horizon),
        cmocka_unit_test(epochs_become_steps),
        cmocka_unit_test(evaluation_counts_every_record_once),
        cmocka_unit_test(evaluation_in_training_is_that_of_eval),
        cmocka_unit_test(val_comes_before_test),
        cmocka_unit_test(training_data_alone_are_enough),
        cmocka_unit_test(a_run_without_evaluations_and_checkpoints_ends),
        cmocka_unit_test(two_metrics_of_a_type_have_their_own_names),
        cmocka_unit_test(checkpoints_are_written_when_due),
        cmocka_unit_test(stop_writes_a_checkpoint_to_resume_from),
        cmocka_unit_test(stop_before_the_first_step_stops),
        cmocka_unit_test(checkpoint_request_saves_and_training_continues),
        cmocka_unit_test(abort_ends_at_once_without_a_checkpoint),
        cmocka_unit_test(displays_follow_the_policy),
        cmocka_unit_test(history_has_the_series_of_training),
        cmocka_unit_test(step_time_accounts_for_every_step),
        cmocka_unit_test(traffic_and_placement_are_recorded),
    };
    return cmocka_run_group_tests_name("train", tests, home_begin, home_end);
}
