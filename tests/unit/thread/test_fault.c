/* ctest-labels: threads */
#include "thread/fault.h"
#include "thread/queue.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void count_close(void *object)
{
    ++*(int *)object;
}

static struct sw_err error(int code, const char *text)
{
    struct sw_err e;
    sw_err_set(&e, code, "%s", text);
    return e;
}

static void first_error_wins_and_closes_once(void **state)
{
    struct sw_fault f;
    struct sw_err e, got = {0};
    int closed[2] = {0};
    sw_fault_init(&f);
    assert_int_equal(sw_fault_attach(&f, count_close, &closed[0], NULL), SW_OK);
    assert_int_equal(sw_fault_attach(&f, count_close, &closed[1], NULL), SW_OK);
    assert_false(sw_fault_is_set(&f));
    assert_int_equal(sw_fault_get(&f, &got), SW_OK);
    e = error(SW_ERR_DIVERGED, "loss is NaN");
    sw_fault_set(&f, "worker0.0", &e);
    e = error(SW_ERR_IO, "too late");
    sw_fault_set(&f, "server0.0", &e);
    assert_true(sw_fault_is_set(&f));
    assert_int_equal(sw_fault_get(&f, &got), SW_ERR_DIVERGED);
    assert_string_equal(got.text, "worker0.0: loss is NaN");
    assert_int_equal(closed[0], 1);
    assert_int_equal(closed[1], 1);
    sw_fault_fini(&f);
}

static void cancelled_is_not_recorded_as_the_cause(void **state)
{
    struct sw_fault f;
    int closed = 0;
    struct sw_err e = error(SW_ERR_CANCELLED, "cancelled");
    sw_fault_init(&f);
    assert_int_equal(sw_fault_attach(&f, count_close, &closed, NULL), SW_OK);
    sw_fault_set(&f, "prefetch", &e);
    assert_false(sw_fault_is_set(&f));
    assert_int_equal(closed, 0);
    sw_fault_fini(&f);
}

static void attaching_to_a_fault_closes_at_once(void **state)
{
    struct sw_fault f;
    int closed = 0;
    struct sw_err e = error(SW_OK, "an error that forgot its code");
    sw_fault_init(&f);
    sw_fault_set(&f, "x", &e);
    assert_true(sw_fault_is_set(&f));
    assert_int_equal(sw_fault_attach(&f, count_close, &closed, NULL), SW_OK);
    assert_int_equal(closed, 1);
    sw_fault_fini(&f);
}

static void detached_objects_are_left_alone(void **state)
{
    struct sw_fault f;
    int closed[3] = {0};
    struct sw_err e = error(SW_ERR_IO, "x");
    sw_fault_init(&f);
    for (int i = 0; i < 3; i++)
        assert_int_equal(sw_fault_attach(&f, count_close, &closed[i], NULL), SW_OK);
    sw_fault_detach(&f, &closed[1]);
    sw_fault_detach(&f, &e);
    sw_fault_set(&f, "x", &e);
    assert_int_equal(closed[0], 1);
    assert_int_equal(closed[1], 0);
    assert_int_equal(closed[2], 1);
    sw_fault_fini(&f);
}

static void any_number_of_objects_is_closed(void **state)
{
    enum { MANY = 2000 };
    static int closed[MANY];
    struct sw_err e = error(SW_ERR_IO, "x");
    struct sw_fault f;

    sw_fault_init(&f);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(sw_fault_attach(&f, count_close, &closed[i], &e), SW_OK);
    for (int i = 0; i < MANY; i += 2) /* and after some were detached */
        sw_fault_detach(&f, &closed[i]);
    for (int i = 0; i < MANY; i += 2)
        assert_int_equal(sw_fault_attach(&f, count_close, &closed[i], &e), SW_OK);
    sw_fault_set(&f, "x", &e);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(closed[i], 1);
    sw_fault_fini(&f);
}

struct role {
    struct sw_fault *f;
    struct sw_queue *empty, *full;
    int mine;
};

/* Three roles wait forever; after the fault each reports SW_ERR_CANCELLED, which must not become
 * the cause. */
static void wait_for_ever(void *arg)
{
    struct role *r = arg;
    struct sw_err e = {0};
    int item = 0;
    int rc = r->mine % 2 ? sw_queue_pop(r->empty, &item) : sw_queue_push(r->full, &item);
    sw_err_set(&e, rc, "woken");
    sw_fault_set(r->f, "waiter", &e);
}

/* And three fail at the same time. */
static void fail_now(void *arg)
{
    struct role *r = arg;
    char source[16];
    struct sw_err e = error(SW_ERR_INVALID - r->mine, "cause");
    snprintf(source, sizeof source, "role%d", r->mine);
    sw_fault_set(r->f, source, &e);
}

static void one_fault_ends_every_wait(void **state)
{
    for (int repeat = 0; repeat < 20; repeat++) {
        struct sw_fault f;
        struct sw_queue empty, full;
        struct role r[6];
        struct sw_thread t[6];
        struct sw_err got = {0};
        sw_fault_init(&f);
        assert_int_equal(sw_queue_init(&empty, sizeof(int), 1, NULL), SW_OK);
        assert_int_equal(sw_queue_init(&full, sizeof(int), 1, NULL), SW_OK);
        assert_int_equal(sw_queue_push(&full, &repeat), SW_OK);
        assert_int_equal(sw_fault_attach(&f, sw_queue_close_v, &empty, NULL), SW_OK);
        assert_int_equal(sw_fault_attach(&f, sw_queue_close_v, &full, NULL), SW_OK);
        for (int i = 0; i < 6; i++) {
            r[i] = (struct role){.f = &f, .empty = &empty, .full = &full, .mine = i % 3};
            assert_int_equal(
                sw_thread_start(&t[i], "role", i < 3 ? wait_for_ever : fail_now, &r[i], NULL),
                SW_OK);
        }
        for (int i = 0; i < 6; i++)
            sw_thread_join(&t[i]);
        int code = sw_fault_get(&f, &got), winner = SW_ERR_INVALID - code;
        assert_in_range(winner, 0, 2);
        char want[32];
        snprintf(want, sizeof want, "role%d: cause", winner);
        assert_string_equal(got.text, want);
        sw_fault_detach(&f, &empty);
        sw_fault_detach(&f, &full);
        sw_queue_fini(&empty);
        sw_queue_fini(&full);
        sw_fault_fini(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_error_wins_and_closes_once),
        cmocka_unit_test(cancelled_is_not_recorded_as_the_cause),
        cmocka_unit_test(attaching_to_a_fault_closes_at_once),
        cmocka_unit_test(detached_objects_are_left_alone),
        cmocka_unit_test(any_number_of_objects_is_closed),
        cmocka_unit_test(one_fault_ends_every_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
