#include "recipe_support.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const char text[] =
    "[vars]\nLONG = 30\n"
    "[job]\nbatch = 10\n"
    "[data train]\nformat = idx\npaths = /a\nlabels = /l\nfallback = synthetic\n"
    "[updater]\ntype = sgd\nlr = 0.1\nmomentum = 0.9\n" TOY_LAYER
    "[layer fc]\ntype = inner_product\noutputs = 5\nweight.std = 0.5\n"
    "[layer old]\ntype = inner_product\noutputs = 6\nstages = a\n"
    "[layer new]\ntype = dropout\nstages = b*, c.d\n"
    "[stage a]\nsteps = 10\nlayer.fc.weight.std = 0.25\n"
    "[stage b]\nsteps = ${LONG}\nfreeze = fc, old*\nupdater.type = plain\nupdater.lr = 0.5\n"
    "layer.extra.type = dropout\nlayer.extra.ratio = 0.125\n"
    "[stage c.d]\nepochs = 2\nbatch = 3\n"
    "[fallback]\nstage.b.steps = 7\nstage.c.d.batch = 4\n";

static struct sw_recipe *load(const char *stage, const char *files, const char *const *sets)
{
    struct sw_recipe *r;
    struct sw_err err;
    struct sw_recipe_source s = toy_source(text, sets);
    s.stage = stage;
    toy_use_files(files);
    assert_int_equal(sw_recipe_load(&s, &toy_schema, &r, &err), SW_OK);
    sw_os_set(NULL);
    return r;
}

static const struct sw_job_conf *job_of(struct sw_recipe *r)
{
    const struct sw_job_conf *job;
    struct sw_err err;
    assert_int_equal(sw_job_apply_rules(r, &job, &err), SW_OK);
    return job;
}

static double rate_of(struct sw_recipe *r)
{
    return ((const struct toy_updater *)sw_recipe_find(r, "updater", NULL)->common)->lr;
}

static double std_of(struct sw_recipe *r)
{
    const struct sw_section *s = sw_recipe_find(r, "layer", "fc");
    return ((const struct toy_param *)s->param_conf[0])->std;
}

static void a_recipe_is_loaded_for_its_first_stage(void **state)
{
    struct sw_recipe *r = load(NULL, "/a", NULL);
    assert_int_equal(sw_recipe_stage_count(r), 3);
    assert_int_equal(sw_recipe_stage(r), 0);
    assert_string_equal(sw_recipe_stage_name(r, 2), "c.d");
    assert_null(sw_recipe_stage_name(r, 3));
    const struct sw_job_conf *job = job_of(r);
    assert_int_equal(job->steps, 10);
    assert_int_equal(job->freeze.count, 0);
    assert_true(rate_of(r) == 0.1);
    assert_true(std_of(r) == 0.25);
    assert_true(sw_section_by_stage(sw_recipe_find(r, "job", NULL), "steps"));
    assert_false(sw_section_by_stage(sw_recipe_find(r, "job", NULL), "batch"));
    sw_recipe_free(r);
}

static void a_stage_changes_keys_types_and_sections(void **state)
{
    struct sw_recipe *r = load("b", "/a", NULL);
    const struct sw_section *u = sw_recipe_find(r, "updater", NULL);
    const struct sw_job_conf *job = job_of(r);
    assert_int_equal(job->steps, 30);
    assert_int_equal(job->freeze.count, 2);
    assert_ptr_equal(u->type[0], &toy_plain_type); /* and the key of the old type is gone */
    assert_true(rate_of(r) == 0.5);
    assert_int_equal(sw_section_origin(u, "lr"), SW_FROM_STAGE);
    assert_true(std_of(r) == 0.5);
    const struct sw_section *extra = sw_recipe_find(r, "layer", "extra");
    assert_non_null(extra);
    assert_true(((const struct toy_dropout *)extra->conf[0])->ratio == 0.125);
    sw_recipe_free(r);
    r = load("c.d", "/a", NULL);
    assert_null(sw_recipe_find(r, "layer", "extra"));
    job = job_of(r);
    assert_int_equal(job->steps, 0);
    assert_true(job->epochs == 2);
    assert_int_equal(job->batch, 3);
    sw_recipe_free(r);
}

