/* Makes a run of a folder of checkpoints. The contract is in cli/checkpoint/folder.h. */
#include "cli/checkpoint/folder.h"
#include "base/os.h"
#include "base/str.h"
#include "recipe/job.h"
#include "recipe/recipe.h"
#include "run/job.h"
#include "tensor/safetensors.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool sw_folder_has_checkpoints(const char *path)
{
    struct sw_checkpoints found;
    struct sw_err ignored;

    bool yes = sw_checkpoints_in(path, &found, &ignored) == SW_OK;
    sw_checkpoints_fini(&found);
    return yes;
}

static int copy_text(char **to, const char *from, struct sw_err *err)
{
    if (!from)
        return SW_OK;
    *to = sw_strdup(from);
    return *to ? SW_OK : sw_err_nomem(err, "what a checkpoint says of its run", strlen(from) + 1);
}

/* Fills the run with what a checkpoint says. Whatever else a history stores is unknown. */
static int read_run(const char *path, const char *folder, struct sw_run *run, struct sw_err *err)
{
    struct sw_st_file *f = NULL;

    int rc = sw_st_open(path, false, &f, err);
    if (rc != SW_OK)
        return rc;

    *run = (struct sw_run){
        .status = SW_RUN_STOPPED, .loss = NAN, .accuracy = NAN, .samples_per_s = NAN};
    const struct {
        char **to;
        const char *from;
    } texts[] = {{&run->name, sw_st_metadata(f, "name")},
                 {&run->recipe, sw_st_metadata(f, "recipe_path")},
                 {&run->recipe_text, sw_st_metadata(f, "recipe")},
                 {&run->overrides, sw_st_metadata(f, "overrides")},
                 {&run->fallback, sw_st_metadata(f, "fallback")},
                 {&run->out_dir, folder}};

    for (size_t i = 0; i < sizeof texts / sizeof *texts && rc == SW_OK; i++)
        rc = copy_text(texts[i].to, texts[i].from, err);
    if (rc == SW_OK && (!run->recipe_text || !run->recipe))
        rc = sw_err_set(err, SW_ERR_FORMAT, "%s: it has no recipe to resume", path);
    sw_st_close(f);

    return rc;
}

/* A recipe with errors names no history here: they are reported when the run is opened. */
static int read_db(const struct sw_run *run, const struct sw_cli_list *sets, char **db,
                   struct sw_err *err)
{
    const struct sw_job_options job = {
        .resume = run, .sets = sets->items, .set_count = sets->count};
    const struct sw_job_conf *conf;
    struct sw_recipe *recipe = NULL;
    struct sw_err ignored;

    int rc = sw_job_read_recipe(&job, &recipe, &conf, &ignored);
    rc = rc == SW_OK ? copy_text(db, conf->db, err) : SW_OK;
    sw_recipe_free(recipe);

    return rc;
}

int sw_folder_find_db(const char *path, const struct sw_cli_list *sets, char **db,
                      struct sw_err *err)
{
    struct sw_checkpoints found;
    struct sw_run run = {0};
    bool known = false;

    int rc = sw_checkpoints_in(path, &found, err);
    for (int i = 0; rc == SW_OK && i < found.count && !known; i++) {
        struct sw_err ignored;

        sw_run_fini(&run);
        known = read_run(found.items[i].path, path, &run, &ignored) == SW_OK;
    }

    if (known)
        rc = read_db(&run, sets, db, err);
    sw_run_fini(&run);
    sw_checkpoints_fini(&found);

    return rc;
}

int sw_folder_find_run(const char *path, struct sw_history_reader *reader, struct sw_run *run,
                       struct sw_checkpoints *checkpoints, struct sw_err *err)
{
    const char *newest;
    char *folder = realpath(path, NULL);
    int rc = SW_ERR_NOTFOUND;

    if (!folder)
        return sw_err_set(err, SW_ERR_IO, "%s: its path cannot be resolved", path);

    if (reader)
        rc = sw_history_find_folder(reader, folder, run, err);
    if (rc == SW_OK)
        rc = sw_checkpoints_find(reader, run, checkpoints, err);
    else if (rc == SW_ERR_NOTFOUND) {
        rc = sw_checkpoints_in(folder, checkpoints, err);
        if (rc == SW_OK)
            rc = sw_checkpoints_newest(checkpoints, &newest, err);
        if (rc == SW_OK)
            rc = read_run(newest, folder, run, err);
    }

    free(folder);
    return rc;
}
