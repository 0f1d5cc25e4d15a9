/* Loads a recipe and provides access to its sections. build() runs the phases in the order that
 * recipe/build.h lists; all problems are collected as diagnostics, and a recipe with errors is
 * still returned so that they can be printed. The rest are the accessors of recipe/recipe.h:
 * sections, where a value comes from, and errors that later checks add. */
#include "recipe/recipe.h"
#include "base/os.h"
#include "recipe/build.h"
#include "recipe/lookup.h"
#include <stdlib.h>
#include <string.h>

static const char *process_env(void *user, const char *name)
{
    return getenv(name);
}

/* ---- Loading ---- */

/* Runs the phases. Running out of memory sets pool.failed or is returned as SW_ERR_NOMEM. */
static int build(struct sw_recipe *r, const struct sw_recipe_source *source, const char *text,
                 size_t bytes, struct sw_err *err)
{
    const char *path = source->path ? source->path : "recipe";

    int rc = sw_include_read(r, path, text, bytes, err);
    if (rc)
        return rc;

    sw_overrides_read(r, source);
    sw_vars_build(r);
    if (r->pool.failed)
        goto nomem;

    sw_merge_file(r);
    if (r->pool.failed)
        goto nomem;

    sw_merge_overrides(r);
    if (r->pool.failed)
        goto nomem;

    rc = sw_stages_apply(r, source, err);
    if (rc)
        return rc;
    if (r->pool.failed)
        goto nomem;

    sw_fallback_apply(r, source->fallback);
    if (r->pool.failed)
        goto nomem;

    sw_recipe_bind(r);
    if (r->pool.failed)
        goto nomem;

    sw_stages_select(r);
    if (r->pool.failed)
        goto nomem;

    sw_files_fix(r);
    r->overrides = sw_overrides_join(r);
    if (!r->diags.count)
        sw_recipe_identify(r);
    if (r->pool.failed || r->diags.nomem)
        goto nomem;
    return sw_diags_status(&r->diags, err);

nomem:
    return sw_err_nomem(err, path, bytes);
}

int sw_recipe_load(const struct sw_recipe_source *source, const struct sw_schema *schema,
                   struct sw_recipe **out, struct sw_err *err)
{
    *out = NULL;

    char *read = NULL;
    const char *text = source->text;
    size_t bytes = source->text_bytes;
    if (!text) {
        int rc = sw_os_read_file(source->path, SW_INI_MAX_BYTES, &read, &bytes, err);
        if (rc)
            return rc;
        text = read;
    }

    struct sw_recipe *r = sw_calloc(1, sizeof(*r));
    if (!r) {
        sw_free(read);
        return sw_err_nomem(err, "recipe", sizeof(*r));
    }

    r->schema = schema;
    r->env = source->env ? source->env : process_env;
    r->env_user = source->env_user;
    r->overrides = "";

    int rc = build(r, source, text, bytes, err);
    sw_free(read);
    if (rc && (rc != SW_ERR_INVALID || !r->diags.count)) {
        sw_recipe_free(r);
        return rc;
    }

    *out = r;
    return rc;
}

void sw_recipe_free(struct sw_recipe *r)
{
    if (!r)
        return;

    sw_seen_fini(&r->index);
    sw_diags_fini(&r->diags);
    sw_diags_fini(&r->warnings);
    sw_pool_fini(&r->pool);
    sw_free(r);
}

/* ---- Sections ---- */

const struct sw_section *sw_recipe_first(const struct sw_recipe *r, const char *kind)
{
    const struct sw_section *s = r->first;
    while (s && kind && strcmp(s->kind, kind) != 0)
        s = s->next;
    return s;
}

const struct sw_section *sw_section_next(const struct sw_section *section)
{
    const struct sw_section *s = section->next;
    while (s && strcmp(s->kind, section->kind) != 0)
        s = s->next;
    return s;
}

const struct sw_section *sw_recipe_find(const struct sw_recipe *r, const char *kind,
                                        const char *name)
{
    const struct sw_section *s = sw_recipe_first(r, kind);
    while (s && !sw_str_eq(s->name, name))
        s = sw_section_next(s);
    return s;
}

static const struct sw_draft *draft_of(const struct sw_section *s)
{
    return (const struct sw_draft *)s;
}

enum sw_origin sw_section_origin(const struct sw_section *section, const char *key)
{
    const struct sw_value *v = sw_draft_find(draft_of(section), key);
    return v ? v->origin : SW_FROM_DEFAULT;
}

