/* ctest-labels: threads
 * The duration of copies of sim over its links, and slow and faulty GPUs. Exact times are those of
 * the arithmetic; real times are only checked to be not shorter. */
#include "base/os.h"
#include "device/ops/elementwise.h"
#include "device/sim/memory.h"
#include "sim_support.h"

enum { MB = 1000000, MS = 1000000 };

/* 1 GB/s is 1 ms for 1 MB. */
static struct sw_sim_conf linked_conf(int64_t latency_us)
{
    struct sw_sim_conf conf = small_conf();
    conf.link_bytes_per_s = 1000 * (int64_t)MB;
    conf.latency_us = latency_us;
    return conf;
}

static void copy_time_is_bytes_over_bandwidth_plus_latency(void **state)
{
    struct sw_sim_conf conf = linked_conf(10);
    struct sw_sim_link in = {.free_ns = 0};
    assert_int_equal(sw_sim_link_pass(NULL, &in, 5000, 3 * MB, false, &conf),
                     5000 + 3 * MS + 10000);
    conf.link_bytes_per_s = 0;
    struct sw_sim_link quick = {.free_ns = 0};
    assert_int_equal(sw_sim_link_pass(NULL, &quick, 5000, 3 * MB, false, &conf), 5000 + 10000);
}

static void copies_over_one_link_queue_up(void **state)
{
    struct sw_sim_conf conf = linked_conf(10);
    struct sw_sim_link in = {.free_ns = 0}, out = {.free_ns = 0};
    assert_int_equal(sw_sim_link_pass(NULL, &in, 0, MB, false, &conf), MS + 10000);
    /* The latency of the first copy does not occupy the link. */
    assert_int_equal(sw_sim_link_pass(NULL, &in, 1000, MB, false, &conf), 2 * MS + 10000);
    assert_int_equal(sw_sim_link_pass(NULL, &in, 9 * MS, MB, false, &conf), 10 * MS + 10000);
    /* The other direction is another link. */
    assert_int_equal(sw_sim_link_pass(&out, NULL, 1000, MB, false, &conf), 1000 + MS + 10000);
    assert_int_equal((int)in.traffic.bytes, 3 * MB);
    assert_int_equal(in.traffic.busy_ns, 3 * MS);
    assert_int_equal(out.traffic.busy_ns, MS);
}

static void peer_copies_are_direct_else_through_the_host(void **state)
{
    struct sw_sim_conf conf = linked_conf(10);
    struct sw_sim_link out = {.free_ns = 2 * MS}, in = {.free_ns = 0};
    assert_int_equal(sw_sim_link_pass(&out, &in, 0, MB, true, &conf), 3 * MS + 10000);
    assert_int_equal(out.free_ns, 3 * MS);
    assert_int_equal(in.free_ns, 3 * MS);
    struct sw_sim_link from = {.free_ns = 2 * MS}, to = {.free_ns = 0};
    assert_int_equal(sw_sim_link_pass(&from, &to, 0, MB, false, &conf), 4 * MS + 20000);
    assert_int_equal(from.free_ns, 3 * MS);
    assert_int_equal(to.free_ns, 4 * MS + 10000);
}

static int64_t run_both(struct sw_stream *a, struct sw_stream *b, void *x, void *y, void *host,
                        size_t bytes)
{
    struct sw_err err;
    int64_t began_ns = sw_os()->monotonic_ns();
    ASSERT_OK(sw_copy(a, x, host, bytes, &err));
    ASSERT_OK(sw_copy(b, y, host, bytes, &err));
    ASSERT_OK(sw_stream_wait(a, &err));
    ASSERT_OK(sw_stream_wait(b, &err));
    return sw_os()->monotonic_ns() - began_ns;
}

/* Two streams share one link; its traffic counters are exact. */
static void streams_share_a_link(void **state)
{
    static char host[4 * MB];
    struct sw_device *dev = open_sim_with(0, linked_conf(100));
    struct sw_stream *a = new_stream(dev), *b = new_stream(dev);
    char *x = device_bytes(dev, sizeof host), *y = device_bytes(dev, sizeof host);
    struct sw_err err;
    int64_t took_ns = run_both(a, b, x, y, host, sizeof host);
    assert_true(took_ns >= 8 * MS);
    ASSERT_OK(sw_copy(a, y, x, sizeof host, &err)); /* inside the GPU: no link */
    ASSERT_OK(sw_stream_wait(a, &err));
    assert_int_equal(sw_sim_traffic(dev, SW_SIM_IN).bytes, 2 * sizeof host);
    assert_int_equal(sw_sim_traffic(dev, SW_SIM_IN).busy_ns, 8 * MS);
    assert_int_equal(sw_sim_traffic(dev, SW_SIM_OUT).bytes, 0);
    sw_stream_free(a);
    sw_stream_free(b);
    sw_device_close(dev);
}

