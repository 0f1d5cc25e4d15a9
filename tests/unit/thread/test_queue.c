/* ctest-labels: threads */
#include "thread/queue.h"
#include "unit/faulty_os.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void items_come_out_in_order(void **state)
{
    struct sw_queue q;
    int64_t out = 0;
    assert_int_equal(sw_queue_init(&q, sizeof out, 3, NULL), SW_OK);
    assert_int_equal(sw_queue_try_pop(&q, &out), SW_ERR_BUSY);
    int64_t in = 0, want = 0;
    for (int round = 0; round < 7; round++) {
        for (int i = 0; i < 1 + round % 3; i++, in++)
            assert_int_equal(sw_queue_push(&q, &in), SW_OK);
        for (int i = 0; i < 1 + round % 3; i++) {
            assert_int_equal(i % 2 ? sw_queue_pop(&q, &out) : sw_queue_try_pop(&q, &out), SW_OK);
            assert_int_equal(out, want++);
        }
    }
    sw_queue_fini(&q);
    sw_queue_fini(&q);
}

static void init_refuses_zero_sizes_and_lack_of_memory(void **state)
{
    struct sw_queue q;
    struct sw_err err = {0};
    assert_int_equal(sw_queue_init(&q, 8, 0, &err), SW_ERR_INVALID);
    assert_int_equal(sw_queue_init(&q, 0, 8, &err), SW_ERR_INVALID);
    assert_int_equal(sw_queue_init(&q, SIZE_MAX / 2, 8, &err), SW_ERR_NOMEM);
    faulty_begin((struct faulty_plan){.kinds = FAULTY_ALLOC, .at = 1});
    assert_int_equal(sw_queue_init(&q, 8, 8, &err), SW_ERR_NOMEM);
    faulty_end();
    sw_queue_fini(&q);
}

static void close_drains_and_then_cancels(void **state)
{
    struct sw_queue q;
    int out = 0;
    assert_int_equal(sw_queue_init(&q, sizeof out, 4, NULL), SW_OK);
    for (int i = 1; i <= 2; i++)
        assert_int_equal(sw_queue_push(&q, &i), SW_OK);
    sw_queue_close(&q);
    sw_queue_close_v(&q);
    assert_int_equal(sw_queue_push(&q, &out), SW_ERR_CANCELLED);
    assert_int_equal(sw_queue_pop(&q, &out), SW_OK);
    assert_int_equal(sw_queue_pop_ms(&q, &out, 0), SW_OK);
    assert_int_equal(out, 2);
    assert_int_equal(sw_queue_pop(&q, &out), SW_ERR_CANCELLED);
    assert_int_equal(sw_queue_try_pop(&q, &out), SW_ERR_CANCELLED);
    assert_int_equal(sw_queue_pop_ms(&q, &out, 1000), SW_ERR_CANCELLED);
    assert_int_equal(out, 2);
    sw_queue_fini(&q);
}

static void try_push_returns_busy_when_full(void **state)
{
    struct sw_queue q;
    int in = 7, out = 0;
    assert_int_equal(sw_queue_init(&q, sizeof out, 2, NULL), SW_OK);
    assert_int_equal(sw_queue_try_push(&q, &in), SW_OK);
    assert_int_equal(sw_queue_try_push(&q, &in), SW_OK);
    assert_int_equal(sw_queue_try_push(&q, &in), SW_ERR_BUSY);
    assert_int_equal(sw_queue_pop(&q, &out), SW_OK);
    assert_int_equal(out, 7);
    assert_int_equal(sw_queue_try_push(&q, &in), SW_OK);
    sw_queue_close(&q);
    assert_int_equal(sw_queue_try_push(&q, &in), SW_ERR_CANCELLED);
    sw_queue_fini(&q);
}

static void pop_ms_returns_busy_after_the_timeout(void **state)
{
    struct sw_queue q;
    int out = 0;
    assert_int_equal(sw_queue_init(&q, sizeof out, 4, NULL), SW_OK);
    int64_t before = sw_os()->monotonic_ns();
    assert_int_equal(sw_queue_pop_ms(&q, &out, 20), SW_ERR_BUSY);
    assert_true(sw_os()->monotonic_ns() - before >= 20 * 1000000);
    assert_int_equal(sw_queue_pop_ms(&q, &out, 0), SW_ERR_BUSY);
    sw_queue_fini(&q);
}

