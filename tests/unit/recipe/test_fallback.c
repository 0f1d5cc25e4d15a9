#include "recipe_support.h"
#include "unit/scratch.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const char text[] = TOY_JOB
    "[data train]\nformat = idx\npaths = ${DATA}/a, ${DATA}/b\nlabels = ${DATA}/l\n"
    "scale = 0.5\nfallback = synthetic\n"
    "[data test]\nformat = idx\npaths = ${DATA}/t\nlabels = ${DATA}/tl\n"
    "fallback = synthetic\n" TOY_LAYER "[fallback]\njob.steps = 7\ndata.train.records = 50\n";

static int load_with(const char *recipe, const char *files, const char *const *sets,
                     const char *decided, struct sw_recipe **r)
{
    struct sw_err err;
    struct sw_recipe_source s = toy_source(recipe, sets);
    s.fallback = decided;
    toy_use_files(files);
    int rc = sw_recipe_load(&s, &toy_schema, r, &err);
    sw_os_set(NULL);
    return rc;
}

static struct sw_recipe *load(const char *files, const char *const *sets, const char *decided)
{
    struct sw_recipe *r;
    assert_int_equal(load_with(text, files, sets, decided, &r), SW_OK);
    return r;
}

static const struct sw_type *format_of(struct sw_recipe *r, const char *name)
{
    return sw_recipe_find(r, "data", name)->type[0];
}

static int64_t steps_of(struct sw_recipe *r)
{
    return ((const struct sw_job_conf *)sw_recipe_find(r, "job", NULL)->common)->steps;
}

static void expect_announcement(struct sw_recipe *r, const char *expected)
{
    struct sw_bytes out = {0};
    sw_recipe_announce_fallback(r, &out);
    assert_string_equal(sw_bytes_text(&out), expected);
    sw_bytes_fini(&out);
}

static void fallback_is_not_used_while_a_file_exists(void **state)
{
    struct sw_recipe *r = load("/data/b /data/t", NULL, NULL);
    assert_ptr_equal(format_of(r, "train"), &toy_idx_type);
    assert_ptr_equal(format_of(r, "test"), &toy_idx_type);
    assert_int_equal(steps_of(r), 100);
    assert_string_equal(sw_recipe_fallback(r), "");
    expect_announcement(r, "");
    sw_recipe_free(r);
}

static void fallback_replaces_the_format_when_no_file_exists(void **state)
{
    struct sw_recipe *r = load("", NULL, NULL);
    const struct sw_section *s = sw_recipe_find(r, "data", "train");
    assert_ptr_equal(s->type[0], &toy_synthetic_type);
    assert_int_equal(((const struct toy_synthetic *)s->conf[0])->records, 50);
    assert_true(((const struct toy_data *)s->common)->scale == 0.5);
    assert_false(sw_section_is_set(s, "paths"));
    assert_int_equal(sw_section_origin(s, "format"), SW_FROM_FALLBACK);
    assert_ptr_equal(format_of(r, "test"), &toy_synthetic_type);
    assert_int_equal(steps_of(r), 7);
    assert_string_equal(sw_recipe_fallback(r), "train,test");
    expect_announcement(r, "data train: format synthetic instead of idx: no file /data/a, /data/b\n"
                           "data test: format synthetic instead of idx: no file /data/t\n"
                           "[fallback] sets job.steps = 7, data.train.records = 50\n");
    sw_recipe_free(r);
}

static void fallback_is_decided_per_section(void **state)
{
    const char *const sets[] = {"data.train.format=idx", NULL};
    struct sw_recipe *r;
    assert_int_equal(load_with(TOY_JOB "[data a]\nformat = idx\npaths = x\nlabels = y\n"
                                       "fallback = synthetic\n"
                                       "[data b]\nformat = idx\npaths = z\nlabels = y\n"
                                       "fallback = synthetic\n" TOY_LAYER
                                       "[fallback]\njob.steps = 7\n",
                               "x", NULL, NULL, &r),
                     SW_OK);
    assert_ptr_equal(format_of(r, "a"), &toy_idx_type);
    assert_ptr_equal(format_of(r, "b"), &toy_synthetic_type);
    assert_string_equal(sw_recipe_fallback(r), "b");
    assert_int_equal(steps_of(r), 7);
    sw_recipe_free(r);
    /* Who asks for a format on the command line gets it, without the lines for synthetic data. */
    assert_int_equal(load_with(text, "", sets, NULL, &r), SW_OK);
    assert_ptr_equal(format_of(r, "train"), &toy_idx_type);
    assert_string_equal(sw_recipe_fallback(r), "test");
    sw_recipe_free(r);
}

