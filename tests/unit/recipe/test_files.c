/* Where relative paths of a recipe lead, and what a run stores so that they lead there again. */
#include "recipe/explain.h"
#include "recipe_support.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

/* A recipe in the folder rec, with that value of paths and that [vars]. */
static int load(const char *paths, const char *vars, const char *files, const char *const *sets,
                const char *overrides, struct sw_recipe **r)
{
    char text[2000];
    struct sw_err err;
    snprintf(text, sizeof text,
             "[vars]\n%s\n" TOY_JOB "[data train]\nformat = idx\npaths = %s\nlabels = /l\n"
             "fallback = idx far/away, synthetic\n" TOY_LAYER,
             vars ? vars : "", paths);

    struct sw_recipe_source s = toy_source(text, sets);
    s.path = "rec/x.ini";
    s.overrides = overrides;
    toy_use_files(files);
    int rc = sw_recipe_load(&s, &toy_schema, r, &err);
    sw_os_set(NULL);
    return rc;
}

/* The paths of [data train], joined by blanks. */
static const char *paths_of(const struct sw_recipe *r)
{
    static char out[4000];
    const struct toy_idx *conf = sw_recipe_find(r, "data", "train")->conf[0];
    *out = '\0';
    for (int i = 0; i < conf->paths.count; i++)
        snprintf(out + strlen(out), sizeof out - strlen(out), "%s%s", i ? " " : "",
                 conf->paths.items[i]);
    return out;
}

static void expect(const char *paths, const char *vars, const char *files, const char *const *sets,
                   const char *wanted, int warnings)
{
    struct sw_recipe *r;
    assert_int_equal(load(paths, vars, files, sets, NULL, &r), SW_OK);
    assert_string_equal(paths_of(r), wanted);
    assert_int_equal(sw_recipe_warnings(r)->count, warnings);
    sw_recipe_free(r);
}

/* "/CWD/NAME" */
static const char *here(const char *name)
{
    static char out[4200];
    assert_non_null(getcwd(out, 4096));
    strcat(out, "/");
    return strcat(out, name);
}

static void a_relative_path_is_relative_to_the_recipe_after_singa_data(void **state)
{
    expect("a, /b", NULL, "/b", NULL, "rec/a /b", 0);
    expect("a, /b", NULL, "/b rec/a a", NULL, "rec/a /b", 0);
    expect("a, b/c", NULL, "/singa/b/c rec/b/c rec/a", NULL, "rec/a /singa/b/c", 0);
    expect("${SINGA_DATA}/a, ${DATA}/b", NULL, "/singa/a", NULL, "/singa/a /data/b", 0);
}

static void a_path_that_exists_in_the_working_directory_only_gets_a_warning(void **state)
{
    struct sw_recipe *r;
    expect("a, ./b/c", NULL, "rec/a ./b/c", NULL, "rec/a ./b/c", 1);
    assert_int_equal(load("old/a", NULL, "old/a", NULL, NULL, &r), SW_OK);
    const struct sw_diag *d = &sw_recipe_warnings(r)->items[0];
    assert_string_equal(d->where, "rec/x.ini:8:9");
    assert_string_equal(
        d->text, "data train: paths: 'old/a' was found in the working directory, but a relative "
                 "path in a recipe is relative to the recipe; the next release will look for it at "
                 "rec/old/a only");
    char wanted[4300];
    snprintf(wanted, sizeof wanted, "data.train.paths=%s\nenv.SINGA_DATA=/singa", here("old/a"));
    assert_string_equal(sw_recipe_overrides(r), wanted);
    sw_recipe_free(r);
}

static void a_variable_leads_where_it_was_defined(void **state)
{
    const char *const sets[] = {"vars.v=s", NULL};
    expect("${v}/a", "v = w", "w/a rec/w/a", NULL, "rec/w/a", 0);
    expect("${v}/a", "v = w", "s/a rec/s/a", sets, "s/a", 0);
    expect("${u}/a", "v = w\nu = ${v}/x", "s/x/a rec/s/x/a", sets, "s/x/a", 0);
    /* Its beginning counts: this one is the recipe's. */
    expect("./${v}/a", "v = w", "s/a rec/./s/a", sets, "rec/./s/a", 0);
    expect("${v}, z", "v = p, q", "rec/q rec/p rec/z", NULL, "rec/p rec/q rec/z", 0);
}

