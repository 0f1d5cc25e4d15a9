/* ctest-labels: threads
 * ctest-timeout: 120
 * Several workers, one of which fails, on devices that hang, get lost or have no memory, or fails
 * alone: at setup, in a step, in an evaluation, in a checkpoint. The first error wins, all others
 * end within seconds, and the last
 * checkpoint is kept. */
#include "fault_support.h"

#include "device/sim/sim.h"

enum { STEPS = 12 };

static const char two[] = "cluster.workers_per_group=2", three[] = "cluster.workers_per_group=3",
                  on_two[] = "sim:gpus=2,mem=64MiB", on_three[] = "sim:gpus=3,mem=64MiB";

/* With state on the devices, in both directions: sums, statistics, evaluations, checkpoints. */
static const char sim_recipe[] =
    "[job]\nsteps = 12\nbatch = 16\neval_batch = 5\neval_every = 4\n"
    "checkpoint_every = 4\n" DATA_SECTIONS UPDATER_SECTIONS
    "[layer image]\ntype = input\nfield = image\n[layer label]\ntype = input\nfield = label\n"
    "[layer conv1]\ntype = convolution\nsrc = image\noutputs = 8\nkernel = 3\nbias = no\n"
    "[layer bn1]\ntype = batch_norm\nsrc = conv1\n"
    "[layer pool1]\ntype = pooling\nsrc = bn1\nmethod = avg\nkernel = 2\nstride = 2\n"
    "[layer fc1]\ntype = inner_product\nsrc = pool1\noutputs = 24\n"
    "[layer act1]\ntype = activation\nsrc = fc1\nfunction = tanh\n"
    "[layer fc2]\ntype = inner_product\nsrc = act1\noutputs = 4\n"
    "[layer loss]\ntype = softmax_loss\nsrc = fc2, label\n"
    "[layer accuracy]\ntype = accuracy\nsrc = fc2, label\ninclude = eval\n";

/* ---- devices ---- */

/* What happens to which device, after how many more operations or allocations; count says how many
 * operations it has had when the run is over. */
struct device_fault {
    int worker;
    enum sw_sim_fault fault;
    int64_t after, count;
};

static void inject(struct trial *t)
{
    const struct device_fault *f = t->user;
    sw_sim_inject(t->job->workers[f->worker].device, f->fault, f->after);
}

/* Opens, runs and closes; nothing is left, whatever came of it. Threads of devices live from
 * opening to closing. */
static void go(struct trial *t)
{
    struct before b = look();
    struct device_fault *f = t->user;
    t->oversubscribe = true;
    if (trial_open(t) != SW_OK)
        fail_msg("%s / %s", t->err.text, sw_bytes_text(&t->messages));
    trial_run(t);
    if (f)
        f->count = sw_sim_operations(t->job->workers[f->worker].device);
    fault_disarm(NULL);
    assert_false(t->stuck);
    if (t->took_s >= SECONDS)
        fail_msg("%s took %.0f s: %d, %s\n%s", t->name, t->took_s, t->rc, t->err.text, t->text);
    trial_close(t);
    assert_true(threads_become(b.threads));
    assert_int_equal(atomic_load(&fault_live), b.live);
    assert_int_equal(count_files(t->name, ".tmp-"), 0);
    assert_int_equal(count_files("singa-ws", ".live"), 0);
    for (int step = 0; step <= STEPS; step++)
        if (exists(checkpoint_path(t->name, step)))
            assert_finite(checkpoint_path(t->name, step));
}

static void assert_failed(const struct trial *t, int rc, const char *role, const char *cause)
{
    if (t->rc != rc || strncmp(t->err.text, role, strlen(role)) != 0 || !strstr(t->err.text, cause))
        fail_msg("%s: %d, not %d: \"%s\" has not %s and %s", t->name, t->rc, rc, t->err.text, role,
                 cause);
    int id = run_id(t->name);
    assert_string_equal(ask_text("SELECT status FROM runs WHERE id = %d", id), "failed");
    assert_int_equal(
        (int)ask("SELECT count(*) FROM events WHERE run_id = %d AND level = 'error'", id), 1);
}

/* Every checkpoint that the run told of is there, at least that of step `step`. */
static void assert_checkpoints_stand(const struct trial *t, int64_t step)
{
    assert_true(exists(checkpoint_path(t->name, 0)));
    if (t->told[SW_JOB_CHECKPOINT] > 0)
        assert_true(exists(checkpoint_path(t->name, t->last[SW_JOB_CHECKPOINT].step)));
    assert_true(exists(checkpoint_path(t->name, step)));
}

