/* `fallback = image_folder FOLDER, synthetic` lists alternatives for a data section of which no
 * file exists, in order: a format with a path that exists, or a format that needs no path because
 * its data is synthetic. The lines of [fallback] apply only if some section becomes synthetic, and
 * not to data sections that do not. A file that exists is never replaced, however damaged or
 * unreadable it is; nor are missing files that a recipe names which includes the one with the line
 * `fallback`, or --set: such a path was mistyped. */
#include "recipe/build.h"
#include "recipe/lookup.h"
#include <stdlib.h>
#include <string.h>

/* The value of `fallback` is a list of TYPE or TYPE PATH. */
static size_t path_of_alternative(const char *item)
{
    size_t word = strcspn(item, " \t");
    return word + strspn(item + word, " \t");
}

static const struct sw_opt alternatives = {.type = SW_OPT_PATHS, .path_at = path_of_alternative};
static const struct sw_opt paths_row = {.type = SW_OPT_PATHS};

/* Whether the comma-separated list names files and none of them exists. */
static bool all_missing(struct sw_recipe *r, const char *paths)
{
    bool any = false;

    while (paths) {
        struct sw_span item = sw_span_next(&paths);
        const char *path = item.bytes ? sw_pool_copy(&r->pool, item.at, item.bytes) : NULL;
        if (path && !sw_file_is_missing(path))
            return false;

        any |= path != NULL;
    }

    return any;
}

/* ---- Alternatives ---- */

/* One item of the list: TYPE, or TYPE PATH. */
struct alternative {
    const struct sw_type *type;
    const char *path; /* NULL: the type needs no path */
};

static void unknown_type(struct sw_recipe *r, struct sw_draft *n, struct sw_value *v,
                         const char *name)
{
    const struct sw_schema_kind *k = n->pub.schema;
    struct sw_words words = {0};

    sw_value_error(r, n, v, 0, 0, "unknown %s", k->type_key[0]);
    sw_hint_alias_value(r, k, k->type_key[0], NULL, name);
    sw_words_add_types(&words, k->types[0]);
    sw_words_hint(r, &words, name, "known");
}

/* Parses the item at *at and advances *at past it. Returns false at the end of the list and after
 * an error. */
static bool next_alternative(struct sw_recipe *r, struct sw_draft *n, struct sw_value *v,
                             const char **at, struct alternative *a)
{
    static const char blank[] = " \t";
    const char *p = *at + strspn(*at, " \t,");
    if (!*p)
        return false;

    size_t bytes = strcspn(p, ","), word = strcspn(p, " \t,");
    *at = p + bytes;
    while (bytes > word && strchr(blank, p[bytes - 1]))
        bytes--;

    size_t before = word + strspn(p + word, blank);
    const char *name = sw_pool_copy(&r->pool, p, word);
    if (!name)
        return false;

    a->path = before < bytes ? sw_pool_copy(&r->pool, p + before, bytes - before) : NULL;
    a->type = sw_types_find(n->pub.schema->types[0], name);
    if (!a->type)
        unknown_type(r, n, v, name);

    return a->type != NULL;
}

/* An earlier decision about a section: "NAME" takes the alternative that needs no path, "NAME:2"
 * the second one. */
enum { WITHOUT_PATH = 0, NO_FALLBACK = -2 };

static int choice_of(const char *list, const char *name)
{
    size_t bytes = strlen(name);

    for (const char *p = list; *p;) {
        size_t n = strcspn(p, ",");
        if (n >= bytes && memcmp(p, name, bytes) == 0 && (n == bytes || p[bytes] == ':'))
            return n == bytes ? WITHOUT_PATH : atoi(p + bytes + 1);
        p += n + (p[n] == ',');
    }

    return NO_FALLBACK;
}

static bool falls_back(struct sw_recipe *r, struct sw_draft *n, const struct sw_value *wanted,
                       const char *decided, const char **paths)
{
    struct sw_value *v = sw_draft_find(n, n->pub.schema->paths_key);

    *paths = v ? sw_value_files(r, v, &paths_row, n->pub.title) : NULL;
    if (decided)
        return choice_of(decided, n->pub.name ? n->pub.name : "") != NO_FALLBACK;

    if (!*paths || !all_missing(r, *paths))
        return false;

    n->no_fallback = sw_value_precedence(v) > sw_value_precedence(wanted) ? wanted : NULL;
    return !n->no_fallback;
}

/* Chooses an alternative, counted from 1; 0: none, or an error was reported. All alternatives are
 * parsed, so that a mistake is found on every machine. */
