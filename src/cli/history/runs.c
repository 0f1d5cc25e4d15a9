/* Opens the history for verbs that need an earlier run, and names runs in messages. Rows of crashed
 * runs are merged first where that is possible. The contract is in cli/history/runs.h. */
#include "cli/history/runs.h"

#include "base/os.h"
#include "base/text.h"
#include "recipe/job.h"
#include "recipe/recipe.h"

int sw_runs_open(const char *db_option, const char *job_db, struct sw_history_reader **out,
                 char **path, struct sw_err *err)
{
    char *where = NULL;

    int rc = sw_history_default_path(db_option, job_db, &where, err);
    if (rc != SW_OK)
        return rc;

    /* Rows that cannot be merged now stay in their spool and are not visible; that is not an
     * error. */
    struct sw_err ignored;
    if (sw_history_merge(where, NULL, NULL, &ignored) != SW_OK)
        ignored.code = SW_OK;

    rc = sw_history_reader_open(out, where, err);
    if (rc == SW_OK)
        *path = where;
    else
        sw_free(where);

    return rc;
}

const char *sw_runs_job_db(const struct sw_job *job)
{
    const struct sw_section *section = sw_recipe_find(sw_job_recipe(job), "job", NULL);
    const struct sw_job_conf *conf = section ? section->common : NULL;
    return conf ? conf->db : NULL;
}

const char *sw_run_title(const struct sw_run *run, char *out, size_t bytes)
{
    struct sw_bytes title = {0};

    sw_bytes_printf(&title, "run %lld", (long long)run->id);

    if (run->name) {
        sw_bytes_add(&title, " \"");
        sw_text_add(&title, run->name);
        sw_bytes_add(&title, "\"");
    }

    sw_utf8_copy(out, bytes, sw_bytes_text(&title));
    sw_bytes_fini(&title);
    return out;
}
