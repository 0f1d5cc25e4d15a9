/* ctest-labels: threads
 * ctest-timeout: 180
 * Asynchronous worker groups with update control over all gradients before any is applied:
 * each by its own norm, each dropping its own; a rollback takes all of them. */
#include "workers_support.h"

enum { STEPS = 20, MOST_SETS = 6 };

/* Too small a rate to change a gradient: it then tells which records were read. */
#define STILL "updater.lr=1e-9"

static const struct setup {
    const char *name, *sets[MOST_SETS];
    int groups;
} setups[] = {
    {"d2", {"cluster.framework=downpour", "cluster.worker_groups=2"}, 2},
    {"d2x2",
     {"cluster.framework=downpour", "cluster.worker_groups=2", "cluster.workers_per_group=2",
      "cluster.servers_per_group=2", "cluster.staleness=2"},
     2},
    {"h3", {"cluster.framework=hogwild", "cluster.worker_groups=3"}, 3},
    {"h2x2s2",
     {"cluster.framework=hogwild", "cluster.worker_groups=2", "cluster.workers_per_group=2",
      "cluster.server_groups=2", "cluster.sync_period=3"},
     2},
    {"cs3",
     {"cluster.framework=custom", "cluster.worker_groups=3", "cluster.consistency=async",
      "cluster.server_groups=2", "cluster.sync_period=3"},
     3},
};
enum { SETUPS = sizeof setups / sizeof *setups };

static struct trial apart(int i, const char *recipe, const char *name)
{
    struct trial t = {.recipe = recipe, .name = name, .oversubscribe = true};
    memcpy(t.sets, setups[i].sets, sizeof setups[i].sets);
    return t;
}

static void add_set(struct trial *t, const char *set)
{
    int i = 0;
    while (t->sets[i])
        i++;
    t->sets[i] = set;
}

static double metric(const char *run, const char *name, int step)
{
    return ask("SELECT value FROM metrics WHERE run_id = %d AND split = 'train' AND name = '%s' "
               "AND step = %d",
               run_id(run), name, step);
}

static int events(const char *run, const char *like)
{
    return (int)ask("SELECT count(*) FROM events WHERE run_id = %d AND text LIKE '%%%s%%'",
                    run_id(run), like);
}

/* ---- norms ---- */

static void norms_of_a_step_are_the_mean_of_its_groups(void **state)
{
    grouped(.name = "one", .steps = 3 * STEPS, .sets = {STILL, "job.grad_clip=norm:1e9"});
    for (int i = 0; i < SETUPS; i++)
        for (int warm = 0; warm <= 5; warm += 5) {
            char set[64];
            struct trial t = apart(i, workers_recipe, setups[i].name);
            snprintf(set, sizeof set, "cluster.warmup_steps=%d", warm);
            add_set(&t, STILL);
            add_set(&t, "job.grad_clip=norm:1e9");
            add_set(&t, set);
            trial_ok(&t);
            for (int step = 1; step <= STEPS; step++) {
                int groups = step <= warm ? 1 : setups[i].groups;
                int first = step <= warm ? step : warm + (step - 1 - warm) * groups + 1;
                double want = 0;
                for (int g = 0; g < groups; g++)
                    want += metric("one", "grad_norm", first + g) / groups;
                double got = metric(setups[i].name, "grad_norm", step);
                assert_true(fabs(got - want) < 1e-4 * want);
            }
        }
}

static void one_group_alone_has_the_bits_of_a_synchronous_job(void **state)
{
    static const char *const sets[] = {"job.grad_clip=norm:0.1", "updater.type=lars",
                                       "job.on_nan=skip"};
    static const char recipe[] =
        WORKERS_JOB DATA_SECTIONS "[updater]\ntype = sgd\nlr = 0.02\n" WORKERS_NET;
    for (int i = 0; i < 3; i++) {
        train(.recipe = recipe, .name = "sync", .oversubscribe = true,
              .sets = {workers_set[2], sets[i]});
        train(.recipe = recipe, .name = "alone", .oversubscribe = true,
              .sets = {"cluster.framework=downpour", "cluster.worker_groups=1", workers_set[2],
                       sets[i]});
        assert_same_tensors(checkpoint_path("sync", STEPS), checkpoint_path("alone", STEPS));
    }
}

/* Is the loss less at the end than at the beginning? Means over several steps: what groups that
 * race have done by a given step differs from run to run. */
static bool has_learned(const char *run)
{
    double first = 0, last = 0;

    for (int i = 0; i < 4; i++) {
        first += metric(run, "loss", 1 + i);
        last += metric(run, "loss", STEPS - i);
    }
    print_message("%s: %g to %g\n", run, first / 4, last / 4);
    return last < first;
}

static void groups_learn_with_clipping_and_lars(void **state)
{
    static const char lars[] = WORKERS_JOB DATA_SECTIONS
        "[updater]\ntype = lars\nlr = 2\nweight_decay = 0.0005\ntrust = 0.002\n" WORKERS_NET;
    for (int i = 0; i < SETUPS; i++) {
        struct trial t = apart(i, workers_recipe, "clipped");
        add_set(&t, "job.grad_clip=norm:1");
        trial_ok(&t);
        assert_true(has_learned("clipped"));
        t = apart(i, lars, "lars");
        trial_ok(&t);
        assert_true(has_learned("lars"));
    }
}

