/* ctest-labels: threads
 * Collectives of simulated GPUs of several hosts, which are threads of the test: who finds whom,
 * the sum, waits that end, and what an abort ends. */
#include "sim_support.h"

#include "device/collective.h"
#include <math.h>
#include <stdatomic.h>

enum { HOSTS = 3, GPUS = 2, FLOATS = 1000 };

static const struct sw_collective_ops *ops;

/* A host with its GPUs. */
struct host {
    int number, ranks, first, members;
    int64_t n;
    struct sw_collective_id id;
    struct sw_device *dev[GPUS];
    struct sw_stream *stream[GPUS];
    float *x[GPUS];
    struct sw_collective *c;
    struct sw_thread thread;
    int rc;
    struct sw_err err;
    bool hurries; /* aborts before its sum */
    atomic_bool cancelled, joined;
    atomic_bool asked; /* it waits for the others, and was asked whether it is cancelled */
    float sum[GPUS][FLOATS];
};

static float value(int member, int64_t i)
{
    return (float)((i * 7 + member * 13) % 101 - 50) / 3;
}

static void host_open(struct host *h, int number, int ranks, int first, int members)
{
    float host[FLOATS];
    struct sw_err err;

    memset(h, 0, sizeof *h);
    h->number = number;
    h->ranks = ranks;
    h->first = first;
    h->members = members;
    h->n = FLOATS;
    for (int r = 0; r < ranks; r++) {
        h->dev[r] = open_sim(r);
        h->stream[r] = new_stream(h->dev[r]);
        for (int i = 0; i < FLOATS; i++)
            host[i] = value(first + r, i);
        h->x[r] = to_device(h->stream[r], host, sizeof host);
    }
    ASSERT_OK(sw_device_collectives(h->dev[0], &ops, &err));
}

static void host_close(struct host *h)
{
    for (int r = 0; r < h->ranks; r++) {
        sw_stream_free(h->stream[r]);
        sw_device_free(h->dev[r], h->x[r], FLOATS * sizeof(float));
    }
    sw_collective_close(h->c);
    for (int r = 0; r < h->ranks; r++)
        sw_device_close(h->dev[r]);
}

static bool is_cancelled(void *host)
{
    struct host *h = host;

    atomic_store(&h->asked, true);
    return atomic_load(&h->cancelled);
}

static int join(struct host *h, int timeout_ms, struct sw_err *err)
{
    const struct sw_collective_args args = {.devices = h->dev,
                                            .ranks = h->ranks,
                                            .members = h->members,
                                            .first = h->first,
                                            .id = &h->id,
                                            .timeout_ms = timeout_ms,
                                            .cancelled = is_cancelled,
                                            .user = h};
    return sw_collective_open(ops, &args, &h->c, err);
}

static int sum(struct host *h, struct sw_err *err)
{
    int rc = sw_collective_begin(h->c, err);

    for (int r = 0; r < h->ranks && rc == SW_OK; r++)
        rc = sw_collective_sum(h->c, r, h->stream[r], h->x[r], h->n, err);
    if (rc == SW_OK)
        rc = sw_collective_end(h->c, err);
    return rc;
}

static void host_main(void *host)
{
    struct host *h = host;

    h->rc = join(h, 60000, &h->err);
    atomic_store(&h->joined, true);
    if (h->rc != SW_OK)
        return;
    if (h->hurries) {
        sw_collective_abort(h->c);
        return;
    }

    h->rc = sum(h, &h->err);
    for (int r = 0; r < h->ranks && h->rc == SW_OK; r++)
        h->rc = sw_copy(h->stream[r], h->sum[r], h->x[r], sizeof h->sum[r], &h->err);
    for (int r = 0; r < h->ranks; r++) {
        struct sw_err err;
        int rc = sw_stream_wait(h->stream[r], &err);
        if (h->rc == SW_OK && rc != SW_OK) {
            h->rc = rc;
            h->err = err;
        }
    }
}

