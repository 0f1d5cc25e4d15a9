#include "cli/share/runs.h"

#include "base/os.h"
#include "base/str.h"
#include "recipe/job.h"
#include "recipe/recipe.h"
#include <stdio.h>
#include <unistd.h>

int sw_runs_open(const char *db_option, const char *job_db, struct sw_history_reader **out,
                 char **path, struct sw_err *err)
{
    char *where = NULL;
    int rc = sw_history_default_path(db_option, job_db, &where, err);
    if (rc != SW_OK)
        return rc;
    /* What cannot be merged now stays in its spool and is not seen; that is no reason to stop. */
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
    if (run->name)
        snprintf(out, bytes, "run %lld \"%s\"", (long long)run->id, run->name);
    else
        snprintf(out, bytes, "run %lld", (long long)run->id);
    return out;
}

/* ---- Checkpoints ------------------------------------------------------------------------------
 */

static int add(void *user, const struct sw_run_checkpoint *c)
{
    struct sw_checkpoints *list = user;
    struct stat st;
    if (sw_os()->stat(c->path, &st) != 0) {
        list->missing++;
        return SW_OK;
    }
    struct sw_checkpoint_file *items =
        sw_realloc_array(list->items, (size_t)list->count + 1, sizeof *items);
    if (!items)
        return SW_ERR_NOMEM;
    list->items = items;
    items[list->count] = (struct sw_checkpoint_file){.step = c->step, .path = sw_strdup(c->path)};
    return items[list->count++].path ? SW_OK : SW_ERR_NOMEM;
}

int sw_checkpoints_find(struct sw_history_reader *reader, const struct sw_run *run,
                        struct sw_checkpoints *out, struct sw_err *err)
{
    char title[128];
    *out = (struct sw_checkpoints){0};
    int rc = sw_history_each_checkpoint(reader, run->id, add, out, err);
    if (rc == SW_ERR_NOMEM)
        return sw_err_set(err, rc, "out of memory: list of checkpoints");
    if (rc != SW_OK)
        return rc;
    if (out->count > 0)
        return SW_OK;
    sw_run_title(run, title, sizeof title);
    if (out->missing > 0)
        return sw_err_set(err, SW_ERR_NOTFOUND,
                          "%s: the files of its %d checkpoint%s are gone from %s", title,
                          out->missing, out->missing == 1 ? "" : "s",
                          run->out_dir ? run->out_dir : "their folder");
    return sw_err_set(err, SW_ERR_NOTFOUND, "%s has no checkpoint", title);
}

void sw_checkpoints_fini(struct sw_checkpoints *c)
{
    for (int i = 0; i < c->count; i++)
        sw_free(c->items[i].path);
    sw_free(c->items);
    *c = (struct sw_checkpoints){0};
}
