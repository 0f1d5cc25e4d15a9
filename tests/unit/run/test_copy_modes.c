/* ctest-labels: threads
 * ctest-timeout: 120
 * How gradients and values travel between devices and servers, and when: every copy mode, with and
 * without overlap, trains to the same bits; where the device updates nothing travels, and what it
 * cannot do is refused. */
#include "workers_support.h"

#include "device/copy_queue.h"
#include "device/sim/sim.h"
#include "worker/input.h"
#include <dlfcn.h>

enum { STEPS = 12, CAPACITY = 4096 };

static const char *const sims[] = {"", "sim:gpus=1,mem=64MiB", "sim:gpus=2,mem=64MiB"};

#define ASYNC "cluster.copy=async"
#define SYNC "cluster.copy=sync"
#define NONE "cluster.copy=none"
#define NO_OVERLAP "cluster.overlap=no"
#define PS "cluster.comm=ps" /* sums, whose bits do not depend on who makes them */
#define modes(...) grouped(.steps = STEPS, __VA_ARGS__)

static void assert_same(const char *a, const char *b)
{
    assert_same_tensors(checkpoint_path(a, STEPS), checkpoint_path(b, STEPS));
}

#define WITH(updater) WORKERS_JOB DATA_SECTIONS "[updater]\n" updater WORKERS_NET

/* Updaters with no, one and two arrays of state; and a frozen layer. */
static void every_mode_has_the_same_bits(void **state)
{
    static const char *const recipes[] = {WITH("type = sgd\nlr = 0.02\n"),
                                          WITH("type = nesterov\nlr = 0.02\nmomentum = 0.9\n"),
                                          WITH("type = adam\nlr = 0.002\nweight_decay = 0.01\n")};
    static const char *const others[] = {"cpu-sync", "cpu-none",  "async", "late",
                                         "sync",     "sync-late", "none",  "none-late"};
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
        const char *freeze = i == 0 ? "job.freeze=conv1.*" : "job.seed=7";
#define mode(...) train(.recipe = recipes[i], .steps = STEPS, __VA_ARGS__)
        mode(.name = "cpu", .sets = {freeze});
        mode(.name = "cpu-sync", .sets = {freeze, SYNC, NO_OVERLAP});
        mode(.name = "cpu-none", .sets = {freeze, NONE});
        mode(.name = "async", .device = sims[1], .sets = {freeze, ASYNC});
        mode(.name = "late", .device = sims[1], .sets = {freeze, ASYNC, NO_OVERLAP});
        mode(.name = "sync", .device = sims[1], .sets = {freeze, SYNC});
        mode(.name = "sync-late", .device = sims[1], .sets = {freeze, SYNC, NO_OVERLAP});
        mode(.name = "none", .device = sims[1], .sets = {freeze, NONE, "job.eval_every=5"});
        mode(.name = "none-late", .device = sims[1], .sets = {freeze, NONE, NO_OVERLAP});
#undef mode
        for (size_t k = 0; k < sizeof others / sizeof *others; k++)
            assert_same("cpu", others[k]);
    }
}

static void several_workers_wait_for_each_update(void **state)
{
    static const char *const mixed[] = {"layer.fc1.partition=1", "layer.conv2.partition=none"};
    modes(.name = "async", .device = sims[2], .sets = {PS, mixed[0], mixed[1]});
    modes(.name = "sync", .device = sims[2], .sets = {PS, mixed[0], mixed[1], SYNC});
    modes(.name = "late", .device = sims[2], .sets = {PS, mixed[0], mixed[1], NO_OVERLAP});
    modes(.name = "cpu", .sets = {PS, mixed[0], mixed[1], SYNC, workers_set[2]});
    modes(.name = "apart", .device = sims[2],
          .sets = {PS, mixed[0], mixed[1], SYNC, SANDBLASTER, NO_OVERLAP});
    assert_same("async", "sync");
    assert_same("async", "late");
    assert_same("async", "cpu");
    assert_same("async", "apart");
}

/* Every device makes the update that a server would make, of the same sum. What one worker has to
 * itself (fc1's parts, conv2) is updated without leaving its device. */
