/* ctest-labels: threads
 * The limit of what a device sends, by copy queue and by streams: never more than the limit and a
 * burst, urgent copies first, and the same bytes. Real times are only checked to be not shorter. */
#include "base/os.h"
#include "base/token_bucket.h"
#include "device/copy_queue.h"
#include "device/send_limit.h"
#include "sim_support.h"
#include "thread/atomic.h"

enum { RATE = 4000000, BYTES = 400000, STREAMS_MOST = 4 };

static struct sw_device *open_limited(int index, int64_t bytes_per_s)
{
    struct sw_device *dev = open_sim(index);
    struct sw_err err;
    ASSERT_OK(sw_send_limit_new(bytes_per_s, &dev->send_limit, &err));
    return dev;
}

/* What may have left the device since begin_ns: chunks of `streams` streams may be under way. */
static void assert_limited(struct sw_device *dev, int64_t begin_ns, int streams, size_t chunk)
{
    uint64_t sent = sw_sim_traffic(dev, SW_SIM_OUT).bytes;
    int64_t ns = sw_os()->monotonic_ns() - begin_ns + SW_TOKEN_BURST_NS;
    double most = (double)RATE * (double)ns * 1e-9 + (double)chunk * (streams + 1);
    if ((double)sent > most)
        fail_msg("%llu bytes were sent, more than %.0f", (unsigned long long)sent, most);
}

/* Looks at the traffic until all of it has left. */
static void watch(struct sw_device *dev, int64_t begin_ns, int streams, size_t chunk,
                  uint64_t bytes)
{
    while (sw_sim_traffic(dev, SW_SIM_OUT).bytes < bytes) {
        assert_limited(dev, begin_ns, streams, chunk);
        sleep_ms(1);
    }
    assert_limited(dev, begin_ns, streams, chunk);
    assert_int_equal(sw_sim_traffic(dev, SW_SIM_OUT).bytes, bytes);
}

static unsigned char *pattern(size_t bytes)
{
    unsigned char *p = sw_calloc(1, bytes);
    assert_non_null(p);
    for (size_t i = 0; i < bytes; i++)
        p[i] = (unsigned char)(i * 7 + i / 251);
    return p;
}

/* ---- The copy queue ---- */

struct done {
    int order[8], rc[8]; /* of copies, by their numbers */
    int count;           /* atomic */
};

struct copy {
    struct done *done;
    int number;
};

static void on_done(void *user, int rc)
{
    struct copy *c = user;
    struct done *d = c->done;
    int at = __atomic_load_n(&d->count, __ATOMIC_ACQUIRE); /* one thread calls */
    d->order[at] = c->number;
    d->rc[at] = rc;
    __atomic_store_n(&d->count, at + 1, __ATOMIC_RELEASE);
}

static void push(struct sw_copy_queue *q, struct copy *c, const struct sw_copy_event *e)
{
    struct sw_copy_event event = *e;
    struct sw_err err;
    event.direction = SW_COPY_TO_HOST;
    event.done = on_done;
    event.user = c;
    ASSERT_OK(sw_copy_queue_push(q, &event, &err));
    ASSERT_OK(sw_copy_queue_drain(q, &err));
}

static void copies_to_the_host_keep_to_the_limit(void **state)
{
    struct sw_device *dev = open_limited(0, RATE);
    struct sw_stream *s = new_stream(dev);
    struct sw_event *computed = new_event(dev), *sent = new_event(dev);
    struct sw_copy_queue *q;
    struct done done = {.count = 0};
    struct copy copies[2] = {{&done, 0}, {&done, 1}};
    struct sw_err err;
    unsigned char *host = pattern(BYTES), *back = sw_calloc(1, BYTES), *rows = sw_calloc(1, BYTES);
    void *x = to_device(s, host, BYTES);
    struct gate g;

    ASSERT_OK(sw_copy_queue_new(dev, 4, &q, &err));
    hold(s, &g);
    ASSERT_OK(sw_event_record(s, computed, &err));

    int64_t begin_ns = sw_os()->monotonic_ns();
    push(q, &copies[0],
         &(struct sw_copy_event){
             .dst = back, .src = x, .bytes = BYTES, .after = computed, .then = sent});
    /* 100 rows of 1000 bytes, every fourth kilobyte. */
    push(q, &copies[1],
         &(struct sw_copy_event){.dst = rows,
                                 .dst_pitch = 1000,
                                 .src = x,
                                 .src_pitch = 4000,
                                 .bytes = 1000,
                                 .rows = 100,
                                 .after = computed});
    assert_int_equal(sw_copy_queue_in_flight(q, SW_COPY_TO_HOST), 2);
    sleep_ms(20);
    assert_int_equal(sw_sim_traffic(dev, SW_SIM_OUT).bytes, 0); /* its event has not happened */
    gate_open(&g);
    watch(dev, begin_ns, 1, sw_send_limit_chunk(dev->send_limit), BYTES + 100000);
    ASSERT_OK(sw_copy_queue_wait(q, &err));

    int64_t ns = sw_os()->monotonic_ns() - begin_ns;
    assert_true((double)ns * 1e-9 >= (BYTES + 100000.) / RATE - 0.02);
    ASSERT_OK(sw_event_host_wait(dev, sent, &err));
    assert_int_equal(done.count, 2);
    assert_int_equal(done.order[0], 0);
    assert_int_equal(done.rc[0] | done.rc[1], SW_OK);
    assert_true(sw_copy_queue_busy_ns(q, SW_COPY_TO_HOST) > 0);
    assert_memory_equal(back, host, BYTES);
    for (int r = 0; r < 100; r++)
        assert_memory_equal(rows + 1000 * r, host + 4000 * r, 1000);

    sw_copy_queue_free(q);
    sw_event_free(dev, computed);
    sw_event_free(dev, sent);
    sw_stream_free(s);
    gate_fini(&g);
    sw_device_close(dev);
    sw_free(host);
    sw_free(back);
    sw_free(rows);
}