static void paths_of_the_command_line_are_those_of_the_working_directory(void **state)
{
    const char *const sets[] = {"data.train.paths=a, /b", "job.seed=3", NULL};
    struct sw_recipe *r;
    assert_int_equal(load("z", NULL, "a rec/a /singa/a", sets, NULL, &r), SW_OK);
    assert_string_equal(paths_of(r), "a /b");
    char wanted[4300];
    snprintf(wanted, sizeof wanted, "data.train.paths=%s, /b\njob.seed=3\nenv.SINGA_DATA=/singa",
             here("a"));
    assert_string_equal(sw_recipe_overrides(r), wanted);

    /* The stored overrides mean the same everywhere, and are stored again as they are. */
    struct sw_recipe *again;
    char file[4200];
    strcpy(file, here("a"));
    assert_int_equal(load("z", NULL, file, NULL, wanted, &again), SW_OK);
    assert_true(sw_str_starts(paths_of(again), file));
    assert_string_equal(sw_recipe_overrides(again), wanted);
    sw_recipe_free(again);
    sw_recipe_free(r);
}

static void a_run_stores_the_environment_that_it_used(void **state)
{
    const char *const sets[] = {"env.DATA=/other", NULL};
    struct sw_recipe *r;
    assert_int_equal(load("${DATA}/a", NULL, "/data/a", NULL, NULL, &r), SW_OK);
    assert_string_equal(sw_recipe_overrides(r), "env.SINGA_DATA=/singa\nenv.DATA=/data");
    sw_recipe_free(r);
    assert_int_equal(load("${DATA}/a", NULL, "/data/a /other/a", sets, NULL, &r), SW_OK);
    assert_string_equal(paths_of(r), "/other/a");
    sw_recipe_free(r);
    const char *const wrong[] = {"env.a-b=1", NULL};
    assert_int_equal(load("/a", NULL, "/a", wrong, NULL, &r), SW_ERR_INVALID);
    assert_string_equal(sw_recipe_diags(r)->items[0].text, "env: invalid variable name 'a-b'");
    sw_recipe_free(r);
}

static void the_fallback_follows_the_rule(void **state)
{
    struct sw_recipe *r;
    assert_int_equal(load("a", NULL, "rec/far/away", NULL, NULL, &r), SW_OK);
    assert_string_equal(paths_of(r), "rec/far/away");
    assert_string_equal(sw_recipe_fallback(r), "train:1");
    sw_recipe_free(r);
    assert_int_equal(load("a", NULL, "far/away", NULL, NULL, &r), SW_OK);
    assert_string_equal(paths_of(r), "far/away");
    char wanted[4300];
    snprintf(wanted, sizeof wanted, "data.train.fallback=idx %s, synthetic\nenv.SINGA_DATA=/singa",
             here("far/away"));
    assert_string_equal(sw_recipe_overrides(r), wanted);
    sw_recipe_free(r);
}

static void items_that_are_no_paths_stay(void **state)
{
    struct sw_err err;
    struct sw_recipe *r;
    struct sw_recipe_source s = toy_source(
        TOY_JOB "init_from = previous, a.w -> b.w, f, a.* -> c.*\ndb = h.db\n" TOY_LAYER, NULL);
    s.path = "rec/x.ini";
    toy_use_files("rec/f h.db /singa/h.db");
    assert_int_equal(sw_recipe_load(&s, &toy_schema, &r, &err), SW_OK);
    sw_os_set(NULL);
    const struct sw_job_conf *job = sw_recipe_find(r, "job", NULL)->common;
    assert_int_equal(job->init_from.count, 4);
    assert_string_equal(job->init_from.items[0], "previous");
    assert_string_equal(job->init_from.items[1], "a.w -> b.w");
    assert_string_equal(job->init_from.items[2], "rec/f");
    /* A file that the program makes is not looked for in SINGA_DATA. */
    assert_string_equal(job->db, "h.db");
    sw_recipe_free(r);
}