static void copies_between_gpus_load_both_links(void **state)
{
    for (int peer = 0; peer <= 1; peer++) {
        struct sw_device *a = open_sim_with(0, linked_conf(0));
        struct sw_device *b = open_sim_with(1, linked_conf(0));
        struct sw_stream *s = new_stream(a);
        char *x = device_bytes(a, MB), *y = device_bytes(b, MB);
        struct sw_err err;
        if (peer)
            ASSERT_OK(sw_device_reach(a, b, &err));
        int64_t began_ns = sw_os()->monotonic_ns();
        ASSERT_OK(sw_copy_peer(s, b, y, a, x, MB, &err));
        ASSERT_OK(sw_stream_wait(s, &err));
        assert_true(sw_os()->monotonic_ns() - began_ns >= (peer ? 1 : 2) * MS);
        assert_int_equal(sw_sim_traffic(a, SW_SIM_OUT).bytes, MB);
        assert_int_equal(sw_sim_traffic(b, SW_SIM_IN).bytes, MB);
        assert_int_equal(sw_sim_traffic(a, SW_SIM_IN).bytes, 0);
        sw_stream_free(s);
        sw_device_close(a);
        sw_device_close(b);
    }
}

enum { SENT = 4096 };

/* Copies from one GPU to another and back to the host. */
static int send(struct sw_stream *s, struct sw_stream *t, void *to, const void *from, char *got,
                struct sw_err *err)
{
    int rc = sw_copy_peer(s, t->dev, to, s->dev, from, SENT, err);
    if (rc == SW_OK)
        rc = sw_stream_wait(s, err);
    if (rc == SW_OK)
        to_host(t, got, to, SENT);
    return rc;
}

/* Faulty direct copies return no error: data is corrupted, or the copy hangs. Copies through the
 * host are correct. */
static void direct_copies_can_be_corrupted_or_hang(void **state)
{
    for (int peer = SW_SIM_PEER_NO; peer <= SW_SIM_PEER_HANG; peer++) {
        struct sw_sim_conf conf = small_conf();
        struct sw_err err;
        struct canceller c;
        char sent[SENT], got[SENT];
        conf.peer = (enum sw_sim_peer)peer;
        struct sw_device *a = open_sim_with(0, conf), *b = open_sim_with(1, conf);
        struct sw_stream *s = new_stream(a), *t = new_stream(b);
        memset(sent, 7, sizeof sent);
        void *x = to_device(s, sent, sizeof sent), *y = device_bytes(b, sizeof sent);
        ASSERT_OK(send(s, t, y, x, got, &err));
        assert_memory_equal(got, sent, sizeof got);
        assert_int_equal(sw_device_reaches(a, b), peer != SW_SIM_PEER_NO);
        assert_int_equal(sw_device_reach(a, b, &err),
                         peer == SW_SIM_PEER_NO ? SW_ERR_UNSUPPORTED : SW_OK);
        if (peer == SW_SIM_PEER_HANG)
            cancel_later(&c, a, 3);
        assert_int_equal(send(s, t, y, x, got, &err),
                         peer == SW_SIM_PEER_HANG ? SW_ERR_CANCELLED : SW_OK);
        if (peer == SW_SIM_PEER_HANG)
            sw_thread_join(&c.thread);
        else
            assert_int_equal(memcmp(got, sent, sizeof got) != 0, peer == SW_SIM_PEER_CORRUPT);
        sw_stream_free(s);
        sw_stream_free(t);
        sw_device_close(a);
        sw_device_close(b);
    }
}

static void a_copy_on_a_slow_link_can_be_cancelled(void **state)
{
    struct sw_sim_conf conf = linked_conf(0);
    struct canceller c;
    struct sw_err err;
    char host[1000];
    conf.link_bytes_per_s = 1; /* a quarter of an hour */
    struct sw_device *dev = open_sim_with(0, conf);
    struct sw_stream *s = new_stream(dev);
    ASSERT_OK(sw_copy(s, device_bytes(dev, sizeof host), host, sizeof host, &err));
    cancel_later(&c, dev, 1);
    assert_int_equal(sw_stream_wait(s, &err), SW_ERR_CANCELLED);
    sw_thread_join(&c.thread);
    sw_stream_free(s);
    sw_device_close(dev);
}

/* ---- Slow and faulty ---- */