/* Each is larger than a chunk, and counts. */
static void wide_rows_are_charged_in_full(void **state)
{
    struct sw_device *dev = open_limited(0, RATE);
    struct sw_copy_queue *q;
    struct done done = {.count = 0};
    struct copy copy = {&done, 0};
    struct sw_err err;
    unsigned char *back = sw_calloc(1, BYTES);
    void *x = device_bytes(dev, BYTES);
    enum { WIDTH = 50000 };

    assert_true(sw_send_limit_chunk(dev->send_limit) < WIDTH);
    ASSERT_OK(sw_copy_queue_new(dev, 4, &q, &err));

    int64_t begin_ns = sw_os()->monotonic_ns();
    push(q, &copy,
         &(struct sw_copy_event){.dst = back,
                                 .dst_pitch = WIDTH,
                                 .src = x,
                                 .src_pitch = WIDTH,
                                 .bytes = WIDTH,
                                 .rows = BYTES / WIDTH});
    watch(dev, begin_ns, 1, WIDTH, BYTES);
    ASSERT_OK(sw_copy_queue_wait(q, &err));
    assert_int_equal(done.rc[0], SW_OK);

    sw_copy_queue_free(q);
    sw_device_close(dev);
    sw_free(back);
}

/* A large copy would take a minute; the small one passes it, and the large one is cancelled. */
static void an_urgent_copy_overtakes_one_that_has_begun(void **state)
{
    struct sw_device *dev = open_limited(0, 100000);
    struct sw_stream *s = new_stream(dev);
    struct sw_copy_queue *q;
    struct done done = {.count = 0};
    struct copy copies[2] = {{&done, 0}, {&done, 1}};
    struct sw_err err;
    enum { LARGE = 6000000, SMALL = 64 };
    unsigned char *host = pattern(LARGE), *back = sw_calloc(1, LARGE), few[SMALL];
    void *x = to_device(s, host, LARGE);

    ASSERT_OK(sw_copy_queue_new(dev, 4, &q, &err));
    push(q, &copies[0],
         &(struct sw_copy_event){.dst = back, .src = x, .bytes = LARGE, .priority = 9});
    while (sw_sim_traffic(dev, SW_SIM_OUT).bytes == 0)
        sleep_ms(1);
    push(q, &copies[1],
         &(struct sw_copy_event){.dst = few, .src = x, .bytes = SMALL, .priority = 1});
    while (__atomic_load_n(&done.count, __ATOMIC_ACQUIRE) == 0)
        sleep_ms(1);
    assert_int_equal(done.order[0], 1);
    assert_int_equal(done.rc[0], SW_OK);
    assert_memory_equal(few, host, SMALL);

    sw_copy_queue_free(q);
    assert_int_equal(done.count, 2);
    assert_int_equal(done.order[1], 0);
    assert_int_equal(done.rc[1], SW_ERR_CANCELLED);
    sw_stream_free(s);
    sw_device_close(dev);
    sw_free(host);
    sw_free(back);
}

/* With a limit closed, or a device that hangs, every copy is completed once, and nothing hangs. */
static void held_copies_complete_when_the_job_ends(void **state)
{
    for (int hangs = 0; hangs < 2; hangs++) {
        struct sw_sim_conf conf = small_conf();
        conf.fault = hangs ? SW_SIM_HANG : SW_SIM_NO_FAULT;
        conf.fault_at = 3;

        struct sw_device *dev = open_sim_with(0, conf);
        struct sw_copy_queue *q;
        struct done done = {.count = 0};
        struct copy copies[2] = {{&done, 0}, {&done, 1}};
        struct sw_err err;
        unsigned char *back = sw_calloc(1, BYTES);
        void *x = device_bytes(dev, BYTES);

        ASSERT_OK(sw_send_limit_new(100000, &dev->send_limit, &err));
        ASSERT_OK(sw_copy_queue_new(dev, 4, &q, &err));
        push(q, &copies[0], &(struct sw_copy_event){.dst = back, .src = x, .bytes = BYTES});
        push(q, &copies[1], &(struct sw_copy_event){.dst = back, .src = x, .bytes = BYTES});
        if (!hangs) {
            sw_send_limit_close_v(dev->send_limit);
            assert_int_equal(sw_copy_queue_wait(q, &err), SW_ERR_CANCELLED);
            assert_int_equal(sw_copy_queue_check(q, &err), SW_ERR_CANCELLED);
        }

        sw_copy_queue_free(q);
        assert_int_equal(done.count, 2);
        assert_int_equal(done.rc[0], SW_ERR_CANCELLED);
        assert_int_equal(done.rc[1], SW_ERR_CANCELLED);
        sw_device_close(dev);
        sw_free(back);
    }
}

