/* The choices of a checkpoint: JSON of one version, and the lines of older checkpoints, which say
 * the same. */
#include "plan/saved_choices.h"

#include "base/os.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct sw_json *parse(const char *text)
{
    struct sw_json *kept = NULL;
    struct sw_err err;
    if (sw_saved_choices_parse(text, &kept, &err) != SW_OK)
        fail_msg("%s", err.text);
    return kept;
}

static const char json[] =
    "{\"version\":1,\"workers\":2,\"threads\":1,\"worker_groups\":2,\"rows\":[12,4],"
    "\"exchange\":[{\"layer\":\"fc1\",\"mode\":\"sfb\"},{\"layer\":\"fc2\",\"mode\":\"ps\"}],"
    "\"tune\":[{\"key\":\"forward conv 8x3 f32\",\"way\":\"gemm:jit\"}],"
    "\"algorithms\":[{\"layer\":\"conv1\",\"algorithm\":\"jit:avx2\"},"
    "{\"layer\":\"comm\",\"algorithm\":\"gemm\"}]}";

static void older_text_format_is_read(void **state)
{
    static const char lines[] = "workers 2\nthreads 1\ngroups 2\nrows 12 4\ncomm fc1 sfb\n"
                                "comm fc2 ps\ntune forward conv 8x3 f32 = gemm:jit\n"
                                "conv1 jit:avx2\ncomm gemm\n";
    struct sw_json *old = parse(lines), *new = parse(json);
    struct sw_json *exact = parse("virtual workers 8\nconv1 jit:avx2\n");
    assert_true(sw_json_equal(old, new));
    assert_false(sw_json_equal(old, exact));
    assert_int_equal(sw_json_get(exact, "microbatches")->number, 8);
    sw_json_free(old);
    sw_json_free(new);
    sw_json_free(exact);
}

static void saved_rows_must_match_the_batch(void **state)
{
    int64_t rows[3];
    struct sw_json *kept = parse(json), *without = parse("workers 2\nthreads 1\n");
    assert_true(sw_saved_choices_rows(kept, 2, 16, rows));
    assert_int_equal(rows[0], 12);
    assert_int_equal(rows[1], 4);
    assert_false(sw_saved_choices_rows(kept, 2, 17, rows));
    assert_false(sw_saved_choices_rows(kept, 3, 16, rows));
    assert_false(sw_saved_choices_rows(kept, 1, 12, rows));
    assert_false(sw_saved_choices_rows(without, 2, 16, rows));
    assert_false(sw_saved_choices_rows(NULL, 2, 16, rows));
    sw_json_free(kept);
    sw_json_free(without);
}

/* Whatever the length of its name. */
static void saved_exchange_mode_of_a_layer_is_read(void **state)
{
    char name[401], text[512];
    struct sw_json *kept = parse(json);
    assert_int_equal(sw_saved_choices_exchange_mode(kept, "fc1"), SW_EXCHANGE_SFB);
    assert_int_equal(sw_saved_choices_exchange_mode(kept, "fc2"), SW_EXCHANGE_PS);
    assert_int_equal(sw_saved_choices_exchange_mode(kept, "fc"), SW_EXCHANGE_AUTO);
    assert_int_equal(sw_saved_choices_exchange_mode(NULL, "fc1"), SW_EXCHANGE_AUTO);
    sw_json_free(kept);

    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    snprintf(text, sizeof text, "workers 2\ncomm %s adam\n", name);
    kept = parse(text);
    assert_int_equal(sw_saved_choices_exchange_mode(kept, name), SW_EXCHANGE_ADAM);
    sw_json_free(kept);
}

static void other_versions_and_damage_are_refused(void **state)
{
    static const char *const texts[][2] = {
        {"{\"version\":2,\"workers\":2}",
         "version 2 was written by a newer version of the program"},
        {"{\"workers\":2}", "version is missing"},
        {"{\"version\":1,", ""}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct sw_json *kept = NULL;
        struct sw_err err;
        assert_int_equal(sw_saved_choices_parse(texts[i][0], &kept, &err), SW_ERR_FORMAT);
        assert_non_null(strstr(err.text, texts[i][1]));
        assert_null(kept);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(older_text_format_is_read),
        cmocka_unit_test(saved_rows_must_match_the_batch),
        cmocka_unit_test(saved_exchange_mode_of_a_layer_is_read),
        cmocka_unit_test(other_versions_and_damage_are_refused),
    };
    return cmocka_run_group_tests_name("kept choices", tests, NULL, NULL);
}
