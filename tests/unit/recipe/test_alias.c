/* The table of other systems' names against the schema of the program: every counterpart exists and
 * is accepted, and every name gives its hint. */
#include "base/str.h"
#include "recipe/alias.h"
#include "recipe/lookup.h"
#include "recipe/recipe.h"
#include "run/schema.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct sw_schema_kind *kind_of(const char *kind)
{
    const struct sw_schema *s = sw_train_schema();
    const struct sw_schema_kind *one = sw_schema_find(s, kind, strlen(kind), SW_SECTION_ONE);
    return one ? one : sw_schema_find(s, kind, strlen(kind), SW_SECTION_NAMED);
}

static struct sw_recipe *load(const char *text)
{
    const struct sw_recipe_source source = {
        .path = "x.ini", .text = text, .text_bytes = strlen(text)};
    struct sw_recipe *recipe = NULL;
    struct sw_err err;
    assert_int_equal(sw_recipe_load(&source, sw_train_schema(), &recipe, &err), SW_ERR_INVALID);
    assert_non_null(recipe);
    return recipe;
}

static const struct sw_diag *find(const struct sw_recipe *recipe, const char *text)
{
    const struct sw_diags *d = sw_recipe_diags(recipe);
    for (int i = 0; i < d->count; i++)
        if (strstr(d->items[i].text, text))
            return &d->items[i];
    return NULL;
}

/* Whether the type has the key, and the key takes the value (NULL: any). */
static bool has_key(const struct sw_schema_kind *k, int slot, const struct sw_type *type,
                    const char *key, const char *value)
{
    const struct sw_opt *row = sw_opts_find(type->opts, key);
    if (!row || !value || row->type != SW_OPT_ENUM)
        return sw_type_has_key(k, slot, type, key);
    for (const char *const *choice = row->choices; *choice; choice++)
        if (strcmp(*choice, value) == 0)
            return true;
    return false;
}

/* Writes the header of a section, and the type or policy that has the key with that value. */
static void begin(struct sw_bytes *out, const struct sw_schema_kind *k, const char *key,
                  const char *value)
{
    sw_bytes_printf(out, "[%s%s]\n", k->kind, k->form == SW_SECTION_NAMED ? " x" : "");
    for (int slot = 0; slot < SW_SECTION_TYPES; slot++)
        for (const struct sw_type *const *t = k->types[slot]; t && *t; t++) {
            bool any = slot == 0 && (!key || sw_opts_find(k->opts, key));
            if (!any && !(key && has_key(k, slot, *t, key, value)))
                continue;
            sw_bytes_printf(out, "%s = %s\n", k->type_key[slot], (*t)->name);
            break;
        }
}

static void assert_hint(struct sw_bytes *recipe, const char *message, const char *hint)
{
    struct sw_recipe *r = load(sw_bytes_text(recipe));
    const struct sw_diag *d = find(r, message);
    if (!d || !d->hint || strcmp(d->hint, hint) != 0)
        print_error("%sno message '%s' with the hint '%s'; the hint is '%s'\n",
                    sw_bytes_text(recipe), message, hint, d && d->hint ? d->hint : "none");
    assert_non_null(d);
    assert_non_null(d->hint);
    assert_string_equal(d->hint, hint);
    sw_recipe_free(r);
    sw_bytes_fini(recipe);
}

static void check_key(const struct sw_alias *a)
{
    const struct sw_schema_kind *k = kind_of(a->section);
    struct sw_bytes text = {0};
    char message[100], hint[300];
    if (a->kind == SW_ALIAS_KEY && !sw_kind_has_key(k, a->key))
        fail_msg("%s: [%s] has no key %s", a->name, a->section, a->key);
    begin(&text, k, a->key, NULL);
    sw_bytes_printf(&text, "%s = 1\n", a->name);
    snprintf(message, sizeof message, "unknown key '%s'", a->name);
    if (a->kind == SW_ALIAS_KEY)
        snprintf(hint, sizeof hint, "'%s' is from %s; use '%s'", a->name, a->system, a->key);
    else
        snprintf(hint, sizeof hint, "'%s' is from %s; %s", a->name, a->system, a->value);
    assert_hint(&text, message, hint);
}

