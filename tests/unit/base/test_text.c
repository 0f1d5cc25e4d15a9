/* How untrusted text is shown in a terminal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/text.h"
#include <string.h>

static void assert_shown(const char *text, const char *expected)
{
    struct sw_bytes out = {0};
    sw_text_add(&out, text);
    assert_string_equal(sw_bytes_text(&out), expected);
    assert_int_equal(sw_text_columns(text), sw_text_columns(sw_bytes_text(&out)));
    sw_bytes_fini(&out);
}

static void ordinary_text_is_unchanged(void **state)
{
    static const char *const texts[] = {"",
                                        "plain ASCII, \\ and \" too",
                                        "caf\xc3\xa9 e\xcc\x81",
                                        "\xe6\x97\xa5\xe6\x9c\xac",
                                        "\xd8\xb9\xd8\xb1\xd8\xa8\xd9\x8a \xe2\x80\x8c",
                                        "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x94\xac",
                                        "\xef\xbf\xbd"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_shown(texts[i], texts[i]);
    assert_int_equal(sw_text_columns("caf\xc3\xa9 e\xcc\x81"), 6);
    assert_int_equal(sw_text_columns("\xe6\x97\xa5\xe6\x9c\xac"), 4);
}

static void control_characters_become_escapes(void **state)
{
    assert_shown("\033[2J\a\r\177", "\\x1b[2J\\x07\\x0d\\x7f");
    assert_shown("a\nb\tc", "a b c");
    assert_shown("\xc2\x9b"
                 "31m",
                 "\\u009b31m");
    assert_shown("\xe2\x80\xae\xe2\x81\xa6\xd8\x9c\xe2\x80\xa8\xe2\x80\x8b",
                 "\\u202e\\u2066\\u061c\\u2028\\u200b");
    assert_shown("\xef\xbb\xbf\xf3\xa0\x81\x81", "\\ufeff\\U000e0041");
}

static void invalid_utf8_becomes_escapes(void **state)
{
    assert_shown("\xff\xc3", "\\xff\\xc3");
    assert_shown("\xc0\x9b", "\\xc0\\x9b");
    assert_shown("\xed\xa0\x80", "\\xed\\xa0\\x80");
    assert_shown("\xf4\x90\x80\x80z", "\\xf4\\x90\\x80\\x80z");
    assert_shown("\xe2\x80", "\\xe2\\x80");
}

static void add_lines_keeps_only_breaks_and_tabs(void **state)
{
    struct sw_bytes out = {0};
    sw_text_add_lines(&out, "a\n\tb\r\0c\n", 8);
    assert_string_equal(sw_bytes_text(&out), "a\n\tb\\x0d\\x00c\n");
    sw_bytes_fini(&out);
}

/* The output for every text of two bytes and for every character is safe. */
static void output_has_no_unsafe_character(void **state)
{
    for (unsigned i = 0; i < 0x10000; i++) {
        const char text[3] = {(char)(i >> 8), (char)i, 0};
        struct sw_bytes out = {0};
        sw_text_add(&out, text);
        const char *at = sw_bytes_text(&out);
        for (size_t left = out.length; left;)
            assert_false(sw_rune_is_unsafe(sw_utf8_next(&at, &left)));
        assert_int_equal(sw_text_columns(text), sw_text_columns(sw_bytes_text(&out)));
        sw_bytes_fini(&out);
    }
}

static void incomplete_character_is_excluded(void **state)
{
    static const struct {
        const char *text;
        size_t whole;
    } cases[] = {{"", 0},
                 {"abc", 3},
                 {"a\xc3", 1},
                 {"a\xc3\xa9", 3},
                 {"a\xe2\x80", 1},
                 {"\xf0\x9f\x91", 0},
                 {"\xf0\x9f\x91\xa9", 4},
                 {"\x80\x80\x80\x80", 4},
                 {"\xff", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(sw_utf8_whole(cases[i].text, strlen(cases[i].text)), cases[i].whole);
}

static void copy_is_truncated_between_characters(void **state)
{
    char out[6];
    sw_utf8_copy(out, sizeof out, "abcde");
    assert_string_equal(out, "abcde");
    sw_utf8_copy(out, sizeof out, "abcd\xc3\xa9");
    assert_string_equal(out, "abcd");
    sw_utf8_copy(out, sizeof out, "abc\xc3\xa9\xc3\xa9");
    assert_string_equal(out, "abc\xc3\xa9");
    sw_utf8_copy(out, 1, "abc");
    assert_string_equal(out, "");
}

static void json_escapes_unsafe_characters(void **state)
{
    const char *text = "\033 \xc2\x9b \xe2\x80\xae \xf3\xa0\x81\x81 \x7f caf\xc3\xa9";
    struct sw_bytes out = {0};
    struct sw_json_writer w;
    struct sw_json *root;
    struct sw_err err;
    sw_json_begin(&w, &out);
    sw_json_string(&w, NULL, text);
    assert_string_equal(sw_bytes_text(&out), "\"\\u001b \\u009b \\u202e \\udb40\\udc41 \\u007f "
                                             "caf\xc3\xa9\"");
    assert_int_equal(sw_json_parse(out.text, out.length, &root, &err), SW_OK);
    assert_string_equal(root->string, text);
    sw_json_free(root);
    sw_bytes_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ordinary_text_is_unchanged),
        cmocka_unit_test(control_characters_become_escapes),
        cmocka_unit_test(invalid_utf8_becomes_escapes),
        cmocka_unit_test(add_lines_keeps_only_breaks_and_tabs),
        cmocka_unit_test(output_has_no_unsafe_character),
        cmocka_unit_test(incomplete_character_is_excluded),
        cmocka_unit_test(copy_is_truncated_between_characters),
        cmocka_unit_test(json_escapes_unsafe_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
