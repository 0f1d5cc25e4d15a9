/* ctest-labels: threads
 * ctest-timeout: 120
 * Roles that hang on the host: a server, a worker, a data reader. The watchdog names the role and
 * those that wait for it, the positions of all roles are recorded in the history, and training
 * continues or ends as configured. Hanging devices are tested in test_sim_faults.c. */
#include "fault_support.h"
#include "run/run.h"

#define WARN "cluster.on_stall=warn", "cluster.stall_s=1"
#define STOP "cluster.on_stall=stop", "cluster.stall_s=1"

/* Holds whoever applies an update of step 3 until the stall is told. */
struct stalled {
    atomic_bool released;
    atomic_int held;
};

static void hold_step_3(void *user, int server, int param, uint64_t version, int64_t begin_ns,
                        int64_t end_ns)
{
    struct stalled *h = user;
    if (version != 3 || atomic_fetch_add(&h->held, 1) > 0)
        return;
    while (!atomic_load(&h->released))
        sleep_ms(10);
}

/* The stall of such a role: "prefetch train" is one of those of "prefetch0.0 train 0". On a busy
 * machine that of another may be told before, until it goes on. */
static bool is_told(const struct sw_job_event *e, const char *culprit)
{
    return e->type == SW_JOB_EVENT && strncmp(e->source, culprit, strcspn(culprit, " ")) == 0 &&
           strstr(e->text, "stall: no progress");
}

static void release_when_told(struct trial *t, const struct sw_job_event *e)
{
    struct stalled *h = t->user;
    if (is_told(e, "server"))
        atomic_store(&h->released, true);
}

static void hold(struct trial *t)
{
    sw_table_set_on_update(t->job->params.table, hold_step_3, t->user);
}

static void hold_apart(struct trial *t)
{
    assert_true(give_server_a_core(t->job));
    hold(t);
}

static void disarm_when_told(struct trial *t, const struct sw_job_event *e)
{
    if (is_told(e, fault_plan.hangs))
        fault_disarm(NULL);
}

/* In the events: the stall, who is to blame, and everybody's position. A busy machine may make
 * others stand still for as long, which is told in the same way. */
static void assert_told(const struct trial *t, const char *culprit, const char *what)
{
    int id = run_id(t->name);
    if (!strstr(t->text, what))
        fail_msg("no \"%s\" in: %s", what, t->text);
    assert_true(ask("SELECT count(*) > 0 FROM events WHERE run_id = %d AND level = 'warning' AND "
                    "source = '%s' AND text LIKE 'stall: no progress for %%'",
                    id, culprit));
    int stalls = (int)ask("SELECT count(*) FROM events WHERE run_id = %d AND "
                          "text LIKE 'stall: no progress for %%'",
                          id);
    assert_int_equal((int)ask("SELECT count(*) FROM events WHERE run_id = %d AND source = '%s' AND "
                              "text LIKE 'position: %%'",
                              id, culprit),
                     stalls);
    assert_int_equal((int)ask("SELECT count(*) FROM events WHERE run_id = %d AND "
                              "text LIKE 'position: %%'",
                              id),
                     stalls * sw_job_slots(t->job));
}

/* Training went on, and that was told. */
static void assert_went_on(const struct trial *t, const char *culprit)
{
    if (t->rc != SW_OK)
        fail_msg("%s", t->err.text);
    assert_true(ask("SELECT count(*) > 0 FROM events WHERE run_id = %d AND source = '%s' AND "
                    "text LIKE 'stall: resumed after %%'",
                    run_id(t->name), culprit));
}

static void go(struct trial *t)
{
    t->oversubscribe = true;
    if (trial_open(t) != SW_OK)
        fail_msg("%s / %s", t->err.text, sw_bytes_text(&t->messages));
    trial_run(t);
    fault_disarm(NULL);
}

/* On a busy machine others may come to wait later than the stall is told, which names nobody then:
 * it is tried again. user_bytes: of t->user. */
