/* Binds sections: finds their types, drops the keys of types that were replaced, fills the structs
 * with defaults and values, and reports required keys that are missing and keys that are
 * unknown. */
#include "recipe/alias.h"
#include "recipe/build.h"
#include "recipe/lookup.h"
#include "recipe/value.h"
#include <string.h>

/* ---- Types ---- */

static void unknown_type(struct sw_recipe *r, struct sw_draft *n, struct sw_value *v, int slot)
{
    struct sw_words words = {0};

    if (*v->text)
        sw_value_error(r, n, v, 0, 0, "unknown %s", n->pub.schema->type_key[slot]);
    else
        sw_value_error(r, n, v, 0, 0, "missing value");

    sw_hint_alias_value(r, n->pub.schema, n->pub.schema->type_key[slot], NULL, v->text);
    sw_words_add_types(&words, n->pub.schema->types[slot]);
    sw_words_hint(r, &words, v->text, "known");
}

/* The name of a section that only an override creates is probably misspelled. */
static void hint_made(struct sw_recipe *r, const struct sw_draft *n)
{
    if (!n->created_by || !n->pub.name || !sw_diags_needs_hint(&r->diags))
        return;

    struct sw_words words = {0};
    for (const struct sw_section *s = r->first; s; s = s->next)
        if (s->name && s->schema == n->pub.schema && !((const struct sw_draft *)s)->created_by)
            sw_words_add(&words, s->name);

    sw_words_hint(r, &words, n->pub.name, NULL);
    sw_diags_hint(&r->diags, "the recipe has no [%s]", n->pub.title);
}

/* A section without a type in a file that includes others may be meant for one of theirs. */
static void hint_included(struct sw_recipe *r, const struct sw_draft *n)
{
    if (!n->at.file || !n->pub.name || !sw_diags_needs_hint(&r->diags))
        return;

    struct sw_words words = {0};
    for (const struct sw_section *s = r->first; s; s = s->next) {
        const struct sw_draft *other = (const struct sw_draft *)s;
        if (s->name && s->schema == n->pub.schema && other->at.file &&
            other->at.file->order < n->at.file->order)
            sw_words_add(&words, s->name);
    }

    const char *near = sw_str_nearest(n->pub.name, words.items, (size_t)words.count);
    if (near)
        sw_diags_hint(&r->diags,
                      "no included recipe has [%s]; did you mean [%s %s]? A new one needs a %s",
                      n->pub.title, n->pub.schema->kind, near, n->pub.schema->type_key[0]);
    r->pool.failed |= words.failed;
    sw_words_fini(&words);
}

static void missing_type(struct sw_recipe *r, struct sw_draft *n, int slot)
{
    struct sw_words words = {0};

    sw_draft_error(r, n, NULL, "%s is missing", n->pub.schema->type_key[slot]);
    hint_made(r, n);
    hint_included(r, n);
    sw_words_add_types(&words, n->pub.schema->types[slot]);
    sw_words_hint(r, &words, "", "known");
}

static void find_type(struct sw_recipe *r, struct sw_draft *n, int slot)
{
    const struct sw_schema_kind *k = n->pub.schema;
    struct sw_value *v = sw_draft_find(n, k->type_key[slot]);

    if (v) {
        const char *text = sw_value_text(r, v, n->pub.title);

        n->pub.type[slot] = text ? sw_types_find(k->types[slot], text) : NULL;

        if (!text)
            n->pub.errors++;
        else if (!n->pub.type[slot])
            unknown_type(r, n, v, slot);
    } else if (k->type_default[slot]) {
        n->pub.type[slot] = sw_types_find(k->types[slot], k->type_default[slot]);
    } else if (n->written) {
        missing_type(r, n, slot);
    }
}

/* ---- Keys of replaced types ---- */

/* A dropped value is still part of the recipe: it must be one that the old type would accept. */
static void drop_value(struct sw_recipe *r, struct sw_draft *n, struct sw_value *v, int slot,
                       const struct sw_type *old)
{
    int param;
    const struct sw_opt *found = sw_opts_find(old->opts, v->key);

    if (!found && slot == 0)
        found = sw_param_find(n->pub.schema, old, v->key, &param);

    const char *text = sw_value_text(r, v, n->pub.title);
    struct sw_opt_problem problem;
    v->dropped = true;

    if (!text)
        n->pub.errors++;
    else if (!sw_opt_accepts(found, text, &r->pool, &problem) && !r->pool.failed)
        sw_value_error(r, n, v, problem.offset, problem.bytes, "%s", problem.reason);
}

/* Whether both types have the key, but of different kinds. */
static bool means_other(const struct sw_type *a, const struct sw_type *b, const char *key)
{
    const struct sw_opt *x = sw_opts_find(a->opts, key), *y = b ? sw_opts_find(b->opts, key) : NULL;
    return x && y && x->type != y->type;
}

