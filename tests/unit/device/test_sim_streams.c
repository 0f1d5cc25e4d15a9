/* ctest-labels: threads
 * The streams of sim: order, missing waits, events, persistent errors, devices that hang or are
 * lost, and freeing that never hangs. */
#include "device/ops/elementwise.h"
#include "kernels/ops/dropout.h"
#include "kernels/ops/softmax_loss.h"
#include "sim_support.h"

/* ---- Copies are asynchronous ---- */

static void copy_without_a_wait_reads_old_data(void **state)
{
    struct sw_device *dev = open_sim(0);
    struct sw_stream *s = new_stream(dev);
    float ones[4] = {1, 1, 1, 1}, host[4] = {5, 5, 5, 5};
    struct gate g;
    struct sw_err err;
    float *x = to_device(s, ones, sizeof ones);
    hold(s, &g);
    ASSERT_OK(sw_op_add(s, x, x, 4, &err));
    ASSERT_OK(sw_copy(s, host, x, sizeof host, &err));
    assert_true(host[0] == 5 && host[3] == 5); /* read too early: old data */
    gate_open(&g);
    ASSERT_OK(sw_stream_wait(s, &err));
    assert_true(host[0] == 2 && host[3] == 2);
    sw_stream_free(s);
    gate_fini(&g);
    sw_device_close(dev);
}

static void copy_reads_its_source_when_it_runs(void **state)
{
    struct sw_device *dev = open_sim(0);
    struct sw_stream *s = new_stream(dev);
    float host[4] = {1, 1, 1, 1}, back[4];
    struct gate g;
    struct sw_err err;
    float *x = device_bytes(dev, sizeof host);
    hold(s, &g);
    ASSERT_OK(sw_copy(s, x, host, sizeof host, &err));
    for (int i = 0; i < 4; i++)
        host[i] = 9; /* changed before the copy was waited for */
    gate_open(&g);
    to_host(s, back, x, sizeof back);
    assert_true(back[0] == 9 && back[3] == 9);
    sw_stream_free(s);
    gate_fini(&g);
    sw_device_close(dev);
}

/* The device is cancelled between filling and moving the bytes, so that the fill can be checked. */
static void copy_in_flight_shows_signaling_nan(void **state)
{
    static const uint32_t signalling = 0x7fa00000;
    struct sw_sim_conf conf = small_conf();
    unsigned char host[30];
    struct canceller c;
    struct sw_err err;
    conf.copy_delay_us = 60 * 1000000;
    struct sw_device *dev = open_sim_with(0, conf);
    struct sw_stream *s = new_stream(dev);
    void *x = device_bytes(dev, 100);
    memset(host, 1, sizeof host);
    ASSERT_OK(sw_copy_2d(s, &(struct sw_copy_2d){host, 10, x, 20, 8, 3}, &err));
    cancel_later(&c, dev, 1);
    assert_int_equal(sw_stream_wait(s, &err), SW_ERR_CANCELLED);
    sw_thread_join(&c.thread);
    for (int row = 0; row < 3; row++) {
        assert_memory_equal(host + 10 * row, &signalling, 4);
        assert_memory_equal(host + 10 * row + 4, &signalling, 4);
        assert_int_equal(host[10 * row + 8], 1);
        assert_int_equal(host[10 * row + 9], 1);
    }
    sw_stream_free(s);
    sw_device_close(dev);
}

