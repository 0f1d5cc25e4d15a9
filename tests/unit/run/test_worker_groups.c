/* ctest-labels: threads
 * ctest-timeout: 120
 * Several worker groups: synchronous ones train what one worker trains; asynchronous ones have
 * separate batches and updates, and evaluations and checkpoints use the common values. */
#include "workers_support.h"

enum { STEPS = 20, RECORDS = 53 };

#define CUSTOM "cluster.framework=custom"
#define DOWNPOUR "cluster.framework=downpour"
#define HOGWILD "cluster.framework=hogwild"
#define TWO_GROUPS "cluster.worker_groups=2"
#define THREE_GROUPS "cluster.worker_groups=3"
/* Too small a rate to change a loss: it then tells which records were read. */
#define STILL "updater.lr=1e-9"

static const struct setup {
    const char *name, *sets[5];
    int groups, members;
} asynchronous[] = {
    {"d2", {DOWNPOUR, TWO_GROUPS}, 2, 1},
    {"d2x2", {DOWNPOUR, TWO_GROUPS, "cluster.workers_per_group=2"}, 2, 2},
    {"d3s2", {DOWNPOUR, THREE_GROUPS, "cluster.servers_per_group=2", "cluster.staleness=2"}, 3, 1},
    {"h2", {HOGWILD, TWO_GROUPS}, 2, 1},
    {"h2x2", {HOGWILD, TWO_GROUPS, "cluster.workers_per_group=2", "cluster.staleness=1"}, 2, 2},
    {"hs2", {HOGWILD, TWO_GROUPS, "cluster.server_groups=2", "cluster.sync_period=3"}, 2, 1},
    {"cs3", {CUSTOM, THREE_GROUPS, "cluster.consistency=async", "cluster.server_groups=2"}, 3, 1},
};
enum { ASYNCHRONOUS = sizeof asynchronous / sizeof *asynchronous };

#define run_setup(s, set, ...)                                                                     \
    grouped(.sets = {(s)->sets[0], (s)->sets[1], (s)->sets[2] ? (s)->sets[2] : "job.batch=25",     \
                     (s)->sets[3] ? (s)->sets[3] : "job.batch=25", set},                           \
            __VA_ARGS__)
#define NOTHING "job.batch=25"

static double metric(const char *run, const char *split, const char *name, int step)
{
    return ask("SELECT value FROM metrics WHERE run_id = %d AND split = '%s' AND name = '%s' AND "
               "step = %d",
               run_id(run), split, name, step);
}

static void groups_that_are_synchronous_equal_one_worker(void **state)
{
    grouped(.name = "one");
    grouped(.name = "c3", .sets = {CUSTOM, THREE_GROUPS, "cluster.servers_per_group=2"});
    assert_equal_runs("one", "c3", STEPS);
    grouped(.name = "c2x2", .sets = {CUSTOM, TWO_GROUPS, "cluster.workers_per_group=2"});
    assert_equal_runs("one", "c2x2", STEPS);
    /* The bound of 0 is the same job, to the bit. */
    grouped(.name = "d0",
            .sets = {DOWNPOUR, THREE_GROUPS, "cluster.staleness=0", "cluster.servers_per_group=2"});
    assert_same_tensors(checkpoint_path("c3", STEPS), checkpoint_path("d0", STEPS));
}

static void one_group_alone_has_the_bits_of_a_synchronous_job(void **state)
{
    for (int members = 1; members <= 2; members++) {
        const char *size = workers_set[members];
        grouped(.name = "sync", .sets = {SANDBLASTER, size});
        grouped(.name = "alone", .sets = {DOWNPOUR, "cluster.worker_groups=1", size});
        assert_same_tensors(checkpoint_path("sync", STEPS), checkpoint_path("alone", STEPS));
        assert_true(metric("sync", "test", "loss", STEPS) ==
                    metric("alone", "test", "loss", STEPS));
    }
}