static int64_t operations_of_a_run(const char *const *sets)
{
    struct device_fault f = {.worker = 1};
    struct trial t = {.recipe = sim_recipe, .name = "healthy", .device = on_two, .user = &f};
    for (int i = 0; sets[i]; i++)
        t.sets[i] = sets[i];
    go(&t);
    if (t.rc != SW_OK)
        fail_msg("%s", t.err.text);
    return f.count;
}

static const char *const plain[] = {NULL};
static const char *const apart[] = {"cluster.framework=downpour", "cluster.worker_groups=2",
                                    "cluster.workers_per_group=1", NULL};
static const char *const split[] = {"layer.fc1.partition=1", "layer.pool1.partition=none", NULL};

/* Wherever in the run: computations, copies of gradients and values, sums, statistics. Who waits
 * for the device's worker is not blamed. */
static void hang_anywhere(const char *const *sets, int worker, int points)
{
    int64_t count = operations_of_a_run(sets);
    for (int i = 0; i < points; i++) {
        char name[64], unit[16], role[64], device[32];
        struct device_fault f = {
            .worker = worker, .fault = SW_SIM_HANG, .after = count * (2 * i + 1) / (2 * points)};
        struct trial t = {.recipe = sim_recipe,
                          .name = name,
                          .device = on_two,
                          .sets = {"cluster.stall_s=1", "cluster.on_stall=stop"},
                          .before = inject,
                          .user = &f};
        for (int k = 0; sets[k]; k++)
            t.sets[k + 2] = sets[k];
        snprintf(name, sizeof name, "hang-%d-%d-%s", worker, i,
                 sets == apart   ? "apart"
                 : sets == split ? "split"
                                 : "plain");
        snprintf(unit, sizeof unit, sets == apart ? "worker%d.0" : "worker0.%d", worker);
        snprintf(role, sizeof role, "%s: no progress for ", unit);
        snprintf(device, sizeof device, ", on sim:%d", worker);
        go(&t);
        assert_failed(&t, SW_ERR_LIBRARY, role, device);
        assert_non_null(strstr(t.err.text, "the last checkpoint is"));
        assert_true(t.took_s >= 1);
        assert_true(
            ask("SELECT count(*) > 0 FROM events WHERE run_id = %d AND level = 'warning' AND "
                "source = '%s' AND text LIKE 'stall: no progress%%'",
                run_id(name), unit));
        assert_checkpoints_stand(&t, 0);
    }
}

static void device_that_hangs_is_named(void **state)
{
    hang_anywhere(plain, 1, 6);
    hang_anywhere(plain, 0, 4);
}

static void device_that_hangs_in_a_split_net_is_named(void **state)
{
    hang_anywhere(split, 1, 4);
    hang_anywhere(split, 0, 3);
}

static void lose_anywhere(const char *const *sets, int worker, int points)
{
    int64_t count = operations_of_a_run(sets);
    int64_t last = -1;
    for (int i = 0; i < points; i++) {
        char name[32], role[32], device[16];
        struct device_fault f = {
            .worker = worker, .fault = SW_SIM_LOST, .after = count * i / points};
        struct trial t = {
            .recipe = sim_recipe, .name = name, .device = on_two, .before = inject, .user = &f};
        for (int k = 0; sets[k]; k++)
            t.sets[k] = sets[k];
        snprintf(name, sizeof name, "lost-%d-%d-%s", worker, i, sets[0] ? "split" : "plain");
        snprintf(role, sizeof role, "worker0.%d: ", worker);
        snprintf(device, sizeof device, "sim:%d", worker);
        go(&t);
        assert_failed(&t, SW_ERR_LIBRARY, role, device);
        /* The later it is lost, the further the run came. */
        assert_true(t.last[SW_JOB_SUMMARY].step + 1 >= last);
        last = t.last[SW_JOB_SUMMARY].step;
        if (last > 4)
            assert_checkpoints_stand(&t, 4);
    }
    assert_true(last >= 8);
}

static void device_of_a_group_that_hangs_is_named(void **state)
{
    hang_anywhere(apart, 1, 4);
    hang_anywhere(apart, 0, 3);
}

static void device_that_is_lost_is_named(void **state)
{
    lose_anywhere(plain, 1, 16);
    lose_anywhere(plain, 0, 8);
    lose_anywhere(split, 1, 8);
}