static void sections_of_other_stages_are_removed(void **state)
{
    static const struct {
        const char *stage;
        bool old, new;
    } rows[] = {{"a", true, false}, {"b", false, true}, {"c.d", false, true}};
    for (int i = 0; i < 3; i++) {
        struct sw_recipe *r = load(rows[i].stage, "/a", NULL);
        assert_int_equal(sw_recipe_find(r, "layer", "old") != NULL, rows[i].old);
        assert_int_equal(sw_recipe_find(r, "layer", "new") != NULL, rows[i].new);
        assert_non_null(sw_recipe_find(r, "layer", "fc"));
        sw_recipe_free(r);
    }
}

static void set_overrides_a_stage_and_set_of_the_stage_overrides_both(void **state)
{
    static const char *const all[] = {"updater.lr=2", "stage.b.layer.fc.weight.std=3", NULL};
    struct sw_recipe *r = load("b", "/a", all);
    assert_true(rate_of(r) == 2);
    assert_true(std_of(r) == 3);
    sw_recipe_free(r);
    r = load("a", "/a", all);
    assert_true(rate_of(r) == 2);
    assert_true(std_of(r) == 0.25);
    sw_recipe_free(r);
    static const char *const one[] = {"stage.b.updater.lr=4", "updater.lr=2", "stage.c.d.steps=9",
                                      "stage.b.steps=8", NULL};
    r = load("b", "/a", one);
    assert_true(rate_of(r) == 4);
    assert_int_equal(job_of(r)->steps, 8);
    sw_recipe_free(r);
    r = load("c.d", "/a", one);
    assert_true(rate_of(r) == 2);
    sw_recipe_free(r);
}

static void fallback_sets_keys_of_stages(void **state)
{
    struct sw_bytes out = {0};
    struct sw_recipe *r = load("b", "", NULL);
    assert_int_equal(job_of(r)->steps, 7);
    sw_recipe_announce_fallback(r, &out);
    assert_non_null(strstr(sw_bytes_text(&out), "[fallback] sets job.steps = 7\n"));
    sw_bytes_fini(&out);
    sw_recipe_free(r);
    r = load("c.d", "", NULL);
    assert_int_equal(job_of(r)->batch, 4);
    sw_recipe_free(r);
    static const char *const sets[] = {"stage.b.steps=8", NULL};
    r = load("b", "", sets);
    assert_int_equal(job_of(r)->steps, 8);
    sw_recipe_free(r);
}

static void hash_does_not_depend_on_the_stage(void **state)
{
    struct sw_recipe *a = load("a", "/a", NULL), *b = load("b", "/a", NULL);
    assert_string_equal(sw_recipe_hash(a), sw_recipe_hash(b));
    sw_recipe_free(a);
    sw_recipe_free(b);
}

static void an_unknown_stage_is_an_error(void **state)
{
    struct sw_recipe *r;
    struct sw_err err;
    struct sw_recipe_source s = toy_source(text, NULL);
    s.stage = "bee";
    assert_int_equal(sw_recipe_load(&s, &toy_schema, &r, &err), SW_ERR_INVALID);
    assert_null(r);
    assert_string_equal(err.text, "x.ini: unknown stage 'bee'; stages: a, b, c.d");
    s = toy_source(TOY_JOB TOY_LAYER, NULL);
    s.stage = "a";
    assert_int_equal(sw_recipe_load(&s, &toy_schema, &r, &err), SW_ERR_INVALID);
    assert_non_null(strstr(err.text, "the recipe has no stages"));
}

