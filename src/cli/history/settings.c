/* Reads the recipe that the history stores for a run and lists every value of it, defaults
 * included, so that two runs can be compared key by key. The contract is in
 * cli/history/settings.h. */
#include "cli/history/settings.h"

#include "base/os.h"
#include "recipe/explain.h"
#include "run/job.h"
#include <string.h>

static void add(void *user, const struct sw_explained *e)
{
    struct sw_settings *s = user;
    struct sw_setting *one = sw_array_add(&s->items, &s->count, sizeof *one);
    if (!one) {
        s->failed = true;
        return;
    }

    one->key = sw_format("%s%s%s.%s", e->kind, e->name ? "." : "", e->name ? e->name : "", e->key);
    one->value = e->value ? sw_strdup(e->value) : NULL;
    s->failed |= !one->key || (e->value && !one->value);
}

int sw_settings_load(struct sw_settings *s, const struct sw_run *run, struct sw_err *err)
{
    struct sw_recipe *recipe = NULL;
    const struct sw_job_conf *conf;

    if (!run->recipe_text)
        return sw_err_set(err, SW_ERR_NOTFOUND, "run %lld has no stored recipe",
                          (long long)run->id);

    struct sw_job_options job = {.resume = run};
    int code = sw_job_read_recipe(&job, &recipe, &conf, err);
    if (!code)
        code = sw_recipe_explain(recipe, add, s, err);
    if (!code && s->failed)
        code = sw_err_nomem(err, "values of a recipe", 0);
    sw_recipe_free(recipe);

    return code;
}

void sw_settings_fini(struct sw_settings *s)
{
    for (int i = 0; i < s->count; i++) {
        sw_free(s->items[i].key);
        sw_free(s->items[i].value);
    }

    sw_free(s->items);
    *s = (struct sw_settings){0};
}

const struct sw_setting *sw_settings_find(const struct sw_settings *s, const char *key)
{
    for (int i = 0; i < s->count; i++)
        if (s->items[i].key && strcmp(s->items[i].key, key) == 0)
            return &s->items[i];
    return NULL;
}