static void copies_between_devices_and_the_cpu_are_exact(void **state)
{
    enum { BYTES = 1000 };
    struct sw_device *a = open_sim(0), *b = open_sim(1);
    struct fixture cpu = open_cpu(true, 1);
    struct sw_stream *s = new_stream(a), *t = new_stream(b);
    unsigned char host[BYTES], back[BYTES];
    struct sw_err err;
    for (int i = 0; i < BYTES; i++)
        host[i] = (unsigned char)(i % 251);
    void *on_a = device_bytes(a, BYTES), *on_b = device_bytes(b, BYTES);
    ASSERT_OK(sw_copy_peer(s, a, on_a, cpu.dev, host, BYTES, &err));
    ASSERT_OK(sw_copy_peer(s, b, on_b, a, on_a, BYTES, &err));
    ASSERT_OK(sw_stream_wait(s, &err));
    ASSERT_OK(sw_copy_peer(t, cpu.dev, back, b, on_b, BYTES, &err));
    ASSERT_OK(sw_stream_wait(t, &err));
    assert_same_bits("round trip", back, host, BYTES);

    assert_int_equal(sw_copy_peer(s, b, on_b, cpu.dev, host, BYTES, &err), SW_ERR_INVALID);
    assert_says(&err, "sim:0: copy_peer: cannot copy from cpu to sim:1");
    assert_int_equal(sw_copy_peer(s, b, on_a, a, on_a, BYTES, &err), SW_ERR_INVALID);
    assert_says(&err, "is not memory of sim:1");
    assert_int_equal(sw_copy_peer(cpu.stream, a, on_a, cpu.dev, host, BYTES, &err), SW_ERR_INVALID);
    assert_says(&err, "from cpu to sim:0");
    sw_stream_free(s);
    sw_stream_free(t);
    close_cpu(&cpu);
    sw_device_close(a);
    sw_device_close(b);
}

/* ---- Order ---- */

struct order {
    int count, of[8];
};

struct mark {
    struct order *order;
    int number;
};

/* Calls in tests are ordered by events, so that the array needs no lock. */
static void mark(void *user)
{
    struct mark *m = user;
    m->order->of[m->order->count++] = m->number;
}

static void events_order_streams(void **state)
{
    struct sw_device *a = open_sim(0), *b = open_sim(1);
    struct sw_stream *s[3] = {new_stream(a), new_stream(a), new_stream(b)};
    struct sw_event *first = new_event(a), *second = new_event(a);
    struct order order = {0};
    struct mark m[3] = {{&order, 0}, {&order, 1}, {&order, 2}};
    struct gate g;
    struct sw_err err;
    hold(s[0], &g);
    ASSERT_OK(sw_stream_call(s[0], mark, &m[0], &err));
    ASSERT_OK(sw_event_record(s[0], first, &err));
    ASSERT_OK(sw_event_wait(s[1], first, &err));
    ASSERT_OK(sw_stream_call(s[1], mark, &m[1], &err));
    ASSERT_OK(sw_event_record(s[1], second, &err));
    ASSERT_OK(sw_event_wait(s[2], second, &err));
    ASSERT_OK(sw_stream_call(s[2], mark, &m[2], &err));
    sw_event_free(a, first); /* queued operations keep the event */
    gate_open(&g);
    ASSERT_OK(sw_event_host_wait(a, second, &err));
    assert_true(order.of[0] == 0 && order.of[1] == 1);
    ASSERT_OK(sw_stream_wait(s[2], &err));
    assert_int_equal(order.count, 3);
    assert_int_equal(order.of[2], 2);
    sw_event_free(a, second);
    for (int i = 0; i < 3; i++)
        sw_stream_free(s[i]);
    gate_fini(&g);
    sw_device_close(a);
    sw_device_close(b);
}

static void wait_for_unrecorded_event_returns_at_once(void **state)
{
    struct sw_device *dev = open_sim(0);
    struct sw_stream *s = new_stream(dev);
    struct sw_event *e = new_event(dev);
    struct sw_err err;
    ASSERT_OK(sw_event_wait(s, e, &err));
    ASSERT_OK(sw_event_host_wait(dev, e, &err));
    ASSERT_OK(sw_stream_wait(s, &err));
    sw_event_free(dev, e);
    sw_stream_free(s);
    sw_device_close(dev);
}

/* A wait is for the record before it, not for a later one. */
static void recording_an_event_again_does_not_delay_waiters(void **state)
{
    struct sw_device *dev = open_sim(0);
    struct sw_stream *s = new_stream(dev), *t = new_stream(dev);
    struct sw_event *e = new_event(dev);
    struct gate g;
    struct sw_err err;
    ASSERT_OK(sw_event_record(s, e, &err));
    ASSERT_OK(sw_event_wait(t, e, &err));
    hold(s, &g);
    ASSERT_OK(sw_event_record(s, e, &err));
    ASSERT_OK(sw_stream_wait(t, &err));
    gate_open(&g);
    ASSERT_OK(sw_event_host_wait(dev, e, &err));
    sw_event_free(dev, e);
    sw_stream_free(s);
    sw_stream_free(t);
    gate_fini(&g);
    sw_device_close(dev);
}

