/* The process-wide request to stop: which checks report it, and which requests a holder masks. */
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

static void check_passes_without_a_request(void **state)
{
    struct sw_err err;
    assert_int_equal(sw_stop_requests(), 0);
    assert_int_equal(sw_stop_signal(), 0);
    assert_int_equal(sw_stop_check(&err), SW_OK);
}

static void request_cancels_until_reset(void **state)
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

static void hold_masks_only_the_first_request(void **state)
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

static void hold_after_a_request_fails(void **state)
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

static void signal_handler_can_request(void **state)
{
    struct sw_err err;
    struct sigaction action = {.sa_handler = on_signal}, old;
    sigaction(SIGUSR2, &action, &old);
    raise(SIGUSR2);
    sigaction(SIGUSR2, &old, NULL);
    assert_int_equal(sw_stop_signal(), SIGUSR2);
    assert_int_equal(sw_stop_check(&err), SW_ERR_CANCELLED);
}

static void request_count_saturates(void **state)
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
        cmocka_unit_test_setup(check_passes_without_a_request, forget),
        cmocka_unit_test_setup(request_cancels_until_reset, forget),
        cmocka_unit_test_setup(hold_masks_only_the_first_request, forget),
        cmocka_unit_test_setup(hold_after_a_request_fails, forget),
        cmocka_unit_test_setup(signal_handler_can_request, forget),
        cmocka_unit_test_setup(request_count_saturates, forget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
