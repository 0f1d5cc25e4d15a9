/* Resolves paths SECTION.KEY, as in `--set`, [fallback] and stages, to a section and a key. */
#include "recipe/build.h"
#include "recipe/lookup.h"
#include "recipe/value.h"
#include <string.h>

void sw_hint_kind(struct sw_recipe *r, const char *word)
{
    if (!sw_diags_needs_hint(&r->diags))
        return;

    struct sw_words words = {0};
    sw_hint_alias_section(r, word);
    for (int i = 0; i < r->schema->count; i++)
        sw_words_add(&words, r->schema->kinds[i].kind);
    sw_words_add(&words, "vars");
    sw_words_add(&words, "fallback");
    sw_words_add(&words, "stage");
    sw_words_hint(r, &words, word, "kinds of sections");
}

void sw_hint_section(struct sw_recipe *r, const char *key)
{
    for (int i = 0; i < r->schema->count; i++) {
        const struct sw_schema_kind *k = &r->schema->kinds[i];
        if (k->form == SW_SECTION_ONE && sw_kind_has_key(k, key)) {
            sw_diags_hint(&r->diags, "did you mean '%s.%s'?", k->kind, key);
            return;
        }
    }

    sw_diags_hint(&r->diags, "for example --set job.batch=64 or --set layer.fc1.outputs=10");
}

struct target {
    struct sw_draft *section;          /* an existing section; NULL: a new one */
    const struct sw_schema_kind *kind; /* of the section */
    size_t section_bytes;              /* length of the section's name in the path */
};

static const char *key_of(const char *path, const struct target *t)
{
    return path + t->section_bytes + 1;
}

/* The dot before `from`, or NULL. */
static const char *dot_before(const char *path, const char *from)
{
    while (from > path)
        if (*--from == '.')
            return from;
    return NULL;
}

/* Finds the existing section with the longest name; with `knows`, its kind must have the rest of
 * the path as a key. */
static bool find_existing(const struct sw_recipe *r, const char *path, bool knows, struct target *t)
{
    const char *dot = path + strlen(path);

    while ((dot = dot_before(path, dot))) {
        struct sw_draft *n = sw_seen_find(&r->index, NULL, path, (size_t)(dot - path));
        if (n && (!knows || sw_kind_has_key(n->pub.schema, dot + 1))) {
            *t = (struct target){n, n->pub.schema, (size_t)(dot - path)};
            return true;
        }
    }

    return false;
}

/* Finds the longest name of a section that could be created; with `knows`, its kind must have the
 * rest of the path as a key. */
static bool find_possible(const struct sw_recipe *r, const char *path, bool knows, struct target *t)
{
    const struct sw_schema_kind *k =
        sw_schema_find(r->schema, path, strcspn(path, "."), SW_SECTION_NAMED);
    const char *dot = path + strlen(path), *first = strchr(path, '.');

    while (k && first && (dot = dot_before(path, dot)) && dot > first + 1)
        if (!knows || sw_kind_has_key(k, dot + 1)) {
            *t = (struct target){NULL, k, (size_t)(dot - path)};
            return true;
        }

    return false;
}

/* An unknown path is treated as a misspelt key of an existing named section, else of a section that
 * would be new, else of an unnamed one, whichever gives the best hints. */
static bool find_target(const struct sw_recipe *r, const char *path, struct target *t)
{
    struct target near;

    if (strlen(path) > SW_PATH_BYTES || sw_str_ends(path, "."))
        return false;
    if (find_existing(r, path, true, t) || find_possible(r, path, true, t))
        return true;

    bool existing = find_existing(r, path, false, t);
    if (existing && t->kind->form == SW_SECTION_NAMED)
        return true;
    if (find_possible(r, path, false, &near)) {
        *t = near;
        return true;
    }

    return existing;
}

