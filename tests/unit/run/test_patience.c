/* ctest-labels: threads
 * ctest-timeout: 120
 * job.patience: a run, or its stage, ends when its evaluations have not improved for so long, with
 * the parameters of the best one, by any workers, and wherever it was resumed. */
#include "workers_support.h"

enum { EVERY = 2, STEPS = 60 };

/* The loss of so few records, with dropout and so large a rate, soon rises. */
#define BUMPY "updater.lr=0.1", "job.eval_every=2", "job.steps=60", "job.best_by=loss"

static double loss_at(const char *run, int64_t step)
{
    return ask(
        "SELECT value FROM metrics WHERE run_id = %d AND split = 'test' AND name = 'loss' AND "
        "step = %lld",
        run_id(run), (long long)step);
}

static int64_t last_step(const char *run)
{
    return (int64_t)ask("SELECT max(step) FROM metrics WHERE run_id = %d AND split = 'train'",
                        run_id(run));
}

/* The step of the best evaluation of a run up to a step: the first of equal ones. */
static int64_t best_until(const char *run, int64_t step)
{
    return (int64_t)ask("SELECT step FROM metrics WHERE run_id = %d AND split = 'test' AND name = "
                        "'loss' AND step <= %lld ORDER BY value, step LIMIT 1",
                        run_id(run), (long long)step);
}

/* Where a run whose evaluations are those of `run` has to end. */
static int64_t expected_end(const char *run, int patience)
{
    for (int64_t step = EVERY; step < STEPS; step += EVERY)
        if (step - best_until(run, step) >= patience * EVERY)
            return step;
    return STEPS;
}

/* What it says: the last evaluations, and whose parameters it has. */
static void check_events(const char *run, int64_t end, int64_t best, bool early)
{
    assert_int_equal(
        (int)ask("SELECT count(*) FROM events WHERE run_id = %d AND text LIKE 'step "
                 "%lld: patience = %% is over: the best loss is still %%, of step %lld'",
                 run_id(run), (long long)end, (long long)best),
        early);
    assert_int_equal(
        (int)ask("SELECT count(*) FROM events WHERE run_id = %d AND text LIKE 'step "
                 "%lld: ends with the parameters of step %lld, whose loss of %% is the "
                 "best'",
                 run_id(run), (long long)end, (long long)best),
        1);
}

/* The run has ended, as done, where its own evaluations say, with the best parameters. */
static void check_early_end(const char *run, int patience)
{
    const int64_t end = last_step(run), best = best_until(run, end);

    assert_true(end < STEPS);
    assert_int_equal(end, best + patience * EVERY);
    assert_int_equal(end, expected_end(run, patience));
    assert_string_equal(ask_text("SELECT status FROM runs WHERE id = %d", run_id(run)), "done");
    assert_int_equal(
        (int)ask("SELECT step FROM checkpoints WHERE run_id = %d AND is_best = 1", run_id(run)),
        (int)best);
    assert_same_tensors(checkpoint_path(run, best), checkpoint_path(run, end));
    check_events(run, end, best, true);
}

/* A run without patience, with all checkpoints. */
static void full(void)
{
    static bool done;
    if (!done)
        grouped(.name = "full", .sets = {BUMPY, "job.checkpoint_every=2"});
    done = true;
}

static void a_run_ends_with_its_best_parameters(void **state)
{
    full();
    for (int patience = 1; patience <= 3; patience++) {
        char set[32];
        snprintf(set, sizeof set, "job.patience=%d", patience);
        grouped(.name = "early", .sets = {BUMPY, set, "job.keep_checkpoints=1"});
        const int64_t end = expected_end("full", patience);
        assert_int_equal(last_step("early"), end);
        check_early_end("early", patience);
        assert_same_tensors(checkpoint_path("full", end - patience * EVERY),
                            checkpoint_path("early", end));
        assert_true(loss_at("early", end) >= loss_at("early", end - patience * EVERY));
    }
}

static void any_workers_end_at_the_same_evaluation(void **state)
{
    static const struct {
        const char *device, *sets[4];
    } cases[] = {
        {NULL, {SANDBLASTER, "cluster.workers_per_group=3", "cluster.servers_per_group=2"}},
        {NULL, {ALLREDUCE, "cluster.workers_per_group=2"}},
        {NULL, {"cluster.framework=downpour", "cluster.worker_groups=2"}},
        {NULL, {"cluster.framework=hogwild", "cluster.worker_groups=2", "cluster.server_groups=2"}},
        {"sim:gpus=2,mem=64MiB", {ALLREDUCE, "cluster.workers_per_group=2"}},
        {"sim:gpus=2,mem=64MiB", {SANDBLASTER, "cluster.workers_per_group=2"}},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[32];
        snprintf(name, sizeof name, "workers%zu", i);
        grouped(.name = name, .device = cases[i].device,
                .sets = {BUMPY, "job.patience=2", cases[i].sets[0], cases[i].sets[1],
                         cases[i].sets[2]});
        check_early_end(name, 2);
    }
}