/* ---- Random programs ---- */

enum { DEVICES = 2, STREAMS = 4, BUFFERS = 8, FLOATS = 64, STEPS = 150 };

/* Buffers and streams belong to device (index % DEVICES). Every step is an operation of one stream
 * and an event; before it, the stream waits for the last steps that touched its buffers. */
struct program {
    struct sw_device *dev[DEVICES];
    struct sw_stream *stream[STREAMS];
    struct sw_event *event[STEPS];
    float *buffer[BUFFERS], *want[BUFFERS]; /* on the device; what sequential execution gives */
    int writer[BUFFERS];                    /* step; -1: none */
    int reader[BUFFERS][STREAMS]; /* the latest step of each stream since then; -1: none */
    int calls[STREAMS];
};

static void await_step(struct program *p, int stream, int step)
{
    struct sw_err err;
    if (step >= 0)
        ASSERT_OK(sw_event_wait(p->stream[stream], p->event[step], &err));
}

static void before(struct program *p, int stream, int x, int y)
{
    await_step(p, stream, p->writer[x]);
    await_step(p, stream, p->writer[y]);
    for (int i = 0; i < STREAMS; i++)
        await_step(p, stream, p->reader[y][i]);
}

static void after(struct program *p, int stream, int x, int y, int step)
{
    struct sw_err err;
    ASSERT_OK(sw_event_record(p->stream[stream], p->event[step], &err));
    p->reader[x][stream] = step;
    p->writer[y] = step;
    for (int i = 0; i < STREAMS; i++)
        p->reader[y][i] = -1;
}

static void count_call(void *calls)
{
    ++*(int *)calls;
}

/* y = f(x), on a stream of y's device and by the cpu. */
static void random_step(struct program *p, struct sw_stream *cpu, struct rng *r, int step)
{
    enum { BYTES = FLOATS * sizeof(float) };
    int stream = (int)rng_int(r, 0, STREAMS - 1), device = stream % DEVICES;
    int y = (int)rng_int(r, 0, BUFFERS / DEVICES - 1) * DEVICES + device, x;
    struct sw_stream *s = p->stream[stream];
    struct sw_err err;
    do
        x = (int)rng_int(r, 0, BUFFERS - 1);
    while (x == y);
    before(p, stream, x, y);
    if (x % DEVICES != device) {
        ASSERT_OK(sw_copy_peer(s, p->dev[device], p->buffer[y], p->dev[x % DEVICES], p->buffer[x],
                               BYTES, &err));
        ASSERT_OK(sw_copy(cpu, p->want[y], p->want[x], BYTES, &err));
    } else if (rng_int(r, 0, 2) == 0) {
        ASSERT_OK(sw_op_activation(s, SW_ACT_TANH, 0, p->buffer[x], p->buffer[y], FLOATS, &err));
        ASSERT_OK(sw_op_activation(cpu, SW_ACT_TANH, 0, p->want[x], p->want[y], FLOATS, &err));
    } else if (rng_int(r, 0, 4) == 0) {
        ASSERT_OK(sw_copy(s, p->buffer[y], p->buffer[x], BYTES, &err));
        ASSERT_OK(sw_copy(cpu, p->want[y], p->want[x], BYTES, &err));
    } else {
        ASSERT_OK(sw_op_add(s, p->buffer[y], p->buffer[x], FLOATS, &err));
        ASSERT_OK(sw_op_add(cpu, p->want[y], p->want[x], FLOATS, &err));
    }
    ASSERT_OK(sw_stream_call(s, count_call, &p->calls[stream], &err));
    after(p, stream, x, y, step);
}

