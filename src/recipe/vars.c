/* `${NAME}`: lines of [vars], then the environment, in which `--set env.NAME=VALUE` replaces a
 * variable; a run stores those that it used in this form. A line of [vars] sees the lines above it
 * only, so there are no cycles, each is expanded once, and `A = ${A}/x` means the environment's A.
 */
#include "base/os.h"
#include "recipe/build.h"
#include "recipe/lookup.h"
#include <string.h>

enum {
    MAX_VALUE_BYTES = 64 << 10, /* of one value after expansion */
    MAX_TOTAL_BYTES = 16 << 20, /* of all that were expanded */
};

static const char vars_prefix[] = "vars.", env_prefix[] = "env.";

/* The variables that an expansion may use. */
struct scope {
    struct sw_recipe *r;
    int visible;    /* the number of r->vars that are defined so far */
    bool canonical; /* values of the file's [vars]; `${ENV}` stays as it is */
};

/* Why an expansion failed; `reported` is set if the cause was already reported. */
struct failure {
    size_t offset, bytes;
    const char *reason;
    char name[64];
    bool unknown, reported;
};

static bool is_name_start(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_name(const char *s, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (!is_name_start(s[i]) && !(i && s[i] >= '0' && s[i] <= '9'))
            return false;
    return bytes > 0;
}

static bool is_folder(const char *path)
{
    struct stat st;
    return sw_os()->stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The data folder to use if the environment does not set one. */
static const char *data_folder(struct sw_recipe *r)
{
    const char *home = r->env(r->env_user, "HOME");

    if (r->data_folder)
        return r->data_folder;

    r->data_folder = "./data";

    if (home && !is_folder("./data")) {
        const char *shared = sw_pool_format(&r->pool, "%s/.local/share/singa-ws/data", home);
        if (shared && is_folder(shared))
            r->data_folder = shared;
    }

    return r->data_folder;
}

static const struct sw_var *find_var(const struct scope *s, const char *name)
{
    for (int i = s->visible; i-- > 0;)
        if (strcmp(s->r->vars[i].name, name) == 0 && (!s->canonical || s->r->vars[i].canonical))
            return &s->r->vars[i];
    return NULL;
}

const struct sw_var *sw_var_find(const struct sw_recipe *r, const char *name, size_t bytes,
                                 int visible)
{
    for (int i = visible; i-- > 0;)
        if (strncmp(r->vars[i].name, name, bytes) == 0 && !r->vars[i].name[bytes])
            return &r->vars[i];
    return NULL;
}

static const struct sw_override *env_override(const struct sw_recipe *r, const char *name)
{
    const struct sw_override *found = NULL;

    for (const struct sw_override *o = r->sets; o; o = o->next)
        if (sw_str_starts(o->path, env_prefix) && strcmp(o->path + strlen(env_prefix), name) == 0)
            found = o;

    return found;
}

/* Notes that the recipe uses a variable of the environment, or returns the earlier note. */
static const char *use_env(struct sw_recipe *r, const char *name, const char *value, bool given)
{
    struct sw_env_use **at = &r->env_used;
    while (*at && strcmp((*at)->name, name) != 0)
        at = &(*at)->next;
    if (*at)
        return (*at)->value;

    struct sw_env_use *use = sw_pool_alloc(&r->pool, 1, sizeof(*use));
    const char *copy = sw_pool_copy(&r->pool, name, strlen(name));
    const char *kept = sw_pool_copy(&r->pool, value, strlen(value));
    if (!use || !copy || !kept)
        return value;

    *use = (struct sw_env_use){.name = copy, .value = kept, .given = given};
    *at = use;
    return kept;
}

/* A variable of the environment; NULL: it is not set. */
static const char *env_value(struct sw_recipe *r, const char *name)
{
    const struct sw_override *o = env_override(r, name);
    const char *text = o ? o->value : r->env(r->env_user, name);

    if (strcmp(name, "SINGA_DATA") == 0)
        text = sw_absolute_path(r, text && *text ? text : data_folder(r));

    return text ? use_env(r, name, text, o != NULL) : NULL;
}

/* Adds the value of one name. */
static bool add_variable(const struct scope *s, const char *name, struct sw_bytes *out,
                         struct failure *f)
{
    const struct sw_var *var = find_var(s, name);
    if (s->canonical) {
        if (var)
            sw_bytes_add(out, var->canonical);
        else
            sw_bytes_printf(out, "${%s}", name);

        return true;
    }

    if (var && !var->text) {
        f->reported = true;
        return false;
    }

    const char *text = var ? var->text : env_value(s->r, name);
    if (!text) {
        f->unknown = true;
        return false;
    }

    sw_bytes_add(out, text);
    return true;
}

/* Expands one `${...}` at p. Returns the text after it, or NULL after a failure. */
static const char *expand_one(const struct scope *s, const char *p, struct sw_bytes *out,
                              struct failure *f)
{
    const char *name = p + 2, *close = strchr(name, '}');
    size_t bytes = close ? (size_t)(close - name) : 0;

    f->bytes = close ? bytes + 3 : 2;

    if (!close)
        f->reason = "missing '}' after '${'";
    else if (!is_name(name, bytes))
        f->reason = "a variable's name consists of letters, digits and _";
    else if (bytes >= sizeof(f->name))
        f->reason = "a variable's name has at most 63 characters";

    if (f->reason)
        return NULL;

    memcpy(f->name, name, bytes);
    f->name[bytes] = '\0';
    return add_variable(s, f->name, out, f) ? close + 1 : NULL;
}

/* Expands all variables. Returns a text in the pool, `raw` itself if it has no variables, or NULL
 * and the reason in f. */
static const char *expand(const struct scope *s, const char *raw, struct failure *f)
{
    *f = (struct failure){0};

    const char *p = raw, *dollar;
    if (!strstr(raw, "${"))
        return raw;

    struct sw_bytes out = {0};
    const char *result = NULL;
    while (p && (dollar = strstr(p, "${"))) {
        sw_bytes_append(&out, p, (size_t)(dollar - p));
        f->offset = (size_t)(dollar - raw);

        p = expand_one(s, dollar, &out, f);
        if (p && out.length > MAX_VALUE_BYTES) {
            f->reason = "expands to more than 64 KiB";
            p = NULL;
        }
    }

    if (p) {
        sw_bytes_add(&out, p);

        s->r->expanded_bytes += out.length;
        if (s->r->expanded_bytes > MAX_TOTAL_BYTES)
            f->reason = "the recipe's variables expand to more than 16 MiB";
        else if (!out.failed)
            result = sw_pool_copy(&s->r->pool, sw_bytes_text(&out), out.length);
    }

    s->r->pool.failed |= out.failed;
    sw_bytes_fini(&out);
    return result;
}

/* ---- Messages ---- */

static void hint_unknown(struct sw_recipe *r, int visible, const char *name)
{
    if (!sw_diags_needs_hint(&r->diags))
        return;

    for (int i = visible; i < r->var_count; i++)
        if (strcmp(r->vars[i].name, name) == 0) {
            sw_diags_hint(
                &r->diags,
                "[vars] defines it in a later line; a value can use only the lines above it");
            return;
        }

    struct sw_words words = {0};
    for (int i = 0; i < visible; i++)
        sw_words_add(&words, r->vars[i].name);
    sw_words_add(&words, "SINGA_DATA");
    sw_words_hint(r, &words, name, NULL);
    sw_diags_hint(&r->diags, "define it in [vars] or in the environment");
}

static void report(struct sw_recipe *r, const struct sw_value *v, const char *title, int visible,
                   const struct failure *f)
{
    if (r->pool.failed || f->reported)
        return;

    struct sw_place at = sw_place_of_value(v, f->offset, f->bytes);
    if (!f->unknown) {
        sw_diags_add(&r->diags, at, "%s: %s: %s", title, v->key, f->reason);
        return;
    }

    sw_diags_add(&r->diags, at, "%s: %s: unknown variable '%s'", title, v->key, f->name);
    hint_unknown(r, visible, f->name);
}

const char *sw_value_text(struct sw_recipe *r, struct sw_value *v, const char *title)
{
    if (!v->expanded) {
        struct failure f;
        struct scope scope = {.r = r, .visible = r->var_count};

        v->text = expand(&scope, v->raw, &f);
        v->expanded = true;
        if (!v->text)
            report(r, v, title, r->var_count, &f);
    }

    return v->text;
}

const char *sw_expanded_text(struct sw_recipe *r, const char *raw)
{
    struct failure f;
    struct scope scope = {.r = r, .visible = r->var_count};
    return expand(&scope, raw, &f);
}

const char *sw_canonical_text(struct sw_recipe *r, const char *raw)
{
    struct failure f;
    struct scope scope = {.r = r, .visible = r->var_count, .canonical = true};
    const char *text = expand(&scope, raw, &f);
    return text ? text : raw;
}

/* ---- [vars] ---- */

static bool check_name(struct sw_recipe *r, const struct sw_value *v, const char *title)
{
    if (is_name(v->key, strlen(v->key)))
        return true;

    char shown[SW_SHOWN];
    sw_diags_add(&r->diags, sw_place_of_key(v), "%s: invalid variable name '%s'", title,
                 sw_shown(shown, v->key));
    sw_diags_hint(&r->diags, "a variable's name consists of letters, digits and _");

    return false;
}

/* Defines the next variable: `file` is its line in the recipe, `set` the override, one may be NULL.
 */
static void define(struct sw_recipe *r, struct sw_value *file, struct sw_value *set)
{
    struct sw_value *v = set ? set : file;
    if (!check_name(r, v, "vars"))
        return;

    struct failure f;
    struct scope scope = {.r = r, .visible = r->var_count};
    struct sw_var var = {.name = v->key, .text = expand(&scope, v->raw, &f)};
    v->text = var.text;
    v->expanded = true;
    var.value = v;
    if (!var.text)
        report(r, v, "vars", r->var_count, &f);

    if (file) {
        scope.canonical = true;
        var.canonical = expand(&scope, file->raw, &f);
        if (!var.canonical)
            var.canonical = file->raw;
    }

    r->vars[r->var_count++] = var;
}

/* The last `--set vars.NAME=...` of that name, or NULL. */
static struct sw_override *last_set_of(const struct sw_recipe *r, const char *name)
{
    struct sw_override *found = NULL;

    for (struct sw_override *o = r->sets; o; o = o->next)
        if (sw_str_starts(o->path, vars_prefix) && strcmp(o->path + strlen(vars_prefix), name) == 0)
            found = o;

    return found;
}

static const struct sw_ini_section *vars_section(const struct sw_recipe *r)
{
    const struct sw_ini_section *s = r->ini.first;
    while (s && (s->name || strcmp(s->kind, "vars") != 0))
        s = s->next;
    return s;
}

static bool is_defined(const struct sw_recipe *r, const char *name)
{
    for (int i = 0; i < r->var_count; i++)
        if (strcmp(r->vars[i].name, name) == 0)
            return true;
    return false;
}

void sw_vars_build(struct sw_recipe *r)
{
    const struct sw_ini_section *section = vars_section(r);
    const struct sw_ini_entry *e = section ? section->first : NULL;
    size_t room = (size_t)r->set_count + 1;

    for (const struct sw_ini_entry *i = e; i; i = i->next)
        room++;

    r->vars = sw_pool_alloc(&r->pool, room, sizeof(*r->vars));
    for (; e && r->vars && !r->pool.failed; e = e->next) {
        struct sw_value *file = sw_value_of_entry(r, e, SW_FROM_RECIPE);
        struct sw_value *set = sw_value_of_set(r, last_set_of(r, e->key), strlen(vars_prefix));
        if (file)
            define(r, file, set);
    }

    /* Variables that only the command line defines may use every line of [vars]. */
    for (struct sw_override *o = r->sets; o && r->vars && !r->pool.failed; o = o->next) {
        bool is_var =
            sw_str_starts(o->path, vars_prefix) && !is_defined(r, o->path + strlen(vars_prefix));
        const char *name = is_var ? o->path + strlen(vars_prefix) : "";
        struct sw_value *v =
            is_var ? sw_value_of_set(r, last_set_of(r, name), strlen(vars_prefix)) : NULL;
        if (v)
            define(r, NULL, v);

        v = sw_str_starts(o->path, env_prefix) ? sw_value_of_set(r, o, strlen(env_prefix)) : NULL;
        if (v)
            check_name(r, v, "env");
    }
}
