/* ctest-labels: threads
 * ctest-timeout: 120
 * Devices that all-reduce gradients: copies have the bits of servers on the host for every bucket
 * size and every link; the library computes what one worker computes, with the same bits every
 * time; memory is that of the plan; resume; failing devices; detection of missing waits. */
#include "workers_support.h"

#include "device/sim/stream.h"
#include "plan/choices.h"
#include "plan/peer_links.h"
#include "run/memory.h"
#include "worker/input.h"
#include <dlfcn.h>
#include <sys/stat.h>

enum { STEPS = 8 };

#define NONE "cluster.copy=none"
#define PS "cluster.comm=ps" /* all gradients are sums */
#define LIBRARY "cluster.all_reduce=library"

static struct trial devices(int workers, const char *name, const char *more)
{
    static const char *const sims[] = {"", "sim:gpus=1,mem=64MiB", "sim:gpus=2,mem=64MiB",
                                       "sim:gpus=3,mem=64MiB", "sim:gpus=4,mem=64MiB"};
    return (struct trial){.recipe = workers_recipe,
                          .oversubscribe = true,
                          .name = name,
                          .device = sims[workers],
                          .sets = {NONE, PS, more},
                          .steps = STEPS};
}

static void assert_same_as_host(const char *name)
{
    assert_same_tensors(checkpoint_path("host", STEPS), checkpoint_path(name, STEPS));
}

static void assert_memory_as_planned(const struct trial *t, int workers)
{
    for (int w = 0; w < workers; w++) {
        const struct sw_worker *worker = &t->job->workers[w];
        assert_int_equal(sw_device_bytes_of(worker->device).peak,
                         worker->arena.bytes + sw_worker_param_bytes(worker) +
                             sw_buffers_device_bytes(worker) + sw_input_bytes(worker));
    }
}

static void sums_of_devices_have_the_bits_of_servers(void **state)
{
    static const char *const sizes[] = {"cluster.bucket_size=1", "cluster.bucket_size=4KiB",
                                        "cluster.bucket_size=1GiB", "cluster.overlap=no"};
    for (int workers = 2; workers <= 3; workers++) {
        home_begin(NULL);
        struct trial host = devices(workers, "host", "cluster.copy=async");
        trial_ok(&host);
        for (int i = 0; i < 4; i++) {
            struct trial t = devices(workers, "devices", sizes[i]);
            assert_int_equal(trial_open(&t), SW_OK);
            assert_true(sw_reduces(&t.job->exchange));
            assert_int_equal(t.job->exchange.sums.count == 1, i >= 2);
            if (trial_run(&t) != SW_OK)
                fail_msg("%s", t.err.text);
            assert_memory_as_planned(&t, workers);
            trial_close(&t);
            assert_same_as_host("devices");
        }
        struct trial slow = devices(workers, "slow", NULL);
        slow.device = workers == 2 ? "sim:gpus=2,mem=64MiB,pcie=20MB/s,peer=no"
                                   : "sim:gpus=3,mem=64MiB,pcie=50MB/s,latency=200us";
        trial_ok(&slow);
        assert_same_as_host("slow");
        home_end(NULL);
    }
}

/* Against one worker, whose sums have one term; and again, for the bits. */
static void library_all_reduce_equals_one_worker(void **state)
{
    static const char *const peer_links[] = {"cluster.bucket_size=1", "cluster.bucket_size=4KiB",
                                             "cluster.bucket_size=1GiB", "cluster.overlap=no"};
    struct trial one = {.recipe = workers_recipe, .name = "one", .steps = STEPS};
    char where[256] = "";
    home_begin(NULL);
    trial_ok(&one);
    for (int workers = 1; workers <= 4; workers++)
        for (int i = 0; i < 4; i++) {
            struct trial t = devices(workers, "devices", LIBRARY);
            t.sets[3] = peer_links[i];
            assert_int_equal(trial_open(&t), SW_OK);
            assert_int_equal(t.job->exchange.sums.reducer, SW_REDUCER_LIBRARY);
            assert_non_null(strstr(sw_job_plan(t.job)->sums, "in its own summation order"));
            if (trial_run(&t) != SW_OK)
                fail_msg("%s", t.err.text);
            assert_memory_as_planned(&t, workers);
            trial_close(&t);
            double d = difference_of_files(checkpoint_path("one", STEPS),
                                           checkpoint_path("devices", STEPS), true, where);
            if (!(d <= 1e-4))
                fail_msg("%d workers, %s: %s differs by %.2g", workers, peer_links[i], where, d);
        }
    struct trial again = devices(4, "again", LIBRARY);
    again.sets[3] = peer_links[3];
    trial_ok(&again);
    assert_same_tensors(checkpoint_path("devices", STEPS), checkpoint_path("again", STEPS));
    home_end(NULL);
}