static void hosts_start(struct host *h, int count)
{
    struct sw_err err;
    for (int i = 0; i < count; i++)
        ASSERT_OK(sw_thread_start(&h[i].thread, "host", host_main, &h[i], &err));
}

/* Opens hosts with 1, 2, 1 GPUs, which know the same id. */
static void hosts_open(struct host *h)
{
    static const int ranks[HOSTS] = {1, 2, 1};
    struct sw_err err;

    for (int i = 0, first = 0; i < HOSTS; first += ranks[i], i++)
        host_open(&h[i], i, ranks[i], first, 4);
    ASSERT_OK(sw_collective_make_id(ops, &h[0].id, &err));
    for (int i = 1; i < HOSTS; i++) {
        h[i].id = h[0].id;
        ASSERT_OK(sw_collective_accepts(ops, &h[i].id, &err));
    }
}

static void members_of_hosts_have_the_sum(void **state)
{
    static struct host h[HOSTS];

    for (int round = 0; round < 5; round++) {
        hosts_open(h);
        hosts_start(h, HOSTS);
        for (int i = 0; i < HOSTS; i++)
            sw_thread_join(&h[i].thread);
        for (int i = 0; i < HOSTS; i++) {
            if (h[i].rc != SW_OK)
                fail_msg("%s", h[i].err.text);
            for (int r = 0; r < h[i].ranks; r++)
                assert_memory_equal(h[i].sum[r], h[0].sum[0], sizeof h[0].sum[0]);
        }
        for (int k = 0; k < FLOATS; k++) {
            float all = value(0, k) + value(1, k) + value(2, k) + value(3, k);
            assert_true(fabsf(h[0].sum[0][k] - all) <= 1e-4f);
        }
        for (int i = 0; i < HOSTS; i++)
            host_close(&h[i]);
    }
}

static void two_collectives_at_a_time_do_not_mix(void **state)
{
    static struct host h[4];
    struct sw_err err;

    for (int i = 0; i < 4; i++)
        host_open(&h[i], i, 1, i % 2, 2);
    ASSERT_OK(sw_collective_make_id(ops, &h[0].id, &err));
    ASSERT_OK(sw_collective_make_id(ops, &h[2].id, &err));
    assert_memory_not_equal(&h[0].id, &h[2].id, sizeof h[0].id);
    h[1].id = h[0].id;
    h[3].id = h[2].id;
    h[2].n = h[3].n = FLOATS / 2;
    hosts_start(h, 4);
    for (int i = 0; i < 4; i++) {
        sw_thread_join(&h[i].thread);
        if (h[i].rc != SW_OK)
            fail_msg("%s", h[i].err.text);
    }
    assert_true(h[3].sum[0][FLOATS - 1] == value(1, FLOATS - 1));
    for (int i = 0; i < 4; i++)
        host_close(&h[i]);
}

static void an_id_of_another_process_is_refused(void **state)
{
    static struct host h;
    struct sw_err err;

    host_open(&h, 0, 1, 0, 2);
    ASSERT_OK(sw_collective_make_id(ops, &h.id, &err));
    h.id.bytes[3] ^= 0x40;
    assert_int_equal(sw_collective_accepts(ops, &h.id, &err), SW_ERR_UNSUPPORTED);
    assert_int_equal(join(&h, 1000, &err), SW_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "different processes"));
    host_close(&h);
}

static void waiting_for_members_ends(void **state)
{
    static struct host h;
    struct sw_err err;

    host_open(&h, 0, 1, 0, 2);
    ASSERT_OK(sw_collective_make_id(ops, &h.id, &err));
    assert_int_equal(join(&h, 50, &err), SW_ERR_LIBRARY);
    assert_non_null(strstr(err.text, "1 of the 2 members of a collective did not come"));
    atomic_store(&h.cancelled, true);
    assert_int_equal(join(&h, 60000, &err), SW_ERR_CANCELLED);
    host_close(&h);
}

