/* `[stage NAME]`: a part of a run. Its lines apply during the stage: keys of [job] by name (`steps
 * = 1000`, `freeze = enc*`), keys of other sections as paths (`updater.lr = 0.1`). A line of --set
 * or [fallback] that begins with stage.NAME belongs to that stage. A recipe with stages is loaded
 * for one of them; the lines of the others are only checked. */
#include "recipe/build.h"
#include "recipe/lookup.h"
#include "recipe/value.h"
#include <string.h>

static const char prefix[] = "stage.", job_prefix[] = "job.";

/* ---- Reading ---- */

static void append(struct sw_stage *s, struct sw_value *v)
{
    v->stage = s;
    *(s->last ? &s->last->next : &s->lines) = v;
    s->last = v;
}

static void no_name(struct sw_recipe *r, const struct sw_ini_section *s)
{
    sw_diags_add(&r->diags, sw_ini_place(&s->at, s->kind_column, 5), "[stage] requires a name");
    sw_diags_hint(&r->diags, "write [stage NAME]");
}

void sw_stage_add(struct sw_recipe *r, const struct sw_ini_section *s)
{
    struct sw_stage **at = &r->stages;

    if (!s->name) {
        no_name(r, s);
        return;
    }

    struct sw_stage *stage = sw_pool_alloc(&r->pool, 1, sizeof(*stage));
    char *title = sw_pool_format(&r->pool, "stage %s", s->name);
    if (!stage || !title)
        return;

    stage->section = (struct sw_draft){.pub = {.recipe = r, .name = s->name, .title = title},
                                       .at = s->at,
                                       .column = s->kind_column};
    while (*at)
        at = &(*at)->next;
    *at = stage;

    for (const struct sw_ini_entry *e = s->first; e; e = e->next) {
        struct sw_value *v = sw_value_of_entry(r, e, SW_FROM_STAGE);
        if (!v)
            return;
        append(stage, v);
    }
}

/* ---- Lines ---- */

/* The key as a path; a key without a section belongs to [job]. */
static const char *path_of(struct sw_recipe *r, const struct sw_value *v)
{
    return strchr(v->key, '.') ? v->key : sw_pool_format(&r->pool, "%s%s", job_prefix, v->key);
}

/* A copy whose key is the path. Its column is where that path would begin. */
static struct sw_value *as_path(struct sw_recipe *r, const struct sw_value *v)
{
    struct sw_value *copy = sw_pool_alloc(&r->pool, 1, sizeof(*copy));
    const char *path = path_of(r, v);
    if (!copy || !path)
        return NULL;

    *copy = *v;
    copy->next = copy->below = NULL;
    if (path != v->key)
        copy->key_column -= (int)strlen(job_prefix);
    copy->key = path;

    return copy;
}

/* Whether the key must be the same in all stages. */
static bool is_fixed(const char *path)
{
    static const char *const fixed[] = {"job.name", "job.seed", "job.db"};

    for (size_t i = 0; i < sizeof(fixed) / sizeof(*fixed); i++)
        if (strcmp(path, fixed[i]) == 0)
            return true;

    return false;
}

static bool check_key(struct sw_recipe *r, const struct sw_value *v)
{
    const struct sw_schema_kind *job = sw_schema_find(r->schema, "job", 3, SW_SECTION_ONE);
    const char *path = path_of(r, v);
    if (!path)
        return false;

    if (is_fixed(path)) {
        sw_draft_error(r, &v->stage->section, v, "%s cannot change between the stages of a run",
                       v->key);
        return false;
    }

    if (strchr(v->key, '.') || (job && sw_kind_has_key(job, v->key)))
        return true;

    sw_draft_error(r, &v->stage->section, v, "unknown key '%s'", v->key);
    if (job)
        sw_hint_key(r, job, v->key);
    sw_diags_hint(&r->diags, "a stage has keys of [job], and SECTION.KEY of other sections");

    return false;
}