/* The key of the value, as the recipe writes it: `init` is a key of parameters. */
static void write_value(struct sw_bytes *out, const struct sw_schema_kind *k, const char *key,
                        const char *counterpart, const char *value)
{
    char of_weight[100];
    if (sw_type_slot(k, key) >= 0) {
        begin(out, k, sw_type_slot(k, key) ? "lr" : "none", NULL);
    } else {
        snprintf(of_weight, sizeof of_weight, "weight.%s", key);
        key = sw_opts_find(k->param_opts, key) ? of_weight : key;
        begin(out, k, key, counterpart);
    }
    sw_bytes_printf(out, "%s = %s\n", key, value);
}

static void check_value(const struct sw_alias *a)
{
    const struct sw_schema_kind *k = kind_of(a->section);
    struct sw_bytes text = {0};
    char message[100], hint[300];
    write_value(&text, k, a->key, a->value, a->value);
    if (a->extra)
        sw_bytes_printf(&text, "%s\n", a->extra);
    struct sw_recipe *r = load(sw_bytes_text(&text));
    if (find(r, "unknown") || find(r, ": must be"))
        fail_msg("%s: the counterpart is not accepted:\n%s", a->name, sw_bytes_text(&text));
    sw_recipe_free(r);
    sw_bytes_clear(&text);
    write_value(&text, k, a->key, a->value, a->name);
    snprintf(message, sizeof message, "%s = %s: ", a->key, a->name);
    snprintf(hint, sizeof hint, "'%s' is from %s; use '%s'%s%s", a->name, a->system, a->value,
             a->extra ? " and " : "", a->extra ? a->extra : "");
    assert_hint(&text, message, hint);
}

static void check_section(const struct sw_alias *a)
{
    const struct sw_schema_kind *k = kind_of(a->section);
    struct sw_bytes text = {0};
    char message[100], hint[300];
    sw_bytes_printf(&text, "[%s]\n", a->name);
    snprintf(message, sizeof message, "unknown section [%s]", a->name);
    snprintf(hint, sizeof hint, "'%s' is from %s; use [%s%s]", a->name, a->system, k->kind,
             k->form == SW_SECTION_NAMED ? " NAME" : "");
    assert_hint(&text, message, hint);
}

static void every_alias_has_a_counterpart_and_gives_its_hint(void **state)
{
    size_t count;
    const struct sw_alias *a = sw_aliases(&count);
    assert_true(count > 100);
    for (size_t i = 0; i < count; i++) {
        assert_non_null(kind_of(a[i].section));
        if (a[i].kind == SW_ALIAS_SECTION)
            check_section(&a[i]);
        else if (a[i].kind == SW_ALIAS_VALUE)
            check_value(&a[i]);
        else
            check_key(&a[i]);
    }
}

static void assert_hint_of(const char *recipe, const char *message, const char *hint)
{
    struct sw_bytes text = {0};
    sw_bytes_add(&text, recipe);
    assert_hint(&text, message, hint);
}

static void key_in_another_section_is_located(void **state)
{
    assert_hint_of("[job]\nbase_lr = 0.1\n", "unknown key 'base_lr'",
                   "'base_lr' is from SINGA and Caffe; use 'lr' in [updater]");
    assert_hint_of("[data train]\nformat = idx\nbatch_size = 64\n", "unknown key 'batch_size'",
                   "'batch_size' is from Caffe and PyTorch; use 'batch' in [job]");
    assert_hint_of("[job]\nmomentum = 0.9\n", "unknown key 'momentum'",
                   "momentum is a key of [updater]");
}

static void counterpart_depends_on_the_type(void **state)
{
    assert_hint_of("[layer a]\ntype = lstm\nnum_output = 8\n", "unknown key 'num_output'",
                   "'num_output' is from Caffe; use 'hidden'");
    assert_hint_of("[layer a]\ntype = convolution\npadding = 1\n", "unknown key 'padding'",
                   "'padding' is from PyTorch; use 'pad'");
}

static void required_key_under_another_name_is_not_reported_as_missing(void **state)
{
    struct sw_recipe *r = load("[layer a]\ntype = inner_product\nnum_output = 8\n");
    assert_non_null(find(r, "unknown key 'num_output'"));
    assert_null(find(r, "outputs is missing"));
    sw_recipe_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_alias_has_a_counterpart_and_gives_its_hint),
        cmocka_unit_test(key_in_another_section_is_located),
        cmocka_unit_test(counterpart_depends_on_the_type),
        cmocka_unit_test(required_key_under_another_name_is_not_reported_as_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