/* The n-th batch of group g is n * groups + g of all; what is random goes with the batch. */
static void groups_take_turns_in_one_order_of_batches(void **state)
{
    grouped(.name = "one", .steps = 3 * STEPS, .sets = {STILL});
    for (int i = 0; i < ASYNCHRONOUS; i++) {
        const struct setup *s = &asynchronous[i];
        run_setup(s, STILL, .name = s->name);
        for (int t = 1; t <= STEPS; t++) {
            double want = 0;
            for (int g = 0; g < s->groups; g++)
                want += metric("one", "train", "loss", (t - 1) * s->groups + g + 1) / s->groups;
            assert_true(fabs(metric(s->name, "train", "loss", t) - want) < 1e-5 * want);
        }
    }
}

static void evaluations_count_every_record_once(void **state)
{
    grouped(.name = "one", .steps = 1, .sets = {STILL});
    double loss = metric("one", "test", "loss", 1), accuracy = metric("one", "test", "accuracy", 1);
    for (int i = 0; i < ASYNCHRONOUS; i++) {
        run_setup(&asynchronous[i], STILL, .name = asynchronous[i].name, .steps = 1);
        assert_true(metric(asynchronous[i].name, "test", "accuracy", 1) == accuracy);
        assert_true(fabs(metric(asynchronous[i].name, "test", "loss", 1) - loss) < 1e-5 * loss);
    }
}

static void the_history_has_every_worker_and_its_staleness(void **state)
{
    for (int i = 0; i < ASYNCHRONOUS; i++) {
        const struct setup *s = &asynchronous[i];
        int workers = s->groups * s->members;
        run_setup(s, NOTHING, .name = s->name);
        int id = run_id(s->name);
        assert_int_equal((int)ask("SELECT count(*) FROM step_time WHERE run_id = %d", id),
                         STEPS * workers);
        assert_int_equal((int)ask("SELECT workers FROM runs WHERE id = %d", id), workers);
        assert_int_equal((int)ask("SELECT batch FROM runs WHERE id = %d", id), 25 * s->groups);
        /* Values of one step are as stale for all who share them. */
        assert_int_equal(
            (int)ask("SELECT count(*) FROM (SELECT count(DISTINCT staleness) n FROM step_time "
                     "WHERE run_id = %d GROUP BY step, worker / %d) WHERE n > 1",
                     id, s->name[0] == 'd' ? s->members : 1),
            0);
        int most = (int)ask("SELECT max(staleness) FROM step_time WHERE run_id = %d", id);
        const char *bound = s->sets[3] ? strstr(s->sets[3], "staleness=") : NULL;
        assert_in_range(most, 0, bound ? atoi(strchr(bound, '=') + 1) : STEPS);
        /* The loss of every step is there once, and goes down. */
        assert_int_equal((int)ask("SELECT count(*) FROM metrics WHERE run_id = %d AND split = "
                                  "'train' AND name = 'loss'",
                                  id),
                         STEPS);
        assert_true(metric(s->name, "train", "loss", STEPS) < metric(s->name, "train", "loss", 1));
    }
}

static void resume_continues_with_the_next_batches(void **state)
{
    for (int i = 0; i < ASYNCHRONOUS; i++) {
        const struct setup *s = &asynchronous[i];
        run_setup(s, STILL, .name = "whole");
        run_setup(s, STILL, .name = "half", .steps = 9);
        run_setup(s, STILL, .resume = "half", .resume_step = 9, .steps = STEPS);
        for (int t = 10; t <= STEPS; t++)
            assert_true(fabs(metric("whole", "train", "loss", t) -
                             metric("half", "train", "loss", t)) < 1e-6);
    }
}

static void stop_soon(struct trial *t, const struct sw_job_event *e)
{
    if (e->type == SW_JOB_DISPLAY && e->step >= 5)
        sw_job_request(t->job, SW_JOB_STOP);
}

static void all_groups_stop_at_the_same_step(void **state)
{
    for (int i = 0; i < ASYNCHRONOUS; i++) {
        const struct setup *s = &asynchronous[i];
        struct trial t = {.recipe = workers_recipe,
                          .name = "stopped",
                          .oversubscribe = true,
                          .steps = 2000,
                          .display = {.every_steps = 1},
                          .on_event = stop_soon};
        memcpy(t.sets, s->sets, sizeof s->sets);
        trial_go(&t);
        assert_int_equal(t.rc, SW_ERR_CANCELLED);
        int64_t step = t.last[SW_JOB_CHECKPOINT].step;
        assert_in_range(step, 5, 1999);
        assert_int_equal(
            (int)ask("SELECT count(*) FROM step_time WHERE run_id = %d", run_id("stopped")),
            step * s->groups * s->members);
        assert_int_equal(
            (int)ask("SELECT max(step) FROM step_time WHERE run_id = %d", run_id("stopped")), step);
    }
}

