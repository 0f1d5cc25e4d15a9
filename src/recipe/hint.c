/* Hints for unknown keys, in this order: the counterpart of another system's name (alias.h), the
 * types or sections that have the key, and "did you mean" with a similar key of the section. The
 * first hint that applies is shown. */
#include "recipe/alias.h"
#include "recipe/build.h"
#include "recipe/lookup.h"
#include <string.h>
#include <strings.h>

void sw_words_hint(struct sw_recipe *r, struct sw_words *w, const char *word, const char *label)
{
    sw_hint_near(&r->diags, word, w->items, w->count, label);
    r->pool.failed |= w->failed;
    sw_words_fini(w);
}

/* ---- Names of other systems ---- */

static const struct sw_schema_kind *kind_of(const struct sw_recipe *r, const char *kind)
{
    size_t bytes = strlen(kind);
    const struct sw_schema_kind *one = sw_schema_find(r->schema, kind, bytes, SW_SECTION_ONE);
    return one ? one : sw_schema_find(r->schema, kind, bytes, SW_SECTION_NAMED);
}

static const char *name_of(const struct sw_schema_kind *k)
{
    return k->form == SW_SECTION_NAMED ? " NAME" : "";
}

/* Whether the counterpart may be written in the section at hand; `n` is NULL when only its kind is
 * known. */
static bool fits_here(const struct sw_alias *a, const struct sw_schema_kind *k,
                      const struct sw_draft *n)
{
    if (strcmp(a->section, k->kind) != 0)
        return false;
    if (a->kind == SW_ALIAS_NOTE)
        return true;

    bool typed = n && (!k->type_key[0] || n->pub.type[0]);
    return typed ? sw_section_has_key(&n->pub, a->key) : sw_kind_has_key(k, a->key);
}

static void hint_alias_key(struct sw_recipe *r, const struct sw_schema_kind *k,
                           const struct sw_draft *n, const char *key)
{
    const struct sw_alias *a = NULL;

    while ((a = sw_alias_next(a, SW_ALIAS_KEY, key)))
        if (fits_here(a, k, n))
            sw_diags_hint(&r->diags, "'%s' is from %s; use '%s'", key, a->system, a->key);

    while ((a = sw_alias_next(a, SW_ALIAS_NOTE, key)))
        if (fits_here(a, k, n))
            sw_diags_hint(&r->diags, "'%s' is from %s; %s", key, a->system, a->value);

    while ((a = sw_alias_next(a, SW_ALIAS_KEY, key))) {
        const struct sw_schema_kind *other = kind_of(r, a->section);
        if (other && strcmp(other->kind, k->kind) != 0)
            sw_diags_hint(&r->diags, "'%s' is from %s; use '%s' in [%s%s]", key, a->system, a->key,
                          other->kind, name_of(other));
    }
}

/* Whether the key takes the value: one of the row's choices, or without a row the name of a type.
 */
static bool is_accepted(const struct sw_schema_kind *k, const char *key, const struct sw_opt *row,
                        const char *value)
{
    int slot = sw_type_slot(k, key);

    if (!row)
        return slot >= 0 && sw_types_find(k->types[slot], value);

    for (const char *const *choice = row->choices; *choice; choice++)
        if (strcmp(*choice, value) == 0)
            return true;

    return false;
}

static void hint_value(struct sw_recipe *r, const struct sw_alias *a, const char *value)
{
    sw_diags_hint(&r->diags, "'%s' is from %s; use '%s'%s%s", value, a->system, a->value,
                  a->extra ? " and " : "", a->extra ? a->extra : "");
}

void sw_hint_alias_value(struct sw_recipe *r, const struct sw_schema_kind *k, const char *key,
                         const struct sw_opt *row, const char *value)
{
    const struct sw_alias *a = NULL;

    while ((a = sw_alias_next(a, SW_ALIAS_VALUE, value)))
        if (strcmp(a->section, k->kind) == 0 && strcmp(a->key, key) == 0 &&
            is_accepted(k, key, row, a->value))
            hint_value(r, a, value);

    /* "conv2d" for "Conv2d" */
    size_t count;
    const struct sw_alias *all = sw_aliases(&count);
    for (a = all; a < all + count; a++)
        if (a->kind == SW_ALIAS_VALUE && strcasecmp(a->name, value) == 0 &&
            strcmp(a->section, k->kind) == 0 && strcmp(a->key, key) == 0 &&
            is_accepted(k, key, row, a->value))
            hint_value(r, a, value);
}

void sw_hint_alias_section(struct sw_recipe *r, const char *word)
{
    const struct sw_alias *a = NULL;

    while ((a = sw_alias_next(a, SW_ALIAS_SECTION, word))) {
        const struct sw_schema_kind *k = kind_of(r, a->section);
        if (k)
            sw_diags_hint(&r->diags, "'%s' is from %s; use [%s%s]", word, a->system, k->kind,
                          name_of(k));
    }
}

/* ---- Keys ---- */