/* Who asks for a library where none can be used is told why; who does not gets the other way. */
static void unusable_library_is_refused_with_a_reason(void **state)
{
    struct trial cpu = {.recipe = workers_recipe,
                        .oversubscribe = true,
                        .name = "cpu",
                        .sets = {NONE, LIBRARY, workers_set[2]}};
    assert_int_equal(trial_open(&cpu), SW_OK); /* one memory: there is nothing to add up */
    assert_false(sw_reduces(&cpu.job->exchange));
    trial_close(&cpu);
    struct trial exact = devices(2, "exact", LIBRARY);
    exact.sets[3] = "job.repeat_exact=yes";
    assert_int_equal(trial_open(&exact), SW_OK);
    assert_false(sw_reduces(&exact.job->exchange));
    assert_non_null(strstr(sw_job_plan(exact.job)->sums, "repeat_exact"));
    trial_close(&exact);
}

/* Changes the saved results so that what did not end in the patience of this test did not end in
 * that of a run, which would test it again and wait. */
static void save_as_patient(void)
{
    char *path = in_home("singa-ws/ways"), *text, within[64];
    size_t bytes;
    struct sw_err err;
    struct sw_bytes patient = {0};
    snprintf(within, sizeof within, "within %g s", PATIENCE_MS * 1e-3);
    assert_int_equal(sw_os_read_file(path, 1 << 20, &text, &bytes, &err), SW_OK);
    char *rest = text;
    for (char *at; (at = strstr(rest, within)); rest = at + strlen(within))
        sw_bytes_printf(&patient, "%.*swithin 3600 s", (int)(at - rest), rest);
    sw_bytes_add(&patient, rest);
    write_file(path, sw_bytes_text(&patient), patient.length);
    sw_bytes_fini(&patient);
    sw_free(text);
}

/* Links that do not work are avoided: the same bits through the host, and no library. */
static void faulty_peer_links_are_avoided(void **state)
{
    static const char *const peers[] = {"corrupt", "hang", "no"};
    struct trial host = devices(2, "host", "cluster.copy=async");
    trial_ok(&host);
    for (int i = 0; i < 3; i++) {
        struct trial t = devices(2, peers[i], NULL);
        struct sw_err err = {0};
        struct sw_peer_links *w;
        char device[64];
        snprintf(device, sizeof device, "sim:gpus=2,mem=64MiB,peer=%s", peers[i]);
        t.device = device;
        const struct sw_peer_links_args args = {.driver = sw_driver_find(device),
                                                .options = device + strlen("sim:"),
                                                .count = 2,
                                                .timeout_ms = PATIENCE_MS};
        assert_int_equal(sw_peer_links_find(&args, &w, &err), SW_OK);
        sw_peer_links_free(w);
        save_as_patient();
        assert_int_equal(trial_open(&t), SW_OK);
        assert_int_equal(t.job->exchange.sums.reducer, SW_REDUCER_COPIES);
        assert_non_null(strstr(sw_job_plan(t.job)->sums, "through the host"));
        assert_int_equal(sw_peer_links_reach(t.job->exchange.peer_links, 0, 1), false);
        if (trial_run(&t) != SW_OK)
            fail_msg("%s", t.err.text);
        trial_close(&t);
        assert_same_as_host(peers[i]);
        struct trial library = devices(2, "library", LIBRARY);
        library.device = device;
        bool harm = i < 2;
        assert_int_equal(trial_open(&library), harm ? SW_ERR_UNSUPPORTED : SW_OK);
        if (harm && !strstr(library.err.text, "direct copies are not sound"))
            fail_msg("%s", library.err.text);
        trial_close(&library);
    }
}

