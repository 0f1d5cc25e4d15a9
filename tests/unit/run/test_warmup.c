/* ctest-labels: threads
 * ctest-timeout: 180
 * warmup_steps: the first group trains alone, as a synchronous job would, and the others sleep;
 * then all train, from its values, on batches of one order. Evaluations, checkpoints, pauses and
 * stops find all of them in both parts. */
#include "workers_support.h"

enum { STEPS = 14, WARM = 6, MOST_SETS = 6 };

#define WARMUP "cluster.warmup_steps=6"
/* Too small a rate to change a loss: it then tells which records were read, with which values. */
#define STILL "updater.lr=1e-9"
#define NOTHING "job.batch=25"

static const struct setup {
    const char *name, *sets[MOST_SETS];
    int groups, members;
    bool in_place; /* groups see each other's updates at once */
} setups[] = {
    {"d2", {"cluster.framework=downpour", "cluster.worker_groups=2"}, 2, 1, false},
    {"d2x2",
     {"cluster.framework=downpour", "cluster.worker_groups=2", "cluster.workers_per_group=2"},
     2,
     2,
     false},
    {"d3s2",
     {"cluster.framework=downpour", "cluster.worker_groups=3", "cluster.servers_per_group=2",
      "cluster.staleness=2"},
     3,
     1,
     false},
    {"h2", {"cluster.framework=hogwild", "cluster.worker_groups=2"}, 2, 1, true},
    {"hs2",
     {"cluster.framework=hogwild", "cluster.worker_groups=2", "cluster.server_groups=2",
      "cluster.sync_period=2"},
     2,
     1,
     false},
    {"cs3",
     {"cluster.framework=custom", "cluster.worker_groups=3", "cluster.consistency=async",
      "cluster.server_groups=2", "cluster.sync_period=3"},
     3,
     1,
     false},
};
enum { SETUPS = sizeof setups / sizeof *setups };

/* The i-th set-up with warm-up, and up to two settings more. */
static struct trial warm(int i, const char *name, const char *more, const char *most)
{
    struct trial t = {.recipe = workers_recipe,
                      .name = name,
                      .oversubscribe = true,
                      .steps = STEPS,
                      .sets = {WARMUP, more, most}};
    int count = 3;
    for (int k = 0; setups[i].sets[k]; k++)
        t.sets[count++] = setups[i].sets[k];
    return t;
}

static double metric(const char *run, const char *split, const char *name, int step)
{
    return ask("SELECT value FROM metrics WHERE run_id = %d AND split = '%s' AND name = '%s' AND "
               "step = %d",
               run_id(run), split, name, step);
}

static double loss(const char *run, int step)
{
    return metric(run, "train", "loss", step);
}

static size_t count_tensors(const char *path)
{
    struct sw_st_file *f = open_tensors(path);
    size_t count = sw_st_count(f);
    sw_st_close(f);
    return count;
}

/* What the updaters of server groups 0 and K keep is the same. */
static void assert_same_state(const char *path, int k)
{
    struct sw_st_file *f = open_tensors(path);
    char name[256], behind[16];
    int compared = 0;
    snprintf(behind, sizeof behind, ".%d", k);
    for (size_t i = 0; i < sw_st_count(f); i++) {
        const struct sw_st_entry *b = sw_st_entry_at(f, i);
        size_t n = strlen(b->name) - strlen(behind);
        if (!sw_str_starts(b->name, "updater.") || strcmp(b->name + n, behind) != 0)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)n, b->name);
        const struct sw_st_entry *a = sw_st_find(f, name);
        void *x = tensor_bytes(f, a), *y = tensor_bytes(f, b);
        assert_memory_equal(x, y, a->bytes);
        free(x);
        free(y);
        compared++;
    }
    assert_true(compared > 0);
    sw_st_close(f);
}

/* The mean loss of the batches that all groups have in step t. */
static double mean_of_groups(const char *one, int groups, int t)
{
    double sum = 0;
    if (t <= WARM)
        return loss(one, t);
    for (int g = 0; g < groups; g++)
        sum += loss(one, WARM + (t - 1 - WARM) * groups + g + 1);
    return sum / groups;
}

