/* The JSON writer and parser: output, limits and invalid input. */
#include "base/json.h"
#include "base/os.h"
#include "unit/faulty_os.h"
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct sw_json *parse(const char *text)
{
    struct sw_json *root = NULL;
    struct sw_err err = {0};
    if (sw_json_parse(text, strlen(text), &root, &err) != SW_OK)
        fail_msg("%s: %s", text, err.text);
    return root;
}

static void refused(const char *text, size_t bytes, const char *why)
{
    struct sw_json *root = NULL;
    struct sw_err err = {0};
    assert_int_equal(sw_json_parse(text, bytes, &root, &err), SW_ERR_FORMAT);
    assert_null(root);
    if (!strstr(err.text, why))
        fail_msg("%s: \"%s\" does not say \"%s\"", text, err.text, why);
}

static void writer_nests_and_separates(void **state)
{
    struct sw_bytes b = {0};
    struct sw_json_writer w;
    sw_json_begin(&w, &b);
    sw_json_open_object(&w, NULL);
    sw_json_string(&w, "type", "display");
    sw_json_int(&w, "step", INT64_MIN);
    sw_json_open_array(&w, "list");
    sw_json_bool(&w, NULL, true);
    sw_json_open_object(&w, NULL);
    sw_json_close_object(&w);
    sw_json_real(&w, NULL, 0.5);
    sw_json_close_array(&w);
    sw_json_string(&w, "none", NULL);
    sw_json_real(&w, "bad", NAN);
    sw_json_close_object(&w);
    assert_string_equal(sw_bytes_text(&b), "{\"type\":\"display\",\"step\":-9223372036854775808,"
                                           "\"list\":[true,{},0.5],\"none\":null,\"bad\":null}");
    assert_false(b.failed);
    sw_bytes_fini(&b);
}

static void writer_escapes_any_bytes(void **state)
{
    struct sw_bytes b = {0};
    struct sw_json_writer w;
    sw_json_begin(&w, &b);
    sw_json_string(&w, NULL, "a\"b\\c\n\x01\x7F\xC3\xA9\xFFz\xE2\x82");
    assert_string_equal(sw_bytes_text(&b), "\"a\\\"b\\\\c\\n\\u0001\\u007f\xC3\xA9\xEF\xBF\xBDz"
                                           "\xEF\xBF\xBD\xEF\xBF\xBD\"");
    struct sw_json *v = parse(sw_bytes_text(&b));
    assert_int_equal(v->type, SW_JSON_STRING);
    sw_json_free(v);
    sw_bytes_fini(&b);
}

static void writer_refuses_wrong_nesting(void **state)
{
    struct sw_bytes b = {0};
    struct sw_json_writer w;
    sw_json_begin(&w, &b);
    for (int i = 0; i < 63; i++)
        sw_json_open_array(&w, NULL);
    assert_false(b.failed);
    sw_json_open_array(&w, NULL);
    assert_true(b.failed);
    sw_bytes_fini(&b);
    sw_json_begin(&w, &b);
    sw_json_close_object(&w);
    assert_true(b.failed);
    sw_bytes_fini(&b);
    sw_json_begin(&w, &b);
    sw_json_int(&w, NULL, 1);
    assert_false(b.failed);
    sw_json_int(&w, NULL, 2);
    assert_true(b.failed);
    sw_bytes_fini(&b);
}

static void reals_round_trip_exactly(void **state)
{
    const double values[] = {0.1, 1.0 / 3, -0.0, 5e-324, DBL_MAX, 1e22, 123456789.125, FLT_MIN};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        struct sw_bytes b = {0};
        struct sw_json_writer w;
        sw_json_begin(&w, &b);
        sw_json_real(&w, NULL, values[i]);
        struct sw_json *v = parse(sw_bytes_text(&b));
        assert_memory_equal(&v->number, &values[i], sizeof values[i]);
        sw_json_free(v);
        sw_bytes_fini(&b);
    }
}

static void parser_reads_all_types(void **state)
{
    struct sw_json *root = parse(" { \"a\" : [1, -2.5e3, \"x\\u00e9\\ud83d\\ude00\\/\", null ] ,\n"
                                 "\"b\":{\"c\":false}, \"\":true }");
    const struct sw_json *a = sw_json_get(root, "a")->first;
    assert_true(a->number == 1);
    assert_true(a->next->number == -2500);
    assert_string_equal(a->next->string, "-2.5e3");
    assert_string_equal(a->next->next->string, "x\xC3\xA9\xF0\x9F\x98\x80/");
    assert_int_equal(a->next->next->next->type, SW_JSON_NULL);
    assert_null(a->next->next->next->next);
    const struct sw_json *c = sw_json_get(sw_json_get(root, "b"), "c");
    assert_int_equal(c->type, SW_JSON_BOOL);
    assert_false(c->boolean);
    assert_true(sw_json_get(root, "")->boolean);
    assert_null(sw_json_get(root, "nothing"));
    assert_null(sw_json_get(NULL, "a"));
    assert_null(sw_json_get(a, "a"));
    sw_json_free(root);
}

