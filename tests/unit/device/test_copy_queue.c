/* ctest-labels: threads
 * The copy queue: the most urgent copies first, exactly one completion each, and no copy before its
 * event. */
#include "device/copy_queue.h"
#include "device/ops/elementwise.h"
#include "kernels/ops/dropout.h"
#include "sim_support.h"
#include "thread/atomic.h"

enum { MOST = 64, BYTES = 64 };

/* Both copy streams complete copies at the same time. */
struct log {
    struct sw_mutex lock; /* guards all below */
    int count, number[MOST], rc[MOST];
};

struct job {
    struct log *log;
    int number;
    unsigned char host[BYTES];
};

static void log_init(struct log *l)
{
    memset(l, 0, sizeof *l);
    sw_mutex_init(&l->lock);
}

static void answered(void *user, int rc)
{
    struct job *j = user;
    sw_mutex_lock(&j->log->lock);
    j->log->number[j->log->count] = j->number;
    j->log->rc[j->log->count++] = rc;
    sw_mutex_unlock(&j->log->lock);
}

static int answers(struct log *l)
{
    sw_mutex_lock(&l->lock);
    int n = l->count;
    sw_mutex_unlock(&l->lock);
    return n;
}

static struct sw_copy_queue *new_queue(struct sw_device *dev, int capacity)
{
    struct sw_copy_queue *q;
    struct sw_err err;
    ASSERT_OK(sw_copy_queue_new(dev, capacity, &q, &err));
    return q;
}

static struct sw_copy_event inwards(struct job *j, void *dst, int priority)
{
    return (struct sw_copy_event){.direction = SW_COPY_TO_DEVICE,
                                  .dst = dst,
                                  .src = j->host,
                                  .bytes = BYTES,
                                  .priority = priority,
                                  .done = answered,
                                  .user = j};
}

static void push(struct sw_copy_queue *q, struct sw_copy_event e)
{
    struct sw_err err;
    ASSERT_OK(sw_copy_queue_push(q, &e, &err));
}

static void most_urgent_copies_are_issued_first(void **state)
{
    static const int priority[] = {5, 2, 9, 2, 0, 7, 0};
    static const int expected[] = {4, 6, 1, 3, 0, 5, 2, 7};
    struct sw_device *dev = open_sim(0);
    struct sw_stream *s = new_stream(dev);
    struct sw_copy_queue *q = new_queue(dev, 16);
    struct sw_event *e = new_event(dev);
    char *x = device_bytes(dev, 8 * BYTES);
    unsigned char back[8 * BYTES];
    struct job job[8];
    struct log log;
    struct gate g;
    struct sw_err err;
    log_init(&log);
    hold(s, &g);
    ASSERT_OK(sw_event_record(s, e, &err));
    for (int i = 0; i < 8; i++) {
        job[i] = (struct job){.log = &log, .number = i};
        memset(job[i].host, i + 1, BYTES);
    }
    for (int i = 0; i < 7; i++) {
        struct sw_copy_event event = inwards(&job[i], x + i * BYTES, priority[i]);
        event.after = e;
        push(q, event);
    }
    ASSERT_OK(sw_copy_queue_drain(q, &err));
    /* An issued copy is not overtaken by a more urgent one. */
    push(q, inwards(&job[7], x + 7 * BYTES, -1));
    ASSERT_OK(sw_copy_queue_drain(q, &err));
    assert_int_equal(answers(&log), 0);
    gate_open(&g);
    ASSERT_OK(sw_copy_queue_wait(q, &err));
    assert_int_equal(answers(&log), 8);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(log.number[i], expected[i]);
        assert_int_equal(log.rc[i], SW_OK);
    }
    to_host(s, back, x, sizeof back);
    for (int i = 0; i < 8 * BYTES; i++)
        assert_int_equal(back[i], i / BYTES + 1);
    sw_copy_queue_free(q);
    sw_event_free(dev, e);
    sw_stream_free(s);
    gate_fini(&g);
    sw_device_close(dev);
}