static void included_files_and_stages_have_their_own_folders(void **state)
{
    struct sw_err err;
    struct sw_recipe *r;
    struct sw_recipe_source s = toy_source(
        "include = sub/base.ini\n;| the next 4 lines are sub/base.ini\n[data train]\nformat = idx\n"
        "paths = a\nlabels = b\n;| end of sub/base.ini\n[job]\nbatch = 10\n[data train]\n"
        "labels = b\n" TOY_LAYER "[stage one]\nsteps = 5\ndata.train.paths = c\n",
        NULL);
    s.path = "rec/x.ini";
    toy_use_files("c");
    assert_int_equal(sw_recipe_load(&s, &toy_schema, &r, &err), SW_OK);
    sw_os_set(NULL);
    assert_string_equal(paths_of(r), "c");
    const struct toy_idx *conf = sw_recipe_find(r, "data", "train")->conf[0];
    assert_string_equal(conf->labels, "rec/b");
    char wanted[4300];
    snprintf(wanted, sizeof wanted, "stage.one.data.train.paths=%s\nenv.SINGA_DATA=/singa",
             here("c"));
    assert_string_equal(sw_recipe_overrides(r), wanted);
    sw_recipe_free(r);

    s.stage = NULL;
    s.text = "include = sub/base.ini\n;| the next 4 lines are sub/base.ini\n[data train]\n"
             "format = idx\npaths = a\nlabels = b\n;| end of sub/base.ini\n" TOY_JOB TOY_LAYER;
    s.text_bytes = strlen(s.text);
    toy_use_files("");
    assert_int_equal(sw_recipe_load(&s, &toy_schema, &r, &err), SW_OK);
    sw_os_set(NULL);
    assert_string_equal(paths_of(r), "rec/sub/a");
    sw_recipe_free(r);
}

static void take(void *user, const struct sw_explained *e)
{
    if (strcmp(e->key, "paths") == 0)
        snprintf(user, 200, "%s|%s|%s", e->value, e->written ? e->written : "-",
                 e->found ? e->found : "-");
}

static void explain_tells_where_a_path_leads(void **state)
{
    static const struct {
        const char *paths, *files, *wanted;
    } cases[] = {
        {"a", "rec/a", "rec/a|a|relative to the recipe"},
        {"a", "/singa/a", "/singa/a|a|in the folder SINGA_DATA"},
        {"a", "a", "a|-|in the working directory"},
        {"a, b", "/singa/a", "/singa/a, rec/b|a, b|in several folders"},
        {"${DATA}/a", "/data/a", "/data/a|${DATA}/a|-"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sw_recipe *r;
        struct sw_err err;
        char got[200] = "";
        assert_int_equal(load(cases[i].paths, NULL, cases[i].files, NULL, NULL, &r), SW_OK);
        assert_int_equal(sw_recipe_explain(r, take, got, &err), SW_OK);
        assert_string_equal(got, cases[i].wanted);
        sw_recipe_free(r);
    }
}

static void the_folder_of_the_recipe_is_not_part_of_its_identity(void **state)
{
    struct sw_recipe *a, *b;
    assert_int_equal(load("a", NULL, "rec/a", NULL, NULL, &a), SW_OK);
    assert_int_equal(load("a", NULL, "/singa/a", NULL, NULL, &b), SW_OK);
    assert_string_equal(sw_recipe_hash(a), sw_recipe_hash(b));
    sw_recipe_free(a);
    sw_recipe_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_relative_path_is_relative_to_the_recipe_after_singa_data),
        cmocka_unit_test(a_path_that_exists_in_the_working_directory_only_gets_a_warning),
        cmocka_unit_test(a_variable_leads_where_it_was_defined),
        cmocka_unit_test(paths_of_the_command_line_are_those_of_the_working_directory),
        cmocka_unit_test(a_run_stores_the_environment_that_it_used),
        cmocka_unit_test(the_fallback_follows_the_rule),
        cmocka_unit_test(items_that_are_no_paths_stay),
        cmocka_unit_test(included_files_and_stages_have_their_own_folders),
        cmocka_unit_test(explain_tells_where_a_path_leads),
        cmocka_unit_test(the_folder_of_the_recipe_is_not_part_of_its_identity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
