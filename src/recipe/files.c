/* Values that name files: where a relative path leads.
 *
 * A path is relative to the place where its beginning was written: a line of a recipe, of an
 * included file or of [vars] to the folder of that file; --set, another option and a variable of
 * the environment to the working directory. A relative path of a recipe is looked for in the folder
 * of SINGA_DATA first, then in the folder of its file, which counts if neither has it. Earlier
 * releases looked in the working directory only: a path that exists only there is used with a
 * warning.
 *
 * A run stores what depends on the working directory as overrides with absolute paths, and the
 * variables of the environment that its recipe uses as overrides `env.NAME`, so that the stored
 * recipe leads to the same files from everywhere. Which keys name files, and where in an item the
 * path begins, is a property of the option row. */
#include "base/os.h"
#include "recipe/build.h"
#include "recipe/lookup.h"
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

bool sw_file_is_missing(const char *path)
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

const char *sw_absolute_path(struct sw_recipe *r, const char *path)
{
    char folder[PATH_MAX];

    if (path[0] == '/' || !getcwd(folder, sizeof folder))
        return path;
    while (path[0] == '.' && path[1] == '/')
        path += 2 + strspn(path + 2, "/");

    const char *whole = sw_pool_format(&r->pool, "%s/%s", strcmp(folder, "/") ? folder : "", path);
    return whole ? whole : path;
}

/* ---- Where a path begins ----------------------------------------------------------------------
 */

/* "" for a file in the working directory. */
static const char *folder_of(struct sw_recipe *r, const struct sw_ini_file *file)
{
    const char *slash = strrchr(file->path, '/');
    const char *folder =
        sw_pool_copy(&r->pool, file->path, slash ? (size_t)(slash + 1 - file->path) : 0);
    return folder ? folder : "";
}

/* The folder that a text with variables is relative to; NULL: the working directory, because the
 * command line or the environment gave its beginning. `visible`: the variables that it may use. */
static const char *base_of(struct sw_recipe *r, const char *raw, const struct sw_value *v,
                           int visible)
{
    while (sw_str_starts(raw, "${")) {
        const struct sw_var *var = sw_var_find(r, raw + 2, strcspn(raw + 2, "}"), visible);
        if (!var)
            return NULL;

        raw = var->value->raw;
        v = var->value;
        visible = (int)(var - r->vars);
    }

    return v->set || !v->at.file ? NULL : folder_of(r, v->at.file);
}

/* The folder that ${SINGA_DATA} stands for, with a slash behind it. */
static const char *data_folder(struct sw_recipe *r)
{
    static const char raw[] = "${SINGA_DATA}";

    if (r->data_root)
        return r->data_root;

    struct sw_value whole = {.raw = raw, .at.file = r->ini.file};
    const char *text = sw_expanded_text(r, raw);
    const char *base = text && text[0] != '/' ? base_of(r, raw, &whole, r->var_count) : NULL;

    r->data_root = text ? sw_pool_format(&r->pool, "%s%s/", base ? base : "", text) : NULL;
    return r->data_root ? r->data_root : "";
}

/* ---- One path ---------------------------------------------------------------------------------
 */

static void warn_moved(struct sw_recipe *r, const struct sw_value *v, const char *title,
                       const char *path, const char *here)
{
    sw_diags_add(&r->warnings, sw_place_of_value(v, 0, 0),
                 "%s: %s: '%s' was found in the working directory, but a relative path in a recipe "
                 "is relative to the recipe; the next release will look for it at %s only",
                 title, v->key, path, here);
    sw_diags_hint(&r->warnings, "move the file there, or change the path in the recipe");
}

/* Notes how a path was found, for `explain`; the parts of a list may differ. */
static void note(struct sw_value *v, const char *found)
{
    if (v->found && strcmp(v->found, found) != 0)
        found = "in several folders";
    v->found = found;
}

static const char *locate(struct sw_recipe *r, struct sw_value *v, const struct sw_opt *row,
                          const char *base, const char *path, const char *title)
{
    if (path[0] == '/')
        return path;
    if (!base) {
        v->by_place = true;
        note(v, "relative to the working directory");
        return path;
    }

    const char *data = row->written ? "" : data_folder(r);
    const char *in_data = *data ? sw_pool_format(&r->pool, "%s%s", data, path) : NULL;
    if (in_data && !sw_file_is_missing(in_data)) {
        note(v, "in the folder SINGA_DATA");
        return in_data;
    }

    const char *here = *base ? sw_pool_format(&r->pool, "%s%s", base, path) : path;
    if (here && here != path && sw_file_is_missing(here) && !sw_file_is_missing(path)) {
        warn_moved(r, v, title, path, here);
        v->by_place = true;
        note(v, "in the working directory");
        return path;
    }

    note(v, "relative to the recipe");
    return here ? here : path;
}

/* Adds an item of the expanded text: what precedes the path, and where the path leads. */
static void add_item(struct sw_recipe *r, struct sw_value *v, const struct sw_opt *row,
                     const char *base, const char *title, struct sw_span item, struct sw_bytes *out)
{
    const char *text = sw_pool_copy(&r->pool, item.at, item.bytes);
    if (!text)
        return;

    size_t skip = row->path_at ? row->path_at(text) : 0;
    const char *path = text + (skip < item.bytes ? skip : item.bytes);

    sw_bytes_append(out, text, (size_t)(path - text));
    if (*path)
        sw_bytes_add(out, locate(r, v, row, base, path, title));
}