static void go_until_told(struct trial *t, size_t user_bytes, const char *who_waits)
{
    const struct trial conf = *t;
    const bool armed = atomic_load(&fault_armed);
    go(t);
    for (int tries = 1; tries < 10 && !strstr(t->text, who_waits); tries++) {
        trial_close(t);
        *t = conf;
        if (user_bytes > 0)
            memset(t->user, 0, user_bytes);
        atomic_store(&fault_armed, armed);
        go(t);
    }
}

static void server_thread_that_hangs_is_named(void **state)
{
    struct stalled h = {0};
    struct trial t = {.name = "server",
                      .sets = {WARN},
                      .steps = 6,
                      .before = hold_apart,
                      .on_event = release_when_told,
                      .user = &h};
    struct sw_machine *m = NULL;
    struct sw_err err;
    assert_int_equal(sw_machine_here(&m, &err), SW_OK);
    int cores = m->core_count;
    sw_machine_free(m);
    if (cores < 2) {
        print_message("skipped: this machine has one core\n");
        skip();
    }
    go_until_told(&t, sizeof h, "worker0.0 waits for version 3 of ");
    assert_told(&t, "server0.0", "worker0.0 waits for version 3 of ");
    assert_told(&t, "server0.0", ": server0.0 has not applied it");
    assert_went_on(&t, "server0.0");
    trial_close(&t);
}

/* Run by a worker between two layers: the server is to blame, not that worker. */
static void server_that_a_worker_runs_is_named(void **state)
{
    struct stalled h = {0};
    struct trial t = {.name = "inline",
                      .sets = {WARN, "cluster.workers_per_group=2"},
                      .steps = 6,
                      .before = hold,
                      .on_event = release_when_told,
                      .user = &h};
    go_until_told(&t, sizeof h, ": it is running server0.");
    assert_non_null(strstr(t.text, "server0."));
    assert_non_null(strstr(t.text, ": it is running server0."));
    assert_went_on(&t, strstr(t.text, "server0.0: stall") ? "server0.0" : "server0.1");
    trial_close(&t);
}

static void server_that_hangs_ends_the_run_when_asked(void **state)
{
    struct stalled h = {0};
    struct trial t = {.name = "stop",
                      .sets = {STOP, "job.checkpoint_every=1"},
                      .steps = 6,
                      .before = hold,
                      .on_event = release_when_told,
                      .user = &h};
    go(&t);
    assert_int_equal(t.rc, SW_ERR_LIBRARY);
    assert_non_null(strstr(t.err.text, "server0.0: no progress for "));
    assert_non_null(strstr(t.err.text, checkpoint_path("stop", 2)));
    assert_true(exists(checkpoint_path("stop", 2)));
    trial_close(&t);
    train(.resume = "stop", .resume_step = 2, .steps = 6);
}

/* A file system that hangs while training data are read. */
static void reader_that_hangs_is_named(void **state)
{
    struct trial t = {
        .name = "reader", .recipe = file_recipe(), .sets = {WARN}, .on_event = disarm_when_told};
    fault_arm((struct fault_plan){.hangs = "prefetch train"});
    go_until_told(&t, 0, "worker0.0 waits for a batch of [data train] for ");
    assert_told(&t, "prefetch0.0 train 0", "worker0.0 waits for a batch of [data train] for ");
    assert_told(&t, "prefetch0.0 train 0", ": prefetch0.0 train 0 has not read it");
    assert_went_on(&t, "prefetch0.0 train 0");
    trial_close(&t);
    struct trial s = {.name = "reader-stop",
                      .recipe = file_recipe(),
                      .sets = {STOP},
                      .on_event = disarm_when_told};
    fault_arm((struct fault_plan){.hangs = "prefetch test"});
    go(&s);
    assert_int_equal(s.rc, SW_ERR_LIBRARY);
    assert_non_null(strstr(s.err.text, "prefetch0.0 test 0: no progress for "));
    assert_non_null(strstr(s.err.text, "checkpoint-0.safetensors"));
    trial_close(&s);
}

static void hold_at_step_2(struct trial *t)
{
    struct hold *h = t->user;
    h->behind = 2;
    hold_updates(t, h);
}