/* A computation, a copy out after it, a copy in at the same time, and a computation after that. */
static void events_order_copies_with_computation(void **state)
{
    struct sw_device *dev = open_sim(0);
    struct sw_stream *s = new_stream(dev);
    struct sw_copy_queue *q = new_queue(dev, 4);
    struct sw_event *computed = new_event(dev), *arrived = new_event(dev);
    float one[4] = {1, 1, 1, 1}, ten[4] = {10, 10, 10, 10}, out[4], back[4];
    struct gate g;
    struct sw_err err;
    float *x = to_device(s, one, sizeof one), *y = device_bytes(dev, sizeof ten);
    hold(s, &g);
    ASSERT_OK(sw_op_add(s, x, x, 4, &err));
    ASSERT_OK(sw_event_record(s, computed, &err));
    push(q, (struct sw_copy_event){.direction = SW_COPY_TO_HOST,
                                   .dst = out,
                                   .src = x,
                                   .bytes = sizeof out,
                                   .after = computed});
    push(q, (struct sw_copy_event){.direction = SW_COPY_TO_DEVICE,
                                   .dst = y,
                                   .src = ten,
                                   .bytes = sizeof ten,
                                   .then = arrived});
    ASSERT_OK(sw_copy_queue_drain(q, &err));
    ASSERT_OK(sw_event_host_wait(dev, arrived, &err)); /* not after the copy that waits */
    ASSERT_OK(sw_event_wait(s, arrived, &err));
    ASSERT_OK(sw_op_add(s, y, x, 4, &err));
    gate_open(&g);
    ASSERT_OK(sw_copy_queue_wait(q, &err));
    assert_true(out[0] == 2 && out[3] == 2);
    to_host(s, back, y, sizeof back);
    assert_true(back[0] == 12 && back[3] == 12);
    sw_copy_queue_free(q);
    sw_event_free(dev, computed);
    sw_event_free(dev, arrived);
    sw_stream_free(s);
    gate_fini(&g);
    sw_device_close(dev);
}

static void full_and_closed_queues_refuse_copies(void **state)
{
    struct sw_device *dev = open_sim(0);
    struct sw_copy_queue *q = new_queue(dev, 2), *none;
    struct job job[3];
    struct log log;
    struct sw_err err;
    log_init(&log);
    assert_int_equal(sw_copy_queue_new(dev, 0, &none, &err), SW_ERR_INVALID);
    char *x = device_bytes(dev, BYTES);
    for (int i = 0; i < 3; i++)
        job[i] = (struct job){.log = &log, .number = i};
    push(q, inwards(&job[0], x, 0));
    push(q, inwards(&job[1], x, 0));
    struct sw_copy_event e = inwards(&job[2], x, 0);
    assert_int_equal(sw_copy_queue_push(q, &e, &err), SW_ERR_BUSY);
    assert_says(&err, "the copy queue of sim:0 is full: 2 copies");
    ASSERT_OK(sw_copy_queue_wait(q, &err));
    push(q, e); /* there is room again */
    sw_copy_queue_close(q);
    assert_int_equal(sw_copy_queue_push(q, &e, &err), SW_ERR_CANCELLED);
    assert_int_equal(answers(&log), 2);
    sw_copy_queue_free(q); /* the third was never drained */
    assert_int_equal(log.count, 3);
    assert_int_equal(log.number[2], 2);
    assert_int_equal(log.rc[2], SW_ERR_CANCELLED);
    sw_device_close(dev);
}

static void every_copy_completes_once_when_the_device_hangs(void **state)
{
    struct sw_device *dev = open_sim(0);
    struct sw_copy_queue *q = new_queue(dev, 8);
    struct job job[6];
    struct log log;
    struct sw_err err;
    int seen[6] = {0};
    log_init(&log);
    char *x = device_bytes(dev, 6 * BYTES);
    sw_sim_inject(dev, SW_SIM_HANG, 2);
    for (int i = 0; i < 6; i++) {
        job[i] = (struct job){.log = &log, .number = i};
        push(q, inwards(&job[i], x + i * BYTES, i));
        if (i == 4)
            ASSERT_OK(sw_copy_queue_drain(q, &err));
    }
    sw_copy_queue_free(q);
    assert_int_equal(log.count, 6);
    for (int i = 0; i < 6; i++) {
        seen[log.number[i]]++;
        assert_int_equal(log.rc[i], log.number[i] < 2 ? SW_OK : SW_ERR_CANCELLED);
    }
    for (int i = 0; i < 6; i++)
        assert_int_equal(seen[i], 1);
    sw_device_close(dev);
}