static void program_init(struct program *p, struct rng *r)
{
    memset(p, 0, sizeof *p);
    for (int i = 0; i < DEVICES; i++)
        p->dev[i] = open_sim(i);
    for (int i = 0; i < STREAMS; i++)
        p->stream[i] = new_stream(p->dev[i % DEVICES]);
    for (int i = 0; i < STEPS; i++)
        p->event[i] = new_event(p->dev[0]);
    for (int i = 0; i < BUFFERS; i++) {
        p->want[i] = random_floats(r, FLOATS, -1, 1);
        p->buffer[i] = to_device(p->stream[i % DEVICES], p->want[i], FLOATS * sizeof(float));
        p->writer[i] = -1;
        for (int j = 0; j < STREAMS; j++)
            p->reader[i][j] = -1;
    }
}

static void program_fini(struct program *p)
{
    for (int i = 0; i < STEPS; i++)
        sw_event_free(p->dev[0], p->event[i]);
    for (int i = 0; i < STREAMS; i++)
        sw_stream_free(p->stream[i]);
    for (int i = 0; i < BUFFERS; i++) {
        sw_device_free(p->dev[i % DEVICES], p->buffer[i], FLOATS * sizeof(float));
        free(p->want[i]);
    }
    for (int i = 0; i < DEVICES; i++) {
        assert_int_equal(sw_device_bytes_of(p->dev[i]).in_use, 0);
        sw_device_close(p->dev[i]);
    }
}

static void random_programs_match_sequential_execution(void **state)
{
    struct fixture cpu = open_cpu(true, 1);
    for (uint64_t seed = 0; seed < 12; seed++) {
        struct rng r = rng_of(seed);
        struct program p;
        struct sw_err err;
        float got[FLOATS];
        int calls = 0;
        program_init(&p, &r);
        for (int step = 0; step < STEPS; step++)
            random_step(&p, cpu.stream, &r, step);
        for (int i = 0; i < STREAMS; i++) {
            ASSERT_OK(sw_stream_wait(p.stream[i], &err));
            calls += p.calls[i];
        }
        assert_int_equal(calls, STEPS);
        for (int i = 0; i < BUFFERS; i++) {
            to_host(p.stream[i % DEVICES], got, p.buffer[i], sizeof got);
            assert_same_bits("buffer", got, p.want[i], sizeof got);
        }
        program_fini(&p);
    }
    close_cpu(&cpu);
}

/* ---- Persistent errors ---- */

struct loss {
    float *x;
    int32_t *label;
    struct sw_step *step;
    struct sw_result *result;
};

/* One row of four classes whose label does not exist. */
static struct loss wrong_label(struct sw_stream *s)
{
    const float x[4] = {1, 2, 3, 4};
    const int32_t label = 4;
    const struct sw_step step = {.valid_rows = 1};
    return (struct loss){.x = to_device(s, x, sizeof x),
                         .label = to_device(s, &label, sizeof label),
                         .step = to_device(s, &step, sizeof step),
                         .result = device_bytes(s->dev, sizeof(struct sw_result))};
}

static int run_loss(struct sw_stream *s, const struct loss *l, struct sw_err *err)
{
    return sw_op_run(s, &sw_op_softmax_loss,
                     &(struct sw_softmax_loss_args){.rows = 1,
                                                    .classes = 4,
                                                    .weight = 1,
                                                    .x = l->x,
                                                    .labels = {.label = l->label},
                                                    .step = l->step,
                                                    .prob = l->x,
                                                    .result = l->result},
                     err);
}

static void set_flag(void *flag)
{
    *(bool *)flag = true;
}

static void first_error_of_a_stream_persists(void **state)
{
    struct sw_device *dev = open_sim(0);
    struct sw_stream *s = new_stream(dev), *other = new_stream(dev);
    struct loss l = wrong_label(s);
    bool called = false;
    struct sw_err err, again;
    ASSERT_OK(run_loss(s, &l, &err));
    assert_int_equal(sw_stream_wait(s, &err), SW_ERR_INVALID);
    assert_says(&err, "sim:0: softmax_loss: the label of row 0 is 4");
    assert_int_equal(sw_stream_wait(s, &again), SW_ERR_INVALID);
    assert_string_equal(again.text, err.text);
    assert_int_equal(sw_op_add(s, l.x, l.x, 4, &again), SW_ERR_INVALID);
    assert_string_equal(again.text, err.text);
    assert_int_equal(sw_stream_call(s, set_flag, &called, &again), SW_ERR_INVALID);
    assert_false(called);
    ASSERT_OK(sw_op_add(other, l.x, l.x, 4, &again));
    ASSERT_OK(sw_stream_wait(other, &again));
    sw_stream_free(s);
    sw_stream_free(other);
    sw_device_close(dev);
}