static void drop_keys(struct sw_recipe *r, struct sw_draft *n, int slot, const struct sw_type *old,
                      const struct sw_value *by)
{
    if (!old || old == n->pub.type[slot])
        return;

    for (struct sw_value *v = n->first; v; v = v->next)
        if (!v->dropped && (by->is_fallback || sw_value_precedence(v) < sw_value_precedence(by)) &&
            sw_type_has_key(n->pub.schema, slot, old, v->key) &&
            (!sw_section_has_key(&n->pub, v->key) || means_other(old, n->pub.type[slot], v->key)))
            drop_value(r, n, v, slot, old);
}

static void drop_replaced(struct sw_recipe *r, struct sw_draft *n, int slot)
{
    const struct sw_schema_kind *k = n->pub.schema;
    const struct sw_value *v = sw_draft_find(n, k->type_key[slot]);
    if (!v)
        return;

    for (struct sw_value *b = v->below; b; b = b->below) {
        const char *text = sw_value_text(r, b, n->pub.title);
        if (text)
            drop_keys(r, n, slot, sw_types_find(k->types[slot], text), v);
    }

    if (!v->below && k->type_default[slot])
        drop_keys(r, n, slot, sw_types_find(k->types[slot], k->type_default[slot]), v);
}

/* ---- Structs and defaults ---- */

/* A default that its row rejects is a bug in the option tables. */
static void fill_defaults(struct sw_recipe *r, struct sw_draft *n, const struct sw_opt *rows,
                          void *conf)
{
    struct sw_opt_problem problem;

    for (const struct sw_opt *o = rows; o && o->key; o++) {
        struct sw_opt row = *o;

        row.min = row.max = 0; /* a default outside the range means "not given" */
        if (o->def && *o->def && !sw_opt_read(&row, o->def, &r->pool, conf, &problem) &&
            !r->pool.failed)
            sw_draft_error(r, n, NULL, "default of %s = %s: %s (internal error)", o->key, o->def,
                           problem.reason);
    }
}

static void *new_conf(struct sw_recipe *r, struct sw_draft *n, const struct sw_opt *rows,
                      size_t bytes)
{
    void *conf = bytes ? sw_pool_alloc(&r->pool, 1, bytes) : NULL;
    if (conf)
        fill_defaults(r, n, rows, conf);
    return conf;
}

static void make_structs(struct sw_recipe *r, struct sw_draft *n)
{
    struct sw_section *s = &n->pub;
    const struct sw_schema_kind *k = s->schema;

    s->common = new_conf(r, n, k->opts, k->conf_bytes);
    for (int i = 0; i < SW_SECTION_TYPES; i++)
        if (s->type[i])
            s->conf[i] = new_conf(r, n, s->type[i]->opts, s->type[i]->conf_bytes);

    if (!k->param_opts || !s->type[0] || !s->type[0]->params)
        return;

    while (s->type[0]->params[s->param_count])
        s->param_count++;
    s->param_conf = sw_pool_alloc(&r->pool, (size_t)s->param_count + 1, sizeof(*s->param_conf));
    for (int i = 0; s->param_conf && i < s->param_count; i++)
        s->param_conf[i] = new_conf(r, n, k->param_opts, k->param_bytes);
}

/* ---- Values ---- */

/* Reads the value into one table's field, if the table has the key. */
static bool put_into(struct sw_recipe *r, struct sw_draft *n, struct sw_value *v,
                     const struct sw_opt *row, void *conf, bool *reported)
{
    struct sw_opt_problem p;

    if (!row)
        return false;

    const bool names_files = row->type == SW_OPT_PATH || row->type == SW_OPT_PATHS;
    const char *text = names_files ? sw_value_files(r, v, row, n->pub.title) : v->text;

    if (text && conf && !*reported && !sw_opt_read(row, text, &r->pool, conf, &p) &&
        !r->pool.failed) {
        if (text != v->text)
            p.offset = p.bytes = 0; /* positions in the text as it was written differ */
        sw_value_error(r, n, v, p.offset, p.bytes, "%s", p.reason);

        if (row->type == SW_OPT_ENUM) {
            int count = 0;
            while (row->choices[count])
                count++;
            sw_hint_alias_value(r, n->pub.schema, row->key, row, v->text);
            sw_hint_near(&r->diags, v->text, row->choices, count, NULL);
        } else if (row->hint) {
            sw_diags_hint(&r->diags, "%s", row->hint);
        }

        *reported = true;
    }

    return true;
}

static bool put_everywhere(struct sw_recipe *r, struct sw_draft *n, struct sw_value *v)
{
    struct sw_section *s = &n->pub;
    bool reported = false;
    bool found = put_into(r, n, v, sw_opts_find(s->schema->opts, v->key), s->common, &reported);

    for (int i = 0; i < SW_SECTION_TYPES; i++)
        if (s->type[i])
            found |=
                put_into(r, n, v, sw_opts_find(s->type[i]->opts, v->key), s->conf[i], &reported);

    int param = 0;
    const struct sw_opt *row = sw_param_find(s->schema, s->type[0], v->key, &param);
    if (row && s->param_conf)
        found |= put_into(r, n, v, row, s->param_conf[param], &reported);

    return found;
}

