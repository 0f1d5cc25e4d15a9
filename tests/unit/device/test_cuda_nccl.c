/* ctest-labels: gpu
 * All-reduces by NCCL: with one member, and with two if there are two GPUs, of one process or as
 * two hosts; operations that hang, fail or are aborted. With NCCL and kernels on the host
 * (tests/cuda_on_host) faults are injected.
 */
#include "cuda_support.h"

#include "device/collective.h"
#include "device/cuda/nccl_module.h"
#include "thread/thread.h"
#include <dirent.h>
#include <stdlib.h>
#include <time.h>

enum { MOST = 2, FLOATS = 1000 };

struct gpus {
    int count;
    int threads; /* of this process, before the collective */
    struct sw_device *dev[MOST];
    struct sw_stream *stream[MOST];
    float *x[MOST];
    const struct sw_collective_ops *ops;
    struct sw_collective *members;
};

/* NCCL and CUDA keep threads of their own, but not their replacements on the host. */
static int thread_count(void)
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (const struct dirent *e = readdir(tasks); e; e = readdir(tasks))
        count += e->d_name[0] != '.';
    closedir(tasks);
    return count;
}

/* A thread that was joined is listed until the kernel has removed it. */
static void assert_threads(int wanted)
{
    for (int i = 0; i < 5000 && thread_count() != wanted; i++)
        sw_thread_nap(1000000);
    assert_int_equal(thread_count(), wanted);
}

static struct gpus gpus_open(int count)
{
    struct gpus g = {.count = 0};
    struct sw_err err;
    for (int i = 0; i < count; i++) {
        g.dev[i] = open_gpu(i);
        if (!g.dev[i])
            break; /* the reason is printed */
        g.count++;
        void *x;
        ASSERT_OK(sw_stream_new(g.dev[i], 1, &g.stream[i], &err));
        ASSERT_OK(sw_device_alloc(g.dev[i], FLOATS * sizeof(float), "numbers", &x, &err));
        g.x[i] = x;
    }
    ASSERT_OK(sw_device_collectives(g.dev[0], &g.ops, &err));
    g.threads = thread_count();
    return g;
}

static void gpus_close(struct gpus *g)
{
    sw_collective_close(g->members);
    if (getenv("SINGA_NCCL_MODULE"))
        assert_threads(g->threads);
    for (int i = 0; i < g->count; i++) {
        sw_stream_free(g->stream[i]);
        sw_device_free(g->dev[i], g->x[i], FLOATS * sizeof(float));
        sw_device_close(g->dev[i]);
    }
}

static int open_members(struct gpus *g, int timeout_ms, struct sw_err *err)
{
    const struct sw_collective_args args = {
        .devices = g->dev, .ranks = g->count, .timeout_ms = timeout_ms};
    return sw_collective_open(g->ops, &args, &g->members, err);
}

static int sum(struct gpus *g, struct sw_err *err)
{
    struct sw_err ending;
    int rc = sw_collective_begin(g->members, err);
    if (rc != SW_OK)
        return rc;
    for (int i = 0; i < g->count && rc == SW_OK; i++)
        rc = sw_collective_sum(g->members, i, g->stream[i], g->x[i], FLOATS, err);
    int ended = sw_collective_end(g->members, &ending);
    if (rc == SW_OK && ended != SW_OK)
        *err = ending;
    return rc == SW_OK ? ended : rc;
}

static void members_have_the_sum(int count)
{
    struct sw_err err;
    float host[FLOATS];
    char name[64];
    struct gpus g = gpus_open(count);
    assert_int_equal(strncmp(g.ops->name(name, sizeof name), "NCCL 2.", 7), 0);
    ASSERT_OK(open_members(&g, 30000, &err));
    for (int i = 0; i < g.count; i++) {
        for (int k = 0; k < FLOATS; k++)
            host[k] = (float)(k + i);
        ASSERT_OK(sw_copy(g.stream[i], g.x[i], host, sizeof host, &err));
        ASSERT_OK(sw_stream_wait(g.stream[i], &err));
    }
    ASSERT_OK(sum(&g, &err));
    for (int i = 0; i < g.count; i++) {
        ASSERT_OK(sw_copy(g.stream[i], host, g.x[i], sizeof host, &err));
        ASSERT_OK(sw_stream_wait(g.stream[i], &err));
        for (int k = 0; k < FLOATS; k++)
            assert_true(host[k] == (float)(g.count == 2 ? 2 * k + 1 : k));
    }
    ASSERT_OK(sw_collective_check(g.members, &err));
    gpus_close(&g);
}