static void several_devices_that_update_have_the_same_bits(void **state)
{
    static const char *const mixed[] = {"layer.fc1.partition=1", "layer.conv2.partition=none"};
    for (int workers = 2; workers <= 3; workers++) {
        const char *sim = workers == 2 ? sims[2] : "sim:gpus=3,mem=64MiB";
        modes(.name = "async", .device = sim, .sets = {PS, "job.checkpoint_every=4"});
        modes(.name = "none", .device = sim, .sets = {PS, NONE, "job.checkpoint_every=4"});
        modes(.name = "late", .device = sim, .sets = {PS, NONE, NO_OVERLAP, "job.eval_every=5"});
        modes(.name = "apart", .device = sim,
              .sets = {PS, NONE, SANDBLASTER, servers_set[2], "cluster.slice_size=1024"});
        for (int step = 0; step <= STEPS; step += 4)
            assert_same_tensors(checkpoint_path("async", step), checkpoint_path("none", step));
        assert_same("async", "late");
        assert_same("async", "apart");
        grouped(.name = "half", .device = sim, .steps = 5, .sets = {PS, NONE});
        grouped(.resume = "half", .resume_step = 5, .steps = STEPS, .device = sim);
        assert_same("async", "half");
    }
    modes(.name = "split", .device = sims[2], .sets = {PS, mixed[0], mixed[1]});
    modes(.name = "kept", .device = sims[2],
          .sets = {PS, mixed[0], mixed[1], NONE, "job.checkpoint_every=5"});
    assert_same("split", "kept");
}

/* Groups that are apart wait for their own updates only, and never for ever. */
static void groups_wait_for_their_own_updates(void **state)
{
    static const char *const ways[] = {"cluster.staleness=2", "cluster.copy=sync", NO_OVERLAP};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char name[16];
        snprintf(name, sizeof name, "way-%d", (int)i);
        modes(.name = name, .device = sims[2], .framework = "downpour", .sets = {SYNC, ways[i]});
        assert_int_equal((int)ask("SELECT count(*) FROM step_time WHERE run_id = %d", run_id(name)),
                         2 * STEPS);
    }
}

/* What is decided when all gradients are there must not be waited for before. */
static void updates_in_two_phases_are_not_waited_for_too_early(void **state)
{
    for (int workers = 1; workers <= 2; workers++) {
        modes(.name = "async", .device = sims[workers], .sets = {PS, "job.grad_clip=norm:0.5"});
        modes(.name = "sync", .device = sims[workers],
              .sets = {PS, "job.grad_clip=norm:0.5", SYNC});
        modes(.name = "late", .device = sims[workers],
              .sets = {PS, "job.grad_clip=norm:0.5", SYNC, NO_OVERLAP, "job.on_nan=skip"});
        assert_same("async", "sync");
        assert_same("async", "late");
    }
}

static void device_updates_continue_from_a_checkpoint(void **state)
{
    modes(.name = "whole", .device = sims[1], .sets = {NONE, "job.checkpoint_every=4"});
    grouped(.name = "half", .device = sims[1], .steps = 5, .sets = {NONE});
    train(.resume = "half", .resume_step = 5, .steps = STEPS);
    assert_same("whole", "half");
    modes(.name = "cpu", .sets = {"job.checkpoint_every=4"});
    for (int step = 0; step <= STEPS; step += 4)
        assert_same_tensors(checkpoint_path("cpu", step), checkpoint_path("whole", step));
}

#define ADAM "type = adam\nlr = 0.002\n"

/* How many updates there have been is part of what is saved: whoever goes on, on the host or on a
 * device, corrects adam's bias by it. A stage begins to count anew. */
static void update_count_is_saved_for_resume(void **state)
{
    static const char stages[] =
        "[job]\nseed = 7\nbatch = 32\neval_batch = 20\n"
        "[stage first]\nsteps = 5\n[stage second]\nsteps = 7\n" DATA_SECTIONS
        "[updater]\n" ADAM WORKERS_NET;
    static const char *const modes[] = {ASYNC, NONE};
    train(.name = "whole", .recipe = WITH(ADAM), .steps = STEPS, .device = sims[1],
          .sets = {ASYNC});
    for (int first = 0; first < 2; first++) {
        train(.name = "half", .recipe = WITH(ADAM), .steps = 5, .device = sims[1],
              .sets = {modes[first]});
        train(.resume = "half", .resume_step = 5, .steps = STEPS, .device = sims[1],
              .sets = {modes[1 - first]});
        assert_same("whole", "half");
    }
    train(.name = "staged", .recipe = stages, .device = sims[1], .sets = {ASYNC});
    train(.name = "kept", .recipe = stages, .device = sims[1], .sets = {NONE});
    assert_same("staged", "kept");
}

/* ---- What travels ---- */

static struct sw_sim_traffic travelled[SW_SIM_DIRECTIONS];

