/* Walks the sections of a bound recipe in the order of their option rows and reports each value
 * with its origin. A value that was not given is written back from the bound struct, since the
 * program may have replaced the default of the table. The contract is in recipe/explain.h. */
#include "recipe/explain.h"
#include "base/os.h"
#include "recipe/build.h"
#include "recipe/lookup.h"
#include "recipe/value.h"
#include <string.h>

struct visit {
    sw_explain_visit *call;
    void *user;
    struct sw_pool pool; /* of one section */
    bool failed;
};

const char *sw_origin_name(enum sw_origin origin)
{
    static const char *const names[] = {
        [SW_FROM_DEFAULT] = "default",   [SW_FROM_INCLUDE] = "include", [SW_FROM_RECIPE] = "recipe",
        [SW_FROM_FALLBACK] = "fallback", [SW_FROM_STAGE] = "stage",     [SW_FROM_SET] = "set",
        [SW_FROM_OPTION] = "option",
    };
    return names[origin];
}

void sw_explained_from(const struct sw_explained *e, struct sw_bytes *out)
{
    if (e->origin == SW_FROM_DEFAULT)
        sw_bytes_add(out, sw_origin_name(e->origin));
    else if (e->where.line > 0)
        sw_bytes_printf(out, "%s:%d", e->where.origin, e->where.line);
    else
        sw_bytes_add(out, e->where.origin);
}

static void take_value(struct sw_explained *e, const struct sw_value *v)
{
    e->value = v->files ? v->files : v->text ? v->text : v->raw;
    e->written = v->files && strcmp(v->files, v->raw) != 0 ? v->raw : NULL;
    e->found = v->found;
    e->origin = v->origin;
    e->where = sw_place_of_value(v, 0, 0);
    e->below = v->below;
}

bool sw_explained_replaced(struct sw_explained *e)
{
    if (!e->below)
        return false;
    take_value(e, e->below);
    return true;
}

static void visit_value(struct visit *visit, struct sw_explained *e, const struct sw_value *v)
{
    if (v)
        take_value(e, v);
    visit->call(visit->user, e);
}

/* A default as its row writes it, unless the program has put another value in its place. */
static const char *default_text(struct visit *visit, const struct sw_opt *row, const void *conf)
{
    struct sw_opt alone = *row;
    struct sw_opt_problem problem;
    union sw_opt_field given = {0};
    struct sw_bytes now = {0}, def = {0};
    const char *text = NULL;

    alone.offset = 0;
    if (!conf || !sw_opt_write(row, conf, &now))
        goto done;

    /* A value outside its own range means "not given". */
    if (!sw_opt_accepts(row, sw_bytes_text(&now), &visit->pool, &problem))
        goto done;

    bool same = row->def && sw_opt_read(&alone, row->def, &visit->pool, &given, &problem) &&
                sw_opt_write(&alone, &given, &def) &&
                strcmp(sw_bytes_text(&now), sw_bytes_text(&def)) == 0;
    text = same ? row->def : sw_pool_copy(&visit->pool, sw_bytes_text(&now), now.length);

done:
    visit->failed |= now.failed || def.failed || visit->pool.failed;
    sw_bytes_fini(&now);
    sw_bytes_fini(&def);

    return text;
}

static void visit_rows(struct visit *visit, const struct sw_draft *n, const char *param,
                       const struct sw_opt *rows, const void *conf, const struct sw_opt *before)
{
    const struct sw_section *s = &n->pub;

    for (const struct sw_opt *o = rows; o && o->key; o++) {
        struct sw_bytes key = {0};
        if (sw_opts_find(before, o->key))
            continue; /* the key is in two tables and was reported for the first */

        sw_bytes_printf(&key, "%s%s%s", param ? param : "", param ? "." : "", o->key);

        struct sw_explained e = {
            .kind = s->kind, .name = s->name, .key = sw_bytes_text(&key), .row = o};
        const struct sw_value *v = sw_draft_find(n, e.key);
        if (!v)
            e.value = default_text(visit, o, conf);
        visit_value(visit, &e, v);
        visit->failed |= key.failed;
        sw_bytes_fini(&key);
    }
}

static void visit_section(struct visit *visit, const struct sw_draft *n)
{
    const struct sw_section *s = &n->pub;
    const struct sw_schema_kind *k = s->schema;
    struct sw_explained e = {.kind = s->kind, .name = s->name};

    for (int i = 0; i < SW_SECTION_TYPES; i++)
        if (k->type_key[i]) {
            e.key = k->type_key[i];
            e.value = k->type_default[i];
            visit_value(visit, &e, sw_draft_find(n, e.key));
            e = (struct sw_explained){.kind = s->kind, .name = s->name};
        }

    if (k->fallback_key && !sw_opts_find(k->opts, k->fallback_key)) {
        e.key = k->fallback_key;
        e.value = NULL;
        visit_value(visit, &e, sw_draft_find(n, e.key));
    }

    visit_rows(visit, n, NULL, k->opts, s->common, NULL);

    for (int i = 0; i < SW_SECTION_TYPES; i++)
        if (s->type[i])
            visit_rows(visit, n, NULL, s->type[i]->opts, s->conf[i], k->opts);

    for (int i = 0; i < s->param_count; i++)
        visit_rows(visit, n, s->type[0]->params[i], k->param_opts, s->param_conf[i], NULL);
}

int sw_recipe_explain(const struct sw_recipe *r, sw_explain_visit *call, void *user,
                      struct sw_err *err)
{
    struct visit visit = {.call = call, .user = user};

    for (int i = 0; i < r->var_count; i++) {
        struct sw_explained e = {.kind = "vars", .key = r->vars[i].name};
        visit_value(&visit, &e, r->vars[i].value);
    }

    for (const struct sw_section *s = r->first; s && !visit.failed; s = s->next) {
        visit_section(&visit, (const struct sw_draft *)s);
        sw_pool_fini(&visit.pool);
    }

    return visit.failed ? sw_err_nomem(err, "the values of a recipe", 0) : SW_OK;
}