static void operations_after_an_error_do_not_run(void **state)
{
    struct sw_device *dev = open_sim(0);
    struct sw_stream *s = new_stream(dev), *reader = new_stream(dev);
    struct loss l = wrong_label(s);
    float host[4];
    bool called = false;
    struct gate g;
    struct sw_err err;
    hold(s, &g);
    ASSERT_OK(run_loss(s, &l, &err));
    ASSERT_OK(sw_fill_zero(s, l.x, 16, &err));
    ASSERT_OK(sw_stream_call(s, set_flag, &called, &err));
    gate_open(&g);
    assert_int_equal(sw_stream_wait(s, &err), SW_ERR_INVALID);
    to_host(reader, host, l.x, sizeof host);
    assert_true(host[0] == 1 && host[3] == 4);
    assert_false(called);
    sw_stream_free(s);
    sw_stream_free(reader);
    gate_fini(&g);
    sw_device_close(dev);
}

static void wait_for_a_failed_stream_returns_its_error(void **state)
{
    struct sw_device *dev = open_sim(0), *second = open_sim(1);
    struct sw_stream *s = new_stream(dev), *waiter = new_stream(second);
    struct sw_event *e = new_event(dev);
    struct loss l = wrong_label(s);
    struct gate g;
    struct sw_err err;
    hold(s, &g);
    ASSERT_OK(run_loss(s, &l, &err));
    ASSERT_OK(sw_event_record(s, e, &err));
    ASSERT_OK(sw_event_wait(waiter, e, &err));
    gate_open(&g);
    assert_int_equal(sw_event_host_wait(dev, e, &err), SW_ERR_INVALID);
    assert_says(&err, "the label of row 0");
    assert_int_equal(sw_stream_wait(waiter, &err), SW_ERR_INVALID);
    assert_says(&err, "sim:1: event_wait: sim:0: softmax_loss");
    /* A record that cannot be queued passes on the error, too. */
    assert_int_equal(sw_event_record(s, e, &err), SW_ERR_INVALID);
    assert_int_equal(sw_event_host_wait(dev, e, &err), SW_ERR_INVALID);
    sw_event_free(dev, e);
    sw_stream_free(s);
    sw_stream_free(waiter);
    gate_fini(&g);
    sw_device_close(dev);
    sw_device_close(second);
}

/* ---- Devices that hang or get lost ---- */

static void a_lost_device_fails_on_every_stream(void **state)
{
    struct sw_device *dev = open_sim(0);
    struct sw_stream *s = new_stream(dev), *other = new_stream(dev);
    float *x = device_bytes(dev, 16);
    struct sw_err err;
    sw_sim_inject(dev, SW_SIM_LOST, 2);
    for (int i = 0; i < 2; i++)
        ASSERT_OK(sw_op_add(s, x, x, 4, &err));
    ASSERT_OK(sw_stream_wait(s, &err));
    ASSERT_OK(sw_fill_zero(s, x, 16, &err));
    assert_int_equal(sw_stream_wait(s, &err), SW_ERR_LIBRARY);
    assert_string_equal(err.text, "sim:0: fill_zero: the device is lost");
    ASSERT_OK(sw_op_add(other, x, x, 4, &err));
    assert_int_equal(sw_stream_wait(other, &err), SW_ERR_LIBRARY);
    assert_says(&err, "add: the device is lost");
    sw_stream_free(s);
    sw_stream_free(other);
    sw_device_close(dev);
}

