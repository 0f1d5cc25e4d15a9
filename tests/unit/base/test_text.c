/* What a terminal gets to see of a text that somebody else wrote. */
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
    struct sw_buf out = {0};
    sw_text_add(&out, text);
    assert_string_equal(sw_buf_text(&out), expected);
    assert_int_equal(sw_text_columns(text), sw_text_columns(sw_buf_text(&out)));
    sw_buf_fini(&out);
}

static void ordinary_text_stays(void **state)
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

static void what_a_terminal_obeys_is_an_escape(void **state)
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

static void bytes_that_are_no_utf8_are_escapes(void **state)
{
    assert_shown("\xff\xc3", "\\xff\\xc3");
    assert_shown("\xc0\x9b", "\\xc0\\x9b");
    assert_shown("\xed\xa0\x80", "\\xed\\xa0\\x80");
    assert_shown("\xf4\x90\x80\x80z", "\\xf4\\x90\\x80\\x80z");
    assert_shown("\xe2\x80", "\\xe2\\x80");
}

static void lines_keep_their_breaks_and_no_other_control(void **state)
{
    struct sw_buf out = {0};
    sw_text_add_lines(&out, "a\n\tb\r\0c\n", 8);
    assert_string_equal(sw_buf_text(&out), "a\n\tb\\x0d\\x00c\n");
    sw_buf_fini(&out);
}

/* No text of two bytes, and no character, comes out as something that is unsafe. */
static void nothing_unsafe_comes_through(void **state)
{
    for (unsigned i = 0; i < 0x10000; i++) {
        const char text[3] = {(char)(i >> 8), (char)i, 0};
        struct sw_buf out = {0};
        sw_text_add(&out, text);
        const char *at = sw_buf_text(&out);
        for (size_t left = out.length; left;)
            assert_false(sw_rune_is_unsafe(sw_utf8_next(&at, &left)));
        assert_int_equal(sw_text_columns(text), sw_text_columns(sw_buf_text(&out)));
        sw_buf_fini(&out);
    }
}

static void a_piece_of_text_ends_before_half_a_character(void **state)
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

static void a_copy_is_cut_between_characters(void **state)
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

static void json_says_the_same_in_escapes(void **state)
{
    const char *text = "\033 \xc2\x9b \xe2\x80\xae \xf3\xa0\x81\x81 \x7f caf\xc3\xa9";
    struct sw_buf out = {0};
    struct sw_json_writer w;
    struct sw_json *root;
    struct sw_err err;
    sw_json_begin(&w, &out);
    sw_json_string(&w, NULL, text);
    assert_string_equal(sw_buf_text(&out), "\"\\u001b \\u009b \\u202e \\udb40\\udc41 \\u007f "
                                           "caf\xc3\xa9\"");
    assert_int_equal(sw_json_parse(out.text, out.length, &root, &err), SW_OK);
    assert_string_equal(root->string, text);
    sw_json_free(root);
    sw_buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ordinary_text_stays),
        cmocka_unit_test(what_a_terminal_obeys_is_an_escape),
        cmocka_unit_test(bytes_that_are_no_utf8_are_escapes),
        cmocka_unit_test(lines_keep_their_breaks_and_no_other_control),
        cmocka_unit_test(nothing_unsafe_comes_through),
        cmocka_unit_test(a_piece_of_text_ends_before_half_a_character),
        cmocka_unit_test(a_copy_is_cut_between_characters),
        cmocka_unit_test(json_says_the_same_in_escapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