static void set_overrides_fallback(void **state)
{
    const char *const sets[] = {"job.steps=3", "fallback.data.train.records=60",
                                "fallback.job.seed=4", NULL};
    struct sw_recipe *r = load("", sets, NULL);
    assert_int_equal(steps_of(r), 3);
    const struct sw_section *s = sw_recipe_find(r, "data", "train");
    assert_int_equal(((const struct toy_synthetic *)s->conf[0])->records, 60);
    s = sw_recipe_find(r, "job", NULL);
    assert_int_equal(((const struct sw_job_conf *)s->common)->seed, 4);
    expect_announcement(r, "data train: format synthetic instead of idx: no file /data/a, /data/b\n"
                           "data test: format synthetic instead of idx: no file /data/t\n"
                           "[fallback] sets job.seed = 4, data.train.records = 60\n");
    sw_recipe_free(r);
    /* Where the files are is part of the question. */
    const char *const elsewhere[] = {"data.train.paths=/here", NULL};
    r = load("/here /data/t", elsewhere, NULL);
    assert_string_equal(sw_recipe_fallback(r), "");
    assert_false(sw_section_has_no_fallback(sw_recipe_find(r, "data", "train")));
    sw_recipe_free(r);
    /* A path on the command line is meant, unless a fallback is given there, too. */
    r = load("/data/a /data/t", elsewhere, NULL);
    assert_string_equal(sw_recipe_fallback(r), "");
    assert_true(sw_section_has_no_fallback(sw_recipe_find(r, "data", "train")));
    sw_recipe_free(r);
    const char *const both[] = {"data.train.paths=/here", "data.train.fallback=synthetic", NULL};
    r = load("/data/a /data/t", both, NULL);
    assert_string_equal(sw_recipe_fallback(r), "train");
    sw_recipe_free(r);
}

static void fallback_decision_can_be_reused_on_resume(void **state)
{
    struct sw_recipe *r = load("/data/a /data/t", NULL, "train");
    assert_ptr_equal(format_of(r, "train"), &toy_synthetic_type);
    assert_ptr_equal(format_of(r, "test"), &toy_idx_type);
    assert_int_equal(steps_of(r), 7);
    assert_string_equal(sw_recipe_fallback(r), "train");
    sw_recipe_free(r);
    r = load("", NULL, "");
    assert_ptr_equal(format_of(r, "train"), &toy_idx_type);
    assert_int_equal(steps_of(r), 100);
    sw_recipe_free(r);
}

static int stat_denied(const char *path, struct stat *st)
{
    errno = EACCES;
    return -1;
}

static void fallback_does_not_replace_unreadable_files(void **state)
{
    struct sw_err err;
    struct sw_recipe *r;
    struct sw_recipe_source s = toy_source(text, NULL);
    struct sw_os os = sw_os_posix;
    os.stat = stat_denied;
    sw_os_set(&os);
    assert_int_equal(sw_recipe_load(&s, &toy_schema, &r, &err), SW_OK);
    sw_os_set(NULL);
    assert_string_equal(sw_recipe_fallback(r), "");
    sw_recipe_free(r);
}

static void fallback_checks_patterns_for_matches(void **state)
{
    struct sw_err err;
    char recipe[512];
    for (int there = 0; there < 2; there++) {
        struct sw_recipe *r;
        snprintf(recipe, sizeof(recipe),
                 TOY_JOB TOY_LAYER "[data d]\nformat = idx\nlabels = l\nfallback = synthetic\n"
                                   "paths = %s/none-*, %s/part-?.bin\n",
                 scratch_dir, scratch_dir);
        if (there)
            assert_int_equal(sw_os_replace_file(scratch_path("part-1.bin"), "x", 1, 0600, &err),
                             SW_OK);
        assert_int_equal(toy_load(recipe, NULL, &r), SW_OK);
        assert_string_equal(sw_recipe_fallback(r), there ? "" : "d");
        sw_recipe_free(r);
    }
}

static void expect_errors(const char *recipe, const char *files, const char *printed)
{
    struct sw_recipe *r;
    struct sw_bytes out = {0};
    assert_int_equal(load_with(recipe, files, NULL, NULL, &r), SW_ERR_INVALID);
    sw_diags_print(sw_recipe_diags(r), &out);
    assert_string_equal(sw_bytes_text(&out), printed);
    sw_bytes_fini(&out);
    sw_recipe_free(r);
}

static void fallback_lines_are_checked_even_when_not_applied(void **state)
{
    expect_errors(TOY_JOB TOY_LAYER
                  "[fallback]\njob.stesp = 1\nsteps = 2\nlayr.a.b = 3\njob.batch = 0\n"
                  "data.train.records = 5\n",
                  "",
                  "x.ini:7:1: fallback: unknown key 'job.stesp'\n"
                  "    job.stesp = 1\n"
                  "    ^~~~~~~~~\n"
                  "    hint: did you mean 'steps'?\n"
                  "x.ini:8:1: 'steps' is not of the form SECTION.KEY\n"
                  "    steps = 2\n"
                  "    ^~~~~\n"
                  "    hint: did you mean 'job.steps'?\n"
                  "x.ini:9:1: 'layr.a.b': unknown section 'layr'\n"
                  "    layr.a.b = 3\n"
                  "    ^~~~~~~~\n"
                  "    hint: did you mean 'layer'?\n"
                  "x.ini:10:13: fallback: job.batch = 0: must be from 1 to 16777216\n"
                  "    job.batch = 0\n"
                  "                ^\n");
}

