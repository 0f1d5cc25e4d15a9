/* Children that answer in lines: what they say, long lines, silence, an early end; and that nothing
 * of them is left. */
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

static void lines_come_one_by_one(void **state)
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

static void a_long_line_is_cut(void **state)
{
    char line[SW_CHILD_LINE];
    struct sw_child c = start("printf '%0600d\\n' 7; echo next");
    assert_int_equal(sw_child_line(&c, 10000, line), SW_OK);
    assert_int_equal(strlen(line), SW_CHILD_LINE - 1);
    assert_int_equal(sw_child_line(&c, 10000, line), SW_OK); /* its rest */
    assert_line(&c, "next");
    sw_child_end(&c);
}

static void one_that_says_nothing_is_killed(void **state)
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

static void standard_input_is_empty_and_signals_are_as_usual(void **state)
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

static void what_is_not_there_is_named(void **state)
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
        cmocka_unit_test(lines_come_one_by_one),
        cmocka_unit_test(a_long_line_is_cut),
        cmocka_unit_test(one_that_says_nothing_is_killed),
        cmocka_unit_test(standard_input_is_empty_and_signals_are_as_usual),
        cmocka_unit_test(what_is_not_there_is_named),
    };
    return cmocka_run_group_tests_name("child", tests, NULL, NULL);
}