/* "weight.init", "weight.std", ... of one type. */
static void add_param_keys(struct sw_recipe *r, struct sw_words *w, const struct sw_schema_kind *k,
                           const struct sw_type *type)
{
    for (int i = 0; type && type->params && type->params[i]; i++)
        for (const struct sw_opt *o = k->param_opts; o && o->key; o++) {
            const char *word = sw_pool_format(&r->pool, "%s.%s", type->params[i], o->key);
            if (!word)
                return;
            sw_words_add(w, word);
        }
}

/* Keys that a section has whatever its types are. */
static void add_common(struct sw_words *w, const struct sw_schema_kind *k)
{
    for (int i = 0; i < SW_SECTION_TYPES; i++)
        if (k->type_key[i])
            sw_words_add(w, k->type_key[i]);

    sw_words_add_opts(w, k->opts);
    if (k->fallback_key)
        sw_words_add(w, k->fallback_key);
}

void sw_hint_key(struct sw_recipe *r, const struct sw_schema_kind *k, const char *key)
{
    if (!sw_diags_needs_hint(&r->diags))
        return;

    struct sw_words words = {0};
    hint_alias_key(r, k, NULL, key);
    add_common(&words, k);

    for (int i = 0; i < SW_SECTION_TYPES; i++)
        for (const struct sw_type *const *t = k->types[i]; t && *t; t++) {
            sw_words_add_opts(&words, (*t)->opts);
            if (i == 0)
                add_param_keys(r, &words, k, *t);
        }

    sw_words_hint(r, &words, key, NULL);
}

/* "kernel is a key of convolution, pooling; layer fc1 is inner_product" */
static void hint_other_type(struct sw_recipe *r, const struct sw_draft *n, int slot,
                            const char *key)
{
    const struct sw_schema_kind *k = n->pub.schema;
    struct sw_bytes names = {0};

    for (const struct sw_type *const *t = k->types[slot]; t && *t; t++)
        if (sw_type_has_key(k, slot, *t, key))
            sw_bytes_printf(&names, "%s%s", names.length ? ", " : "", (*t)->name);

    const struct sw_type *own = n->pub.type[slot];
    const char *word = k->type_key[slot];
    if (names.failed)
        r->pool.failed = true;
    else if (names.length && own && strcmp(word, "type") == 0)
        sw_diags_hint(&r->diags, "%s is a key of %s; %s is %s", key, names.text, n->pub.title,
                      own->name);
    else if (names.length && own)
        sw_diags_hint(&r->diags, "%s is a key of %s %s; %s has %s %s", key, word, names.text,
                      n->pub.title, word, own->name);

    sw_bytes_fini(&names);
}

/* "momentum is a key of [updater]" */
static void hint_other_section(struct sw_recipe *r, const struct sw_schema_kind *own,
                               const char *key)
{
    for (int i = 0; i < r->schema->count; i++) {
        const struct sw_schema_kind *k = &r->schema->kinds[i];
        if (k->form == SW_SECTION_ONE && k != own && sw_type_slot(k, key) < 0 &&
            sw_kind_has_key(k, key))
            sw_diags_hint(&r->diags, "%s is a key of [%s]", key, k->kind);
    }
}

/* "parameters of convolution: weight, bias" for PARAM.KEY. */
static void hint_params(struct sw_recipe *r, const struct sw_draft *n, const char *key)
{
    const struct sw_type *type = n->pub.type[0];
    const char *dot = strrchr(key, '.');
    if (!dot || !type || !sw_opts_find(n->pub.schema->param_opts, dot + 1))
        return;

    struct sw_bytes names = {0};
    for (int i = 0; type->params && type->params[i]; i++)
        sw_bytes_printf(&names, "%s%s", i ? ", " : "", type->params[i]);

    if (names.length)
        sw_diags_hint(&r->diags, "parameters of %s: %s", type->name, names.text);
    else if (!names.failed)
        sw_diags_hint(&r->diags, "%s has no parameters", type->name);

    r->pool.failed |= names.failed;
    sw_bytes_fini(&names);
}

void sw_hint_section_key(struct sw_recipe *r, const struct sw_draft *n, const char *key)
{
    const struct sw_schema_kind *k = n->pub.schema;

    if (!sw_diags_needs_hint(&r->diags))
        return;

    if (strcmp(key, "include") == 0)
        sw_diags_hint(&r->diags, "put include = FILE before the first section");
    hint_alias_key(r, k, n, key);

    struct sw_words words = {0};
    if (n->pub.type[0])
        sw_words_add_opts(&words, n->pub.type[0]->opts);
    const char *near = sw_str_nearest(key, words.items, (size_t)words.count);
    if (near)
        sw_diags_hint(&r->diags, "did you mean '%s'?", near);
    words.count = 0;

    for (int i = 0; i < SW_SECTION_TYPES; i++)
        hint_other_type(r, n, i, key);
    hint_other_section(r, k, key);

    add_common(&words, k);

    for (int i = 0; i < SW_SECTION_TYPES; i++)
        if (n->pub.type[i])
            sw_words_add_opts(&words, n->pub.type[i]->opts);

    int own = words.count;
    add_param_keys(r, &words, k, n->pub.type[0]);
    sw_hint_near(&r->diags, key, words.items, words.count, NULL);
    hint_params(r, n, key);
    words.count = own;
    sw_words_hint(r, &words, key, "its keys are");
}
