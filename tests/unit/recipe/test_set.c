#include "recipe_support.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const char text[] = TOY_JOB "[updater]\ntype = sgd\nlr = 1\npolicy = step\ngamma = 0.5\n"
                                   "[updater *.bias]\nlr_mult = 2\n"
                                   "[layer fc1]\ntype = inner_product\noutputs = 10\n"
                                   "[layer fc1.b]\ntype = dropout\n";

static struct sw_recipe *load_set(const char *set)
{
    const char *const sets[] = {set, NULL};
    struct sw_recipe *r;
    assert_int_equal(toy_load(text, sets, &r), SW_OK);
    return r;
}

/* All messages about one --set text. */
static void expect(const char *set, const char *printed)
{
    const char *const sets[] = {set, NULL};
    struct sw_bytes out = {0};
    struct sw_recipe *r;
    assert_int_equal(toy_load(text, sets, &r), SW_ERR_INVALID);
    sw_diags_print(sw_recipe_diags(r), &out);
    assert_string_equal(sw_bytes_text(&out), printed);
    sw_bytes_fini(&out);
    sw_recipe_free(r);
}

static void set_overrides_the_recipe_and_the_last_wins(void **state)
{
    const char *const sets[] = {"layer.fc1.outputs=20", "layer.fc1.outputs=30", "job.seed=9", NULL};
    struct sw_recipe *r;
    assert_int_equal(toy_load(text, sets, &r), SW_OK);
    const struct sw_section *s = sw_recipe_find(r, "layer", "fc1");
    assert_int_equal(((const struct toy_fc *)s->conf[0])->outputs, 30);
    assert_int_equal(sw_section_origin(s, "outputs"), SW_FROM_SET);
    assert_int_equal(sw_section_origin(s, "type"), SW_FROM_RECIPE);
    assert_int_equal(sw_section_origin(s, "src"), SW_FROM_DEFAULT);
    assert_string_equal(sw_section_where(s, "outputs").origin, "--set layer.fc1.outputs=30");
    s = sw_recipe_find(r, "job", NULL);
    assert_int_equal(((const struct sw_job_conf *)s->common)->seed, 9);
    assert_string_equal(sw_recipe_overrides(r),
                        "layer.fc1.outputs=20\nlayer.fc1.outputs=30\njob.seed=9");
    sw_recipe_free(r);
}

static void set_uses_the_longest_matching_section(void **state)
{
    struct sw_recipe *r = load_set("layer.fc1.weight.std=3");
    const struct toy_param *p = sw_recipe_find(r, "layer", "fc1")->param_conf[0];
    assert_true(p->std == 3);
    sw_recipe_free(r);

    r = load_set("layer.fc1.b.ratio=0.25");
    const struct sw_section *s = sw_recipe_find(r, "layer", "fc1.b");
    assert_true(((const struct toy_dropout *)s->conf[0])->ratio == 0.25);
    sw_recipe_free(r);

    r = load_set("updater.*.bias.lr_mult=5");
    s = sw_recipe_find(r, "updater", "*.bias");
    assert_true(((const struct toy_match *)s->common)->lr_mult == 5);
    sw_recipe_free(r);

    r = load_set("updater.lr=5");
    s = sw_recipe_find(r, "updater", NULL);
    assert_true(((const struct toy_updater *)s->common)->lr == 5);
    sw_recipe_free(r);
}

static void set_creates_sections(void **state)
{
    struct sw_recipe *r = load_set("updater.*.weight.lr_mult=5");
    const struct sw_section *s = sw_recipe_find(r, "updater", "*.weight");
    assert_true(((const struct toy_match *)s->common)->lr_mult == 5);
    assert_ptr_equal(r ? sw_section_next(sw_recipe_find(r, "updater", "*.bias")) : NULL, s);
    sw_recipe_free(r);

    r = load_set("layer.relu.type=dropout");
    s = sw_recipe_find(r, "layer", "relu");
    assert_ptr_equal(s->type[0], &toy_dropout_type);
    sw_recipe_free(r);
}