static void apply_line(struct sw_recipe *r, const struct sw_value *line)
{
    struct sw_value *v = check_key(r, line) ? as_path(r, line) : NULL;
    if (v)
        sw_recipe_assign(r, v);
}

static void check_line(struct sw_recipe *r, const struct sw_value *line)
{
    struct sw_value *v = check_key(r, line) ? as_path(r, line) : NULL;
    if (v)
        sw_recipe_check_line(r, v, line->stage->section.pub.title);
}

/* The stage of a path stage.NAME.KEY, with the longest name that fits; *key: the rest. */
static struct sw_stage *stage_of(const struct sw_recipe *r, const char *path, const char **key)
{
    struct sw_stage *found = NULL;
    const char *rest = path + strlen(prefix);

    for (struct sw_stage *s = r->stages; s; s = s->next) {
        size_t n = strlen(s->section.pub.name);

        if (strncmp(rest, s->section.pub.name, n) == 0 && rest[n] == '.' && rest[n + 1] &&
            (!found || n > strlen(found->section.pub.name))) {
            found = s;
            *key = rest + n + 1;
        }
    }

    return found;
}

static void hint_stages(struct sw_recipe *r, const char *word)
{
    struct sw_words words = {0};

    for (const struct sw_stage *s = r->stages; s; s = s->next)
        sw_words_add(&words, s->section.pub.name);
    if (!words.count)
        sw_diags_hint(&r->diags, "the recipe has no [stage NAME]");
    sw_words_hint(r, &words, word, "stages");
}

static void no_stage(struct sw_recipe *r, const struct sw_value *v)
{
    struct sw_place at = sw_place_of_key(v);
    char shown[SW_SHOWN];
    const char *name = v->key + strlen(prefix);
    const char *word = sw_pool_copy(&r->pool, name, strcspn(name, "."));

    sw_diags_add(&r->diags, at, "'%s': unknown stage", sw_shown(shown, v->key));
    if (word)
        hint_stages(r, word);
}

/* Finds the stage of a key and removes stage.NAME from the key. Returns NULL after an error if the
 * stage is unknown. */
static struct sw_stage *take_stage(struct sw_recipe *r, struct sw_value *v)
{
    const char *key = NULL;
    struct sw_stage *s = stage_of(r, v->key, &key);
    if (!s) {
        no_stage(r, v);
        return NULL;
    }

    if (!v->set)
        v->key_column += sw_count_characters(v->key, (size_t)(key - v->key));
    v->key = key;
    v->stage = s;
    v->next = NULL;

    return s;
}

bool sw_stage_add_line(struct sw_recipe *r, struct sw_value *v)
{
    if (!sw_str_starts(v->key, prefix))
        return false;

    struct sw_stage *s = take_stage(r, v);
    if (!s)
        return true;

    append(s, v);
    if (v->set)
        return true;

    /* The lines of [fallback] are applied after the lines of the stage. */
    v->by_fallback = true;
    v->origin = SW_FROM_STAGE;

    if (s == r->stage)
        apply_line(r, v);
    else
        check_line(r, v);

    return true;
}

bool sw_stage_check_line(struct sw_recipe *r, const struct sw_value *v)
{
    struct sw_value copy = *v;
    if (!sw_str_starts(v->key, prefix))
        return false;

    if (take_stage(r, &copy))
        check_line(r, &copy);
    return true;
}

/* ---- Choosing ---- */

static struct sw_stage *find(const struct sw_recipe *r, const char *name)
{
    struct sw_stage *s = r->stages;
    while (s && strcmp(s->section.pub.name, name) != 0)
        s = s->next;
    return s;
}