static void cancelling_ends_a_hang_and_every_wait(void **state)
{
    struct sw_device *dev = open_sim(0), *second = open_sim(1);
    struct sw_stream *s = new_stream(dev), *waiter = new_stream(second), *late;
    struct sw_event *e = new_event(dev);
    float *x = device_bytes(dev, 16);
    struct canceller c;
    bool called = false;
    struct sw_err err;
    sw_sim_inject(dev, SW_SIM_HANG, 1);
    for (int i = 0; i < 3; i++)
        ASSERT_OK(sw_op_add(s, x, x, 4, &err));
    ASSERT_OK(sw_event_record(s, e, &err));
    ASSERT_OK(sw_stream_call(s, set_flag, &called, &err));
    ASSERT_OK(sw_event_wait(waiter, e, &err));
    cancel_later(&c, dev, 2);
    assert_int_equal(sw_event_host_wait(dev, e, &err), SW_ERR_CANCELLED);
    assert_int_equal(sw_stream_wait(s, &err), SW_ERR_CANCELLED);
    assert_int_equal(sw_stream_wait(waiter, &err), SW_ERR_CANCELLED);
    assert_int_equal(sw_op_add(s, x, x, 4, &err), SW_ERR_CANCELLED);
    sw_thread_join(&c.thread);
    assert_false(called);
    assert_int_equal(sw_sim_operations(dev), 2);
    assert_int_equal(sw_stream_new(dev, 1, &late, &err), SW_ERR_CANCELLED);
    sw_event_free(dev, e);
    sw_stream_free(s);
    sw_stream_free(waiter);
    sw_device_close(dev);
    sw_device_close(second);
}

static void cancelling_ends_a_wait_for_another_devices_event(void **state)
{
    struct sw_device *dev = open_sim(0), *second = open_sim(1);
    struct sw_stream *s = new_stream(dev), *waiter = new_stream(second);
    struct sw_event *e = new_event(dev);
    struct canceller c;
    struct gate g;
    struct sw_err err;
    hold(s, &g);
    ASSERT_OK(sw_event_record(s, e, &err));
    ASSERT_OK(sw_event_wait(waiter, e, &err));
    cancel_later(&c, second, 0);
    assert_int_equal(sw_stream_wait(waiter, &err), SW_ERR_CANCELLED);
    sw_thread_join(&c.thread);
    gate_open(&g);
    ASSERT_OK(sw_stream_wait(s, &err));
    sw_event_free(dev, e);
    sw_stream_free(s);
    sw_stream_free(waiter);
    gate_fini(&g);
    sw_device_close(dev);
    sw_device_close(second);
}

/* ---- The end ---- */

static void freeing_a_stream_runs_what_is_queued(void **state)
{
    struct sw_device *dev = open_sim(0);
    struct sw_stream *s = new_stream(dev);
    float *x = device_bytes(dev, 16);
    struct sw_err err;
    for (int i = 0; i < 300; i++)
        ASSERT_OK(sw_op_add(s, x, x, 4, &err));
    sw_stream_free(s);
    assert_int_equal(sw_sim_operations(dev), 300);
    sw_device_close(dev);
}

/* Without cancelling: freeing the stream must end it. */
static void freeing_a_stream_that_hangs_ends(void **state)
{
    struct sw_device *dev = open_sim(0);
    struct sw_stream *s = new_stream(dev), *forsaken = new_stream(dev);
    struct sw_event *e = new_event(dev);
    float *x = device_bytes(dev, 16);
    struct sw_err err;
    sw_sim_inject(dev, SW_SIM_HANG, 0);
    for (int i = 0; i < 100; i++)
        ASSERT_OK(sw_op_add(s, x, x, 4, &err));
    ASSERT_OK(sw_event_record(s, e, &err));
    ASSERT_OK(sw_event_wait(forsaken, e, &err));
    sw_stream_free(forsaken);
    sw_stream_free(s);
    assert_int_equal(sw_event_host_wait(dev, e, &err), SW_ERR_CANCELLED);
    sw_event_free(dev, e);
    sw_device_close(dev);
}

struct pusher {
    struct sw_thread thread;
    struct sw_stream *stream;
    float *x;
    int queued, rc;
};

static void push_until_it_fails(void *arg)
{
    struct pusher *p = arg;
    struct sw_err err;
    while ((p->rc = sw_op_add(p->stream, p->x, p->x, 4, &err)) == SW_OK)
        p->queued++;
}

