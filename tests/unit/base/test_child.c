/* Child processes that print lines: normal and long lines, silence, an early exit; and that no
 * process remains. */
#include "base/child.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct sw_child start(const char *script)
{
    struct sw_child c;
    struct sw_err err = {0};
    const char *const words[] = {"/bin/sh", "-c", script, NULL};
    if (sw_child_start(&c, words, &err) != SW_OK)
        fail_msg("%s", err.text);
    return c;
}

static void assert_line(struct sw_child *c, const char *wanted)
{
    char line[SW_CHILD_LINE];
    assert_int_equal(sw_child_line(c, 10000, line), SW_OK);
    assert_string_equal(line, wanted);
}

static void lines_are_read_one_by_one(void **state)
{
    char line[SW_CHILD_LINE];
    struct sw_child c = start("echo one; echo; printf 'two\\nrest'; echo not heard >&2");
    assert_line(&c, "one");
    assert_line(&c, "");
    assert_line(&c, "two");
    assert_line(&c, "rest");
    assert_int_equal(sw_child_line(&c, 10000, line), SW_ERR_NOTFOUND);
    assert_int_equal(sw_child_line(&c, 10000, line), SW_ERR_NOTFOUND);
    sw_child_end(&c);
}

static void long_line_is_truncated(void **state)
{
    char line[SW_CHILD_LINE];
    struct sw_child c = start("printf '%0600d\\n' 7; echo next");
    assert_int_equal(sw_child_line(&c, 10000, line), SW_OK);
    assert_int_equal(strlen(line), SW_CHILD_LINE - 1);
    assert_int_equal(sw_child_line(&c, 10000, line), SW_OK); /* its rest */
    assert_line(&c, "next");
    sw_child_end(&c);
}

static void silent_child_times_out_and_is_killed(void **state)
{
    char line[SW_CHILD_LINE];
    struct sw_child c = start("echo up; trap '' TERM INT; while :; do sleep 1; done");
    pid_t pid = c.pid;
    assert_line(&c, "up");
    assert_int_equal(sw_child_line(&c, 20, line), SW_ERR_BUSY);
    sw_child_end(&c);
    assert_int_equal(kill(pid, 0), -1);
    assert_int_equal(errno, ESRCH);
}

static void child_has_empty_stdin_and_default_signals(void **state)
{
    sigset_t all, old;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &old);
    struct sw_child c = start("cat; kill -TERM $$; echo still here");
    sigprocmask(SIG_SETMASK, &old, NULL);
    char line[SW_CHILD_LINE];
    assert_int_equal(sw_child_line(&c, 10000, line), SW_ERR_NOTFOUND);
    sw_child_end(&c);
}

static void missing_program_is_named(void **state)
{
    struct sw_child c;
    struct sw_err err = {0};
    const char *const words[] = {"/none/such", NULL};
    assert_int_equal(sw_child_start(&c, words, &err), SW_ERR_NOTFOUND);
    assert_non_null(strstr(err.text, "cannot start /none/such"));
    sw_child_end(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_read_one_by_one),
        cmocka_unit_test(long_line_is_truncated),
        cmocka_unit_test(silent_child_times_out_and_is_killed),
        cmocka_unit_test(child_has_empty_stdin_and_default_signals),
        cmocka_unit_test(missing_program_is_named),
    };
    return cmocka_run_group_tests_name("child", tests, NULL, NULL);
}
