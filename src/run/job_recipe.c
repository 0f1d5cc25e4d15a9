/* Reading the recipe of a job with its options, and checking it as far as that needs neither data
 * nor machine. */
#include "checkpoint/checkpoint.h"
#include "net/net.h"
#include "plan/params.h"
#include "recipe/job.h"
#include "run/job.h"
#include "run/schema.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The environment in which a net was trained may be that of another machine: variables that only
 * name data there may be missing. */
static const char *value_or_nothing(void *user, const char *name)
{
    const char *value = getenv(name);
    return value ? value : "";
}

/* Takes the recipe that a checkpoint holds; borrowed from the file. */
static int use_stored(const struct sw_st_file *f, struct sw_recipe_source *source,
                      struct sw_err *err)
{
    const char *path = sw_st_metadata(f, "recipe_path");
    const char *fallback = sw_st_metadata(f, "fallback");

    source->text = sw_st_metadata(f, "recipe");
    if (!source->text)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s: has no recipe, so it is not a checkpoint of a run: use a recipe "
                          "with --weights FILE",
                          sw_st_path(f));

    source->path = path ? path : sw_st_path(f);
    source->text_bytes = strlen(source->text);
    source->overrides = sw_st_metadata(f, "overrides");
    source->fallback = fallback ? fallback : "";
    source->env = value_or_nothing;

    return SW_OK;
}

/* Loads the recipe, which copies what it needs of the source. */
static int load(const struct sw_job_options *o, struct sw_recipe_source *source,
                struct sw_recipe **recipe, struct sw_err *err)
{
    struct sw_st_file *f = NULL;
    int rc = SW_OK;

    if (o->trained)
        rc = sw_checkpoint_open(o->trained, &f, err);
    if (rc == SW_OK && f)
        rc = use_stored(f, source, err);
    if (rc == SW_OK)
        rc = sw_recipe_load(source, sw_train_schema(), recipe, err);
    sw_st_close(f);

    return rc;
}

enum { EVAL_PATHS = 4, EVAL_PART, OPTIONS /* that have keys */, KEY_BYTES = 96 };

/* Loads the recipe, and if the data of the evaluation are replaced once more: only the recipe tells
 * which section they have. */
static int load_with_data(const struct sw_job_options *o, struct sw_recipe_option options[OPTIONS],
                          struct sw_recipe_source *source, struct sw_recipe **recipe,
                          struct sw_err *err)
{
    char paths[KEY_BYTES], part[KEY_BYTES];

    int rc = load(o, source, recipe, err);
    if (rc != SW_OK || !o->eval_data)
        return rc;

    const char *split = sw_recipe_find(*recipe, "data", "val") ? "val" : "test";
    if (!sw_recipe_find(*recipe, "data", split))
        return sw_err_set(err, SW_ERR_INVALID,
                          "--data: the recipe has no [data val] or [data test] to replace");

    snprintf(paths, sizeof paths, "data.%s.paths", split);
    snprintf(part, sizeof part, "data.%s.part", split);
    options[EVAL_PATHS] = (struct sw_recipe_option){"--data", paths, o->eval_data};
    options[EVAL_PART] = (struct sw_recipe_option){"--data", part, "0, 1"};
    sw_recipe_free(*recipe);
    *recipe = NULL;

    rc = load(o, source, recipe, err);
    if (rc == SW_OK && sw_section_fell_from(sw_recipe_find(*recipe, "data", split)))
        return sw_err_set(err, SW_ERR_INVALID,
                          "--data: [data %s] uses its fallback, which reads no files", split);
    return rc;
}

/* Whether the recipe is that of an earlier run: a recipe from a pipe has no overrides. */
static bool is_stored(const struct sw_job_options *o)
{
    return o->resume || o->trained || (o->told && o->told->overrides);
}

int sw_job_read_recipe(const struct sw_job_options *o, struct sw_recipe **recipe,
                       const struct sw_job_conf **conf, struct sw_err *err)
{
    struct sw_recipe_option options[OPTIONS] = {
        {"--device", "job.device", o->device},
        {"--framework", "cluster.framework", o->framework},
        {"--cores", "job.cores", o->cores},
        {"--reset", "job.reset", o->reset},
        [EVAL_PATHS] = {"--data", "data.val.paths", NULL},
        [EVAL_PART] = {"--data", "data.val.part", NULL},
    };
    struct sw_recipe_source source = {.path = o->recipe_path,
                                      .sets = o->sets,
                                      .set_count = o->set_count,
                                      .options = options,
                                      .option_count = OPTIONS,
                                      .fallback = o->previous.fallback,
                                      .stage = o->stage};

    *recipe = NULL;

    if (o->told) {
        source.path = o->told->path;
        source.text = o->told->text;
        source.text_bytes = strlen(o->told->text);
        source.overrides = o->told->overrides;
        source.fallback = o->told->fallback;
    }

    if (o->resume) {
        source.path = o->resume->recipe;
        source.text = o->resume->recipe_text;
        source.text_bytes = o->resume->recipe_text ? strlen(o->resume->recipe_text) : 0;
        source.overrides = o->resume->overrides;

        source.fallback = o->resume->fallback ? o->resume->fallback : "";
        if (!source.text)
            return sw_err_set(err, SW_ERR_NOTFOUND, "run %lld: its recipe is not in the history",
                              (long long)o->resume->id);
    }

    int rc = load_with_data(o, options, &source, recipe, err);
    if (!*recipe)
        return rc;

    /* Rules between keys and between layers are checked even when a value is wrong, so that all
     * errors are reported at once. */
    struct sw_err more = {0};
    int settled = sw_job_apply_rules(*recipe, conf, &more);
    if ((settled == SW_OK || settled == SW_ERR_INVALID) && !is_stored(o))
        settled = sw_job_check_name(*recipe, *conf, &more);
    if (settled == SW_OK || settled == SW_ERR_INVALID)
        settled = sw_net_check(*recipe, (enum sw_algorithm)(*conf)->algorithm, &more);
    if (settled == SW_OK || settled == SW_ERR_INVALID)
        settled = sw_params_check_updater(*recipe, &more);
    if (rc == SW_OK && settled != SW_OK)
        *err = more;

    return rc != SW_OK ? rc : settled;
}
