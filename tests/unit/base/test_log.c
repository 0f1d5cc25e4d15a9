/* The log: levels, sinks, lines and concurrent writers. */
/* ctest-labels: threads */
#include "base/log.h"
#include "base/str.h"
#include "thread/thread.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void keep(void *user, enum sw_log_level level, const char *source, const char *text)
{
    sw_bytes_printf(user, "%s/%s/%s;", sw_log_level_name(level), source, text);
}

static void sinks_get_their_level_and_above(void **state)
{
    struct sw_bytes all = {0}, bad = {0};
    struct sw_log *log = sw_log_new();
    assert_int_equal(sw_log_add_sink(log, SW_LOG_DEBUG, keep, &all, NULL), SW_OK);
    assert_int_equal(sw_log_add_sink(log, SW_LOG_WARN, keep, &bad, NULL), SW_OK);
    sw_log_write(log, SW_LOG_INFO, "a", "x = %d", 1);
    sw_log_write(log, SW_LOG_ERROR, "b", "y");
    sw_log_remove_sink(log, &bad);
    sw_log_write(log, SW_LOG_ERROR, "c", "z");
    assert_string_equal(sw_bytes_text(&all), "info/a/x = 1;error/b/y;error/c/z;");
    assert_string_equal(sw_bytes_text(&bad), "error/b/y;");
    sw_log_free(log);
    sw_bytes_fini(&all);
    sw_bytes_fini(&bad);
}

static void multiline_message_is_split_into_lines(void **state)
{
    struct sw_bytes all = {0};
    struct sw_log *log = sw_log_new();
    assert_int_equal(sw_log_add_sink(log, SW_LOG_DEBUG, keep, &all, NULL), SW_OK);
    sw_log_write(log, SW_LOG_INFO, "a", "one\ntwo\n");
    sw_log_write(log, SW_LOG_INFO, "a", "%s", "");
    assert_string_equal(sw_bytes_text(&all), "info/a/one;info/a/two;info/a/;");
    sw_log_free(log);
    sw_bytes_fini(&all);
}

static void null_log_is_accepted(void **state)
{
    sw_log_write(NULL, SW_LOG_ERROR, "a", "nobody hears");
    sw_log_free(NULL);
}

static void too_many_sinks_are_refused(void **state)
{
    struct sw_bytes all = {0};
    struct sw_err err = {0};
    struct sw_log *log = sw_log_new();
    int added = 0;
    while (sw_log_add_sink(log, SW_LOG_INFO, keep, &all, &err) == SW_OK)
        assert_true(++added < 1000);
    assert_int_equal(err.code, SW_ERR_NOMEM);
    sw_log_free(log);
}

struct count {
    int lines, inside; /* not atomic: protected by the lock of the log */
};

static void count_lines(void *user, enum sw_log_level level, const char *source, const char *text)
{
    struct count *c = user;
    assert_int_equal(c->inside++, 0);
    c->lines++;
    c->inside--;
}

static void speak(void *log)
{
    for (int i = 0; i < 500; i++)
        sw_log_write(log, SW_LOG_INFO, "speaker", "%d", i);
}

static void sinks_are_called_under_the_lock(void **state)
{
    struct count c = {0};
    struct sw_thread t[4];
    struct sw_log *log = sw_log_new();
    assert_int_equal(sw_log_add_sink(log, SW_LOG_INFO, count_lines, &c, NULL), SW_OK);
    for (int i = 0; i < 4; i++)
        assert_int_equal(sw_thread_start(&t[i], "speaker", speak, log, NULL), SW_OK);
    for (int i = 0; i < 4; i++)
        sw_thread_join(&t[i]);
    assert_int_equal(c.lines, 2000);
    sw_log_free(log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sinks_get_their_level_and_above),
        cmocka_unit_test(multiline_message_is_split_into_lines),
        cmocka_unit_test(null_log_is_accepted),
        cmocka_unit_test(too_many_sinks_are_refused),
        cmocka_unit_test(sinks_are_called_under_the_lock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