int sw_section_precedence(const struct sw_section *section, const char *key)
{
    const struct sw_value *v = sw_draft_find(draft_of(section), key);
    return v ? sw_value_precedence(v) : 0;
}

bool sw_section_is_set(const struct sw_section *section, const char *key)
{
    return sw_section_origin(section, key) != SW_FROM_DEFAULT;
}

struct sw_place sw_section_where(const struct sw_section *section, const char *key)
{
    const struct sw_value *v = key ? sw_draft_find(draft_of(section), key) : NULL;
    if (v)
        return sw_place_of_value(v, 0, 0);
    return sw_place_of_draft(section->recipe, draft_of(section));
}

const char *sw_section_text(const struct sw_section *section, const char *key)
{
    const struct sw_value *v = sw_draft_find(draft_of(section), key);
    return v ? v->text : NULL;
}

/* ---- Errors of later checks ---- */

static int add_error(struct sw_recipe *r, const struct sw_section *section, const char *key,
                     size_t offset, size_t bytes, const char *fmt, va_list ap)
{
    if (!section)
        return sw_recipe_report(r, NULL, (struct sw_place){.origin = r->ini.file->path},
                                &(struct sw_bytes){0}, fmt, ap);

    const struct sw_draft *n = draft_of(section);
    const struct sw_value *v = key ? sw_draft_find(n, key) : NULL;
    return v ? sw_value_verror(r, n, v, offset, bytes, fmt, ap)
             : sw_draft_verror(r, n, NULL, fmt, ap);
}

int sw_recipe_error(struct sw_recipe *r, const struct sw_section *section, const char *key,
                    const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);

    int rc = add_error(r, section, key, 0, 0, fmt, ap);
    va_end(ap);
    return rc;
}

int sw_recipe_error_item(struct sw_recipe *r, const struct sw_section *section, const char *key,
                         int item, const char *fmt, ...)
{
    const char *text = sw_section_text(section, key), *at = text;
    struct sw_span piece = {text, 0};

    for (int i = 0; i <= item && at; i++)
        piece = sw_span_next(&at);

    va_list ap;
    va_start(ap, fmt);

    int rc = add_error(r, section, key, text ? (size_t)(piece.at - text) : 0, piece.bytes, fmt, ap);
    va_end(ap);
    return rc;
}

void sw_recipe_hint(struct sw_recipe *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    sw_diags_vhint(&r->diags, fmt, ap);
    va_end(ap);
}

void sw_recipe_hint_near(struct sw_recipe *r, const char *word, const char *const *candidates,
                         int count, const char *label)
{
    sw_hint_near(&r->diags, word, candidates, count, label);
}

const struct sw_diags *sw_recipe_diags(const struct sw_recipe *r)
{
    return &r->diags;
}

struct sw_diags sw_recipe_set_aside(struct sw_recipe *r)
{
    struct sw_diags had = r->diags;
    r->diags = (struct sw_diags){0};
    return had;
}

void sw_recipe_take_back(struct sw_recipe *r, struct sw_diags *had)
{
    sw_diags_move(&r->diags, had);
}

const struct sw_diags *sw_recipe_warnings(const struct sw_recipe *r)
{
    return &r->warnings;
}

int sw_recipe_status(const struct sw_recipe *r, struct sw_err *err)
{
    return sw_diags_status(&r->diags, err);
}

/* ---- What a run stores ---- */

const char *sw_recipe_path(const struct sw_recipe *r)
{
    return r->ini.file->path;
}

/* Links in the folder are resolved, the file itself is not: its paths are relative to the folder.
 */
const char *sw_recipe_file(struct sw_recipe *r)
{
    const char *path = r->ini.file->path, *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    const char *given = sw_pool_copy(&r->pool, path, (size_t)(name - path));
    char *folder = given ? realpath(*given ? given : ".", NULL) : NULL;

    const char *whole =
        folder ? sw_pool_format(&r->pool, "%s/%s", strcmp(folder, "/") ? folder : "", name) : NULL;
    free(folder);
    return whole ? whole : sw_absolute_path(r, path);
}

const char *sw_recipe_text(const struct sw_recipe *r)
{
    return r->text;
}

const char *sw_recipe_overrides(const struct sw_recipe *r)
{
    return r->overrides;
}

const char *sw_recipe_fallback(const struct sw_recipe *r)
{
    return r->fallback;
}

const char *sw_recipe_hash(const struct sw_recipe *r)
{
    return r->hash;
}