/* Of all workers. */
static void run_and_ask(struct trial *t)
{
    t->recipe = workers_recipe;
    t->steps = t->steps ? t->steps : STEPS;
    t->oversubscribe = true;
    if (trial_open(t) != SW_OK || trial_run(t) != SW_OK)
        fail_msg("%s / %s", t->err.text, sw_bytes_text(&t->messages));
    memset(travelled, 0, sizeof travelled);
    for (int d = 0; d < SW_SIM_DIRECTIONS; d++)
        for (int w = 0; w < t->job->place.placement->worker_count; w++)
            travelled[d].bytes +=
                sw_sim_traffic(t->job->workers[w].device, (enum sw_sim_direction)d).bytes;
}

static void nothing_travels_where_the_device_updates(void **state)
{
    struct trial copied = {.name = "copied", .device = sims[1]};
    run_and_ask(&copied);
    size_t values, rest;
    sw_table_bytes(copied.job->params.table, &values, &rest);
    struct sw_sim_traffic in = travelled[SW_SIM_IN], out = travelled[SW_SIM_OUT];
    trial_close(&copied);
    struct trial kept = {.name = "kept", .device = sims[1], .sets = {NONE}};
    run_and_ask(&kept);
    trial_close(&kept);
    /* All but the first values, and but for the last ones and the momentum. */
    assert_true(in.bytes - travelled[SW_SIM_IN].bytes >= (STEPS - 3) * values);
    assert_true(out.bytes - travelled[SW_SIM_OUT].bytes >= (STEPS - 3) * values);
    assert_true((int)ask("SELECT sum(bytes) > 0 FROM link_traffic WHERE run_id = %d",
                         run_id("copied")) == 1);
    assert_int_equal(
        (int)ask("SELECT count(*) FROM link_traffic WHERE run_id = %d", run_id("kept")), 0);
    assert_true(ask("SELECT sum(comm_exposed_ms + comm_hidden_ms) FROM step_time WHERE run_id = %d",
                    run_id("kept")) == 0);
}

/* What passes over links beside gradients, values and features, in a step of all workers: batches,
 * the step's numbers, losses, marks at each wait and, where devices update, what the updates are
 * and whether all was finite. */
static void find_rest(const struct sw_job *job, uint64_t rest[SW_SIM_DIRECTIONS])
{
    rest[SW_SIM_IN] = rest[SW_SIM_OUT] = 0;
    for (int w = 0; w < job->place.placement->worker_count; w++) {
        const struct sw_net *net = job->workers[w].train;
        rest[SW_SIM_IN] += sw_input_bytes(&job->workers[w]);
        rest[SW_SIM_IN] += 2 * sizeof(struct sw_step); /* one of the worker, one of its group */
        rest[SW_SIM_OUT] += (uint64_t)sw_net_pair_count(net) * sizeof(struct sw_result);
        uint64_t params = (uint64_t)sw_net_param_count(net);
        uint64_t waits = 1 + (job->exchange.copy == SW_COPY_SYNC ? params : 0);
        uint64_t updates = job->exchange.copy == SW_COPY_NONE ? params : 0;
        rest[SW_SIM_OUT] += waits * SW_MARKS * sizeof(int64_t);
        rest[SW_SIM_IN] += updates * sizeof(struct sw_update_numbers);
        rest[SW_SIM_OUT] += updates * sizeof(bool);
    }
}

static uint64_t recorded(const char *run, int step, const char *kind)
{
    return (uint64_t)ask("SELECT coalesce(sum(bytes), 0) FROM link_traffic WHERE run_id = %d AND "
                         "step = %d AND kind IN ('feature', 'allreduce', '%s')",
                         run_id(run), step, kind);
}

/* Two runs of different lengths, so that what happens once in a run does not count. A feature goes
 * out of one device and into another. */
static void assert_recorded_is_what_travels(struct trial *t)
{
    enum { SHORT = 5 };
    uint64_t rest[SW_SIM_DIRECTIONS], before[SW_SIM_DIRECTIONS];
    static const char *const kinds[SW_SIM_DIRECTIONS] = {[SW_SIM_IN] = "h2d", [SW_SIM_OUT] = "d2h"};
    struct trial brief = *t;
    brief.steps = SHORT;
    run_and_ask(&brief);
    for (int d = 0; d < SW_SIM_DIRECTIONS; d++)
        before[d] = travelled[d].bytes;
    trial_close(&brief);
    run_and_ask(t);
    find_rest(t->job, rest);
    trial_close(t);
    for (int d = 0; d < SW_SIM_DIRECTIONS; d++)
        for (int step = 1; step <= STEPS; step++)
            assert_int_equal((STEPS - SHORT) * (recorded(t->name, step, kinds[d]) + rest[d]),
                             travelled[d].bytes - before[d]);
}

