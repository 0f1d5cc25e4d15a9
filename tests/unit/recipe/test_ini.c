#include "base/os.h"
#include "recipe/ini.h"
#include "unit/faulty_os.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* One parsed text; fini frees everything. */
struct parsed {
    struct sw_pool pool;
    struct sw_diags diags;
    struct sw_ini ini;
    struct sw_bytes printed;
};

static void parse_bytes(struct parsed *p, const char *text, size_t bytes)
{
    struct sw_err err;
    *p = (struct parsed){0};
    assert_int_equal(sw_ini_parse(&(struct sw_ini_file){"x.ini", text, bytes, 0, 0}, &p->pool,
                                  &p->diags, &p->ini, &err),
                     SW_OK);
    sw_diags_print(&p->diags, &p->printed);
}

static void parse(struct parsed *p, const char *text)
{
    parse_bytes(p, text, strlen(text));
}

static void fini(struct parsed *p)
{
    sw_bytes_fini(&p->printed);
    sw_diags_fini(&p->diags);
    sw_pool_fini(&p->pool);
}

/* The text has exactly these messages. */
static void expect(const char *text, const char *printed)
{
    struct parsed p;
    parse(&p, text);
    assert_string_equal(sw_bytes_text(&p.printed), printed);
    fini(&p);
}

static void ini_keeps_sections_entries_and_positions(void **state)
{
    struct parsed p;
    parse(&p, "; a comment\n[job]\nbatch = 64\n\n  [ layer\tconv1 ]  # another\n\tkernel=5 ; five\n"
              "name = a#b;c\nlast =");
    assert_int_equal(p.diags.count, 0);
    const struct sw_ini_section *job = p.ini.first, *layer = job->next;
    assert_string_equal(job->kind, "job");
    assert_null(job->name);
    assert_int_equal(job->at.line, 2);
    assert_string_equal(job->first->key, "batch");
    assert_string_equal(job->first->value, "64");
    assert_int_equal(job->first->at.line, 3);
    assert_int_equal(job->first->key_column, 1);
    assert_int_equal(job->first->value_column, 9);
    assert_string_equal(layer->kind, "layer");
    assert_string_equal(layer->name, "conv1");
    assert_int_equal(layer->kind_column, 5);
    const struct sw_ini_entry *e = layer->first;
    assert_string_equal(e->value, "5");
    assert_int_equal(e->key_column, 2);
    assert_int_equal(e->value_column, 9);
    e = e->next;
    assert_string_equal(e->value, "a#b;c");
    e = e->next;
    assert_string_equal(e->key, "last");
    assert_string_equal(e->value, "");
    assert_int_equal(e->at.line, 8);
    assert_null(e->next);
    assert_null(layer->next);
    fini(&p);
}

static void ini_accepts_crlf_and_byte_order_mark(void **state)
{
    struct parsed p;
    parse(&p, "\xef\xbb\xbf[job]\r\nname = x y\r\n\r\nbatch = 3\r\n");
    assert_int_equal(p.diags.count, 0);
    assert_int_equal(p.ini.first->kind_column, 2);
    assert_string_equal(p.ini.first->first->value, "x y");
    assert_string_equal(p.ini.first->first->next->value, "3");
    assert_int_equal(p.ini.first->first->next->at.line, 4);
    fini(&p);
}

static void ini_columns_count_characters(void **state)
{
    struct parsed p;
    parse(&p, "[job]\nname\xc3\xa9 = \xe2\x82\xac 1\n");
    assert_int_equal(p.ini.first->first->value_column, 9);
    fini(&p);
}

static void ini_accepts_empty_texts(void **state)
{
    static const char *const texts[] = {"", "\n", "   \t", "# only a comment", "\r\n"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct parsed p;
        parse(&p, texts[i]);
        assert_int_equal(p.diags.count, 0);
        assert_null(p.ini.first);
        fini(&p);
    }
}

static void ini_reports_syntax_with_caret(void **state)
{
    expect("[job\nbatch = 1\n", "x.ini:1:5: missing ']' after '[job'\n"
                                "    [job\n"
                                "        ^\n");
    expect("[job] batch = 1\n", "x.ini:1:7: unexpected text after ']'\n"
                                "    [job] batch = 1\n"
                                "          ^~~~~~~~~\n"
                                "    hint: put key = value on a separate line\n");
    expect("[job]\n  kernel 5 ; c\n", "x.ini:2:3: missing '=' in 'kernel 5'\n"
                                      "      kernel 5 ; c\n"
                                      "      ^~~~~~~~\n"
                                      "    hint: kernel = 5\n");
    expect("[job]\n = 5\n", "x.ini:2:2: missing key before '='\n"
                            "     = 5\n"
                            "     ^\n");
    expect("[job]\na b = 5\n", "x.ini:2:1: key 'a b' contains a blank\n"
                               "    a b = 5\n"
                               "    ^~~\n");
    expect("[]\n", "x.ini:1:1: section header without a kind\n"
                   "    []\n"
                   "    ^~\n"
                   "    hint: write [kind] or [kind name], as in [job] or [layer conv1]\n");
    expect("[layer a b]\n", "x.ini:1:8: section name 'a b' contains a blank\n"
                            "    [layer a b]\n"
                            "           ^~~\n");
    expect("[layer a,b]\n", "x.ini:1:8: section name 'a,b' contains one of , = [ ]\n"
                            "    [layer a,b]\n"
                            "           ^~~\n");
}