/* Where not even copies by way of the host arrive as they were sent, the servers add up. */
static void without_sound_links_servers_reduce(void **state)
{
    static const char script[] =
        "#!/bin/sh\necho ready\nshift\nfor t; do echo damaged planted; done\n";
    char *path = in_home("trial");
    struct trial host = devices(2, "host", "cluster.copy=async");
    struct trial t = devices(2, "servers", NULL);
    trial_ok(&host);
    write_file(path, script, strlen(script));
    assert_int_equal(chmod(path, 0700), 0);
    setenv("SINGA_PROBE", path, 1);
    int rc = trial_open(&t);
    unsetenv("SINGA_PROBE");
    assert_int_equal(rc, SW_OK);
    assert_false(sw_reduces(&t.job->exchange));
    assert_non_null(
        strstr(sw_job_plan(t.job)->sums, "copies between devices are not sound: planted"));
    if (trial_run(&t) != SW_OK)
        fail_msg("%s", t.err.text);
    trial_close(&t);
    assert_same_as_host("servers");
}

static void jobs_without_direct_all_reduce_use_servers(void **state)
{
    static const char *const peer_links[] = {"cluster.framework=sandblaster",
                                             "job.repeat_exact=yes"};
    for (int i = 0; i < 2; i++) {
        struct trial t = devices(2, "other", peer_links[i]);
        assert_int_equal(trial_open(&t), SW_OK);
        assert_false(sw_reduces(&t.job->exchange));
        trial_close(&t);
    }
    struct trial alone = devices(1, "alone", NULL);
    assert_int_equal(trial_open(&alone), SW_OK);
    assert_false(sw_reduces(&alone.job->exchange));
    trial_close(&alone);
}

static void run_continues_from_a_checkpoint(void **state)
{
    struct trial whole = devices(2, "host", "job.checkpoint_every=3");
    trial_ok(&whole);
    struct trial half = devices(2, "half", "job.checkpoint_every=3");
    half.steps = 3;
    trial_ok(&half);
    struct trial rest = {.resume = "half",
                         .resume_step = 3,
                         .steps = STEPS,
                         .oversubscribe = true,
                         .device = half.device,
                         .out_dir = in_home("half")};
    trial_ok(&rest);
    assert_same_as_host("half");
}

static void a_device_that_is_lost_ends_the_run_for_all(void **state)
{
    static const char *const peer_links[] = {NULL, LIBRARY};
    for (int i = 0; i < 2; i++) {
        struct trial t = devices(3, "lost", peer_links[i]);
        t.device = "sim:gpus=3,mem=64MiB,fault=lost@400";
        assert_int_equal(trial_go(&t), SW_ERR_LIBRARY);
        assert_non_null(strstr(t.err.text, "sim:2"));
        assert_non_null(strstr(t.err.text, "the device is lost"));
        assert_false(t.stuck);
    }
}

/* The others stand in a sum that it never comes to; the watch ends that. */
static void a_device_that_hangs_ends_sums_of_all(void **state)
{
    struct trial t = devices(3, "hung", LIBRARY);
    t.sets[3] = "cluster.stall_s=0.5";
    t.sets[4] = "cluster.on_stall=stop";
    t.device = "sim:gpus=3,mem=64MiB,fault=hang@400";
    assert_int_equal(trial_go(&t), SW_ERR_LIBRARY);
    if (!strstr(t.err.text, "no progress for") || !strstr(t.err.text, "on sim:"))
        fail_msg("%s", t.err.text);
    assert_false(t.stuck);
}

static struct sw_mutex held;
static struct sw_collective_ops sound, stubborn;

static int begin_and_hang(struct sw_collective *c, struct sw_err *err)
{
    sw_mutex_lock(&held);
    sw_mutex_unlock(&held);
    return sw_err_set(err, SW_ERR_CANCELLED, "the library has returned");
}