struct waiter {
    struct sw_queue *q;
    int rc;
};

static void wait_to_pop(void *arg)
{
    struct waiter *w = arg;
    int item;
    w->rc = sw_queue_pop(w->q, &item);
}

static void wait_to_pop_timed(void *arg)
{
    struct waiter *w = arg;
    int item;
    w->rc = sw_queue_pop_ms(w->q, &item, 3600 * 1000);
}

static void wait_to_push(void *arg)
{
    struct waiter *w = arg;
    int item = 0;
    do
        w->rc = sw_queue_push(w->q, &item);
    while (w->rc == SW_OK);
}

static void queue_close_wakes_waiters(void **state)
{
    void (*const mains[])(void *) = {wait_to_pop, wait_to_pop_timed, wait_to_push};
    for (size_t kind = 0; kind < 3; kind++) {
        struct sw_queue q;
        struct waiter w[3];
        struct sw_thread t[3];
        assert_int_equal(sw_queue_init(&q, sizeof(int), 2, NULL), SW_OK);
        for (int i = 0; i < 3; i++) {
            w[i] = (struct waiter){.q = &q};
            assert_int_equal(sw_thread_start(&t[i], "waiter", mains[kind], &w[i], NULL), SW_OK);
        }
        /* Some threads wait by now; the others must not start to wait after the close. */
        for (int i = 0; i < 3; i++)
            assert_false(sw_thread_join_timed(&t[i], 5));
        sw_queue_close(&q);
        for (int i = 0; i < 3; i++) {
            sw_thread_join(&t[i]);
            assert_int_equal(w[i].rc, SW_ERR_CANCELLED);
        }
        sw_queue_fini(&q);
    }
}

enum { THREADS = 3, ITEMS = 3000 };

struct flow {
    struct sw_queue *q;
    int first;       /* of a producer */
    bool in_order;   /* of a consumer: items of one producer came in order */
    long sum, count; /* of a consumer */
};

static void produce(void *arg)
{
    struct flow *f = arg;
    for (int i = 0; i < ITEMS; i++) {
        int item = f->first + i;
        if (sw_queue_push(f->q, &item) != SW_OK)
            return;
    }
}

static void consume(void *arg)
{
    struct flow *f = arg;
    int item, last[THREADS] = {-1, -1, -1};
    f->in_order = true;
    while (sw_queue_pop(f->q, &item) == SW_OK) {
        int producer = item / ITEMS;
        f->in_order = f->in_order && item > last[producer];
        last[producer] = item;
        f->sum += item;
        f->count++;
    }
}

static void every_item_arrives_exactly_once(void **state)
{
    struct sw_queue q;
    struct flow in[THREADS], out[THREADS];
    struct sw_thread t[2 * THREADS];
    long sum = 0, count = 0, n = (long)THREADS * ITEMS;
    assert_int_equal(sw_queue_init(&q, sizeof(int), 5, NULL), SW_OK);
    for (int i = 0; i < THREADS; i++) {
        in[i] = (struct flow){.q = &q, .first = i * ITEMS};
        out[i] = (struct flow){.q = &q};
        assert_int_equal(sw_thread_start(&t[i], "producer", produce, &in[i], NULL), SW_OK);
        assert_int_equal(sw_thread_start(&t[THREADS + i], "consumer", consume, &out[i], NULL),
                         SW_OK);
    }
    for (int i = 0; i < THREADS; i++)
        sw_thread_join(&t[i]);
    sw_queue_close(&q);
    for (int i = 0; i < THREADS; i++) {
        sw_thread_join(&t[THREADS + i]);
        assert_true(out[i].in_order);
        sum += out[i].sum;
        count += out[i].count;
    }
    assert_int_equal(count, n);
    assert_int_equal(sum, n * (n - 1) / 2);
    sw_queue_fini(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_come_out_in_order),
        cmocka_unit_test(init_refuses_zero_sizes_and_lack_of_memory),
        cmocka_unit_test(close_drains_and_then_cancels),
        cmocka_unit_test(try_push_returns_busy_when_full),
        cmocka_unit_test(pop_ms_returns_busy_after_the_timeout),
        cmocka_unit_test(queue_close_wakes_waiters),
        cmocka_unit_test(every_item_arrives_exactly_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
