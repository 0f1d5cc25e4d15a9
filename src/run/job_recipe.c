/* Reading the recipe of a job with its options, and checking it as far as that needs neither data
 * nor machine. */
#include "net/net.h"
#include "plan/params.h"
#include "recipe/job.h"
#include "run/job.h"
#include "run/schema.h"
#include <string.h>

int sw_job_read_recipe(const struct sw_job_options *o, struct sw_recipe **recipe,
                       const struct sw_job_conf **conf, struct sw_err *err)
{
    const struct sw_recipe_option options[] = {
        {"--device", "job.device", o->device},
        {"--framework", "cluster.framework", o->framework},
        {"--reset", "job.reset", o->reset},
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

    int rc = sw_recipe_load(&source, sw_train_schema(), recipe, err);
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