/* Loads, settles the job, and compares the first message. */
static void expect_error(const char *recipe, const char *const *sets, const char *message)
{
    struct sw_recipe *r = NULL;
    const struct sw_job_conf *job;
    struct sw_bytes out = {0};
    struct sw_err err;
    int rc = toy_load(recipe, sets, &r);
    assert_non_null(r);
    if (rc == SW_OK)
        rc = sw_job_apply_rules(r, &job, &err);
    assert_int_equal(rc, SW_ERR_INVALID);
    sw_diags_print(sw_recipe_diags(r), &out);
    if (!strstr(sw_bytes_text(&out), message))
        fail_msg("no '%s' in:\n%s", message, sw_bytes_text(&out));
    sw_bytes_fini(&out);
    sw_recipe_free(r);
}

#define BASE "[job]\nbatch = 10\n[updater]\ntype = sgd\nlr = 1\n" TOY_LAYER

static void errors_are_reported_in_every_stage(void **state)
{
    static const char *const length[] = {"job.steps=3", NULL};
    static const char *const no_stage[] = {"stage.x.steps=3", NULL};
    expect_error(BASE "[stage a]\nfreeze = fc\n", NULL, "x.ini:8:2: stage a: steps is missing");
    expect_error(BASE "[stage a]\nsteps = 0\n", NULL,
                 "x.ini:9:9: stage a: job: steps = 0: must be 1 or more");
    expect_error(BASE "[stage a]\nsteps = 1\n[stage b]\nsteps = 0\n", NULL,
                 "x.ini:11:9: stage b: job.steps = 0: must be 1 or more");
    expect_error(BASE "[stage a]\nsteps = 1\nepochs = 1\n", NULL, "conflicts with steps");
    expect_error(BASE "[stage a]\nsteps = 1\n[stage b]\nsteps = 1\nstepz = 1\n", NULL,
                 "x.ini:12:1: stage b: unknown key 'stepz'");
    expect_error(BASE "[stage a]\nsteps = 1\n[stage b]\nsteps = 1\nupdater.lx = 1\n", NULL,
                 "stage b: unknown key 'updater.lx'");
    expect_error(BASE "[stage a]\nsteps = 1\nseed = 3\n", NULL,
                 "x.ini:10:1: stage a: seed cannot change between the stages of a run");
    expect_error(BASE "[stage a]\nsteps = 1\njob.name = n\n", NULL,
                 "stage a: job.name cannot change between the stages of a run");
    expect_error(BASE "[stage]\nsteps = 1\n", NULL, "[stage] requires a name");
    expect_error(BASE "[stage a]\nsteps = 1\n[layer fc]\ntype = dropout\nstages = b\n", NULL,
                 "x.ini:12:10: layer fc: stages = b: unknown stage 'b'");
    expect_error(BASE "[layer fc]\ntype = dropout\nstages = b\n", NULL,
                 "the recipe has no [stage NAME]");
    expect_error(BASE "[stage a]\nsteps = 1\n", length,
                 "job: steps = 3: a recipe with stages sets this key in each [stage NAME]");
    expect_error("[job]\nbatch = 10\nepochs = 3\n[updater]\ntype = sgd\nlr = 1\n" TOY_LAYER
                 "[stage a]\nsteps = 1\n",
                 NULL, "x.ini:3:10: job: epochs = 3: a recipe with stages sets this key");
    expect_error("[job]\nbatch = 10\nsteps = 3\n[updater]\ntype = sgd\nlr = 1\n" TOY_LAYER
                 "[stage a]\nsteps = 1\n",
                 NULL, "x.ini:3:9: job: steps = 3: a recipe with stages sets this key");
    expect_error(BASE "[stage a]\nsteps = 1\n", no_stage, "'stage.x.steps': unknown stage");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_recipe_is_loaded_for_its_first_stage),
        cmocka_unit_test(a_stage_changes_keys_types_and_sections),
        cmocka_unit_test(sections_of_other_stages_are_removed),
        cmocka_unit_test(set_overrides_a_stage_and_set_of_the_stage_overrides_both),
        cmocka_unit_test(fallback_sets_keys_of_stages),
        cmocka_unit_test(hash_does_not_depend_on_the_stage),
        cmocka_unit_test(an_unknown_stage_is_an_error),
        cmocka_unit_test(errors_are_reported_in_every_stage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