static void set_values_expand_variables(void **state)
{
    const char *const sets[] = {"job.name=${a}-${b}-${DATA}", "vars.b=2${a}", "vars.a=1",
                                "vars.b=3", NULL};
    struct sw_recipe *r;
    assert_int_equal(toy_load("[vars]\na = x\n" TOY_JOB TOY_LAYER, sets, &r), SW_OK);
    const struct sw_job_conf *job = sw_recipe_find(r, "job", NULL)->common;
    assert_string_equal(job->name, "1-3-/data");
    sw_recipe_free(r);
}

static void set_value_begins_after_the_first_equals_sign(void **state)
{
    struct sw_recipe *r = load_set("job.name=  a=b ; # c  ");
    const struct sw_job_conf *job = sw_recipe_find(r, "job", NULL)->common;
    assert_string_equal(job->name, "a=b ; # c");
    sw_recipe_free(r);
}

static void set_of_a_type_drops_keys_of_the_old_one(void **state)
{
    struct sw_recipe *r = load_set("updater.policy=fixed");
    const struct sw_section *s = sw_recipe_find(r, "updater", NULL);
    assert_ptr_equal(s->type[1], &toy_fixed_type);
    assert_false(sw_section_is_set(s, "gamma"));
    sw_recipe_free(r);
}

static void set_of_a_type_keeps_keys_that_both_have(void **state)
{
    const char *const sets[] = {"layer.fc1.type=convolution", "layer.fc1.kernel=3", NULL};
    struct sw_recipe *r;
    assert_int_equal(toy_load(text, sets, &r), SW_OK);
    const struct toy_conv *conv = sw_recipe_find(r, "layer", "fc1")->conf[0];
    assert_int_equal(conv->outputs, 10);
    assert_int_equal(conv->kernel, 3);
    sw_recipe_free(r);
}

static void set_errors_point_at_the_text(void **state)
{
    expect("layer.fc1.outputs=-1", "--set layer.fc1.outputs=-1: layer fc1: outputs = -1: must be 1 "
                                   "or more\n"
                                   "    --set layer.fc1.outputs=-1\n"
                                   "                            ^~\n");
    expect("layer.fc1.output=1", "--set layer.fc1.output=1: layer fc1: unknown key 'output' "
                                 "for type inner_product\n"
                                 "    --set layer.fc1.output=1\n"
                                 "                    ^~~~~~\n"
                                 "    hint: did you mean 'outputs'?\n");
    expect("layer.fc1.wieght.std=1", "--set layer.fc1.wieght.std=1: layer fc1: unknown key "
                                     "'wieght.std' for type inner_product\n"
                                     "    --set layer.fc1.wieght.std=1\n"
                                     "                    ^~~~~~~~~~\n"
                                     "    hint: did you mean 'weight.std'?\n");
    expect("job.name=${nope}", "--set job.name=${nope}: job: name: unknown variable 'nope'\n"
                               "    --set job.name=${nope}\n"
                               "                   ^~~~~~~\n"
                               "    hint: define it in [vars] or in the environment\n");
    expect("job.name=", "--set job.name=: job: name = : missing value\n"
                        "    --set job.name=\n"
                        "                   ^\n");
}

