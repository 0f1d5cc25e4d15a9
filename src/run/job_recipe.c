/* Reading the recipe of a job with its options, and checking it as far as that needs neither data
 * nor machine. */
#include "checkpoint/checkpoint.h"
#include "net/net.h"
#include "plan/params.h"
#include "recipe/job.h"
#include "run/job.h"
#include "run/schema.h"
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

int sw_job_read_recipe(const struct sw_job_options *o, struct sw_recipe **recipe,
                       const struct sw_job_conf **conf, struct sw_err *err)
{
    const struct sw_recipe_option options[] = {
        {"--device", "job.device", o->device},
        {"--framework", "cluster.framework", o->framework},
        {"--cores", "job.cores", o->cores},
    };
    struct sw_recipe_source source = {.path = o->recipe_path,
                                      .sets = o->sets,
                                      .set_count = o->set_count,
                                      .options = options,
                                      .option_count = sizeof options / sizeof *options,
                                      .fallback = o->fallback,
                                      .stage = o->stage};

    *recipe = NULL;

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

    int rc = load(o, &source, recipe, err);
    if (!*recipe)
        return rc;

    /* Rules between keys and between layers are checked even when a value is wrong, so that all
     * errors are reported at once. */
    struct sw_err more = {0};
    int settled = sw_job_apply_rules(*recipe, conf, &more);
    if (settled == SW_OK || settled == SW_ERR_INVALID)
        settled = sw_net_check(*recipe, (enum sw_algorithm)(*conf)->algorithm, &more);
    if (settled == SW_OK || settled == SW_ERR_INVALID)
        settled = sw_params_check_updater(*recipe, &more);
    if (rc == SW_OK && settled != SW_OK)
        *err = more;

    return rc != SW_OK ? rc : settled;
}