static void a_loss_that_is_not_finite_ends_all_groups(void **state)
{
    for (int i = 0; i < ASYNCHRONOUS; i++) {
        struct trial t = {.recipe = workers_recipe, .name = "bad", .oversubscribe = true};
        int count = 0;
        while (asynchronous[i].sets[count]) {
            t.sets[count] = asynchronous[i].sets[count];
            count++;
        }
        t.sets[count] = "updater.lr=1e30";
        trial_go(&t);
        assert_int_equal(t.rc, SW_ERR_DIVERGED);
        assert_false(t.stuck);
    }
}

static void groups_on_devices_of_their_own_train_too(void **state)
{
    grouped(.name = "one", .steps = 3 * STEPS, .sets = {STILL});
    for (int i = 0; i < ASYNCHRONOUS; i++) {
        const struct setup *s = &asynchronous[i];
        run_setup(s, STILL, .name = "still", .device = "sim:gpus=4");
        for (int t = 1; t <= STEPS; t++) {
            double want = 0;
            for (int g = 0; g < s->groups; g++)
                want += metric("one", "train", "loss", (t - 1) * s->groups + g + 1) / s->groups;
            assert_true(fabs(metric("still", "train", "loss", t) - want) < 1e-4 * want);
        }
        run_setup(s, NOTHING, .name = "moving", .device = "sim:gpus=4");
        assert_true(metric("moving", "train", "loss", STEPS) <
                    metric("moving", "train", "loss", 1));
    }
}

/* Each server sends the other group what its workers changed: every period, and when all meet. */
static void server_groups_exchange_on_the_record(void **state)
{
    grouped(.name = "one", .steps = 1);
    int64_t params = (int64_t)ask("SELECT params FROM runs WHERE id = %d", run_id("one"));
    grouped(.name = "s", .sets = {HOGWILD, TWO_GROUPS, "cluster.server_groups=2",
                                  "cluster.sync_period=5", "cluster.sync_topology=0-1"});
    for (int from = 0; from < 2; from++) {
        double bytes = ask("SELECT sum(bytes) FROM link_traffic WHERE run_id = %d AND kind = "
                           "'sync' AND from_unit = 'server%d.0' AND to_unit = 'server%d.0'",
                           run_id("s"), from, 1 - from);
        /* Of the exchanges at steps 5, 10, 15 and 20 some may be left out, of meetings none. */
        assert_true(bytes >= (double)params * 4 && bytes < (double)params * 4 * 2 * 6);
    }
}

/* The largest element of a tensor, by size. */
static double largest(const char *path, const char *name)
{
    struct sw_st_file *f = open_tensors(path);
    const struct sw_st_entry *e = sw_st_find(f, name);
    double most = 0;
    assert_non_null(e);
    float *x = tensor_bytes(f, e);
    for (size_t i = 0; i < e->bytes / sizeof *x; i++)
        most = fmax(most, fabs((double)x[i]));
    free(x);
    sw_st_close(f);
    return most;
}

/* With a rate of nothing a step does no more than shrink the momentum of a server group, once for
 * each of its worker groups. */