static void set_of_an_unknown_section_is_explained(void **state)
{
    expect("lyer.fc1.outputs=1", "--set lyer.fc1.outputs=1: 'lyer.fc1.outputs': unknown section "
                                 "'lyer'\n"
                                 "    --set lyer.fc1.outputs=1\n"
                                 "          ^~~~~~~~~~~~~~~~\n"
                                 "    hint: did you mean 'layer'?\n");
    expect("layer.fc2.outputs=1", "--set layer.fc2.outputs=1: layer fc2: type is missing\n"
                                  "    --set layer.fc2.outputs=1\n"
                                  "                    ^~~~~~~\n"
                                  "    hint: did you mean 'fc1'?\n");
    expect("layer.outputs=1", "--set layer.outputs=1: 'layer.outputs' lacks the name of the layer\n"
                              "    --set layer.outputs=1\n"
                              "          ^~~~~~~~~~~~~\n"
                              "    hint: write layer.NAME.outputs\n");
    expect("updater.*.bias.lr_mlt=1", "--set updater.*.bias.lr_mlt=1: updater *.bias: unknown "
                                      "key 'lr_mlt'\n"
                                      "    --set updater.*.bias.lr_mlt=1\n"
                                      "                         ^~~~~~\n"
                                      "    hint: did you mean 'lr_mult'?\n");
    expect("layer.fc1.=1",
           "--set layer.fc1.=1: 'layer.fc1.' is not of the form SECTION.KEY\n"
           "    --set layer.fc1.=1\n"
           "          ^~~~~~~~~~\n"
           "    hint: for example --set job.batch=64 or --set layer.fc1.outputs=10\n");
    expect("layer.a b.type=dropout", "--set layer.a b.type=dropout: invalid section name "
                                     "'a b'\n"
                                     "    --set layer.a b.type=dropout\n"
                                     "          ^~~~~~~~~~~~~~\n");
}

static void malformed_set_is_explained(void **state)
{
    expect("steps=5", "--set steps=5: missing section; expected SECTION.KEY=VALUE\n"
                      "    --set steps=5\n"
                      "          ^\n"
                      "    hint: did you mean 'job.steps'?\n");
    expect("nonsense", "--set nonsense: missing '='; expected SECTION.KEY=VALUE\n"
                       "    --set nonsense\n"
                       "          ^\n"
                       "    hint: for example --set job.batch=64 or --set layer.fc1.outputs=10\n");
    expect(" = 3", "--set  = 3: missing key before '='; expected SECTION.KEY=VALUE\n"
                   "    --set  = 3\n"
                   "          ^\n"
                   "    hint: for example --set job.batch=64 or --set layer.fc1.outputs=10\n");
    expect("job.name=a\nb", "--set job.name=a?b: contains a control character or invalid UTF-8\n"
                            "    --set job.name=a?b\n"
                            "          ^\n");
}

static void set_errors_come_after_those_of_the_file(void **state)
{
    const char *const sets[] = {"job.batch=x", "layer.fc1.outputs=0", NULL};
    struct sw_recipe *r;
    struct sw_err err;
    assert_int_equal(
        toy_load(TOY_JOB "[layer fc1]\ntype = inner_product\noutputs = 1\nfoo = 1\n", sets, &r),
        SW_ERR_INVALID);
    const struct sw_diags *d = sw_recipe_diags(r);
    assert_int_equal(d->count, 3);
    assert_string_equal(d->items[0].where, "x.ini:7:1");
    assert_string_equal(d->items[1].where, "--set job.batch=x");
    assert_string_equal(d->items[2].where, "--set layer.fc1.outputs=0");
    assert_int_equal(sw_recipe_status(r, &err), SW_ERR_INVALID);
    sw_recipe_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(set_overrides_the_recipe_and_the_last_wins),
        cmocka_unit_test(set_uses_the_longest_matching_section),
        cmocka_unit_test(set_creates_sections),
        cmocka_unit_test(set_values_expand_variables),
        cmocka_unit_test(set_value_begins_after_the_first_equals_sign),
        cmocka_unit_test(set_of_a_type_drops_keys_of_the_old_one),
        cmocka_unit_test(set_of_a_type_keeps_keys_that_both_have),
        cmocka_unit_test(set_errors_point_at_the_text),
        cmocka_unit_test(set_of_an_unknown_section_is_explained),
        cmocka_unit_test(malformed_set_is_explained),
        cmocka_unit_test(set_errors_come_after_those_of_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