static int open_stubborn(const struct sw_collective_args *args, struct sw_collective **out,
                         struct sw_err *err)
{
    int rc = sound.open(args, out, err);
    if (rc == SW_OK)
        (*out)->ops = &stubborn;
    return rc;
}

/* A thread that hangs in the library keeps its memory: the program is to leave. */
static void library_that_hangs_in_its_first_sum_ends_the_run(void **state)
{
    struct trial t = devices(2, "stubborn", LIBRARY);
    assert_int_equal(trial_open(&t), SW_OK);
    struct sw_sums *d = &t.job->exchange.sums;
    sound = stubborn = *d->library;
    stubborn.open = open_stubborn;
    stubborn.group_begin = begin_and_hang;
    d->library = &stubborn;
    d->first_ms = 100;
    sw_mutex_init(&held);
    sw_mutex_lock(&held);
    assert_int_equal(trial_run(&t), SW_ERR_LIBRARY);
    assert_true(t.stuck);
    assert_non_null(strstr(t.err.text, "the first all-reduce over 2 devices did not finish"));

    sw_mutex_unlock(&held);
    struct sw_allreduce_first *first = d->members->hanging;
    sw_thread_join(&first->thread);
    sw_allreduce_free(first->a);
    sw_free(first);
    d->members->hanging = NULL;
    sw_snapshot_free(t.job->events.snapshot);
    t.job->events.snapshot = NULL;
    trial_close(&t);
    sw_mutex_fini(&held);
}

/* ---- A wait that is left out ---- */

static bool planted;
static int (*real_wait)(struct sw_stream *s, struct sw_event *e, struct sw_err *err);

static int planted_wait(struct sw_stream *s, struct sw_event *e, struct sw_err *err)
{
    return planted && strcmp(sw_sim_stream_of(s)->lane->name, "all-reduce") == 0
               ? SW_OK
               : real_wait(s, e, err);
}

/* This program's sw_sim_open takes the place of the library's, calls it, and changes the device. */
int sw_sim_open(const struct sw_sim_conf *conf, int index, struct sw_device **out,
                struct sw_err *err)
{
    static struct sw_device_ops ops;
    int (*real)(const struct sw_sim_conf *, int, struct sw_device **, struct sw_err *);
    *(void **)&real = dlsym(RTLD_NEXT, "sw_sim_open");
    int rc = real(conf, index, out, err);
    if (rc != SW_OK)
        return rc;
    ops = *(*out)->ops;
    if (ops.event_wait != planted_wait)
        real_wait = ops.event_wait;
    ops.event_wait = planted_wait;
    (*out)->ops = &ops;
    return SW_OK;
}

static void sums_that_do_not_wait_for_gradients_are_found(void **state)
{
    static const char *const peer_links[] = {NULL, LIBRARY};
    for (int i = 0; i < 2; i++) {
        struct trial t = devices(2, "planted", peer_links[i]);
        planted = true;
        int rc = trial_go(&t);
        planted = false;
        assert_int_equal(rc, SW_ERR_INVALID);
        if (!strstr(t.err.text, "of stream all-reduce") ||
            !strstr(t.err.text, " gradients while") || !strstr(t.err.text, "no event between"))
            fail_msg("%s", t.err.text);
    }
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, home_begin, home_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_of_devices_have_the_bits_of_servers),
        cmocka_unit_test(library_all_reduce_equals_one_worker),
        FRESH(unusable_library_is_refused_with_a_reason),
        FRESH(faulty_peer_links_are_avoided),
        FRESH(without_sound_links_servers_reduce),
        FRESH(jobs_without_direct_all_reduce_use_servers),
        FRESH(run_continues_from_a_checkpoint),
        FRESH(a_device_that_is_lost_ends_the_run_for_all),
        FRESH(a_device_that_hangs_ends_sums_of_all),
        FRESH(library_that_hangs_in_its_first_sum_ends_the_run),
        FRESH(sums_that_do_not_wait_for_gradients_are_found),
    };
    return cmocka_run_group_tests_name("reduce", tests, NULL, NULL);
}