static void cancelling_wakes_a_thread_that_waits_for_the_ring(void **state)
{
    struct sw_device *dev = open_sim(0);
    struct pusher p = {.stream = new_stream(dev), .x = device_bytes(dev, 16)};
    struct sw_err err;
    sw_sim_inject(dev, SW_SIM_HANG, 0);
    ASSERT_OK(sw_thread_start(&p.thread, "pusher", push_until_it_fails, &p, &err));
    sleep_ms(50);
    sw_device_cancel(dev);
    sw_thread_join(&p.thread);
    assert_int_equal(p.rc, SW_ERR_CANCELLED);
    assert_true(p.queued <= 512);
    sw_stream_free(p.stream);
    sw_device_close(dev);
}

static void plans_are_freed_after_a_hang(void **state)
{
    struct sw_device *dev = open_sim(0);
    struct sw_stream *s = new_stream(dev);
    struct sw_desc d = sw_desc_plain(SW_F32, 2, (const int64_t[]){4, 4});
    float *x = device_bytes(dev, 64), *y = device_bytes(dev, 64);
    struct sw_plan *plan;
    struct sw_err err;
    const struct sw_plan_request request = {
        .kind = SW_PLAN_REORDER, .stream = s, .src = &d, .shape.to = &d};
    ASSERT_OK(sw_plan_new(&request, &plan, &err));
    struct sw_plan_args a = {.src = x, .dst = y};
    sw_sim_inject(dev, SW_SIM_HANG, 1);
    ASSERT_OK(sw_plan_forward(plan, &a, &err));
    ASSERT_OK(sw_plan_forward(plan, &a, &err));
    sw_plan_free(plan);
    sw_stream_free(s);
    sw_device_close(dev);
}

static void a_device_may_be_closed_before_its_stream(void **state)
{
    struct sw_device *dev = open_sim(0);
    struct sw_stream *s = new_stream(dev);
    float *x = device_bytes(dev, 16);
    struct gate g;
    struct sw_err err;
    hold(s, &g);
    gate_wait_reached(&g);
    ASSERT_OK(sw_op_add(s, x, x, 4, &err));
    sw_device_close(dev);
    gate_open(&g);
    assert_int_equal(sw_stream_wait(s, &err), SW_ERR_CANCELLED);
    sw_stream_free(s);
    gate_fini(&g);
}

static void streams_have_limits(void **state)
{
    struct sw_device *dev = open_sim(0);
    struct sw_stream *s[64], *more;
    struct sw_err err;
    assert_int_equal(sw_stream_new(dev, 0, &more, &err), SW_ERR_INVALID);
    for (int i = 0; i < 64; i++)
        s[i] = new_stream(dev);
    assert_int_equal(sw_stream_new(dev, 1, &more, &err), SW_ERR_INVALID);
    assert_says(&err, "sim:0 already has 64 streams");
    for (int i = 0; i < 64; i++)
        sw_stream_free(s[i]);
    sw_stream_free(new_stream(dev));
    sw_device_close(dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copy_without_a_wait_reads_old_data),
        cmocka_unit_test(copy_reads_its_source_when_it_runs),
        cmocka_unit_test(copy_in_flight_shows_signaling_nan),
        cmocka_unit_test(copies_between_devices_and_the_cpu_are_exact),
        cmocka_unit_test(events_order_streams),
        cmocka_unit_test(wait_for_unrecorded_event_returns_at_once),
        cmocka_unit_test(recording_an_event_again_does_not_delay_waiters),
        cmocka_unit_test(random_programs_match_sequential_execution),
        cmocka_unit_test(first_error_of_a_stream_persists),
        cmocka_unit_test(operations_after_an_error_do_not_run),
        cmocka_unit_test(wait_for_a_failed_stream_returns_its_error),
        cmocka_unit_test(a_lost_device_fails_on_every_stream),
        cmocka_unit_test(cancelling_ends_a_hang_and_every_wait),
        cmocka_unit_test(cancelling_ends_a_wait_for_another_devices_event),
        cmocka_unit_test(freeing_a_stream_runs_what_is_queued),
        cmocka_unit_test(freeing_a_stream_that_hangs_ends),
        cmocka_unit_test(cancelling_wakes_a_thread_that_waits_for_the_ring),
        cmocka_unit_test(plans_are_freed_after_a_hang),
        cmocka_unit_test(a_device_may_be_closed_before_its_stream),
        cmocka_unit_test(streams_have_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