static void recorded_traffic_equals_copied_bytes(void **state)
{
    static const char *const mixed[] = {"layer.fc1.partition=1", "layer.conv2.partition=none"};
    static const char *const modes[] = {ASYNC, SYNC, NONE};
    for (int m = 0; m < 3; m++) {
        struct trial rows = {.name = "rows", .device = sims[2], .sets = {modes[m]}};
        struct trial split = {
            .name = "split", .device = sims[2], .sets = {modes[m], mixed[0], mixed[1]}};
        assert_recorded_is_what_travels(&rows);
        assert_recorded_is_what_travels(&split);
        assert_true(ask("SELECT min(ms) >= 0 AND sum(ms) > 0 FROM link_traffic WHERE run_id = %d "
                        "AND kind = 'feature'",
                        run_id("split")) == 1);
    }
}

/* What was hidden behind computing is waited for. */
static void time_breakdown_shows_waits_for_copies(void **state)
{
    modes(.name = "sync", .device = "sim:gpus=1,mem=64MiB,latency=1ms", .sets = {SYNC});
    double parameters = 8, both_ways_ms = 2;
    assert_true(ask("SELECT min(comm_exposed_ms) FROM step_time WHERE run_id = %d",
                    run_id("sync")) >= parameters * both_ways_ms);
}

/* ---- What cannot be ---- */

static void refused(const char *device, const char *set, const char *more, const char *says)
{
    struct trial t = {.recipe = workers_recipe,
                      .device = device,
                      .oversubscribe = true,
                      .sets = {NONE, set, more}};
    assert_int_equal(trial_open(&t), SW_ERR_INVALID);
    if (!strstr(sw_bytes_text(&t.messages), says))
        fail_msg("%s / %s", t.err.text, sw_bytes_text(&t.messages));
    trial_close(&t);
}

static void settings_that_need_the_host_refuse_copy_none(void **state)
{
    refused(sims[2], "cluster.framework=downpour", "cluster.worker_groups=2",
            "all groups update the same values on the host, so devices cannot keep private copies: "
            "use async");
    refused(sims[1], "job.on_nan=rollback", NULL, "use async, or on_nan = skip");
    refused(sims[1], "cluster.copy=some", NULL, "copy");
}

static void a_gradient_that_is_not_finite_is_named(void **state)
{
    struct trial t = {.recipe = workers_recipe,
                      .device = sims[1],
                      .steps = STEPS,
                      .sets = {NONE, "updater.lr=1e30"}};
    assert_int_equal(trial_go(&t), SW_ERR_DIVERGED);
    if (!strstr(t.err.text, "step 2: the gradient or new value of ") ||
        !strstr(t.err.text, "is not finite"))
        fail_msg("%s", t.err.text);
}

/* ---- When ---- */

static const struct sw_trace_event *find(const struct sw_trace *t, enum sw_trace_what what,
                                         int64_t step, int role, int index)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->events[i].what == what && t->events[i].step == step && t->events[i].index == index &&
            (role < 0 || t->events[i].role == role))
            return &t->events[i];
    fail_msg("no event %d of step %d", (int)what, (int)step);
    return NULL;
}

enum { ANY_SERVER = -1 };

/* How often the update of the top layer is applied before a worker's backward of the bottom layer
 * begins, out of `of` times. */
static int count_early(struct trial *t, int *of)
{
    t->recipe = workers_recipe;
    t->steps = STEPS;
    t->trace_capacity = CAPACITY;
    t->oversubscribe = true;
    if (trial_open(t) != SW_OK || trial_run(t) != SW_OK)
        fail_msg("%s / %s", t->err.text, sw_bytes_text(&t->messages));
    const struct sw_worker *w = &t->job->workers[0];
    const struct sw_trace *trace = sw_job_trace(t->job);
    int top, bottom = sw_net_find(w->train, "conv1"), early = 0;
    int workers = t->job->place.placement->worker_count;
    assert_true(trace->count < trace->capacity);
    sw_net_layer_params(w->train, sw_net_find(w->train, "fc2"), &top);
    for (int64_t step = 1; step <= STEPS; step++)
        for (int i = 0; i < workers; i++)
            early +=
                find(trace, SW_TRACE_UPDATE, step, ANY_SERVER, w->param_of[SW_SPLIT_TRAIN][top])
                    ->end_ns <= find(trace, SW_TRACE_BACKWARD, step, i, bottom)->begin_ns;
    trial_close(t);
    *of = STEPS * workers;
    return early;
}