static void one_gpu_can_be_a_collective(void **state)
{
    members_have_the_sum(1);
}

static void two_gpus_all_reduce(void **state)
{
    members_have_the_sum(2);
}

static void one_gpu_cannot_join_twice(void **state)
{
    struct gpus g = gpus_open(1);
    struct sw_device *twice[2] = {g.dev[0], g.dev[0]};
    const struct sw_collective_args args = {.devices = twice, .ranks = 2, .timeout_ms = 1000};
    struct sw_err err;
    assert_int_equal(sw_collective_open(g.ops, &args, &g.members, &err), SW_ERR_INVALID);
    assert_non_null(strstr(err.text, "cuda:0 cannot join a collective twice"));
    gpus_close(&g);
}

static void nothing_starts_after_an_abort(void **state)
{
    struct gpus g = gpus_open(1);
    struct sw_err err;
    ASSERT_OK(open_members(&g, 30000, &err));
    ASSERT_OK(sum(&g, &err));
    sw_collective_abort(g.members);
    sw_collective_abort(g.members); /* an abort is permanent */
    assert_int_equal(sum(&g, &err), SW_ERR_CANCELLED);
    gpus_close(&g);
}

/* ---- Injected faults ---- */

static bool is_planted(void)
{
    if (getenv("SINGA_NCCL_MODULE"))
        return true;
    print_message("skipped: nothing is planted in the real NCCL\n");
    return false;
}

static void connecting_members_times_out_or_fails(void **state)
{
    struct sw_err err;
    if (!is_planted())
        return;
    struct gpus g = gpus_open(2);
    setenv("NCCL_ON_HOST", "hang", 1);
    assert_int_equal(open_members(&g, 500, &err), SW_ERR_LIBRARY);
    assert_non_null(strstr(err.text, "cuda:1: initializing communicators: NCCL did not finish"));
    setenv("NCCL_ON_HOST", "broken", 1);
    assert_int_equal(open_members(&g, 500, &err), SW_ERR_LIBRARY);
    assert_non_null(
        strstr(err.text, "cuda:1: initializing communicators: NCCL: remote process error"));
    unsetenv("NCCL_ON_HOST");
    gpus_close(&g);
}

static void members_that_join_late_have_the_sum(void **state)
{
    if (!is_planted())
        return;
    setenv("NCCL_ON_HOST", "late", 1);
    members_have_the_sum(2);
    unsetenv("NCCL_ON_HOST");
}

static void failed_all_reduce_is_reported_by_check(void **state)
{
    struct sw_err err;
    if (!is_planted())
        return;
    struct gpus g = gpus_open(2);
    ASSERT_OK(open_members(&g, 1000, &err));
    setenv("NCCL_ON_HOST", "broken", 1);
    assert_int_equal(sum(&g, &err), SW_ERR_LIBRARY);
    assert_int_equal(sw_collective_check(g.members, &err), SW_ERR_LIBRARY);
    assert_non_null(strstr(err.text, "cuda:1: all_reduce: NCCL: remote process error: planted"));
    unsetenv("NCCL_ON_HOST");
    gpus_close(&g);
}

static void abort_soon(void *members)
{
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    sw_collective_abort(members);
}

struct summer {
    struct gpus *gpus;
    int rc; /* of the sum */
    struct sw_err err;
};

static void sum_alone(void *summer)
{
    struct summer *s = summer;
    s->rc = sum(s->gpus, &s->err);
}

/* A check leaves a group in progress to the thread that is inside it, as NCCL demands. */
static void checks_do_not_disturb_a_group(void **state)
{
    struct sw_err err;
    struct sw_thread thread;
    if (!is_planted())
        return;
    struct gpus g = gpus_open(2);
    struct summer s = {.gpus = &g};
    ASSERT_OK(open_members(&g, 1000, &err));
    setenv("NCCL_ON_HOST", "hang", 1);
    ASSERT_OK(sw_thread_start(&thread, "sum", sum_alone, &s, &err));
    for (int i = 0; i < 100; i++) {
        ASSERT_OK(sw_collective_check(g.members, &err));
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    }
    sw_collective_abort(g.members);
    sw_thread_join(&thread);
    assert_int_equal(s.rc, SW_ERR_CANCELLED);
    unsetenv("NCCL_ON_HOST");
    gpus_close(&g);
}