static void every_server_group_resumes_with_its_own_state(void **state)
{
    static const struct {
        const char *groups;
        int count, from[3], updates[3]; /* whose state a group goes on with */
    } then[] = {{"cluster.server_groups=2", 2, {0, 1}, {2, 1}},
                {"cluster.server_groups=1", 1, {0}, {3}},
                {"cluster.server_groups=3", 3, {0, 1, 0}, {1, 1, 1}}};
    for (int i = 0; i < 3; i++) {
        static const char *const slots[] = {"updater.fc1.weight.momentum",
                                            "updater.fc1.weight.momentum.1",
                                            "updater.fc1.weight.momentum.2"};
        double before[2];
        grouped(.name = "saved", .steps = 9,
                .sets = {CUSTOM, "cluster.consistency=async", THREE_GROUPS,
                         "cluster.server_groups=2"});
        for (int k = 0; k < 2; k++)
            before[k] = largest(checkpoint_path("saved", 9), slots[k]);
        assert_true(before[0] != before[1]);
        struct trial t = {.recipe = workers_recipe,
                          .oversubscribe = true,
                          .resume = "saved",
                          .resume_step = 9,
                          .steps = 10,
                          .sets = {CUSTOM, "cluster.consistency=async", THREE_GROUPS, STILL,
                                   "updater.weight_decay=0", then[i].groups}};
        trial_ok(&t);
        for (int k = 0; k < then[i].count; k++) {
            double want = before[then[i].from[k]] * pow(0.9, then[i].updates[k]);
            double got = largest(checkpoint_path("saved", 10), slots[k]);
            assert_true(fabs(got - want) < 1e-4 * want);
        }
        assert_true(!strstr(t.text, "modulo 2") == (then[i].count == 2));
    }
}

static void unsupported_group_settings_are_refused_with_a_reason(void **state)
{
    static const struct {
        const char *sets[6], *says;
    } wrong[] = {
        {{ALLREDUCE, TWO_GROUPS}, "one worker group"},
        {{SANDBLASTER, "cluster.consistency=async"}, "use framework = custom"},
        {{HOGWILD, "cluster.consistency=ssp"}, "use framework = custom"},
        {{CUSTOM, "cluster.consistency=ssp"}, "how many steps"},
        {{CUSTOM, TWO_GROUPS, "cluster.staleness=3"}, "no staleness bound"},
        {{DOWNPOUR, TWO_GROUPS, "cluster.staleness=101"}, "staleness"},
        {{DOWNPOUR, TWO_GROUPS, "cluster.server_groups=2"}, "one server group"},
        {{CUSTOM, TWO_GROUPS, "cluster.server_groups=2"}, "together have one server group"},
        {{HOGWILD, TWO_GROUPS, "cluster.server_groups=3"}, "but 2 worker groups"},
        {{HOGWILD, TWO_GROUPS, "cluster.server_groups=2", "cluster.sync_topology=star"},
         "not all, ring, tree"},
        {{HOGWILD, TWO_GROUPS, "cluster.server_groups=2", "cluster.sync_topology=0-2"},
         "server groups are 0 to 1"},
        {{CUSTOM, "cluster.consistency=async", THREE_GROUPS, "cluster.server_groups=3",
          "cluster.sync_topology=0-1"},
         "do not reach all other groups"},
        {{CUSTOM, THREE_GROUPS, "job.batch=2"}, "cannot share a batch of 2 rows"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct trial t = {.recipe = workers_recipe, .oversubscribe = true};
        memcpy(t.sets, wrong[i].sets, sizeof wrong[i].sets);
        trial_open(&t);
        if (t.rc != SW_ERR_INVALID || !strstr(sw_bytes_text(&t.messages), wrong[i].says))
            fail_msg("%s: %d: %s", wrong[i].says, t.rc, sw_bytes_text(&t.messages));
        trial_close(&t);
    }
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, home_begin, home_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH(groups_that_are_synchronous_equal_one_worker),
        FRESH(one_group_alone_has_the_bits_of_a_synchronous_job),
        FRESH(groups_take_turns_in_one_order_of_batches),
        FRESH(evaluations_count_every_record_once),
        FRESH(the_history_has_every_worker_and_its_staleness),
        FRESH(resume_continues_with_the_next_batches),
        FRESH(all_groups_stop_at_the_same_step),
        FRESH(a_loss_that_is_not_finite_ends_all_groups),
        FRESH(groups_on_devices_of_their_own_train_too),
        FRESH(server_groups_exchange_on_the_record),
        FRESH(every_server_group_resumes_with_its_own_state),
        FRESH(unsupported_group_settings_are_refused_with_a_reason),
    };
    return cmocka_run_group_tests_name("worker groups", tests, NULL, NULL);
}