static void no_target(struct sw_recipe *r, const struct sw_value *v)
{
    struct sw_place at = sw_place_of_key(v);
    char shown[SW_SHOWN], kind[SW_SHOWN] = "";
    size_t bytes = strcspn(v->key, ".");

    sw_shown(shown, v->key);
    if (bytes < sizeof(kind))
        memcpy(kind, v->key, bytes);

    if (v->key[bytes] != '.' || !bytes || sw_str_ends(v->key, ".")) {
        sw_diags_add(&r->diags, at, "'%s' is not of the form SECTION.KEY", shown);
        sw_hint_section(r, v->key);
    } else if (sw_schema_find(r->schema, kind, strlen(kind), SW_SECTION_NAMED)) {
        sw_diags_add(&r->diags, at, "'%s' lacks the name of the %s", shown, kind);
        sw_diags_hint(&r->diags, "write %s.NAME%.40s", kind, v->key + bytes);
    } else {
        sw_diags_add(&r->diags, at, "'%s': unknown section '%s'", shown, kind);
        sw_hint_kind(r, kind);
    }
}

static struct sw_draft *create(struct sw_recipe *r, struct sw_value *v, const struct target *t)
{
    size_t skip = strlen(t->kind->kind) + 1;
    if (!sw_ini_is_name(v->key + skip, t->section_bytes - skip)) {
        sw_diags_add(&r->diags, sw_place_of_key(v), "invalid section name '%.*s'",
                     (int)(t->section_bytes - skip), v->key + skip);
        return NULL;
    }

    const char *name = sw_pool_copy(&r->pool, v->key + skip, t->section_bytes - skip);
    struct sw_draft *n = name ? sw_draft_add(r, t->kind, name) : NULL;
    if (n)
        n->created_by = v;

    return n;
}

void sw_recipe_assign(struct sw_recipe *r, struct sw_value *v)
{
    struct target t;
    if (!find_target(r, v->key, &t)) {
        no_target(r, v);
        return;
    }

    struct sw_draft *n = t.section ? t.section : create(r, v, &t);
    const char *key = key_of(v->key, &t);
    if (!n)
        return;

    if (!v->set)
        v->key_column += sw_count_characters(v->key, (size_t)(key - v->key));
    v->key = key;
    sw_draft_put(n, v);
}

/* ---- Lines that are not applied ---- */

/* The text must be valid for at least one row of that key; otherwise the error of the first row is
 * reported. */
static void check_line_value(struct sw_recipe *r, struct sw_value *v, const struct target *t,
                             const char *title)
{
    const char *text = sw_value_text(r, v, title);
    struct sw_opt_problem first, problem;
    const struct sw_opt *row;
    char shown[SW_SHOWN];
    int step = 0;

    while (text && (row = sw_kind_row(t->kind, key_of(v->key, t), &step))) {
        if (sw_opt_accepts(row, text, &r->pool, &problem))
            return;
        if (step == 1)
            first = problem;
    }

    if (!text || step == 0)
        return;

    sw_diags_add(&r->diags, sw_place_of_value(v, first.offset, first.bytes), "%s: %s = %s: %s",
                 title, v->key, sw_shown(shown, text), first.reason);
}

void sw_recipe_check_line(struct sw_recipe *r, struct sw_value *v, const char *title)
{
    struct target t;
    char shown[SW_SHOWN];

    if (!find_target(r, v->key, &t)) {
        no_target(r, v);
    } else if (!sw_kind_has_key(t.kind, key_of(v->key, &t))) {
        sw_diags_add(&r->diags, sw_place_of_key(v), "%s: unknown key '%s'", title,
                     sw_shown(shown, v->key));
        sw_hint_key(r, t.kind, key_of(v->key, &t));
    } else {
        check_line_value(r, v, &t, title);
    }
}

/* ---- --set ---- */

/* `--set fallback.job.steps=10` replaces or adds a line of [fallback]. */
static void set_line(struct sw_recipe *r, struct sw_value *v)
{
    v->origin = SW_FROM_FALLBACK;

    struct sw_value **at = &r->lines;
    while (*at && strcmp((*at)->key, v->key) != 0)
        at = &(*at)->next;
    v->next = *at ? (*at)->next : NULL;
    if (!v->next)
        r->last_line = v;
    *at = v;
}

void sw_merge_overrides(struct sw_recipe *r)
{
    for (const struct sw_override *o = r->sets; o && !r->pool.failed; o = o->next) {
        bool line = sw_str_starts(o->path, "fallback.");
        if (sw_str_starts(o->path, "vars.") || sw_str_starts(o->path, "env."))
            continue;

        struct sw_value *v = sw_value_of_set(r, o, line ? strlen("fallback.") : 0);
        if (v && line)
            set_line(r, v);
        else if (v && !sw_stage_add_line(r, v))
            sw_recipe_assign(r, v);
    }
}
