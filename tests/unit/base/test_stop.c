/* The process's request to stop: who sees it, and what a holder keeps from those below. */
#include "base/stop.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static int forget(void **state)
{
    sw_stop_reset();
    return 0;
}

static void nothing_is_cancelled_unless_asked(void **state)
{
    struct sw_err err;
    assert_int_equal(sw_stop_requests(), 0);
    assert_int_equal(sw_stop_signal(), 0);
    assert_int_equal(sw_stop_check(&err), SW_OK);
}

static void a_request_cancels_until_it_is_forgotten(void **state)
{
    struct sw_err err;
    assert_int_equal(sw_stop_request(SIGTERM), 1);
    assert_int_equal(sw_stop_request(SIGINT), 2);
    assert_int_equal(sw_stop_signal(), SIGTERM);
    assert_int_equal(sw_stop_check(&err), SW_ERR_CANCELLED);
    assert_string_equal(err.text, "stopped by request");
    assert_int_equal(sw_stop_check(NULL), SW_ERR_CANCELLED);
    sw_stop_reset();
    assert_int_equal(sw_stop_check(&err), SW_OK);
    assert_int_equal(sw_stop_signal(), 0);
}

static void a_holder_answers_the_first_request_and_no_other(void **state)
{
    struct sw_err err;
    assert_int_equal(sw_stop_hold(&err), SW_OK);
    assert_int_equal(sw_stop_request(0), 1);
    assert_int_equal(sw_stop_check(&err), SW_OK);
    assert_int_equal(sw_stop_request(0), 2);
    assert_int_equal(sw_stop_check(&err), SW_ERR_CANCELLED);
    sw_stop_release();
    assert_int_equal(sw_stop_check(&err), SW_ERR_CANCELLED);
}

static void what_was_asked_for_cannot_be_held(void **state)
{
    struct sw_err err;
    sw_stop_request(SIGINT);
    assert_int_equal(sw_stop_hold(&err), SW_ERR_CANCELLED);
    assert_int_equal(sw_stop_check(&err), SW_ERR_CANCELLED);
    sw_stop_reset();
    sw_stop_request(0);
    assert_int_equal(sw_stop_check(&err), SW_ERR_CANCELLED); /* the hold left nothing behind */
}

static void on_signal(int number)
{
    sw_stop_request(number);
}

static void a_handler_may_ask(void **state)
{
    struct sw_err err;
    struct sigaction action = {.sa_handler = on_signal}, old;
    sigaction(SIGUSR2, &action, &old);
    raise(SIGUSR2);
    sigaction(SIGUSR2, &old, NULL);
    assert_int_equal(sw_stop_signal(), SIGUSR2);
    assert_int_equal(sw_stop_check(&err), SW_ERR_CANCELLED);
}

static void many_requests_do_not_become_holders(void **state)
{
    struct sw_err err;
    for (int i = 0; i < 70000; i++)
        sw_stop_request(0);
    assert_int_equal(sw_stop_check(&err), SW_ERR_CANCELLED);
    sw_stop_reset();
    sw_stop_request(0);
    assert_int_equal(sw_stop_check(&err), SW_ERR_CANCELLED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(nothing_is_cancelled_unless_asked, forget),
        cmocka_unit_test_setup(a_request_cancels_until_it_is_forgotten, forget),
        cmocka_unit_test_setup(a_holder_answers_the_first_request_and_no_other, forget),
        cmocka_unit_test_setup(what_was_asked_for_cannot_be_held, forget),
        cmocka_unit_test_setup(a_handler_may_ask, forget),
        cmocka_unit_test_setup(many_requests_do_not_become_holders, forget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