/* ---- Streams ---- */

/* Three streams, of both devices, take from the first one, which two workers share. */
static void copies_of_all_streams_share_the_limit(void **state)
{
    struct sw_device *from = open_limited(0, RATE), *to = open_sim(1);
    struct sw_stream *take = new_stream(to), *give = new_stream(from), *rows = new_stream(from);
    struct sw_err err;
    unsigned char *host = pattern(BYTES), *back = sw_calloc(1, BYTES),
                  *y_back = sw_calloc(1, BYTES);
    void *x = to_device(give, host, BYTES), *y = device_bytes(to, BYTES),
         *z = device_bytes(to, BYTES);
    /* A chunk is no smaller than a 32nd of the copy. */
    size_t chunk = sw_send_limit_chunk(from->send_limit);
    if (chunk < BYTES / SW_SEND_CHUNKS + 1000)
        chunk = BYTES / SW_SEND_CHUNKS + 1000;

    int64_t begin_ns = sw_os()->monotonic_ns();
    ASSERT_OK(sw_send_peer(take, to, y, from, x, BYTES, &err));
    ASSERT_OK(sw_send_peer(give, to, z, from, x, BYTES, &err));
    ASSERT_OK(
        sw_send_2d(rows, &(struct sw_copy_2d){back, 1000, x, 1000, 1000, BYTES / 1000}, &err));
    watch(from, begin_ns, 3, chunk, 3 * BYTES);
    ASSERT_OK(sw_stream_wait(take, &err));
    ASSERT_OK(sw_stream_wait(give, &err));
    ASSERT_OK(sw_stream_wait(rows, &err));
    assert_true((double)(sw_os()->monotonic_ns() - begin_ns) * 1e-9 >= 3. * BYTES / RATE - 0.05);
    assert_memory_equal(back, host, BYTES);
    to_host(take, y_back, y, BYTES);
    assert_memory_equal(y_back, host, BYTES);
    to_host(take, y_back, z, BYTES);
    assert_memory_equal(y_back, host, BYTES);

    /* What does not leave the device, and what comes from one without a limit, does not wait. */
    uint64_t sent = sw_sim_traffic(from, SW_SIM_OUT).bytes;
    ASSERT_OK(sw_send_peer(take, from, x, to, y, BYTES, &err));
    ASSERT_OK(sw_stream_wait(take, &err));
    assert_int_equal(sw_sim_traffic(from, SW_SIM_OUT).bytes, sent);

    sw_stream_free(take);
    sw_stream_free(give);
    sw_stream_free(rows);
    sw_device_close(from);
    sw_device_close(to);
    sw_free(host);
    sw_free(back);
    sw_free(y_back);
}

/* A stream that waits for its turn ends with the job. */
static void a_closed_limit_ends_waits_in_streams(void **state)
{
    struct sw_device *from = open_limited(0, 1000), *to = open_sim(1);
    struct sw_stream *s = new_stream(to);
    struct sw_err err;
    void *x = device_bytes(from, BYTES), *y = device_bytes(to, BYTES);

    ASSERT_OK(sw_send_peer(s, to, y, from, x, BYTES, &err)); /* seven minutes */
    sw_send_limit_close_v(from->send_limit);
    ASSERT_OK(sw_stream_wait(s, &err));
    sw_stream_free(s);
    sw_device_close(from);
    sw_device_close(to);
}

static void a_shared_limit_is_one(void **state)
{
    struct sw_device *first = open_limited(0, RATE), *second = open_sim(0);
    second->send_limit = sw_send_limit_share(first->send_limit);

    for (int i = 0; i < 10; i++)
        assert_true(sw_send_limit_wait(first->send_limit, 40000, NULL));
    const bool stop = true; /* the other would have to wait for the first one's bytes */
    assert_false(sw_send_limit_wait(second->send_limit, 1, &stop));
    sw_device_close(first);
    sw_send_limit_correct(second->send_limit, 400000, 0);
    assert_true(sw_send_limit_wait(second->send_limit, 1, NULL));
    sw_device_close(second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_to_the_host_keep_to_the_limit),
        cmocka_unit_test(wide_rows_are_charged_in_full),
        cmocka_unit_test(an_urgent_copy_overtakes_one_that_has_begun),
        cmocka_unit_test(held_copies_complete_when_the_job_ends),
        cmocka_unit_test(copies_of_all_streams_share_the_limit),
        cmocka_unit_test(a_closed_limit_ends_waits_in_streams),
        cmocka_unit_test(a_shared_limit_is_one),
    };
    return cmocka_run_group_tests_name("send limit", tests, NULL, NULL);
}
