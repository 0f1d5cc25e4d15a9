/* `fallback = synthetic`: another format where none of a section's files exists, and then the lines
 * of [fallback]. A file that exists, however damaged or unreadable, is never replaced. */
#include "base/os.h"
#include "recipe/build.h"
#include "recipe/lookup.h"
#include <errno.h>
#include <glob.h>
#include <string.h>

/* Whether nothing has that name, or matches that pattern: the data formats take both. */
static bool is_missing(const char *path)
{
    struct stat st;
    if (strpbrk(path, "*?[")) {
        glob_t found;
        int rc = glob(path, GLOB_NOSORT, NULL, &found);
        if (rc == 0)
            globfree(&found);
        return rc == GLOB_NOMATCH;
    }
    return sw_os()->stat(path, &st) != 0 &&
           (errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG);
}

/* Whether the comma-separated list names files and none of them exists. */
static bool all_missing(struct sw_recipe *r, const char *paths)
{
    bool any = false;
    for (const char *p = paths; *p;) {
        p += strspn(p, " \t,");
        size_t bytes = strcspn(p, ",");
        const char *next = p + bytes;
        while (bytes && (p[bytes - 1] == ' ' || p[bytes - 1] == '\t'))
            bytes--;
        const char *path = bytes ? sw_pool_copy(&r->pool, p, bytes) : NULL;
        if (path && !is_missing(path))
            return false;
        any |= path != NULL;
        p = next;
    }
    return any;
}

static bool is_listed(const char *list, const char *name)
{
    size_t bytes = strlen(name);
    for (const char *p = list; *p;) {
        size_t n = strcspn(p, ",");
        if (n == bytes && memcmp(p, name, n) == 0)
            return true;
        p += n + (p[n] == ',');
    }
    return false;
}

/* The type that the section's `fallback` key names; NULL without one, or with a message. */
static const struct sw_type *wanted_type(struct sw_recipe *r, struct sw_draft *n,
                                         struct sw_value *v)
{
    const struct sw_schema_kind *k = n->pub.schema;
    const char *text = sw_value_text(r, v, n->pub.title);
    const struct sw_type *type = text ? sw_types_find(k->types[0], text) : NULL;
    if (text && !type) {
        struct sw_words words = {0};
        sw_value_error(r, n, v, 0, 0, "unknown %s", k->type_key[0]);
        sw_words_add_types(&words, k->types[0]);
        sw_hint_near(&r->diags, text, words.items, words.count, "known");
        r->pool.failed |= words.failed;
        sw_words_fini(&words);
    }
    return type;
}

static bool falls(struct sw_recipe *r, struct sw_draft *n, const char *decided, const char **paths)
{
    struct sw_value *v = sw_draft_find(n, n->pub.schema->paths_key);
    *paths = v ? sw_value_text(r, v, n->pub.title) : NULL;
    if (decided)
        return is_listed(decided, n->pub.name ? n->pub.name : "");
    return *paths && all_missing(r, *paths);
}

static void replace_type(struct sw_recipe *r, struct sw_draft *n, const struct sw_value *wanted,
                         const struct sw_fallen *what)
{
    struct sw_value *v = sw_pool_alloc(&r->pool, 1, sizeof(*v));
    struct sw_fallen *f = sw_pool_alloc(&r->pool, 1, sizeof(*f));
    if (!v || !f)
        return;
    *v = *wanted;
    v->next = v->below = NULL;
    v->key = n->pub.schema->type_key[0];
    v->origin = SW_FROM_FALLBACK;
    v->fell = true;
    sw_draft_put(n, v);
    *f = *what;
    if (r->last_fallen)
        r->last_fallen->next = f;
    else
        r->fallen = f;
    r->last_fallen = f;
}

static void consider(struct sw_recipe *r, struct sw_draft *n, const char *decided)
{
    const struct sw_schema_kind *k = n->pub.schema;
    struct sw_value *wanted = k->fallback_key ? sw_draft_find(n, k->fallback_key) : NULL;
    struct sw_value *format = wanted ? sw_draft_find(n, k->type_key[0]) : NULL;
    const struct sw_type *to = wanted ? wanted_type(r, n, wanted) : NULL;
    /* Who asks for a format on the command line gets it, or an error. */
    if (!to || !format || format->origin >= SW_FROM_SET)
        return;
    const char *text = sw_value_text(r, format, n->pub.title);
    const struct sw_type *from = text ? sw_types_find(k->types[0], text) : NULL;
    const char *paths;
    if (!from || from == to || !falls(r, n, decided, &paths))
        return;
    struct sw_fallen what = {.draft = n, .from = from->name, .to = to->name, .paths = paths};
    replace_type(r, n, wanted, &what);
}

static const char *join_names(struct sw_recipe *r)
{
    size_t bytes = 1;
    for (const struct sw_fallen *f = r->fallen; f; f = f->next)
        bytes += (f->draft->pub.name ? strlen(f->draft->pub.name) : 0) + 1;
    char *joined = sw_pool_alloc(&r->pool, bytes, 1), *p = joined;
    for (const struct sw_fallen *f = r->fallen; f && joined; f = f->next) {
        if (f != r->fallen)
            *p++ = ',';
        p = stpcpy(p, f->draft->pub.name ? f->draft->pub.name : "");
    }
    return joined;
}

void sw_fallback_apply(struct sw_recipe *r, const char *decided)
{
    for (struct sw_section *s = r->first; s && !r->pool.failed; s = s->next)
        consider(r, (struct sw_draft *)s, decided);
    r->fallback = join_names(r);
    for (struct sw_value *line = r->lines; line && !r->pool.failed; line = line->next) {
        if (!r->fallen) {
            sw_fallback_check_line(r, line);
            continue;
        }
        struct sw_value *v = sw_pool_alloc(&r->pool, 1, sizeof(*v));
        if (!v)
            return;
        *v = *line;
        v->next = NULL;
        sw_recipe_assign(r, v);
    }
}

/* What [fallback] changed, as it would be written: those that a --set overrules are not there. */
static void announce_lines(const struct sw_recipe *r, struct sw_buf *out)
{
    int count = 0;
    for (const struct sw_section *s = r->first; s; s = s->next)
        for (const struct sw_value *v = ((const struct sw_draft *)s)->first; v; v = v->next)
            if (v->origin == SW_FROM_FALLBACK && !v->fell && !v->dropped)
                sw_buf_printf(out, "%s%s%s%s.%s = %s", count++ ? ", " : "[fallback] sets ", s->kind,
                              s->name ? "." : "", s->name ? s->name : "", v->key,
                              v->text ? v->text : v->raw);
    if (count)
        sw_buf_add(out, "\n");
}

void sw_recipe_announce_fallback(const struct sw_recipe *r, struct sw_buf *out)
{
    for (const struct sw_fallen *f = r->fallen; f; f = f->next)
        sw_buf_printf(out, "%s: no file %s: using format %s instead of %s\n", f->draft->pub.title,
                      f->paths ? f->paths : "", f->to, f->from);
    if (r->fallen)
        announce_lines(r, out);
}

const char *sw_section_fell_from(const struct sw_section *section)
{
    for (const struct sw_fallen *f = section->recipe->fallen; f; f = f->next)
        if (&f->draft->pub == section)
            return f->from;
    return NULL;
}