static void the_first_group_alone_has_the_bits_of_a_synchronous_job(void **state)
{
    static const char *const prefixes[] = {"conv", "fc", "updater."};
    for (int i = 0; i < SETUPS; i++) {
        struct trial t = warm(i, "warm", NOTHING, "job.eval_every=4");
        t.steps = WARM;
        trial_ok(&t);
        grouped(.name = "sync", .steps = WARM,
                .sets = {"job.eval_every=4", workers_set[setups[i].members]});
        /* Without locks what an update changes is added, which rounds. */
        if (strstr(setups[i].sets[0], "hogwild"))
            assert_true(fabs(loss("sync", WARM) - loss("warm", WARM)) < 1e-5);
        else
            for (int k = 0; k < 3; k++)
                assert_null(differing_tensor(checkpoint_path("sync", WARM),
                                             checkpoint_path("warm", WARM), prefixes[k]));
        /* Also what its updater keeps is what another server group begins with. */
        if (count_tensors(checkpoint_path("warm", WARM)) >
            count_tensors(checkpoint_path("sync", WARM)))
            assert_same_state(checkpoint_path("warm", WARM), 1);
        assert_true(fabs(metric("warm", "test", "loss", 4) - metric("sync", "test", "loss", 4)) <
                    1e-6);
    }
}

static void warmup_and_training_share_one_batch_order(void **state)
{
    grouped(.name = "one", .steps = 3 * STEPS, .sets = {STILL});
    for (int i = 0; i < SETUPS; i++) {
        const struct setup *s = &setups[i];
        struct trial t = warm(i, s->name, STILL, NOTHING);
        trial_ok(&t);
        for (int step = 1; step <= STEPS; step++) {
            double want = mean_of_groups("one", s->groups, step);
            assert_true(fabs(loss(s->name, step) - want) < 1e-5 * want);
        }
        /* Each worker has made its own steps and no other, and each step has one loss. */
        int id = run_id(s->name);
        /* Epochs of 200 records: one batch of 25 a step, then one of each group. */
        assert_int_equal((int)ask("SELECT max(epoch) FROM metrics WHERE run_id = %d", id),
                         (25 * (WARM + (STEPS - WARM) * s->groups) + 199) / 200);
        assert_int_equal((int)ask("SELECT count(*) FROM step_time WHERE run_id = %d", id),
                         WARM * s->members + (STEPS - WARM) * s->members * s->groups);
        assert_int_equal(
            (int)ask("SELECT count(*) FROM step_time WHERE run_id = %d AND worker >= %d AND "
                     "step <= %d",
                     id, s->members, WARM),
            0);
        assert_int_equal((int)ask("SELECT count(*) FROM metrics WHERE run_id = %d AND split = "
                                  "'train' AND name = 'loss'",
                                  id),
                         STEPS);
    }
}

/* What the others read in their first step is what the first group has learnt by then. */
static void the_others_start_from_the_values_of_the_first(void **state)
{
    for (int i = 0; i < SETUPS; i++) {
        const struct setup *s = &setups[i];
        const char *size = workers_set[s->members];
        if (s->in_place)
            continue; /* who is late reads more than that */
        struct trial t = warm(i, s->name, "updater.lr=0.05", NOTHING);
        trial_ok(&t);
        grouped(.name = "sync", .steps = WARM, .sets = {"updater.lr=0.05", size});
        grouped(.resume = "sync", .resume_step = WARM, .steps = WARM + s->groups,
                .sets = {STILL, "updater.momentum=0", size});
        double want = mean_of_groups("sync", s->groups, WARM + 1);
        assert_true(fabs(loss(s->name, WARM + 1) - want) < 1e-5 * want);
    }
}

static void resume_during_and_after_warmup_continues_with_the_next_batches(void **state)
{
    static const int at[] = {3, WARM, 9};
    for (int i = 0; i < SETUPS; i++) {
        struct trial whole = warm(i, "whole", STILL, NOTHING);
        trial_ok(&whole);
        for (int k = 0; k < 3; k++) {
            struct trial half = warm(i, "half", STILL, NOTHING);
            half.steps = at[k];
            trial_ok(&half);
            struct trial rest = warm(i, "half", STILL, NOTHING);
            rest.resume = "half";
            rest.resume_step = at[k];
            trial_ok(&rest);
            for (int step = at[k] + 1; step <= STEPS; step++)
                assert_true(fabs(loss("whole", step) - loss("half", step)) < 1e-6);
        }
    }
}

static void evaluations_and_checkpoints_find_all_groups(void **state)
{
    grouped(.name = "one", .steps = 1, .sets = {STILL});
    for (int i = 0; i < SETUPS; i++) {
        struct trial t = warm(i, setups[i].name, STILL, "job.eval_every=2");
        trial_ok(&t);
        for (int step = 2; step <= STEPS; step += 2)
            assert_true(fabs(metric(setups[i].name, "test", "loss", step) -
                             metric("one", "test", "loss", 1)) < 1e-5);
    }
}