static void ini_keeps_a_section_without_bracket(void **state)
{
    struct parsed p;
    parse(&p, "[layer fc1\nkernel = 3\n");
    assert_int_equal(p.diags.count, 1);
    assert_string_equal(p.ini.first->name, "fc1");
    assert_string_equal(p.ini.first->first->key, "kernel");
    fini(&p);
}

static void ini_reports_duplicates_with_first_line(void **state)
{
    expect("[job]\na = 1\n[layer x]\na = 1\na = 2\n[job]\nb = 1\n",
           "x.ini:5:1: duplicate key 'a'\n"
           "    a = 2\n"
           "    ^\n"
           "    hint: first defined in line 4\n"
           "x.ini:6:2: duplicate section [job]\n"
           "    [job]\n"
           "     ^~~\n"
           "    hint: first defined in line 1; put all keys there\n");
}

static void ini_reports_keys_before_any_section_once(void **state)
{
    expect("a = 2\nb = 1\n[job]\nc = 1\n",
           "x.ini:1:1: 'a' is outside a section\n"
           "    a = 2\n"
           "    ^\n"
           "    hint: start the recipe with a section header such as [job]\n");
}

static void ini_rejects_bytes_that_are_not_text(void **state)
{
    expect("[job]\nname = \xff\xfe\n# gr\xfc\xdf\n", "x.ini:2:8: byte 0xff is not UTF-8\n"
                                                     "    name = ??\n"
                                                     "           ^\n"
                                                     "    hint: save the recipe as UTF-8 text\n"
                                                     "x.ini:3:5: byte 0xfc is not UTF-8\n"
                                                     "    # gr??\n"
                                                     "        ^\n"
                                                     "    hint: save the recipe as UTF-8 text\n");
    expect("[job]\nname = a\x1b[31m\n", "x.ini:2:9: control character 0x1b\n"
                                        "    name = a?[31m\n"
                                        "            ^\n");
    expect("[job]\rname = a", "x.ini:1:6: control character 0x0d\n"
                              "    [job]?name = a\n"
                              "         ^\n");
}

static void ini_reports_one_error_for_a_binary_file(void **state)
{
    struct parsed p;
    parse_bytes(&p, "\x7f\x45LF\0\0\xff[x\n=\n", 12);
    assert_string_equal(
        sw_bytes_text(&p.printed),
        "x.ini: not a text file: byte 4 is zero\n"
        "    hint: a recipe is a text file of sections and key = value lines; see recipes/\n");
    fini(&p);
    parse_bytes(&p, "\xff\xfe[\0j\0", 6);
    assert_non_null(strstr(sw_bytes_text(&p.printed), "UTF-16"));
    fini(&p);
}

static void ini_reads_long_lines_and_shows_the_part_around_the_caret(void **state)
{
    enum { LONG = 300000 };
    struct parsed p;
    char *text = malloc(LONG + 64);
    assert_non_null(text);
    int n = sprintf(text, "[job]\nname = ");
    memset(text + n, 'a', LONG);
    strcpy(text + n + LONG, "\nb = 1\nb = 2");
    parse(&p, text);
    assert_int_equal(strlen(p.ini.first->first->value), LONG);
    assert_int_equal(p.diags.count, 1);
    fini(&p);

    text[n + LONG / 2] = '\x01';
    parse(&p, text);
    const struct sw_diag *d = &p.diags.items[0];
    assert_int_equal(d->column, 8 + LONG / 2);
    assert_true(strlen(d->line) < 120);
    assert_int_equal(d->line[d->caret], '?');
    fini(&p);
    free(text);
}

static void ini_limits_size_sections_and_keys(void **state)
{
    struct sw_err err;
    struct parsed p = {0};
    size_t bytes = SW_INI_MAX_BYTES + 1;
    char *text = malloc(bytes);
    assert_non_null(text);
    memset(text, ' ', bytes);
    assert_int_equal(sw_ini_parse(&(struct sw_ini_file){"x.ini", text, bytes, 0, 0}, &p.pool,
                                  &p.diags, &p.ini, &err),
                     SW_ERR_INVALID);
    assert_non_null(strstr(err.text, "4194304"));
    fini(&p);

    size_t n = 0;
    for (int i = 0; i <= SW_INI_MAX_SECTIONS; i++)
        n += (size_t)sprintf(text + n, "[a b%d]\n", i);
    for (int i = 0; i <= SW_INI_MAX_KEYS; i++)
        n += (size_t)sprintf(text + n, "%sk%d=1\n", i ? "" : "[c]\n", i);
    parse_bytes(&p, text, n);
    assert_int_equal(p.diags.count, 1); /* [c] is beyond the sections, too, and its keys unseen */
    assert_non_null(strstr(p.diags.items[0].text, "more than 10000 sections"));
    fini(&p);

    n = (size_t)sprintf(text, "[c]\n");
    for (int i = 0; i <= SW_INI_MAX_KEYS; i++)
        n += (size_t)sprintf(text + n, "k%d=1\n", i);
    parse_bytes(&p, text, n);
    assert_int_equal(p.diags.count, 1);
    assert_non_null(strstr(p.diags.items[0].text, "more than 512 keys"));
    fini(&p);
    free(text);
}