static int choose(struct sw_recipe *r, struct sw_draft *n, struct sw_value *wanted,
                  const char *decided, struct alternative *out)
{
    const char *at = sw_value_files(r, wanted, &alternatives, n->pub.title);
    int about = decided ? choice_of(decided, n->pub.name ? n->pub.name : "") : NO_FALLBACK;
    struct alternative a;
    int number = 0, chosen = 0;

    while (at && next_alternative(r, n, wanted, &at, &a)) {
        number++;

        bool serves = about > 0               ? number == about
                      : about == WITHOUT_PATH ? !a.path
                                              : !a.path || !sw_file_is_missing(a.path);
        if (serves && !chosen) {
            chosen = number;
            *out = a;
        }
    }

    return at && !at[strspn(at, " \t,")] ? chosen : 0;
}

/* ---- Choosing an alternative ---- */

static void put_value(struct sw_recipe *r, struct sw_draft *n, const struct sw_value *wanted,
                      const char *key, const char *text)
{
    struct sw_value *v = sw_pool_alloc(&r->pool, 1, sizeof(*v));
    if (!v)
        return;

    *v = *wanted;
    v->next = v->below = NULL;
    v->key = key;
    v->text = text;
    v->files = strcmp(key, n->pub.schema->paths_key) == 0 ? text : NULL;
    v->found = NULL;
    v->expanded = true;
    v->origin = SW_FROM_FALLBACK;
    v->is_fallback = true;
    sw_draft_put(n, v);
}

static void add_choice(struct sw_recipe *r, const struct sw_fallback_choice *what)
{
    struct sw_fallback_choice *f = sw_pool_alloc(&r->pool, 1, sizeof(*f));
    if (!f)
        return;

    *f = *what;
    *(r->last_fallback_choice ? &r->last_fallback_choice->next : &r->fallback_choices) = f;
    r->last_fallback_choice = f;
}

static void resolve_section(struct sw_recipe *r, struct sw_draft *n, const char *decided)
{
    const struct sw_schema_kind *k = n->pub.schema;
    struct sw_value *wanted = k->fallback_key ? sw_draft_find(n, k->fallback_key) : NULL;
    struct sw_value *format = wanted ? sw_draft_find(n, k->type_key[0]) : NULL;
    struct alternative to = {0};
    int number = wanted ? choose(r, n, wanted, decided, &to) : 0;
    /* A format that is given on the command line is used or is an error; it never falls back. */
    if (!number || !format || format->origin >= SW_FROM_SET)
        return;

    const char *text = sw_value_text(r, format, n->pub.title);
    const struct sw_type *from = text ? sw_types_find(k->types[0], text) : NULL;
    const char *paths;
    if (!from || (from == to.type && !to.path) || !falls_back(r, n, wanted, decided, &paths))
        return;

    put_value(r, n, wanted, k->type_key[0], to.type->name);
    if (to.path)
        put_value(r, n, wanted, k->paths_key, to.path);
    add_choice(r, &(struct sw_fallback_choice){.section = n,
                                               .from = from->name,
                                               .to = to.type->name,
                                               .paths = paths,
                                               .found = to.path,
                                               .number = number});
}

/* The decision in the form that decision_about reads on resume. */
static const char *join_names(struct sw_recipe *r)
{
    struct sw_bytes names = {0};

    for (const struct sw_fallback_choice *f = r->fallback_choices; f; f = f->next) {
        sw_bytes_printf(&names, "%s%s", f == r->fallback_choices ? "" : ",",
                        f->section->pub.name ? f->section->pub.name : "");
        if (f->found)
            sw_bytes_printf(&names, ":%d", f->number);
    }

    const char *joined = sw_pool_copy(&r->pool, sw_bytes_text(&names), names.length);
    r->pool.failed |= names.failed;
    sw_bytes_fini(&names);

    return joined;
}

static bool is_synthetic(const struct sw_recipe *r, const struct sw_draft *n)
{
    for (const struct sw_fallback_choice *f = r->fallback_choices; f; f = f->next)
        if (f->section == n)
            return !f->found;
    return false;
}

/* Whether the data of some section is synthetic. */
static bool any_synthetic(const struct sw_recipe *r)
{
    for (const struct sw_fallback_choice *f = r->fallback_choices; f; f = f->next)
        if (!f->found)
            return true;
    return false;
}