static void all_groups_stop_when_the_gradient_norm_is_reached(void **state)
{
    for (int i = 0; i < SETUPS; i++)
        for (int warm = 0; warm <= 30; warm += 30) {
            char set[64];
            struct trial t = apart(i, workers_recipe, "norm");
            snprintf(set, sizeof set, "cluster.warmup_steps=%d", warm);
            add_set(&t, "job.stop_at=grad_norm<1e9");
            add_set(&t, set);
            t.steps = 1000;
            trial_ok(&t);
            assert_int_equal(t.last[SW_JOB_SUMMARY].step, 1);
        }
}

/* ---- what is not finite ---- */

enum { RECORDS = 40, BATCH = 8, BAD = 17 /* in the third of five batches */, COLUMNS = 6 };

static const char *bad_recipe(void)
{
    static char text[4096];
    char *path = in_home("bad.csv");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int r = 0; r < RECORDS; r++) {
        for (int c = 0; c < COLUMNS; c++)
            fprintf(f, "%g,", r == BAD && c == 2 ? 3e38 : sin(r * 7 + c * c) + (r % 4 == c));
        fprintf(f, "%d\n", r % 4);
    }
    fclose(f);
    snprintf(text, sizeof text,
             "[job]\nbatch = 8\nsteps = 20\n"
             "[data train]\nformat = csv\npaths = %s\nscale = 2\n"
             "[updater]\ntype = adam\nlr = 0.01\n"
             "[layer image]\ntype = input\nfield = image\n"
             "[layer label]\ntype = input\nfield = label\n"
             "[layer fc1]\ntype = inner_product\nsrc = image\noutputs = 12\nbias = no\n"
             "[layer bn1]\ntype = batch_norm\nsrc = fc1\n"
             "[layer act1]\ntype = activation\nsrc = bn1\nfunction = tanh\n"
             "[layer fc2]\ntype = inner_product\nsrc = act1\noutputs = 4\n"
             "[layer loss]\ntype = softmax_loss\nsrc = fc2, label\n",
             path);
    return text;
}

static void each_group_drops_its_own_updates(void **state)
{
    const char *recipe = bad_recipe();
    for (int i = 0; i < SETUPS; i++)
        for (int warm = 0; warm <= 7; warm += 7) {
            char set[64];
            struct trial t = apart(i, recipe, "skips");
            snprintf(set, sizeof set, "cluster.warmup_steps=%d", warm);
            add_set(&t, "job.on_nan=skip");
            add_set(&t, set);
            trial_ok(&t);
            int batches = warm + (STEPS - warm) * setups[i].groups;
            /* The bad batch is the third of every five. */
            assert_int_equal(events("skips", "is skipped"), (batches + 2) / 5);
        }
}

static void dropped_updates_are_remembered_by_server_groups(void **state)
{
    struct trial t = apart(4, bad_recipe(), "cut");
    add_set(&t, "job.on_nan=skip");
    t.steps = 10;
    trial_ok(&t);
    struct sw_st_file *f = open_tensors(checkpoint_path("cut", 10));
    int64_t updates = 0, dropped = 0, n;
    for (int k = 0; k < 2; k++) {
        assert_true(sw_parse_int(sw_st_metadata(f, k ? "updates.1" : "updates"), &n));
        updates += n;
        assert_true(sw_parse_int(sw_st_metadata(f, k ? "dropped.1" : "dropped"), &n));
        dropped += n;
    }
    sw_st_close(f);
    assert_int_equal(updates, 30);
    assert_int_equal(dropped, 6);
}

static void a_rollback_takes_all_groups(void **state)
{
    for (int i = 0; i < SETUPS; i++)
        for (int warm = 0; warm <= 7; warm += 7) {
            char set[64];
            struct trial t = apart(i, bad_recipe(), "rolls");
            snprintf(set, sizeof set, "cluster.warmup_steps=%d", warm);
            add_set(&t, "job.on_nan=rollback");
            add_set(&t, "job.checkpoint_every=1");
            add_set(&t, set);
            trial_ok(&t);
            /* All come together after every step, for a checkpoint: each bad batch leads back. */
            assert_in_range(events("rolls", "rolled back to the values of step"), 3, 12);
            assert_int_equal(events("rolls", "all groups will roll back together"),
                             events("rolls", "rolled back to the values of step"));
        }
}

static void number_of_rollbacks_of_groups_is_limited(void **state)
{
    for (int i = 0; i < SETUPS; i++) {
        struct trial t = apart(i, bad_recipe(), "loop");
        add_set(&t, "job.on_nan=rollback");
        t.steps = 2000;
        assert_int_equal(trial_go(&t), SW_ERR_DIVERGED);
        assert_non_null(strstr(t.err.text, "3 rollbacks to the same checkpoint"));
        assert_false(t.stuck);
    }
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, home_begin, home_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH(norms_of_a_step_are_the_mean_of_its_groups),
        FRESH(one_group_alone_has_the_bits_of_a_synchronous_job),
        FRESH(groups_learn_with_clipping_and_lars),
        FRESH(all_groups_stop_when_the_gradient_norm_is_reached),
        FRESH(each_group_drops_its_own_updates),
        FRESH(dropped_updates_are_remembered_by_server_groups),
        FRESH(a_rollback_takes_all_groups),
        FRESH(number_of_rollbacks_of_groups_is_limited),
    };
    return cmocka_run_group_tests_name("groups apart that decide", tests, NULL, NULL);
}