static void unknown_key(struct sw_recipe *r, struct sw_draft *n, struct sw_value *v)
{
    const struct sw_schema_kind *k = n->pub.schema;
    bool types_known = true;

    for (int i = 0; i < SW_SECTION_TYPES; i++)
        types_known &= !k->type_key[i] || n->pub.type[i];

    /* If the type is unknown, report only keys that no type has. */
    if (!types_known && sw_kind_has_key(k, v->key))
        return;

    char shown[SW_SHOWN];
    v->unknown = true;
    sw_shown(shown, v->key);

    if (n->pub.type[0] && n->pub.name)
        sw_draft_error(r, n, v, "unknown key '%s' for %s %s", shown, k->type_key[0],
                       n->pub.type[0]->name);
    else
        sw_draft_error(r, n, v, "unknown key '%s'", shown);

    sw_hint_section_key(r, n, v->key);
}

static void bind_value(struct sw_recipe *r, struct sw_draft *n, struct sw_value *v)
{
    const struct sw_schema_kind *k = n->pub.schema;
    bool is_fallback = k->fallback_key && strcmp(k->fallback_key, v->key) == 0;

    if (v->dropped || sw_type_slot(k, v->key) >= 0)
        return;

    if (!sw_value_text(r, v, n->pub.title))
        n->pub.errors++;
    else if (!put_everywhere(r, n, v) && !is_fallback)
        unknown_key(r, n, v);
}

/* ---- Required ---- */

/* Whether the section has the key, or a reported unknown key that means it. */
static bool has_or_meant(const struct sw_draft *n, const char *key)
{
    if (sw_draft_find(n, key))
        return true;

    for (const struct sw_value *v = n->first; v; v = v->next)
        if (v->unknown &&
            (sw_str_nearest(v->key, &key, 1) || sw_alias_means(n->pub.kind, v->key, key)))
            return true;

    return false;
}

static void require(struct sw_recipe *r, struct sw_draft *n, const struct sw_opt *rows,
                    const char *param)
{
    for (const struct sw_opt *o = rows; o && o->key && !r->pool.failed; o++) {
        struct sw_bytes key = {0};

        if (!o->required)
            continue;

        sw_bytes_printf(&key, "%s%s%s", param ? param : "", param ? "." : "", o->key);

        r->pool.failed |= key.failed;
        if (!key.failed && !has_or_meant(n, key.text)) {
            sw_draft_error(r, n, NULL, "%s is missing", key.text);
            hint_made(r, n);
            sw_diags_hint(&r->diags, "%s: %s", key.text, o->help ? o->help : "a required key");
        }

        sw_bytes_fini(&key);
    }
}

static void require_all(struct sw_recipe *r, struct sw_draft *n)
{
    const struct sw_section *s = &n->pub;

    if (!n->written)
        return;

    require(r, n, s->schema->opts, NULL);

    for (int i = 0; i < SW_SECTION_TYPES; i++)
        if (s->type[i])
            require(r, n, s->type[i]->opts, NULL);

    for (int i = 0; i < s->param_count; i++)
        require(r, n, s->schema->param_opts, s->type[0]->params[i]);
}

static bool has_written(const struct sw_recipe *r, const struct sw_schema_kind *k)
{
    for (const struct sw_section *s = r->first; s; s = s->next)
        if (s->schema == k && ((const struct sw_draft *)s)->written)
            return true;
    return false;
}

static void require_kinds(struct sw_recipe *r)
{
    struct sw_place at = {.origin = r->ini.file->path};

    /* A file without any valid section has already been reported. */
    if (!r->ini.first && r->diags.count)
        return;

    for (int i = 0; i < r->schema->count; i++) {
        const struct sw_schema_kind *k = &r->schema->kinds[i];
        if (k->required && !has_written(r, k))
            sw_diags_add(&r->diags, at, "the recipe has no [%s%s]", k->kind,
                         k->form == SW_SECTION_NAMED ? " NAME" : "");
    }
}

static void bind(struct sw_recipe *r, struct sw_draft *n)
{
    for (int i = 0; i < SW_SECTION_TYPES; i++)
        if (n->pub.schema->type_key[i])
            find_type(r, n, i);

    for (int i = 0; i < SW_SECTION_TYPES; i++)
        if (n->pub.schema->type_key[i] && n->pub.type[i])
            drop_replaced(r, n, i);

    make_structs(r, n);
    for (struct sw_value *v = n->first; v && !r->pool.failed; v = v->next)
        bind_value(r, n, v);
    require_all(r, n);
}

void sw_recipe_bind(struct sw_recipe *r)
{
    for (struct sw_section *s = r->first; s && !r->pool.failed; s = s->next)
        bind(r, (struct sw_draft *)s);
    require_kinds(r);
}