static void errors_of_applied_fallback_lines_point_at_the_line(void **state)
{
    expect_errors(TOY_JOB TOY_LAYER "[data d]\nformat = idx\npaths = p\nlabels = l\ncache = x\n"
                                    "fallback = synthetic\n"
                                    "[fallback]\njob.stesp = 1\ndata.d.records = 0\n",
                  "",
                  "x.ini:10:9: data d: cache = x: must be a size such as 4GB, 512MB or 1024\n"
                  "    cache = x\n"
                  "            ^\n"
                  "x.ini:13:5: job: unknown key 'stesp'\n"
                  "    job.stesp = 1\n"
                  "        ^~~~~\n"
                  "    hint: did you mean 'steps'?\n"
                  "x.ini:14:18: data d: records = 0: must be 1 or more\n"
                  "    data.d.records = 0\n"
                  "                     ^\n");
}

static void fallback_must_name_a_format(void **state)
{
    expect_errors(TOY_JOB TOY_LAYER "[data d]\nformat = idx\npaths = p\nlabels = l\n"
                                    "fallback = synthetik\n",
                  "",
                  "x.ini:10:12: data d: fallback = synthetik: unknown format\n"
                  "    fallback = synthetik\n"
                  "               ^~~~~~~~~\n"
                  "    hint: did you mean 'synthetic'?\n");
    /* Also where an earlier one serves: a slip of the pen is found on every machine. */
    expect_errors(TOY_JOB TOY_LAYER "[data d]\nformat = idx\npaths = p\nlabels = l\n"
                                    "fallback = idx /data/b, synthetik\n",
                  "/data/b",
                  "x.ini:10:12: data d: fallback = idx /data/b, synthetik: unknown format\n"
                  "    fallback = idx /data/b, synthetik\n"
                  "               ^~~~~~~~~~~~~~~~~~~~~~\n"
                  "    hint: did you mean 'synthetic'?\n");
}

#define LADDER                                                                                     \
    TOY_JOB "[data train]\nformat = idx\npaths = ${DATA}/a\nlabels = ${DATA}/l\n"                  \
            "fallback = idx ${DATA}/b, synthetic\n" TOY_LAYER "[fallback]\njob.steps = 7\n"

static const char *paths_of(struct sw_recipe *r)
{
    return sw_section_text(sw_recipe_find(r, "data", "train"), "paths");
}

static struct sw_recipe *load_ladder(const char *files, const char *decided)
{
    struct sw_recipe *r;
    assert_int_equal(load_with(LADDER, files, NULL, decided, &r), SW_OK);
    return r;
}

/* Other files serve as they are: lines for data made by code do not count. */
static void fallback_uses_the_first_existing_alternative(void **state)
{
    struct sw_recipe *r = load_ladder("/data/a /data/b", NULL);
    assert_string_equal(paths_of(r), "/data/a");
    assert_string_equal(sw_recipe_fallback(r), "");
    sw_recipe_free(r);

    r = load_ladder("/data/b", NULL);
    assert_ptr_equal(format_of(r, "train"), &toy_idx_type);
    assert_string_equal(paths_of(r), "/data/b");
    assert_int_equal(steps_of(r), 100);
    assert_string_equal(sw_recipe_fallback(r), "train:1");
    expect_announcement(r, "data train: format idx of /data/b instead of idx: no file /data/a\n");
    sw_recipe_free(r);

    r = load_ladder("", NULL);
    assert_ptr_equal(format_of(r, "train"), &toy_synthetic_type);
    assert_int_equal(steps_of(r), 7);
    assert_string_equal(sw_recipe_fallback(r), "train");
    sw_recipe_free(r);
}

static void fallback_to_an_alternative_is_decided_once(void **state)
{
    static const char *const decisions[] = {"train:1", "train", ""};
    static const char *const paths[] = {"/data/b", NULL, "/data/a"};
    for (int i = 0; i < 3; i++) {
        struct sw_recipe *r = load_ladder("/data/a /data/b", decisions[i]);
        assert_string_equal(sw_recipe_fallback(r), decisions[i]);
        if (paths[i])
            assert_string_equal(paths_of(r), paths[i]);
        else
            assert_ptr_equal(format_of(r, "train"), &toy_synthetic_type);
        sw_recipe_free(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fallback_is_not_used_while_a_file_exists),
        cmocka_unit_test(fallback_replaces_the_format_when_no_file_exists),
        cmocka_unit_test(fallback_is_decided_per_section),
        cmocka_unit_test(fallback_uses_the_first_existing_alternative),
        cmocka_unit_test(fallback_to_an_alternative_is_decided_once),
        cmocka_unit_test(set_overrides_fallback),
        cmocka_unit_test(fallback_decision_can_be_reused_on_resume),
        cmocka_unit_test(fallback_does_not_replace_unreadable_files),
        cmocka_unit_test(fallback_checks_patterns_for_matches),
        cmocka_unit_test(fallback_lines_are_checked_even_when_not_applied),
        cmocka_unit_test(errors_of_applied_fallback_lines_point_at_the_line),
        cmocka_unit_test(fallback_must_name_a_format),
    };
    return cmocka_run_group_tests(tests, scratch_begin, scratch_end);
}