/* Whether a line of [fallback] is about a data section that keeps its files. */
static bool is_about_files(struct sw_recipe *r, const struct sw_value *line)
{
    for (const struct sw_section *s = r->first; s; s = s->next) {
        const struct sw_draft *n = (const struct sw_draft *)s;
        const size_t bytes = strlen(n->pub.kind), named = n->pub.name ? strlen(n->pub.name) : 0;
        const char *key = line->key;

        if (named && n->pub.schema->fallback_key && sw_draft_find(n, n->pub.schema->fallback_key) &&
            !is_synthetic(r, n) && strncmp(key, n->pub.kind, bytes) == 0 && key[bytes] == '.' &&
            strncmp(key + bytes + 1, n->pub.name, named) == 0 && key[bytes + 1 + named] == '.')
            return true;
    }

    return false;
}

void sw_fallback_apply(struct sw_recipe *r, const char *decided)
{
    for (struct sw_section *s = r->first; s && !r->pool.failed; s = s->next)
        resolve_section(r, (struct sw_draft *)s, decided);
    r->fallback = join_names(r);

    bool synthetic = any_synthetic(r);
    for (struct sw_value *line = r->lines; line && !r->pool.failed; line = line->next) {
        if (!synthetic || is_about_files(r, line)) {
            if (!sw_stage_check_line(r, line))
                sw_recipe_check_line(r, line, "fallback");
            continue;
        }

        struct sw_value *v = sw_pool_alloc(&r->pool, 1, sizeof(*v));
        if (!v)
            return;

        *v = *line;
        v->next = NULL;
        if (!sw_stage_add_line(r, v))
            sw_recipe_assign(r, v);
    }
}

/* Whether [fallback] sets this value, for the recipe or for its stage. */
static bool is_line(const struct sw_value *v)
{
    return (v->origin == SW_FROM_FALLBACK && !v->is_fallback) || (v->stage && v->by_fallback);
}

/* Announces the values that [fallback] changed, as they would be written; values that a --set
 * replaced are not listed. */
static void announce_lines(const struct sw_recipe *r, struct sw_bytes *out)
{
    int count = 0;

    for (const struct sw_section *s = r->first; s; s = s->next)
        for (const struct sw_value *v = ((const struct sw_draft *)s)->first; v; v = v->next)
            if (is_line(v) && !v->dropped)
                sw_bytes_printf(out, "%s%s%s%s.%s = %s", count++ ? ", " : "[fallback] sets ",
                                s->kind, s->name ? "." : "", s->name ? s->name : "", v->key,
                                v->text ? v->text : v->raw);

    if (count)
        sw_bytes_add(out, "\n");
}

static void announce_choice(const struct sw_fallback_choice *f, struct sw_bytes *out)
{
    sw_bytes_printf(out, "%s: format %s%s%s instead of %s: no file %s", f->section->pub.title,
                    f->to, f->found ? " of " : "", f->found ? f->found : "", f->from,
                    f->paths ? f->paths : "");
}

void sw_recipe_announce_fallback(const struct sw_recipe *r, struct sw_bytes *out)
{
    for (const struct sw_fallback_choice *f = r->fallback_choices; f; f = f->next) {
        announce_choice(f, out);
        sw_bytes_add(out, "\n");
    }

    if (any_synthetic(r))
        announce_lines(r, out);
}

static const struct sw_fallback_choice *fallback_of(const struct sw_section *section)
{
    for (const struct sw_fallback_choice *f = section->recipe->fallback_choices; f; f = f->next)
        if (&f->section->pub == section)
            return f;
    return NULL;
}

const char *sw_section_fell_from(const struct sw_section *section)
{
    const struct sw_fallback_choice *f = fallback_of(section);
    return f ? f->from : NULL;
}

const char *sw_section_missing_files(const struct sw_section *section)
{
    const struct sw_fallback_choice *f = fallback_of(section);
    return f ? f->paths : NULL;
}

bool sw_section_has_no_fallback(const struct sw_section *section)
{
    return ((const struct sw_draft *)section)->no_fallback != NULL;
}

void sw_recipe_hint_fallback(struct sw_recipe *recipe, const struct sw_section *section)
{
    const struct sw_fallback_choice *f = fallback_of(section);
    const struct sw_value *v = ((const struct sw_draft *)section)->no_fallback;
    struct sw_bytes text = {0};

    if (v && v->at.file)
        sw_recipe_hint(recipe, "`fallback = %s` of %s:%d does not replace a path given elsewhere",
                       v->raw, v->at.file->path, v->at.line);
    if (!f)
        return;

    announce_choice(f, &text);
    sw_recipe_hint(recipe, "%s", sw_bytes_text(&text));
    sw_bytes_fini(&text);
}