/* The abort by another thread ends a group_end that hangs. */
static void an_abort_ends_a_group(void **state)
{
    struct sw_err err;
    struct sw_thread thread;
    if (!is_planted())
        return;
    struct gpus g = gpus_open(2);
    ASSERT_OK(open_members(&g, 1000, &err));
    setenv("NCCL_ON_HOST", "hang", 1);
    ASSERT_OK(sw_thread_start(&thread, "abort", abort_soon, g.members, &err));
    assert_int_equal(sum(&g, &err), SW_ERR_CANCELLED);
    sw_thread_join(&thread);
    unsetenv("NCCL_ON_HOST");
    gpus_close(&g);
}

/* Nobody waits for it without end, and nothing that it uses is freed. */
static void an_abort_that_hangs_is_reported(void **state)
{
    struct sw_err err;
    if (!is_planted())
        return;
    struct gpus g = gpus_open(2);
    ASSERT_OK(open_members(&g, 1000, &err));
    assert_true(sw_collective_abort_ends(g.members, 0)); /* there was none */
    setenv("NCCL_ON_HOST", "stuck", 1);
    sw_collective_abort(g.members);
    assert_false(sw_collective_abort_ends(g.members, 20));
    assert_non_null(g.members->hanging);
    sw_collective_close(g.members);
    unsetenv("NCCL_ON_HOST");
    assert_true(sw_collective_abort_ends(g.members, 5000));
    assert_null(g.members->hanging);
    gpus_close(&g);
}

/* ---- Several hosts ---- */

/* A host with one GPU; here hosts are threads, which NCCL does not distinguish from processes. */
struct host {
    struct gpus gpus;
    int members, first;
    struct sw_collective_id id;
    int cancel; /* atomic */
    int rc;
    struct sw_err err;
    struct sw_thread thread;
    float sum[FLOATS];
};

static struct gpus gpu_open(int index)
{
    struct gpus g = {.count = 1, .dev = {open_gpu(index)}};
    struct sw_err err;
    void *x;

    if (!g.dev[0]) {
        g.count = 0;
        return g; /* the reason is printed */
    }
    ASSERT_OK(sw_stream_new(g.dev[0], 1, &g.stream[0], &err));
    ASSERT_OK(sw_device_alloc(g.dev[0], FLOATS * sizeof(float), "numbers", &x, &err));
    g.x[0] = x;
    ASSERT_OK(sw_device_collectives(g.dev[0], &g.ops, &err));
    return g;
}

static void gpu_close(struct gpus *g)
{
    sw_collective_close(g->members);
    sw_stream_free(g->stream[0]);
    sw_device_free(g->dev[0], g->x[0], FLOATS * sizeof(float));
    sw_device_close(g->dev[0]);
}

static bool is_cancelled(void *host)
{
    return __atomic_load_n(&((struct host *)host)->cancel, __ATOMIC_RELAXED);
}

static int join(struct host *h, int timeout_ms)
{
    const struct sw_collective_args args = {.devices = h->gpus.dev,
                                            .ranks = 1,
                                            .members = h->members,
                                            .first = h->first,
                                            .id = &h->id,
                                            .timeout_ms = timeout_ms,
                                            .cancelled = is_cancelled,
                                            .user = h};
    return sw_collective_open(h->gpus.ops, &args, &h->gpus.members, &h->err);
}

static void join_and_sum(void *host)
{
    struct host *h = host;
    float x[FLOATS];

    for (int k = 0; k < FLOATS; k++)
        x[k] = (float)(k + h->first);

    h->rc = join(h, 60000);
    if (h->rc == SW_OK)
        h->rc = sw_copy(h->gpus.stream[0], h->gpus.x[0], x, sizeof x, &h->err);
    if (h->rc == SW_OK)
        h->rc = sw_stream_wait(h->gpus.stream[0], &h->err);
    if (h->rc == SW_OK)
        h->rc = sum(&h->gpus, &h->err);
    if (h->rc == SW_OK)
        h->rc = sw_copy(h->gpus.stream[0], h->sum, h->gpus.x[0], sizeof x, &h->err);
    if (h->rc == SW_OK)
        h->rc = sw_stream_wait(h->gpus.stream[0], &h->err);
}

static void join_alone(void *host)
{
    struct host *h = host;
    h->rc = join(h, 60000);
}

/* Two hosts that know the same id; false: there are no two GPUs. */
static bool hosts_open(struct host *h)
{
    struct sw_err err;

    for (int i = 0; i < 2; i++) {
        h[i] = (struct host){.gpus = gpu_open(i), .members = 2, .first = i};
        if (h[i].gpus.count == 0) {
            print_message("skipped: NCCL between hosts needs two GPUs, and refuses one twice\n");
            if (i > 0)
                gpu_close(&h[0].gpus);
            return false;
        }
    }
    ASSERT_OK(sw_collective_make_id(h[0].gpus.ops, &h[0].id, &err));
    h[1].id = h[0].id;
    ASSERT_OK(sw_collective_accepts(h[1].gpus.ops, &h[1].id, &err));
    assert_false(h[0].gpus.ops->secure);
    return true;
}