static int64_t time_of_work(struct sw_device *dev, float *out)
{
    enum { FLOATS = 1 << 16, TIMES = 20 };
    static float host[FLOATS];
    struct sw_stream *s = new_stream(dev);
    struct sw_err err;
    for (int i = 0; i < FLOATS; i++)
        host[i] = (float)(i % 7) * 0.1f;
    float *x = to_device(s, host, sizeof host);
    int64_t began_ns = sw_os()->monotonic_ns();
    for (int i = 0; i < TIMES; i++)
        ASSERT_OK(sw_op_activation(s, SW_ACT_TANH, 0, x, x, FLOATS, &err));
    ASSERT_OK(sw_stream_wait(s, &err));
    int64_t took_ns = sw_os()->monotonic_ns() - began_ns;
    to_host(s, out, x, 64 * sizeof *out);
    sw_device_free(dev, x, sizeof host);
    sw_stream_free(s);
    return took_ns;
}

/* The slow GPU's delay is exact whatever the load of the machine; the fast one is measured again
 * until it is not interrupted. */
static void slow_gpu_gets_the_same_result_later(void **state)
{
    struct sw_sim_conf conf = small_conf();
    float quick[64], slow[64];
    struct sw_err err;
    struct sw_device *dev[2];
    conf.gpus = 2;
    conf.slow = 20;
    for (int i = 0; i < 2; i++)
        ASSERT_OK(sw_sim_open(&conf, i, &dev[i], &err));
    int64_t slow_ns = time_of_work(dev[1], slow), quick_ns = slow_ns;
    for (int tries = 0; tries < 1000 && slow_ns <= 2 * quick_ns; tries++)
        quick_ns = time_of_work(dev[0], quick);
    assert_true(slow_ns > 2 * quick_ns);
    assert_same_bits("slow", slow, quick, sizeof quick);
    for (int i = 0; i < 2; i++)
        sw_device_close(dev[i]);
}

static void wrong_fault_changes_one_element(void **state)
{
    enum { FLOATS = 8 };
    struct sw_device *dev = open_sim(0);
    struct sw_stream *s = new_stream(dev);
    float host[FLOATS] = {0, 0, 3, 4, 5, 6, 7, 8}, back[FLOATS];
    struct sw_err err;
    float *x = to_device(s, host, sizeof host), *y = device_bytes(dev, sizeof host);
    sw_sim_inject(dev, SW_SIM_WRONG, 1);
    ASSERT_OK(sw_op_add(s, y, x, FLOATS, &err)); /* right */
    ASSERT_OK(sw_op_add(s, y, x, FLOATS, &err)); /* wrong */
    ASSERT_OK(sw_op_add(s, y, x, FLOATS, &err)); /* right again, with the wrong input */
    to_host(s, back, y, sizeof back);
    for (int i = 0; i < FLOATS; i++) {
        if (i == 2)
            assert_true(back[i] == 2 * 6 + 3 || back[i] == 0.5f * 6 + 3);
        else
            assert_true(back[i] == 3 * host[i]);
    }
    to_host(s, back, x, sizeof back);
    assert_same_bits("what is read", back, host, sizeof host);
    sw_stream_free(s);
    sw_device_close(dev);
}

static void option_selects_the_faulty_gpu_and_operation(void **state)
{
    struct sw_sim_conf conf;
    struct sw_device *dev[2];
    struct sw_err err;
    ASSERT_OK(sw_sim_parse("gpus=2,mem=1MiB,fault=lost@3,faulty=0", &conf, &err));
    for (int i = 0; i < 2; i++)
        ASSERT_OK(sw_sim_open(&conf, i, &dev[i], &err));
    for (int i = 0; i < 2; i++) {
        struct sw_stream *s = new_stream(dev[i]);
        float *x = device_bytes(dev[i], 64);
        for (int n = 1; n <= 4; n++) {
            int rc = sw_op_add(s, x, x, 16, &err);
            rc = rc == SW_OK ? sw_stream_wait(s, &err) : rc;
            assert_int_equal(rc, i == 0 && n >= 3 ? SW_ERR_LIBRARY : SW_OK);
        }
        sw_stream_free(s);
        sw_device_close(dev[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copy_time_is_bytes_over_bandwidth_plus_latency),
        cmocka_unit_test(copies_over_one_link_queue_up),
        cmocka_unit_test(peer_copies_are_direct_else_through_the_host),
        cmocka_unit_test(streams_share_a_link),
        cmocka_unit_test(copies_between_gpus_load_both_links),
        cmocka_unit_test(direct_copies_can_be_corrupted_or_hang),
        cmocka_unit_test(a_copy_on_a_slow_link_can_be_cancelled),
        cmocka_unit_test(slow_gpu_gets_the_same_result_later),
        cmocka_unit_test(wrong_fault_changes_one_element),
        cmocka_unit_test(option_selects_the_faulty_gpu_and_operation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