/* At set-up, where all device memory is taken; a step takes none. */
static void device_without_memory_is_named(void **state)
{
    enum { MOST = 40 };
    int failures = 0;
    for (int i = 0; i < MOST; i++) {
        char name[32];
        struct device_fault f = {.worker = 1, .fault = SW_SIM_NOMEM, .after = i};
        struct trial t = {
            .recipe = sim_recipe, .name = name, .device = on_two, .before = inject, .user = &f};
        snprintf(name, sizeof name, "poor-%d", i);
        go(&t);
        if (t.rc == SW_OK)
            break;
        assert_failed(&t, SW_ERR_NOMEM, "worker0.1", "sim:1");
        assert_int_equal(t.told[SW_JOB_DISPLAY], 0);
        failures++;
    }
    assert_in_range(failures, 2, MOST - 1);
}

/* Too small from the start: what it takes and what there is. */
static void device_that_is_too_small_is_named(void **state)
{
    struct trial t = {.recipe = sim_recipe,
                      .name = "small",
                      .device = "sim:gpus=2,mem=64MiB",
                      .sets = {"layer.fc1.outputs=40000"}};
    assert_int_equal(trial_open(&t), SW_ERR_NOMEM);
    assert_non_null(strstr(t.err.text, " on sim:0, which has "));
    assert_non_null(strstr(t.err.text, "the largest array is fc1.weight, "));
    trial_close(&t);
}

/* ---- one of several workers ---- */

static const struct {
    const char *name, *sets[2];
    int workers;
} groups[] = {{"two", {two}, 2}, {"three", {three, "cluster.framework=sandblaster"}, 3}};
enum { GROUPS = sizeof groups / sizeof *groups };

static void fail_in_group(int group, struct trial t, struct fault_plan plan, int rc,
                          const char *role, const char *cause)
{
    char name[64];
    int sets = 0;
    snprintf(name, sizeof name, "%s-%s", t.name, groups[group].name);
    t.name = name;
    while (t.sets[sets])
        sets++;
    for (int k = 0; k < 2 && groups[group].sets[k]; k++)
        t.sets[sets++] = groups[group].sets[k];
    t.recipe = t.recipe ? t.recipe : file_recipe();
    t.oversubscribe = true;
    must_fail_on_record(&t, plan, rc, role, cause);
    assert_true(t.took_s < SECONDS);
}

static void worker_that_cannot_start(void **state)
{
    for (int g = 0; g < GROUPS; g++)
        for (int w = 0; w < groups[g].workers; w++) {
            char unit[32], run[32], cause[64];
            snprintf(unit, sizeof unit, "worker0.%d", w);
            snprintf(run, sizeof run, "start-%d", w);
            snprintf(cause, sizeof cause, "cannot start thread %s", unit);
            fail_in_group(g, (struct trial){.name = run}, (struct fault_plan){.start = unit},
                          SW_ERR_NOMEM, "job: ", cause);
        }
}

static void seat_the_last_nowhere(struct trial *t)
{
    struct sw_placement *p = t->job->place.placement;
    p->rows[p->worker_count - 1].cores = (struct sw_core_set){0};
    sw_core_set_add(&p->rows[p->worker_count - 1].cores, 1000);
}

static void worker_that_fails_at_set_up(void **state)
{
    fail_in_group(0, (struct trial){.name = "unbound", .before = seat_the_last_nowhere},
                  (struct fault_plan){0}, SW_ERR_INVALID, "worker0.1: ", "core 1000");
    fail_in_group(1, (struct trial){.name = "unbound", .before = seat_the_last_nowhere},
                  (struct fault_plan){0}, SW_ERR_INVALID, "worker0.2: ", "core 1000");
}

/* Row 15 of the first batch is the last worker's. */
static void reader_that_fails_in_step_1(void **state)
{
    write_arrays("train", 64, 15, 9);
    for (int g = 0; g < GROUPS; g++)
        fail_in_group(g, (struct trial){.name = "step", .recipe = array_recipe()},
                      (struct fault_plan){0}, SW_ERR_INVALID, "prefetch train: ", "class 9");
    assert_true(exists(checkpoint_path("step-three", 0)));
    assert_false(exists(checkpoint_path("step-three", 4)));
}