static void diags_keep_a_hundred_messages_and_count_the_rest(void **state)
{
    struct parsed p;
    char text[20000] = "[job]\n";
    for (int i = 0; i < 500; i++)
        strcat(text, "junk\n");
    parse(&p, text);
    assert_int_equal(p.diags.count, SW_DIAG_KEPT);
    assert_int_equal(p.diags.beyond, 500 - SW_DIAG_KEPT);
    assert_non_null(strstr(sw_bytes_text(&p.printed), "x.ini:101:1: "));
    assert_null(strstr(sw_bytes_text(&p.printed), "x.ini:102:1: "));
    assert_non_null(strstr(sw_bytes_text(&p.printed), "\n400 more errors\n"));
    fini(&p);
}

static void diags_are_sorted_by_position(void **state)
{
    struct sw_diags d = {0};
    struct sw_bytes out = {0};
    struct sw_err err;
    struct sw_place at[] = {
        {.origin = "x.ini"},
        {.origin = "--set b", .rank = 2},
        {.origin = "x.ini", .line = 9, .column = 1},
        {.origin = "--set a", .rank = 1},
        {.origin = "x.ini", .line = 2, .column = 7},
        {.origin = "x.ini", .line = 2, .column = 3},
    };
    assert_int_equal(sw_diags_status(&d, &err), SW_OK);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(sw_diags_add(&d, at[i], "m%d", i), SW_ERR_INVALID);
        sw_diags_hint(&d, "h%d", i);
        sw_diags_hint(&d, "second");
    }
    sw_diags_print(&d, &out);
    assert_string_equal(sw_bytes_text(&out), "x.ini:2:3: m5\n    hint: h5\n"
                                             "x.ini:2:7: m4\n    hint: h4\n"
                                             "x.ini:9:1: m2\n    hint: h2\n"
                                             "x.ini: m0\n    hint: h0\n"
                                             "--set a: m3\n    hint: h3\n"
                                             "--set b: m1\n    hint: h1\n");
    assert_int_equal(sw_diags_status(&d, &err), SW_ERR_INVALID);
    assert_string_equal(err.text, "x.ini:2:3: m5 (and 5 more)");
    sw_bytes_fini(&out);
    sw_diags_fini(&d);
}

static void ini_every_allocation_may_fail(void **state)
{
    static const char text[] = "[job]\na = 1\na = 2\n[layer x\nb = 1\njunk here\n[job]\n";
    for (int at = 1;; at++) {
        struct parsed p = {0};
        struct sw_err err = {0};
        faulty_begin((struct faulty_plan){.kinds = FAULTY_ALLOC, .at = at});
        int rc = sw_ini_parse(&(struct sw_ini_file){"x.ini", text, sizeof(text) - 1, 0, 0}, &p.pool,
                              &p.diags, &p.ini, &err);
        bool lost = p.diags.nomem;
        fini(&p);
        int calls = faulty_end();
        assert_int_equal(faulty.live_allocations, 0);
        assert_true(rc == SW_OK || rc == SW_ERR_NOMEM);
        if (calls < at) {
            assert_int_equal(rc, SW_OK);
            assert_false(lost);
            assert_true(at > 10);
            break;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ini_keeps_sections_entries_and_positions),
        cmocka_unit_test(ini_accepts_crlf_and_byte_order_mark),
        cmocka_unit_test(ini_columns_count_characters),
        cmocka_unit_test(ini_accepts_empty_texts),
        cmocka_unit_test(ini_reports_syntax_with_caret),
        cmocka_unit_test(ini_keeps_a_section_without_bracket),
        cmocka_unit_test(ini_reports_duplicates_with_first_line),
        cmocka_unit_test(ini_reports_keys_before_any_section_once),
        cmocka_unit_test(ini_rejects_bytes_that_are_not_text),
        cmocka_unit_test(ini_reports_one_error_for_a_binary_file),
        cmocka_unit_test(ini_reads_long_lines_and_shows_the_part_around_the_caret),
        cmocka_unit_test(ini_limits_size_sections_and_keys),
        cmocka_unit_test(diags_keep_a_hundred_messages_and_count_the_rest),
        cmocka_unit_test(diags_are_sorted_by_position),
        cmocka_unit_test(ini_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