#define assert_early(...) assert_counts(&(struct trial){__VA_ARGS__}, true)
#define assert_late(...) assert_counts(&(struct trial){__VA_ARGS__}, false)

/* In every step of every worker, or in none. */
static void assert_counts(struct trial *t, bool all)
{
    int of, early = count_early(t, &of);
    assert_int_equal(early, all ? of : 0);
}

static void recorded_overlap_equals_the_trace(void **state)
{
    assert_early(.name = "with");
    assert_late(.name = "without", .sets = {NO_OVERLAP});
    assert_early(.name = "sync", .device = sims[1], .sets = {SYNC});
    assert_late(.name = "late", .device = sims[1], .sets = {SYNC, NO_OVERLAP});
}

enum { TRIES = 50 };

/* An update of several workers waits for the slowest. One that waits for it, too, is never below;
 * else it is up to the moment, but before its gradients are handed over it cannot be. On a busy
 * machine none may be early in a whole run. */
static void recorded_overlap_of_several_workers_equals_the_trace(void **state)
{
    for (int workers = 2; workers <= 3; workers++) {
        const char *sim = workers == 2 ? sims[2] : "sim:gpus=3,mem=64MiB";
        int of, early = 0;
        assert_early(.name = "sync", .sets = {SYNC, workers_set[workers]});
        assert_late(.name = "late", .sets = {SYNC, NO_OVERLAP, workers_set[workers]});
        assert_late(.name = "without", .sets = {NO_OVERLAP, SANDBLASTER, workers_set[workers]});
        assert_early(.name = "sim", .device = sim, .sets = {SYNC});
        assert_late(.name = "sim-late", .device = sim, .sets = {SYNC, NO_OVERLAP});
        for (int i = 0; i < TRIES && early == 0; i++) {
            struct trial with = {.name = "with", .sets = {SANDBLASTER, workers_set[workers]}};
            early = count_early(&with, &of);
        }
        print_message("%d workers: %d of %d are early\n", workers, early, of);
        assert_true(early > 0);
    }
}

/* This program's sw_copy_queue_push takes the place of the library's, and may refuse gradients. */
static atomic_bool refuses;

int sw_copy_queue_push(struct sw_copy_queue *q, const struct sw_copy_event *e, struct sw_err *err)
{
    int (*real)(struct sw_copy_queue *, const struct sw_copy_event *, struct sw_err *);
    *(void **)&real = dlsym(RTLD_NEXT, "sw_copy_queue_push");
    if (e->direction == SW_COPY_TO_HOST && atomic_load(&refuses))
        return sw_err_set(err, SW_ERR_BUSY, "the copy queue is full");
    return real(q, e, err);
}

/* A gradient, or a piece of factors, that could not be pushed is not on its way. */
static void unpushed_gradient_is_not_in_flight(void **state)
{
    static const char *const comms[] = {"cluster.comm=ps", "cluster.comm=adam"};
    for (int i = 0; i < 2; i++) {
        struct trial t = {.recipe = workers_recipe,
                          .oversubscribe = true,
                          .name = "refused",
                          .device = sims[2],
                          .sets = {SANDBLASTER, ASYNC, comms[i]},
                          .steps = STEPS};
        assert_int_equal(trial_open(&t), SW_OK);
        atomic_store(&refuses, true);
        assert_int_equal(trial_run(&t), SW_ERR_BUSY);
        atomic_store(&refuses, false);
        for (int w = 0; w < 2; w++)
            assert_int_equal(sw_exchange_copies_in_flight(t.job->workers[w].exchange), 0);
        trial_close(&t);
    }
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, home_begin, home_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH(every_mode_has_the_same_bits),
        FRESH(several_workers_wait_for_each_update),
        FRESH(several_devices_that_update_have_the_same_bits),
        FRESH(groups_wait_for_their_own_updates),
        FRESH(updates_in_two_phases_are_not_waited_for_too_early),
        FRESH(device_updates_continue_from_a_checkpoint),
        FRESH(update_count_is_saved_for_resume),
        FRESH(nothing_travels_where_the_device_updates),
        FRESH(recorded_traffic_equals_copied_bytes),
        FRESH(time_breakdown_shows_waits_for_copies),
        FRESH(settings_that_need_the_host_refuse_copy_none),
        FRESH(a_gradient_that_is_not_finite_is_named),
        FRESH(unpushed_gradient_is_not_in_flight),
        FRESH(recorded_overlap_equals_the_trace),
        FRESH(recorded_overlap_of_several_workers_equals_the_trace),
    };
    return cmocka_run_group_tests_name("copy modes", tests, NULL, NULL);
}