static void two_hosts_all_reduce(void **state)
{
    static struct host h[2];
    struct sw_err err;

    if (!hosts_open(h))
        return;
    for (int i = 0; i < 2; i++)
        ASSERT_OK(sw_thread_start(&h[i].thread, "host", join_and_sum, &h[i], &err));
    for (int i = 0; i < 2; i++) {
        sw_thread_join(&h[i].thread);
        if (h[i].rc != SW_OK)
            fail_msg("%s", h[i].err.text);
        for (int k = 0; k < FLOATS; k++)
            assert_true(h[i].sum[k] == (float)(2 * k + 1));
    }
    for (int i = 0; i < 2; i++)
        gpu_close(&h[i].gpus);
}

/* The other host never comes. */
static void joining_ends_when_it_is_cancelled_or_takes_too_long(void **state)
{
    static struct host h[2];
    struct sw_err err;

    if (!hosts_open(h))
        return;
    assert_int_equal(join(&h[0], 100), SW_ERR_LIBRARY);
    assert_non_null(strstr(h[0].err.text, "initializing communicators: NCCL did not finish"));
    ASSERT_OK(sw_collective_make_id(h[1].gpus.ops, &h[1].id, &err));
    ASSERT_OK(sw_thread_start(&h[1].thread, "host", join_alone, &h[1], &err));
    __atomic_store_n(&h[1].cancel, 1, __ATOMIC_RELAXED);
    sw_thread_join(&h[1].thread);
    assert_int_equal(h[1].rc, SW_ERR_CANCELLED);
    for (int i = 0; i < 2; i++)
        gpu_close(&h[i].gpus);
}

/* One host sums, the other one does not: its abort ends only what it has queued itself. */
static void an_abort_ends_the_sums_of_its_host(void **state)
{
    static struct host h[2];
    struct sw_err err;
    struct summer s = {.gpus = &h[0].gpus};

    if (!is_planted() || !hosts_open(h))
        return;
    for (int i = 0; i < 2; i++)
        ASSERT_OK(sw_thread_start(&h[i].thread, "host", join_alone, &h[i], &err));
    for (int i = 0; i < 2; i++) {
        sw_thread_join(&h[i].thread);
        assert_int_equal(h[i].rc, SW_OK);
    }
    ASSERT_OK(sw_thread_start(&h[0].thread, "sum", sum_alone, &s, &err));
    sw_collective_abort(h[1].gpus.members);
    assert_true(sw_collective_abort_ends(h[1].gpus.members, 5000));
    assert_false(sw_thread_join_timed(&h[0].thread, 20));
    sw_collective_abort(h[0].gpus.members);
    sw_thread_join(&h[0].thread);
    assert_int_equal(s.rc, SW_ERR_CANCELLED);
    for (int i = 0; i < 2; i++)
        gpu_close(&h[i].gpus);
}

static bool has_nccl(void)
{
    struct sw_device *dev = open_gpu(0);
    const struct sw_collective_ops *ops;
    struct sw_err err = {0};
    int rc = dev ? sw_device_collectives(dev, &ops, &err) : SW_ERR_NOTFOUND;
    if (dev && rc != SW_OK)
        print_message("skipped: %s\n", err.text);
    sw_device_close(dev);
    return rc == SW_OK;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_gpu_can_be_a_collective),
        cmocka_unit_test(two_gpus_all_reduce),
        cmocka_unit_test(one_gpu_cannot_join_twice),
        cmocka_unit_test(nothing_starts_after_an_abort),
        cmocka_unit_test(connecting_members_times_out_or_fails),
        cmocka_unit_test(members_that_join_late_have_the_sum),
        cmocka_unit_test(checks_do_not_disturb_a_group),
        cmocka_unit_test(failed_all_reduce_is_reported_by_check),
        cmocka_unit_test(an_abort_ends_a_group),
        cmocka_unit_test(an_abort_that_hangs_is_reported),
        cmocka_unit_test(two_hosts_all_reduce),
        cmocka_unit_test(joining_ends_when_it_is_cancelled_or_takes_too_long),
        cmocka_unit_test(an_abort_ends_the_sums_of_its_host),
    };
    if (!has_nccl())
        return SKIPPED;
    return cmocka_run_group_tests_name("cuda_nccl", tests, NULL, NULL);
}