/* Record 39 is the last row of the last batch. */
static void reader_that_fails_in_an_evaluation(void **state)
{
    write_arrays("test", 40, 39, 9);
    for (int g = 0; g < GROUPS; g++)
        fail_in_group(g, (struct trial){.name = "eval", .recipe = array_recipe()},
                      (struct fault_plan){0}, SW_ERR_INVALID, "prefetch test: ", "class 9");
    assert_false(exists(checkpoint_path("eval-three", 4)));
}

static void update_that_is_not_finite(void **state)
{
    for (int g = 0; g < GROUPS; g++)
        fail_in_group(g, (struct trial){.name = "burst", .sets = {"updater.lr=1e39"}},
                      (struct fault_plan){0}, SW_ERR_DIVERGED, "server0.", "step 1: ");
}

static void loss_that_is_not_finite(void **state)
{
    for (int g = 0; g < GROUPS; g++) {
        fail_in_group(g,
                      (struct trial){.name = "diverged",
                                     .sets = {"updater.lr=1e30", "job.checkpoint_every=1"}},
                      (struct fault_plan){0}, SW_ERR_DIVERGED, "worker0.", "step 2: the loss is ");
        char run[64];
        snprintf(run, sizeof run, "diverged-%s", groups[g].name);
        /* Another worker may find it out before the leader comes to write that of step 1. */
        assert_true(exists(checkpoint_path(run, 0)));
        assert_false(exists(checkpoint_path(run, 2)));
    }
}

static struct hold until_full;

static void hold_at_8(struct trial *t)
{
    until_full = (struct hold){.behind = 8};
    hold_updates(t, &until_full);
}

static void fill_the_disk_after_8(struct trial *t, const struct sw_job_event *e)
{
    if (e->type != SW_JOB_CHECKPOINT || e->step != 8)
        return;
    atomic_store(&fault_armed, true);
    atomic_store(&until_full.over, true);
}

static void leader_without_a_last_checkpoint(void **state)
{
    for (int g = 0; g < GROUPS; g++) {
        struct trial t = {.recipe = file_recipe(),
                          .name = groups[g].name,
                          .sets = {groups[g].sets[0], groups[g].sets[1]},
                          .steps = 40,
                          .before = hold_at_8,
                          .on_event = fill_the_disk_after_8};
        /* Other threads look at the plan while they run. */
        fault_arm((struct fault_plan){
            .kinds = FAIL_WRITE, .thread = "worker0.0", .at = 1, .error = ENOSPC});
        fault_disarm(NULL);
        go(&t);
        assert_int_equal(t.rc, SW_ERR_IO);
        assert_non_null(strstr(t.err.text, "worker0.0: checkpoint at step 40: "));
        assert_true(exists(checkpoint_path(t.name, 8)));
        assert_false(exists(checkpoint_path(t.name, 40)));
        /* Before that, training went on without. */
        assert_true(ask("SELECT count(*) > 1 FROM events WHERE run_id = %d AND text LIKE "
                        "'%%could not be written and training continues%%'",
                        run_id(t.name)));
    }
}

static void abort_at_step_2(struct trial *t, const struct sw_job_event *e)
{
    if (e->type == SW_JOB_DISPLAY && e->step == 2)
        sw_job_request(t->job, SW_JOB_ABORT);
}

static void abort_ends_all_workers(void **state)
{
    static const char *const devices[] = {"cpu", on_three};
    for (int i = 0; i < 2; i++) {
        struct trial t = {.recipe = sim_recipe,
                          .name = i ? "abort-sim" : "abort-cpu",
                          .device = devices[i],
                          .steps = 1000000,
                          .sets = {three, "job.checkpoint_every=0", "job.eval_every=0"},
                          .display = {.every_steps = 1},
                          .on_event = abort_at_step_2};
        go(&t);
        assert_failed(&t, SW_ERR_LIBRARY, "job: ", "aborted by request");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(device_that_hangs_is_named),
        CASE(device_that_hangs_in_a_split_net_is_named),
        CASE(device_of_a_group_that_hangs_is_named),
        CASE(device_that_is_lost_is_named),
        CASE(device_without_memory_is_named),
        CASE(device_that_is_too_small_is_named),
        CASE(worker_that_cannot_start),
        CASE(worker_that_fails_at_set_up),
        CASE(reader_that_fails_in_step_1),
        CASE(reader_that_fails_in_an_evaluation),
        CASE(update_that_is_not_finite),
        CASE(loss_that_is_not_finite),
        CASE(leader_without_a_last_checkpoint),
        CASE(abort_ends_all_workers),
    };
    return cmocka_run_group_tests_name("sim faults", tests, fault_begin, home_end);
}
