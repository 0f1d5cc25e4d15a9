/* Error messages: codes, errno texts, prefixes and truncation. */
#include "base/err.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void set_writes_message_and_returns_code(void **state)
{
    struct sw_err e = {0};
    assert_int_equal(sw_err_set(&e, SW_ERR_INVALID, "outputs = %d", -3), SW_ERR_INVALID);
    assert_int_equal(e.code, SW_ERR_INVALID);
    assert_string_equal(e.text, "outputs = -3");
}

static void null_is_accepted_everywhere(void **state)
{
    assert_int_equal(sw_err_set(NULL, SW_ERR_BUSY, "x"), SW_ERR_BUSY);
    assert_int_equal(sw_err_errno(NULL, ENOENT, "x"), SW_ERR_NOTFOUND);
    assert_int_equal(sw_err_errno(NULL, EIO, "x"), SW_ERR_IO);
    assert_int_equal(sw_err_prefix(NULL, SW_ERR_FORMAT, "x"), SW_ERR_FORMAT);
}

static void errno_adds_the_reason(void **state)
{
    struct sw_err e = {0};
    assert_int_equal(sw_err_errno(&e, ENOSPC, "cannot write %s", "a"), SW_ERR_IO);
    assert_string_equal(e.text, "cannot write a: No space left on device");
    assert_int_equal(sw_err_errno(&e, ENOENT, "cannot open b"), SW_ERR_NOTFOUND);
    assert_string_equal(e.text, "cannot open b: No such file or directory");
}

static void prefix_keeps_code_and_message(void **state)
{
    struct sw_err e = {0};
    sw_err_set(&e, SW_ERR_NOMEM, "no room");
    assert_int_equal(sw_err_prefix(&e, SW_ERR_IO, "layer %s", "conv3"), SW_ERR_NOMEM);
    assert_int_equal(e.code, SW_ERR_NOMEM);
    assert_string_equal(e.text, "layer conv3: no room");
}

static void arguments_may_point_into_the_message(void **state)
{
    struct sw_err e = {0};
    sw_err_set(&e, SW_ERR_IO, "deep");
    sw_err_set(&e, SW_ERR_IO, "%s and %s", e.text, e.text);
    assert_string_equal(e.text, "deep and deep");
    sw_err_prefix(&e, SW_ERR_IO, "<%s>", e.text);
    assert_string_equal(e.text, "<deep and deep>: deep and deep");
}

static void long_messages_are_truncated_at_the_end(void **state)
{
    struct sw_err e = {0};
    char text[3000];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    sw_err_set(&e, SW_ERR_IO, "%s", text);
    assert_int_equal(strlen(e.text), SW_ERR_TEXT - 1);
    sw_err_prefix(&e, SW_ERR_IO, "front");
    assert_int_equal(strlen(e.text), SW_ERR_TEXT - 1);
    assert_memory_equal(e.text, "front: aaa", 10);
    sw_err_errno(&e, EIO, "%s", text);
    assert_int_equal(strlen(e.text), SW_ERR_TEXT - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(set_writes_message_and_returns_code),
        cmocka_unit_test(null_is_accepted_everywhere),
        cmocka_unit_test(errno_adds_the_reason),
        cmocka_unit_test(prefix_keeps_code_and_message),
        cmocka_unit_test(arguments_may_point_into_the_message),
        cmocka_unit_test(long_messages_are_truncated_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
