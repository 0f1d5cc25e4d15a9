/* The hints "did you mean" for keys: similar keys of the section itself, and sections or types that
 * have the key. */
#include "recipe/build.h"
#include "recipe/lookup.h"
#include <string.h>

void sw_words_hint(struct sw_recipe *r, struct sw_words *w, const char *word, const char *label)
{
    sw_hint_near(&r->diags, word, w->items, w->count, label);
    r->pool.failed |= w->failed;
    sw_words_fini(w);
}

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
    if (!sw_diags_wants_hint(&r->diags))
        return;
    struct sw_words words = {0};
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
    struct sw_buf names = {0};
    for (const struct sw_type *const *t = k->types[slot]; t && *t; t++)
        if (sw_type_knows(k, slot, *t, key))
            sw_buf_printf(&names, "%s%s", names.length ? ", " : "", (*t)->name);
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
    sw_buf_fini(&names);
}

/* "parameters of convolution: weight, bias" for PARAM.KEY. */
static void hint_params(struct sw_recipe *r, const struct sw_draft *n, const char *key)
{
    const struct sw_type *type = n->pub.type[0];
    const char *dot = strrchr(key, '.');
    if (!dot || !type || !sw_opts_find(n->pub.schema->param_opts, dot + 1))
        return;
    struct sw_buf names = {0};
    for (int i = 0; type->params && type->params[i]; i++)
        sw_buf_printf(&names, "%s%s", i ? ", " : "", type->params[i]);
    if (names.length)
        sw_diags_hint(&r->diags, "parameters of %s: %s", type->name, names.text);
    else if (!names.failed)
        sw_diags_hint(&r->diags, "%s has no parameters", type->name);
    r->pool.failed |= names.failed;
    sw_buf_fini(&names);
}

void sw_hint_section_key(struct sw_recipe *r, const struct sw_draft *n, const char *key)
{
    const struct sw_schema_kind *k = n->pub.schema;
    if (!sw_diags_wants_hint(&r->diags))
        return;
    if (strcmp(key, "include") == 0)
        sw_diags_hint(&r->diags, "a line include = FILE stands before the first section");
    for (int i = 0; i < SW_SECTION_TYPES; i++)
        hint_other_type(r, n, i, key);
    struct sw_words words = {0};
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
