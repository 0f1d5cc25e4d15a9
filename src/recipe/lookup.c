/* Searches in a schema: kinds, types and option rows by name, the keys of parameters
 * ("weight.init"), and the "did you mean" hints based on the same tables. The functions have
 * no state; any thread may call them. The contract is in recipe/lookup.h. */
#include "recipe/lookup.h"
#include "base/os.h"
#include "recipe/recipe.h"
#include <string.h>

void sw_words_fini(struct sw_words *w)
{
    sw_free(w->items);
    *w = (struct sw_words){0};
}

void sw_words_add(struct sw_words *w, const char *word)
{
    const char **item = sw_array_add(&w->items, &w->count, sizeof *item);
    w->failed |= !item;
    if (item)
        *item = word;
}

void sw_words_add_opts(struct sw_words *w, const struct sw_opt *opts)
{
    for (const struct sw_opt *o = opts; o && o->key; o++)
        sw_words_add(w, o->key);
}

void sw_words_add_types(struct sw_words *w, const struct sw_type *const *types)
{
    for (; types && *types; types++)
        sw_words_add(w, (*types)->name);
}

/* The nearest candidate. A candidate that merely begins with the word counts only if it is the only
 * one. */
static const char *near_word(const char *word, const char *const *candidates, int count)
{
    const char *near = sw_str_nearest(word, candidates, (size_t)count);
    if (near || strlen(word) < 3)
        return near;

    for (int i = 0; i < count; i++)
        if (sw_str_starts(candidates[i], word)) {
            if (near && strcmp(near, candidates[i]) != 0)
                return NULL;
            near = candidates[i];
        }

    return near;
}

static bool is_repeated(const char *const *words, int i)
{
    for (int j = 0; j < i; j++)
        if (strcmp(words[j], words[i]) == 0)
            return true;
    return false;
}

void sw_hint_near(struct sw_diags *d, const char *word, const char *const *candidates, int count,
                  const char *label)
{
    if (!sw_diags_needs_hint(d) || count <= 0)
        return;

    const char *near = near_word(word, candidates, count);
    if (near) {
        sw_diags_hint(d, "did you mean '%s'?", near);
        return;
    }
    if (!label)
        return;

    struct sw_bytes list = {0};
    for (int i = 0; i < count && list.length <= SW_DIAG_TEXT; i++) {
        if (is_repeated(candidates, i))
            continue;
        sw_bytes_add(&list, i ? ", " : "");
        sw_bytes_add(&list, candidates[i]);
    }

    if (!list.failed)
        sw_diags_hint(d, "%s: %s", label, sw_bytes_text(&list));
    sw_bytes_fini(&list);
}

const struct sw_schema_kind *sw_schema_find(const struct sw_schema *s, const char *kind,
                                            size_t bytes, enum sw_section_form form)
{
    for (int i = 0; i < s->count; i++) {
        const struct sw_schema_kind *k = &s->kinds[i];
        if (k->form == form && strlen(k->kind) == bytes && memcmp(k->kind, kind, bytes) == 0)
            return k;
    }

    return NULL;
}

const struct sw_opt *sw_opts_find(const struct sw_opt *opts, const char *key)
{
    for (const struct sw_opt *o = opts; o && o->key; o++)
        if (strcmp(o->key, key) == 0)
            return o;
    return NULL;
}

const struct sw_type *sw_types_find(const struct sw_type *const *types, const char *name)
{
    for (; types && *types; types++)
        if (strcmp((*types)->name, name) == 0)
            return *types;
    return NULL;
}

const struct sw_opt *sw_param_find(const struct sw_schema_kind *k, const struct sw_type *type,
                                   const char *key, int *param)
{
    const char *dot = strrchr(key, '.');
    if (!dot || !k->param_opts || !type || !type->params)
        return NULL;

    size_t bytes = (size_t)(dot - key);
    for (int i = 0; type->params[i]; i++)
        if (strlen(type->params[i]) == bytes && memcmp(type->params[i], key, bytes) == 0) {
            *param = i;
            return sw_opts_find(k->param_opts, dot + 1);
        }

    return NULL;
}

int sw_type_slot(const struct sw_schema_kind *k, const char *key)
{
    for (int i = 0; i < SW_SECTION_TYPES; i++)
        if (k->type_key[i] && strcmp(k->type_key[i], key) == 0)
            return i;
    return -1;
}

bool sw_type_has_key(const struct sw_schema_kind *k, int slot, const struct sw_type *type,
                     const char *key)
{
    int param;
    return type &&
           (sw_opts_find(type->opts, key) || (slot == 0 && sw_param_find(k, type, key, &param)));
}

bool sw_section_has_key(const struct sw_section *s, const char *key)
{
    const struct sw_schema_kind *k = s->schema;
    if (sw_type_slot(k, key) >= 0 || sw_opts_find(k->opts, key) ||
        (k->fallback_key && strcmp(k->fallback_key, key) == 0))
        return true;

    for (int i = 0; i < SW_SECTION_TYPES; i++)
        if (sw_type_has_key(k, i, s->type[i], key))
            return true;

    return false;
}

bool sw_kind_has_key(const struct sw_schema_kind *k, const char *key)
{
    int step = 0;
    return sw_type_slot(k, key) >= 0 || (k->fallback_key && strcmp(k->fallback_key, key) == 0) ||
           sw_kind_row(k, key, &step);
}

const struct sw_opt *sw_kind_row(const struct sw_schema_kind *k, const char *key, int *step)
{
    int at = 0, param;
    const struct sw_opt *row = sw_opts_find(k->opts, key);
    if (row && at++ == *step) {
        ++*step;
        return row;
    }

    for (int slot = 0; slot < SW_SECTION_TYPES; slot++)
        for (const struct sw_type *const *t = k->types[slot]; t && *t; t++) {
            row = sw_opts_find((*t)->opts, key);
            if (!row && slot == 0)
                row = sw_param_find(k, *t, key, &param);
            if (row && at++ == *step) {
                ++*step;
                return row;
            }
        }

    return NULL;
}