static void copy_that_cannot_be_issued_completes_with_its_error(void **state)
{
    struct sw_device *dev = open_sim(0);
    struct sw_copy_queue *q = new_queue(dev, 8);
    struct job wrong = {.number = 1}, right = {.number = 2};
    struct log log;
    struct sw_err err;
    log_init(&log);
    wrong.log = right.log = &log;
    char *x = device_bytes(dev, BYTES);
    push(q, inwards(&wrong, x + 1, 0)); /* one byte too far */
    push(q, inwards(&right, x, 1));
    assert_int_equal(sw_copy_queue_drain(q, &err), SW_ERR_INVALID);
    assert_says(&err, "sim:0: copy: dst: 64 bytes at byte 1");
    assert_int_equal(answers(&log), 1);
    ASSERT_OK(sw_copy_queue_wait(q, &err));
    assert_int_equal(log.count, 2);
    assert_int_equal(log.rc[0], SW_ERR_INVALID);
    assert_int_equal(log.rc[1], SW_OK);
    sw_copy_queue_free(q);
    sw_device_close(dev);
}

static void hold_stream(void *mutex)
{
    sw_mutex_lock(mutex);
    sw_mutex_unlock(mutex);
}

/* The failed copy was issued after an event; its host function may run when its entry is reused,
 * and must not change the time of the new copy. */
static void failed_copy_does_not_affect_the_next_one(void **state)
{
    enum { DELAY_US = 200000 };
    struct sw_sim_conf conf = small_conf();
    conf.copy_delay_us = DELAY_US;
    struct sw_device *dev = open_sim_with(0, conf);
    struct sw_copy_queue *q = new_queue(dev, 1);
    struct sw_stream *compute = new_stream(dev);
    struct job wrong = {.number = 1}, right = {.number = 2};
    struct sw_event *made;
    struct sw_mutex held;
    struct log log;
    struct sw_err err;
    log_init(&log);
    wrong.log = right.log = &log;
    char *x = device_bytes(dev, BYTES);
    sw_mutex_init(&held);
    sw_mutex_lock(&held);
    ASSERT_OK(sw_event_new(dev, &made, &err));
    ASSERT_OK(sw_stream_call(compute, hold_stream, &held, &err));
    ASSERT_OK(sw_event_record(compute, made, &err));

    struct sw_copy_event outwards = inwards(&wrong, wrong.host, 0);
    outwards.direction = SW_COPY_TO_HOST;
    outwards.src = x + 1; /* one byte too far */
    outwards.after = made;
    push(q, outwards);
    assert_int_equal(sw_copy_queue_drain(q, &err), SW_ERR_INVALID);
    push(q, inwards(&right, x, 1));
    ASSERT_OK(sw_copy_queue_drain(q, &err));
    sleep_ms(DELAY_US / 2000);
    sw_mutex_unlock(&held);
    ASSERT_OK(sw_copy_queue_wait(q, &err));
    assert_int_equal(log.rc[1], SW_OK);
    assert_true(sw_copy_queue_busy_ns(q, SW_COPY_TO_DEVICE) >= DELAY_US * INT64_C(1000));
    assert_int_equal(sw_copy_queue_busy_ns(q, SW_COPY_TO_HOST), 0);

    sw_stream_free(compute);
    sw_copy_queue_free(q);
    sw_event_free(dev, made);
    sw_mutex_fini(&held);
    sw_device_close(dev);
}

struct chain {
    struct sw_copy_queue *queue;
    struct sw_copy_event event;
    atomic_int left;
};

static void push_again(void *user, int rc)
{
    struct chain *c = user;
    struct sw_err err;
    if (rc == SW_OK && atomic_fetch_sub(&c->left, 1) > 1)
        rc = sw_copy_queue_push(c->queue, &c->event, &err);
    assert_int_equal(rc, SW_OK);
}