static void arm_at_step_2(struct trial *t, const struct sw_job_event *e)
{
    struct hold *h = t->user;
    if (e->type == SW_JOB_DISPLAY && e->step == 2) {
        atomic_store(&fault_armed, true);
        atomic_store(&h->over, true);
    }
    disarm_when_told(t, e);
}

/* The leader's checkpoint does not end; the other worker waits for its next gradients. */
static void worker_that_hangs_is_named(void **state)
{
    struct hold h = {0};
    struct trial t = {.name = "worker",
                      .sets = {WARN, "cluster.workers_per_group=2", "job.checkpoint_every=4"},
                      .steps = 8,
                      .display = {.every_steps = 1},
                      .before = hold_at_step_2,
                      .on_event = arm_at_step_2,
                      .user = &h};
    fault_arm((struct fault_plan){.hangs = "worker0.0"});
    fault_disarm(NULL);
    go_until_told(&t, sizeof h, "; worker0.1 waits for version 5 of ");
    assert_told(&t, "worker0.0", "in checkpoint, step 4: its thread ");
    assert_told(&t, "worker0.0", "; worker0.1 waits for version 5 of ");
    assert_told(&t, "worker0.0", " has no gradient of worker0.0");
    assert_went_on(&t, "worker0.0");
    trial_close(&t);
}

/* The leader's checkpoint does not end, for which groups that are apart have come together: it is
 * named, and neither those who wait for it nor those who rest. Groups that go on without each other
 * are not held back; they have some checkpoints to make after step 2. */
static void worker_that_hangs_is_named_among_groups(void **state)
{
    static const char *const sets[][2] = {{"cluster.framework=downpour", "cluster.staleness=2"},
                                          {"cluster.framework=hogwild", "cluster.server_groups=2"},
                                          {"cluster.framework=downpour", "cluster.warmup_steps=8"}};
    for (int i = 0; i < 3; i++) {
        struct hold h = {0};
        struct trial t = {.name = "groups",
                          .sets = {WARN, "cluster.worker_groups=2", "job.checkpoint_every=4",
                                   sets[i][0], sets[i][1]},
                          .steps = i < 2 ? 200 : 8,
                          .display = {.every_steps = 1},
                          .before = i < 2 ? NULL : hold_at_step_2,
                          .on_event = arm_at_step_2,
                          .user = &h};
        fault_arm((struct fault_plan){.hangs = "worker0.0"});
        fault_disarm(NULL);
        go_until_told(&t, sizeof h, "; worker1.0 waits for ");
        assert_told(&t, "worker0.0", "in checkpoint, step ");
        assert_told(&t, "worker0.0", "; worker1.0 waits for ");
        assert_told(&t, "worker0.0", "worker0.0 has not arrived");
        assert_went_on(&t, "worker0.0");
        trial_close(&t);
    }
}

/* While the first group is busy for long, nobody is told that the others rest. */
static void sleeping_worker_is_not_a_stall(void **state)
{
    struct stalled h = {0};
    struct trial t = {.name = "rests",
                      .sets = {WARN, "cluster.framework=downpour", "cluster.worker_groups=2",
                               "cluster.warmup_steps=5"},
                      .steps = 7,
                      .before = hold,
                      .on_event = release_when_told,
                      .user = &h};
    go(&t);
    assert_non_null(strstr(t.text, "server0.0: stall: no progress"));
    assert_null(strstr(t.text, "worker1.0: stall"));
    assert_int_equal((int)ask("SELECT count(*) FROM events WHERE run_id = %d AND source = "
                              "'worker1.0' AND text LIKE 'position: idle%%warm-up%%'",
                              run_id("rests")),
                     1);
    assert_went_on(&t, "server0.0");
    trial_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(server_thread_that_hangs_is_named),
        CASE(server_that_a_worker_runs_is_named),
        CASE(server_that_hangs_ends_the_run_when_asked),
        CASE(reader_that_hangs_is_named),
        CASE(worker_that_hangs_is_named),
        CASE(worker_that_hangs_is_named_among_groups),
        CASE(sleeping_worker_is_not_a_stall),
    };
    return cmocka_run_group_tests_name("stalls", tests, fault_begin, home_end);
}