struct wish {
    int64_t at;
    enum sw_job_request_kind what;
};

static void ask_at(struct trial *t, const struct sw_job_event *e)
{
    const struct wish *wish = t->user;
    if (e->type == SW_JOB_DISPLAY && e->step == wish->at)
        sw_job_request(t->job, wish->what);
    if (e->type == SW_JOB_EVENT && strstr(e->text, "paused by request"))
        sw_job_request(t->job, SW_JOB_CONTINUE);
}

static void warmup_and_training_stop_and_pause_together(void **state)
{
    static const int64_t at[] = {2, WARM + 3};
    for (int i = 0; i < SETUPS; i++)
        for (int k = 0; k < 4; k++) {
            struct wish wish = {at[k / 2], k % 2 ? SW_JOB_STOP : SW_JOB_PAUSE};
            struct trial t = warm(i, "asked", NOTHING, NULL);
            t.sets[2] = "job.checkpoint_every=100000";
            t.steps = wish.what == SW_JOB_STOP ? 100000 : 3 * STEPS;
            t.display.every_steps = 1;
            t.on_event = ask_at;
            t.user = &wish;
            trial_go(&t);
            assert_int_equal(t.rc, wish.what == SW_JOB_STOP ? SW_ERR_CANCELLED : SW_OK);
            int64_t last = t.last[SW_JOB_SUMMARY].step, id = run_id("asked");
            int64_t alone = last < WARM ? last : WARM;
            assert_int_equal((int)ask("SELECT count(*) FROM step_time WHERE run_id = %d", (int)id),
                             (alone + (last - alone) * setups[i].groups) * setups[i].members);
            assert_true(exists(checkpoint_path("asked", last)));
        }
}

static void fault_wakes_sleeping_workers(void **state)
{
    for (int i = 0; i < SETUPS; i++) {
        struct trial t = warm(i, "bad", "updater.lr=1e30", NOTHING);
        trial_go(&t);
        assert_int_equal(t.rc, SW_ERR_DIVERGED);
        assert_false(t.stuck);
    }
}

/* Epochs count the samples that were read: alone first, then of all groups. */
static void epochs_count_the_warmup_of_one_group(void **state)
{
    static const char recipe[] =
        "[job]\nepochs = 3\nbatch = 25\neval_batch = 10\n" DATA_SECTIONS UPDATER_SECTIONS
            WORKERS_NET;
    for (int groups = 1; groups <= 3; groups++) {
        char set[64];
        snprintf(set, sizeof set, "cluster.worker_groups=%d", groups);
        struct trial t = {.recipe = recipe,
                          .oversubscribe = true,
                          .sets = {WARMUP, set, "cluster.framework=downpour"}};
        assert_int_equal(trial_open(&t), SW_OK);
        /* 24 batches: 6 alone, 18 shared. */
        assert_int_equal(sw_job_plan(t.job)->steps, WARM + 18 / groups);
        trial_close(&t);
    }
}

static void bsp_has_no_warm_up(void **state)
{
    static const char *const sets[][3] = {{ALLREDUCE},
                                          {SANDBLASTER},
                                          {"cluster.framework=custom", "cluster.worker_groups=2"},
                                          {"cluster.framework=downpour", "cluster.staleness=0"}};
    for (int i = 0; i < 4; i++) {
        struct trial t = {.recipe = workers_recipe,
                          .oversubscribe = true,
                          .sets = {WARMUP, sets[i][0], sets[i][1], sets[i][2]}};
        trial_open(&t);
        assert_int_equal(t.rc, SW_ERR_INVALID);
        assert_non_null(strstr(sw_bytes_text(&t.messages), "no group can train alone first"));
        trial_close(&t);
    }
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, home_begin, home_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH(the_first_group_alone_has_the_bits_of_a_synchronous_job),
        FRESH(warmup_and_training_share_one_batch_order),
        FRESH(the_others_start_from_the_values_of_the_first),
        FRESH(resume_during_and_after_warmup_continues_with_the_next_batches),
        FRESH(evaluations_and_checkpoints_find_all_groups),
        FRESH(warmup_and_training_stop_and_pause_together),
        FRESH(fault_wakes_sleeping_workers),
        FRESH(epochs_count_the_warmup_of_one_group),
        FRESH(bsp_has_no_warm_up),
    };
    return cmocka_run_group_tests_name("warm-up", tests, NULL, NULL);
}