static int choose(struct sw_recipe *r, const struct sw_recipe_source *source, struct sw_err *err)
{
    struct sw_bytes names = {0};

    r->stage = source->stage ? find(r, source->stage) : r->stages;
    for (; !source->stage && source->last_stage && r->stage && r->stage->next;)
        r->stage = r->stage->next;
    if (r->stage || !source->stage)
        return SW_OK;

    for (const struct sw_stage *s = r->stages; s; s = s->next)
        sw_bytes_printf(&names, "%s%s", names.length ? ", " : "", s->section.pub.name);

    int rc = sw_err_set(err, SW_ERR_INVALID, "%s: unknown stage '%s'; %s%s", r->ini.file->path,
                        source->stage, r->stages ? "stages: " : "the recipe has no stages",
                        sw_bytes_text(&names));
    sw_bytes_fini(&names);

    return rc;
}

static void require_length(struct sw_recipe *r, const struct sw_stage *s)
{
    for (const struct sw_value *v = s->lines; v; v = v->next) {
        const char *key = sw_str_starts(v->key, job_prefix) ? v->key + strlen(job_prefix) : v->key;
        if (strcmp(key, "steps") == 0 || strcmp(key, "epochs") == 0)
            return;
    }

    sw_draft_error(r, &s->section, NULL, "steps is missing");
    sw_diags_hint(&r->diags, "set steps or epochs");
}

int sw_stages_apply(struct sw_recipe *r, const struct sw_recipe_source *source, struct sw_err *err)
{
    int rc = choose(r, source, err);
    if (rc != SW_OK)
        return rc;

    for (struct sw_stage *s = r->stages; s && !r->pool.failed; s = s->next) {
        require_length(r, s);

        for (const struct sw_value *v = s->lines; v && !r->pool.failed; v = v->next)
            if (s == r->stage)
                apply_line(r, v);
            else
                check_line(r, v);
    }

    return SW_OK;
}

/* ---- Sections of some stages ---- */

/* Whether a pattern of the value matches the selected stage. A pattern that matches no stage is an
 * error. */
static bool is_in_stage(struct sw_recipe *r, struct sw_draft *n, struct sw_value *v)
{
    const struct sw_opt row = {.key = "stages", .type = SW_OPT_STRINGS};
    struct sw_strings list = {0};
    struct sw_opt_problem problem;
    bool included = false;

    if (!v->text || !sw_opt_read(&row, v->text, &r->pool, &list, &problem))
        return true; /* already reported */

    for (int i = 0; i < list.count; i++) {
        bool any = false;

        for (const struct sw_stage *s = r->stages; s; s = s->next)
            any |= sw_str_match(list.items[i], s->section.pub.name);
        included |= r->stage && sw_str_match(list.items[i], r->stage->section.pub.name);
        if (any)
            continue;

        sw_value_error(r, n, v, 0, 0, "unknown stage '%s'", list.items[i]);
        hint_stages(r, list.items[i]);
        included = true;
    }

    return included;
}

void sw_stages_select(struct sw_recipe *r)
{
    struct sw_section **at = &r->first;

    r->last = NULL;
    while (*at && !r->pool.failed) {
        struct sw_draft *n = (struct sw_draft *)*at;
        struct sw_value *v = n->pub.schema->staged ? sw_draft_find(n, "stages") : NULL;
        if (v && !is_in_stage(r, n, v)) {
            *at = n->pub.next;
            continue;
        }

        r->last = &n->pub;
        at = &n->pub.next;
    }
}

/* ---- Accessors ---- */

int sw_recipe_stage_count(const struct sw_recipe *r)
{
    int n = 0;
    for (const struct sw_stage *s = r->stages; s; s = s->next)
        n++;
    return n;
}

const char *sw_recipe_stage_name(const struct sw_recipe *r, int i)
{
    const struct sw_stage *s = r->stages;
    while (s && i-- > 0)
        s = s->next;
    return s ? s->section.pub.name : NULL;
}

int sw_recipe_stage(const struct sw_recipe *r)
{
    int n = 0;
    for (const struct sw_stage *s = r->stages; s && s != r->stage; s = s->next)
        n++;
    return r->stage ? n : -1;
}

bool sw_section_by_stage(const struct sw_section *section, const char *key)
{
    const struct sw_value *v = sw_draft_find((const struct sw_draft *)section, key);
    return v && v->stage;
}