static void done_callback_may_push_the_next_copy(void **state)
{
    struct sw_device *dev = open_sim(0);
    struct chain c = {.queue = new_queue(dev, 1)};
    unsigned char host[BYTES] = {0};
    struct sw_err err;
    atomic_init(&c.left, 20);
    c.event = (struct sw_copy_event){.direction = SW_COPY_TO_DEVICE,
                                     .dst = device_bytes(dev, BYTES),
                                     .src = host,
                                     .bytes = BYTES,
                                     .done = push_again,
                                     .user = &c};
    push(c.queue, c.event);
    while (atomic_load(&c.left) > 0)
        ASSERT_OK(sw_copy_queue_wait(c.queue, &err));
    sw_copy_queue_free(c.queue);
    sw_device_close(dev);
}

enum { PUSHERS = 3, EACH = 200 };

struct pusher {
    struct sw_thread thread;
    struct sw_copy_queue *queue;
    char *dst;
    unsigned char host[BYTES];
    atomic_int *done;
};

static void count_done(void *user, int rc)
{
    struct pusher *p = user;
    if (rc == SW_OK)
        atomic_fetch_add(p->done, 1);
}

static void pusher_main(void *arg)
{
    struct pusher *p = arg;
    for (int i = 0; i < EACH;) {
        struct sw_copy_event e = {.direction = SW_COPY_TO_DEVICE,
                                  .dst = p->dst,
                                  .src = p->host,
                                  .bytes = BYTES,
                                  .priority = i % 7,
                                  .done = count_done,
                                  .user = p};
        struct sw_err err;
        int rc = sw_copy_queue_push(p->queue, &e, &err);
        i += rc == SW_OK;
        if (rc == SW_ERR_BUSY)
            sleep_ms(1);
    }
}

static void many_threads_push_while_the_worker_drains(void **state)
{
    struct sw_device *dev = open_sim(0);
    struct sw_copy_queue *q = new_queue(dev, 32);
    struct pusher p[PUSHERS];
    atomic_int done;
    struct sw_err err;
    atomic_init(&done, 0);
    for (int i = 0; i < PUSHERS; i++) {
        p[i] = (struct pusher){.queue = q, .dst = device_bytes(dev, BYTES), .done = &done};
        ASSERT_OK(sw_thread_start(&p[i].thread, "pusher", pusher_main, &p[i], &err));
    }
    while (atomic_load(&done) < PUSHERS * EACH) {
        ASSERT_OK(sw_copy_queue_drain(q, &err));
        sleep_ms(1);
    }
    for (int i = 0; i < PUSHERS; i++)
        sw_thread_join(&p[i].thread);
    sw_copy_queue_free(q);
    assert_int_equal(atomic_load(&done), PUSHERS * EACH);
    sw_device_close(dev);
}

static void on_the_cpu_draining_copies_at_once(void **state)
{
    struct fixture cpu = open_cpu(true, 1);
    struct sw_copy_queue *q = new_queue(cpu.dev, 4);
    unsigned char x[BYTES] = {0};
    struct job job = {.number = 3};
    struct log log;
    struct sw_err err;
    log_init(&log);
    job.log = &log;
    memset(job.host, 9, BYTES);
    push(q, inwards(&job, x, 0));
    assert_int_equal(x[0], 0);
    ASSERT_OK(sw_copy_queue_drain(q, &err));
    assert_int_equal(x[BYTES - 1], 9);
    assert_int_equal(log.count, 1);
    sw_copy_queue_free(q);
    close_cpu(&cpu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(most_urgent_copies_are_issued_first),
        cmocka_unit_test(events_order_copies_with_computation),
        cmocka_unit_test(full_and_closed_queues_refuse_copies),
        cmocka_unit_test(every_copy_completes_once_when_the_device_hangs),
        cmocka_unit_test(copy_that_cannot_be_issued_completes_with_its_error),
        cmocka_unit_test(failed_copy_does_not_affect_the_next_one),
        cmocka_unit_test(done_callback_may_push_the_next_copy),
        cmocka_unit_test(many_threads_push_while_the_worker_drains),
        cmocka_unit_test(on_the_cpu_draining_copies_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