static void the_last_step_ends_it_as_well(void **state)
{
    full();
    const int64_t best = best_until("full", STEPS);
    assert_true(best < STEPS);
    grouped(.name = "long", .sets = {BUMPY, "job.patience=1000"});
    assert_int_equal(last_step("long"), STEPS);
    assert_same_tensors(checkpoint_path("full", best), checkpoint_path("long", STEPS));
    check_events("long", STEPS, best, false);
}

/* --steps does not end the stage: the parameters remain, and its evaluation, which a run that goes
 * on would not make, is not one of those that are compared. */
static void an_interrupted_run_keeps_its_parameters(void **state)
{
    full();
    grouped(.name = "part", .sets = {BUMPY, "job.patience=1000"}, .steps = 7);
    grouped(.name = "same", .sets = {BUMPY}, .steps = 7);
    assert_same_tensors(checkpoint_path("same", 7), checkpoint_path("part", 7));
    assert_true(loss_at("part", 7) < loss_at("part", 6));
    assert_int_equal(
        (int)ask("SELECT step FROM checkpoints WHERE run_id = %d AND is_best = 1", run_id("part")),
        (int)best_until("full", 6));
}

static void a_stage_begins_with_the_best_of_the_one_before(void **state)
{
    static const char staged[] =
        "[job]\nbatch = 25\neval_batch = 10\n" DATA_SECTIONS UPDATER_SECTIONS WORKERS_NET
        "[stage first]\nsteps = 60\npatience = 2\n"
        "[stage second]\nsteps = 4\nupdater.lr = 0\n";

    full();
    const int64_t end = expected_end("full", 2);
    train(.name = "staged", .recipe = staged, .oversubscribe = true,
          .sets = {"stage.first.updater.lr=0.1", "job.eval_every=2", "job.best_by=loss"});
    check_events("staged", end, end - 2 * EVERY, true);
    assert_int_equal(last_step("staged"), end + 4);
    for (int i = 0; i < 2; i++)
        assert_null(differing_tensor(checkpoint_path("full", end - 2 * EVERY),
                                     checkpoint_path("staged", end + 4 * i), "conv"));
}

/* What cannot be restored is reported, and the run keeps what it has. */
static void remove_best(struct trial *t, const struct sw_job_event *e)
{
    if (e->type == SW_JOB_CHECKPOINT && e->best)
        unlink(e->path);
}

static void a_lost_checkpoint_is_reported(void **state)
{
    struct trial t = {.name = "lost",
                      .recipe = workers_recipe,
                      .oversubscribe = true,
                      .sets = {BUMPY, "job.patience=2"},
                      .on_event = remove_best};
    trial_ok(&t);
    full();
    const int64_t end = expected_end("full", 2);
    assert_int_equal(last_step("lost"), end);
    assert_non_null(strstr(t.text, "cannot be restored"));
    assert_same_tensors(checkpoint_path("full", end), checkpoint_path("lost", end));
}

static void check_refused(const char *set, const char *more, const char *why)
{
    struct trial t = {.name = "refused", .recipe = workers_recipe, .sets = {set, more}};
    assert_int_equal(trial_open(&t), SW_ERR_INVALID);
    if (!strstr(sw_bytes_text(&t.messages), why))
        fail_msg("'%s' does not say '%s'", sw_bytes_text(&t.messages), why);
    trial_close(&t);
}

static void what_cannot_end_a_run_is_refused(void **state)
{
    check_refused("job.patience=2", NULL, "set eval_every");
    check_refused("job.patience=-1", "job.eval_every=2", "must be");
    check_refused("job.patience=2.5", "job.eval_every=2", "must be");

    struct trial t = {.name = "refused",
                      .recipe = workers_recipe,
                      .sets = {"job.patience=2", "job.eval_every=2", "job.checkpoint_best=no"}};
    assert_int_equal(trial_open(&t), SW_ERR_INVALID);
    assert_non_null(strstr(sw_bytes_text(&t.messages), "conflicts with patience"));
    trial_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_ends_with_its_best_parameters),
        cmocka_unit_test(any_workers_end_at_the_same_evaluation),
        cmocka_unit_test(the_last_step_ends_it_as_well),
        cmocka_unit_test(an_interrupted_run_keeps_its_parameters),
        cmocka_unit_test(a_stage_begins_with_the_best_of_the_one_before),
        cmocka_unit_test(a_lost_checkpoint_is_reported),
        cmocka_unit_test(what_cannot_end_a_run_is_refused),
    };
    return cmocka_run_group_tests(tests, home_begin, home_end);
}
