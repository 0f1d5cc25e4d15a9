/* Turns the sections of the file into drafts, and their entries into values of the drafts. */
#include "recipe/build.h"
#include "recipe/lookup.h"
#include <string.h>

static struct sw_value *value_of_one(struct sw_recipe *r, const struct sw_ini_entry *e,
                                     enum sw_origin origin)
{
    struct sw_value *v = sw_pool_alloc(&r->pool, 1, sizeof(*v));

    if (v)
        *v = (struct sw_value){.key = e->key,
                               .raw = e->value,
                               .origin = origin,
                               .at = e->at,
                               .key_column = e->key_column,
                               .value_column = e->value_column};

    if (v && origin == SW_FROM_RECIPE && e->at.file != r->ini.file)
        v->origin = SW_FROM_INCLUDE;
    return v;
}

struct sw_value *sw_value_of_entry(struct sw_recipe *r, const struct sw_ini_entry *e,
                                   enum sw_origin origin)
{
    struct sw_value *top = NULL, **at = &top;

    for (; e; e = e->below) {
        *at = value_of_one(r, e, origin);
        if (!*at)
            return NULL;
        at = &(*at)->below;
    }

    return top;
}

int sw_value_precedence(const struct sw_value *v)
{
    return (int)v->origin * (SW_INI_MAX_FILES + 1) + (v->at.file ? v->at.file->order : 0);
}

struct sw_value *sw_value_of_set(struct sw_recipe *r, const struct sw_override *o, size_t skip)
{
    struct sw_value *v = o ? sw_pool_alloc(&r->pool, 1, sizeof(*v)) : NULL;

    if (v)
        *v = (struct sw_value){.key = o->path + skip,
                               .raw = o->value,
                               .origin = o->option ? SW_FROM_OPTION : SW_FROM_SET,
                               .set = o};

    return v;
}

struct sw_value *sw_draft_find(const struct sw_draft *n, const char *key)
{
    for (struct sw_value *v = n->first; v; v = v->next)
        if (!v->dropped && strcmp(v->key, key) == 0)
            return v;
    return NULL;
}

static void append(struct sw_draft *n, struct sw_value *v)
{
    *(n->last ? &n->last->next : &n->first) = v;
    n->last = v;
}

void sw_draft_put(struct sw_draft *n, struct sw_value *v)
{
    struct sw_value *prev = NULL, *old = n->first;

    while (old && strcmp(old->key, v->key) != 0) {
        prev = old;
        old = old->next;
    }

    n->written = true;
    if (!old) {
        append(n, v);
        return;
    }
    if (old->origin > v->origin)
        return;

    v->below = old;
    v->next = old->next;

    if (prev)
        prev->next = v;
    else
        n->first = v;

    if (n->last == old)
        n->last = v;
}

struct sw_draft *sw_draft_add(struct sw_recipe *r, const struct sw_schema_kind *k, const char *name)
{
    struct sw_draft *n = sw_pool_alloc(&r->pool, 1, sizeof(*n));
    const char *title = k->kind, *dotted = k->kind;

    if (name) {
        title = sw_pool_format(&r->pool, "%s %s", k->kind, name);
        dotted = sw_pool_format(&r->pool, "%s.%s", k->kind, name);
    }

    if (!n || !title || !dotted)
        return NULL;

    n->pub = (struct sw_section){
        .recipe = r, .schema = k, .kind = k->kind, .name = name, .title = title};
    if (!sw_seen_add(&r->index, NULL, dotted, n)) {
        r->pool.failed = true;
        return NULL;
    }

    *(r->last ? &r->last->next : &r->first) = &n->pub;
    r->last = &n->pub;
    return n;
}

static struct sw_place place_of_header(const struct sw_ini_section *s)
{
    size_t kind = strlen(s->kind), name = s->name ? strlen(s->name) + 1 : 0;
    return sw_ini_place(&s->at, s->kind_column, sw_count_characters(s->kind, kind) + (int)name);
}

/* The kind of a section of the file; NULL after an error. */
static const struct sw_schema_kind *kind_of(struct sw_recipe *r, const struct sw_ini_section *s)
{
    size_t bytes = strlen(s->kind);
    const struct sw_schema_kind *one = sw_schema_find(r->schema, s->kind, bytes, SW_SECTION_ONE);
    const struct sw_schema_kind *named =
        sw_schema_find(r->schema, s->kind, bytes, SW_SECTION_NAMED);
    const struct sw_schema_kind *kind = s->name ? named : one;
    char shown[SW_SHOWN];

    if (kind)
        return kind;

    struct sw_place at = place_of_header(s);
    sw_shown(shown, s->kind);

    if (named) {
        sw_diags_add(&r->diags, at, "[%s] requires a name", shown);
        sw_diags_hint(&r->diags, "write [%s NAME]", shown);
    } else if (one) {
        sw_diags_add(&r->diags, at, "[%s] takes no name", shown);
    } else {
        sw_diags_add(&r->diags, at, "unknown section [%s%s%.60s]", shown, s->name ? " " : "",
                     s->name ? s->name : "");
        sw_hint_kind(r, s->kind);
    }

    return NULL;
}

static void add_lines(struct sw_recipe *r, const struct sw_ini_section *s)
{
    for (const struct sw_ini_entry *e = s->first; e; e = e->next) {
        struct sw_value *v = sw_value_of_entry(r, e, SW_FROM_FALLBACK);
        if (!v)
            return;

        *(r->last_line ? &r->last_line->next : &r->lines) = v;
        r->last_line = v;
    }
}

/* Handles [vars], [fallback] and [stage NAME], which are not in the schema. */
static bool is_language(struct sw_recipe *r, const struct sw_ini_section *s)
{
    bool vars = strcmp(s->kind, "vars") == 0, fallback = strcmp(s->kind, "fallback") == 0;
    if (strcmp(s->kind, "stage") == 0) {
        sw_stage_add(r, s);
        return true;
    }
    if (!vars && !fallback)
        return false;

    if (s->name) {
        sw_diags_add(&r->diags, place_of_header(s), "[%s] takes no name", s->kind);
    } else if (fallback) {
        add_lines(r, s);
    }

    return true;
}

static void merge_section(struct sw_recipe *r, const struct sw_ini_section *s)
{
    const struct sw_schema_kind *kind = is_language(r, s) ? NULL : kind_of(r, s);
    struct sw_draft *n = kind ? sw_draft_add(r, kind, s->name) : NULL;
    if (!n)
        return;

    n->written = true;
    n->at = s->at;
    n->column = s->kind_column;
    for (const struct sw_ini_entry *e = s->first; e; e = e->next) {
        struct sw_value *v = sw_value_of_entry(r, e, SW_FROM_RECIPE);
        if (!v)
            return;
        append(n, v); /* keys of a section are unique after the merge of files */
    }
}

void sw_merge_file(struct sw_recipe *r)
{
    for (const struct sw_ini_section *s = r->ini.first; s; s = s->next)
        merge_section(r, s);

    for (int i = 0; i < r->schema->count && !r->pool.failed; i++) {
        const struct sw_schema_kind *k = &r->schema->kinds[i];
        if (k->form == SW_SECTION_ONE && !sw_seen_find(&r->index, NULL, k->kind, strlen(k->kind)))
            sw_draft_add(r, k, NULL);
    }
}