/* Items of a list may come from one variable, and begin where that was defined. */
static void add_piece(struct sw_recipe *r, struct sw_value *v, const struct sw_opt *row,
                      const char *title, struct sw_span piece, struct sw_bytes *out)
{
    const char *raw = sw_pool_copy(&r->pool, piece.at, piece.bytes);
    const char *at = raw ? sw_expanded_text(r, raw) : NULL;
    const size_t skip = raw && row->path_at ? row->path_at(raw) : 0;
    const bool is_list = row->type == SW_OPT_PATHS;
    if (!at)
        return;

    const char *base = base_of(r, skip < piece.bytes ? raw + skip : raw, v, r->var_count);
    if (!is_list) {
        add_item(r, v, row, base, title, (struct sw_span){at, strlen(at)}, out);
        return;
    }

    for (int i = 0; at; i++) {
        struct sw_span item = sw_span_next(&at);
        sw_bytes_add(out, i ? ", " : "");
        add_item(r, v, row, base, title, item, out);
    }
}

const char *sw_value_files(struct sw_recipe *r, struct sw_value *v, const struct sw_opt *row,
                           const char *title)
{
    const char *text = sw_value_text(r, v, title), *at = v->raw;
    struct sw_bytes out = {0};

    if (!text || v->files)
        return v->files;

    if (row->type == SW_OPT_PATH)
        add_piece(r, v, row, title, (struct sw_span){at, strlen(at)}, &out);
    for (int i = 0; row->type == SW_OPT_PATHS && at; i++) {
        struct sw_span piece = sw_span_next(&at);
        sw_bytes_add(&out, i ? ", " : "");
        add_piece(r, v, row, title, piece, &out);
    }

    v->files = out.failed ? NULL : sw_pool_copy(&r->pool, sw_bytes_text(&out), out.length);
    v->row = row;
    r->pool.failed |= out.failed;
    sw_bytes_fini(&out);

    return v->files;
}

/* ---- What a run stores ------------------------------------------------------------------------
 */

/* The located text with absolute paths. */
static void add_absolute(struct sw_recipe *r, const struct sw_value *v, struct sw_bytes *out)
{
    const char *at = v->files;

    for (int i = 0; at; i++) {
        struct sw_span item = {at, strlen(at)};
        if (v->row->type == SW_OPT_PATHS)
            item = sw_span_next(&at);
        else
            at = NULL;

        const char *text = sw_pool_copy(&r->pool, item.at, item.bytes);
        if (!text)
            return;

        size_t skip = v->row->path_at ? v->row->path_at(text) : 0;
        const char *path = text + (skip < item.bytes ? skip : item.bytes);
        sw_bytes_printf(out, "%s%.*s%s", i ? ", " : "", (int)(path - text), text,
                        *path ? sw_absolute_path(r, path) : "");
    }
}

/* The override that leads to the same files from everywhere; NULL: none is needed. */
static const char *fixed_override(struct sw_recipe *r, const struct sw_draft *n,
                                  const struct sw_value *v)
{
    struct sw_bytes out = {0};
    const bool in_job = !n->pub.name && strcmp(n->pub.kind, "job") == 0;

    if (!v->files || !v->by_place || v->is_fallback)
        return NULL;

    if (v->stage)
        sw_bytes_printf(&out, "stage.%s.", v->stage->section.pub.name);
    if (!v->stage || !in_job)
        sw_bytes_printf(&out, "%s%s%s.", n->pub.kind, n->pub.name ? "." : "",
                        n->pub.name ? n->pub.name : "");
    sw_bytes_printf(&out, "%s=", v->key);
    add_absolute(r, v, &out);

    const char *text = out.failed ? NULL : sw_pool_copy(&r->pool, sw_bytes_text(&out), out.length);
    r->pool.failed |= out.failed;
    sw_bytes_fini(&out);

    return text;
}

void sw_files_fix(struct sw_recipe *r)
{
    struct sw_bytes added = {0};

    for (const struct sw_section *s = r->first; s; s = s->next) {
        const struct sw_draft *n = (const struct sw_draft *)s;
        for (const struct sw_value *v = n->first; v; v = v->next) {
            const char *text = v->dropped ? NULL : fixed_override(r, n, v);
            if (text && v->set)
                ((struct sw_override *)v->set)->fixed = text;
            else if (text)
                sw_bytes_printf(&added, "%s%s", added.length ? "\n" : "", text);
        }
    }

    for (const struct sw_env_use *u = r->env_used; u; u = u->next)
        if (!u->given && !strpbrk(u->value, "\n\r"))
            sw_bytes_printf(&added, "%senv.%s=%s", added.length ? "\n" : "", u->name, u->value);

    r->added_overrides =
        added.failed ? NULL : sw_pool_copy(&r->pool, sw_bytes_text(&added), added.length);
    r->pool.failed |= added.failed;
    sw_bytes_fini(&added);
}