static void parser_refuses_invalid_json(void **state)
{
    static const struct {
        const char *text, *why;
    } bad[] = {
        {"", "ends"},
        {"  ", "ends"},
        {"{", "key"},
        {"{\"a\"}", "':'"},
        {"{\"a\":1,}", "key"},
        {"{\"a\":1 \"b\":2}", "','"},
        {"{\"a\":1,\"b\":2,\"a\":3}", "duplicate key"},
        {"{\"a\":1,\"\\u0061\":3}", "duplicate key"},
        {"[1,]", "not a value"},
        {"[1 2]", "','"},
        {"[1", "','"},
        {"1 2", "after the value"},
        {"01", "not a value"},
        {"-", "not a value"},
        {"+1", "not a value"},
        {"1.", "point"},
        {"1e", "exponent"},
        {".5", "not a value"},
        {"NaN", "not a value"},
        {"tru", "not a value"},
        {"truefalse", "after the value"},
        {"\"abc", "unterminated"},
        {"\"\\", "unterminated"},
        {"\"\\x\"", "escape"},
        {"\"\\u12\"", "hexadecimal"},
        {"\"\\ud800\"", "surrogate"},
        {"\"\\ud800\\u0041\"", "surrogate"},
        {"\"\\udc00\"", "surrogate"},
        {"\"\\u0000\"", "U+0000"},
        {"\"\t\"", "control"},
        {"\"\xFF\"", "UTF-8"},
        {"\"\xE2\x82\"", "UTF-8"},
        {"'a'", "not a value"},
        {"[1]//x", "after the value"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        refused(bad[i].text, strlen(bad[i].text), bad[i].why);
    refused("1\0", 2, "after the value");
    refused("\"a\0b\"", 5, "control");
    refused("\"\\\0\"", 4, "escape");
}

static void errors_give_the_byte_offset(void **state)
{
    struct sw_json *root;
    struct sw_err err = {0};
    assert_int_equal(sw_json_parse("{\"a\": x}", 8, &root, &err), SW_ERR_FORMAT);
    assert_string_equal(err.text, "JSON at byte 6: not a value");
}

/* Every proper prefix of a text is refused and not read beyond its end, which the sanitizers check.
 */
static void every_truncation_is_refused(void **state)
{
    const char *text =
        "{\"a\":[1,2.5e3,\"x\\u00e9\\ud83d\\ude00\xC3\xA9\",null],\"b\":{\"c\":false}}";
    for (size_t n = 0; n < strlen(text); n++) {
        char *part = malloc(n + 1);
        memcpy(part, text, n);
        struct sw_json *root = NULL;
        char *exact = n ? realloc(part, n) : part;
        assert_int_equal(sw_json_parse(exact, n, &root, NULL), SW_ERR_FORMAT);
        assert_null(root);
        free(exact);
    }
}

static void depth_is_limited(void **state)
{
    char text[200];
    for (int depth = 64; depth <= 65; depth++) {
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        struct sw_json *root = NULL;
        int rc = sw_json_parse(text, 2 * (size_t)depth, &root, NULL);
        assert_int_equal(rc, depth == 64 ? SW_OK : SW_ERR_FORMAT);
        sw_json_free(root);
    }
    char *deep = malloc(1000000);
    memset(deep, '[', 1000000);
    refused(deep, 1000000, "64 levels");
    free(deep);
}

static void number_of_values_is_limited(void **state)
{
    size_t n = 2200000;
    char *text = malloc(n);
    for (size_t i = 0; i < n; i++)
        text[i] = i % 2 ? ',' : '0';
    text[0] = '[';
    text[1] = '1';
    text[2] = ',';
    text[3] = '1';
    for (size_t i = 4; i < n; i++)
        text[i] = i % 2 ? '0' : ',';
    refused(text, n, "million");
    free(text);
}

static void as_size_is_exact_or_false(void **state)
{
    static const struct {
        const char *text;
        bool ok;
        uint64_t value;
    } cases[] = {
        {"0", true, 0},
        {"9007199254740992", true, 9007199254740992u},
        {"9007199254740994", false, 0},
        {"1e3", true, 1000},
        {"-1", false, 0},
        {"-0", false, 0},
        {"1.5", false, 0},
        {"1e400", false, 0},
        {"\"1\"", false, 0},
        {"true", false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t value = 0;
        struct sw_json *v = parse(cases[i].text);
        assert_int_equal(sw_json_as_size(v, &value), cases[i].ok);
        assert_true(value == cases[i].value);
        sw_json_free(v);
    }
    assert_false(sw_json_as_size(NULL, NULL));
}

static void parser_survives_every_failed_allocation(void **state)
{
    const char *text = "{\"a\":[1,\"x\"],\"b\":{\"c\":null}}";
    faulty_begin((struct faulty_plan){.kinds = FAULTY_ALLOC});
    sw_json_free(parse(text));
    int calls = faulty_end();
    assert_true(calls > 8);
    for (int at = 1; at <= calls; at++) {
        struct sw_json *root = NULL;
        struct sw_err err = {0};
        faulty_begin((struct faulty_plan){.kinds = FAULTY_ALLOC, .at = at});
        assert_int_equal(sw_json_parse(text, strlen(text), &root, &err), SW_ERR_NOMEM);
        assert_int_equal(err.code, SW_ERR_NOMEM);
        assert_null(root);
        assert_int_equal(faulty.live_allocations, 0);
        faulty_end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writer_nests_and_separates),
        cmocka_unit_test(writer_escapes_any_bytes),
        cmocka_unit_test(writer_refuses_wrong_nesting),
        cmocka_unit_test(reals_round_trip_exactly),
        cmocka_unit_test(parser_reads_all_types),
        cmocka_unit_test(parser_refuses_invalid_json),
        cmocka_unit_test(errors_give_the_byte_offset),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(depth_is_limited),
        cmocka_unit_test(number_of_values_is_limited),
        cmocka_unit_test(as_size_is_exact_or_false),
        cmocka_unit_test(parser_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