static void members_beyond_the_last_are_refused(void **state)
{
    static struct host h;
    struct sw_err err;

    host_open(&h, 0, 2, 1, 2);
    ASSERT_OK(sw_collective_make_id(ops, &h.id, &err));
    assert_int_equal(join(&h, 60000, &err), SW_ERR_INVALID);
    assert_non_null(strstr(err.text, "members 1 to 2 of 2"));
    host_close(&h);
}

/* A host whose numbers others have does not spoil their sums. */
static void a_refused_host_changes_nothing(void **state)
{
    static struct host h[3];
    struct sw_err err;

    for (int i = 0; i < 3; i++)
        host_open(&h[i], i, 1, i % 2, 2);
    ASSERT_OK(sw_collective_make_id(ops, &h[0].id, &err));
    h[1].id = h[2].id = h[0].id;
    hosts_start(h, 1);
    while (!atomic_load(&h[0].asked))
        sw_thread_nap(1000000);
    assert_int_equal(join(&h[2], 60000, &err), SW_ERR_INVALID);
    assert_non_null(strstr(err.text, "members 0 to 0 of 2 do not fit"));
    ASSERT_OK(sw_thread_start(&h[1].thread, "host", host_main, &h[1], &err));
    for (int i = 0; i < 2; i++) {
        sw_thread_join(&h[i].thread);
        if (h[i].rc != SW_OK)
            fail_msg("%s", h[i].err.text);
    }
    assert_memory_equal(h[0].sum, h[1].sum, sizeof h[0].sum[0]);
    for (int i = 0; i < 3; i++)
        host_close(&h[i]);
}

static void different_sizes_are_an_error_of_all(void **state)
{
    static struct host h[HOSTS];

    hosts_open(h);
    h[1].n = FLOATS / 2;
    hosts_start(h, HOSTS);
    for (int i = 0; i < HOSTS; i++) {
        sw_thread_join(&h[i].thread);
        assert_int_equal(h[i].rc, SW_ERR_INVALID);
        assert_non_null(strstr(h[i].err.text, "1000"));
        assert_non_null(strstr(h[i].err.text, "500"));
    }
    for (int i = 0; i < HOSTS; i++)
        host_close(&h[i]);
}

/* The others wait for the host that has aborted, until they are aborted themselves. */
static void an_abort_ends_the_operations_of_its_host(void **state)
{
    static struct host h[HOSTS];

    hosts_open(h);
    h[1].hurries = true;
    hosts_start(h, HOSTS);
    sw_thread_join(&h[1].thread);
    assert_int_equal(h[1].rc, SW_OK);
    host_close(&h[1]); /* nobody reads its memory any more */
    for (int i = 0; i < HOSTS; i += 2) {
        while (!atomic_load(&h[i].joined))
            sw_thread_nap(1000000);
        assert_false(sw_thread_join_timed(&h[i].thread, 10));
        sw_collective_abort(h[i].c);
    }
    for (int i = 0; i < HOSTS; i += 2) {
        struct sw_err err;

        sw_thread_join(&h[i].thread);
        assert_int_equal(h[i].rc, SW_OK); /* the stream goes on, without the sum */
        for (int k = 0; k < FLOATS; k++)
            assert_true(isnan(h[i].sum[0][k]));
        assert_int_equal(sum(&h[i], &err), SW_ERR_CANCELLED);
        host_close(&h[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_of_hosts_have_the_sum),
        cmocka_unit_test(two_collectives_at_a_time_do_not_mix),
        cmocka_unit_test(an_id_of_another_process_is_refused),
        cmocka_unit_test(waiting_for_members_ends),
        cmocka_unit_test(members_beyond_the_last_are_refused),
        cmocka_unit_test(a_refused_host_changes_nothing),
        cmocka_unit_test(different_sizes_are_an_error_of_all),
        cmocka_unit_test(an_abort_ends_the_operations_of_its_host),
    };
    return cmocka_run_group_tests_name("sim_hosts", tests, NULL, NULL);
}
