/* Resolves what the user means by FILE|RUN to the path of a checkpoint: a file, a run's newest or
 * best checkpoint, or that of a step. The contract is in cli/checkpoint/weights.h. */
#include "cli/checkpoint/weights.h"
#include "base/json.h"

#include "base/os.h"
#include "base/str.h"
#include "cli/checkpoint/checkpoints.h"
#include "cli/history/runs.h"
#include "recipe/recipe.h"
#include <fcntl.h>
#include <string.h>

/* Which of a run's checkpoints. */
struct choice {
    char *run; /* owned; NULL: the newest of the recipe */
    bool best;
    int64_t step; /* -1: not by step */
};

static bool is_file(const char *path)
{
    struct stat st;
    return sw_os()->stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static bool is_folder(const char *path)
{
    struct stat st;
    return sw_os()->stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* A safetensors file begins with eight bytes, the length of the JSON object that follows. */
static bool begins_like_weights(const char *path)
{
    char head[9] = "";
    uint64_t bytes;
    struct sw_err ignored;
    int fd;

    if (sw_os_open_regular(path, &fd, &bytes, &ignored) != SW_OK)
        return false;

    bool yes = sw_os_pread_all(fd, head, sizeof head, 0, path, &ignored) == SW_OK;
    sw_os()->close(fd);
    return yes && head[8] == '{';
}

bool sw_weights_is_recipe(const char *argument)
{
    struct stat st;

    if (sw_str_ends(argument, ".ini"))
        return true;
    if (sw_str_ends(argument, ".safetensors") || sw_os()->stat(argument, &st) != 0 ||
        S_ISDIR(st.st_mode))
        return false;

    return !begins_like_weights(argument);
}

static int keep_path(struct sw_weights *w, const char *path, struct sw_err *err)
{
    w->path = sw_strdup(path);
    return w->path ? SW_OK : sw_err_nomem(err, "file name", strlen(path) + 1);
}

/* Parses "RUN:best" and "RUN:STEP"; anything else is the name of a run. */
static int read_choice(const char *what, struct choice *c, struct sw_err *err)
{
    const char *colon = what ? strrchr(what, ':') : NULL;

    *c = (struct choice){.step = -1};
    if (!what)
        return SW_OK;
    if (sw_str_eq(what, "best")) {
        c->best = true;
        return SW_OK;
    }

    bool best = colon && sw_str_eq(colon + 1, "best");
    bool step = colon && !best && sw_parse_int(colon + 1, &c->step) && c->step >= 0;
    if (!step)
        c->step = -1;
    c->best = best;
    c->run = best || step ? sw_format("%.*s", (int)(colon - what), what) : sw_strdup(what);

    return c->run ? SW_OK : sw_err_nomem(err, "run name", strlen(what));
}

static int find_run(struct sw_history_reader *reader, const char *db,
                    const struct sw_weights_args *a, const struct choice *c, struct sw_weights *w,
                    struct sw_err *err)
{
    if (c->run)
        return sw_history_find(reader, c->run, &w->run, err);

    w->newest = true;

    int rc = sw_history_find_recipe(reader, a->hash, &w->run, err);
    if (rc == SW_ERR_NOTFOUND)
        return sw_err_set(err, rc,
                          "%s has no run of this recipe with a checkpoint: train it with `singa-ws "
                          "run %s`, or use %s FILE|RUN",
                          db, a->recipe, a->option);

    return rc;
}

static int choose(const struct sw_checkpoints *list, const struct choice *c,
                  const struct sw_run *run, const char **path, struct sw_err *err)
{
    char title[128];

    sw_run_title(run, title, sizeof title);
    if (!c->best && c->step < 0)
        return sw_checkpoints_newest(list, path, err);

    for (int i = 0; i < list->count; i++)
        if (c->best ? list->items[i].best : list->items[i].step == c->step) {
            *path = list->items[i].path;
            return sw_checkpoint_check_file(&list->items[i], err);
        }

    if (c->best)
        return sw_err_set(
            err, SW_ERR_NOTFOUND,
            "%s has no best checkpoint: none was written at a step that was evaluated", title);

    return sw_err_set(err, SW_ERR_NOTFOUND, "%s has no checkpoint of step %lld on disk", title,
                      (long long)c->step);
}

static int find_in_history(const struct sw_weights_args *a, const struct choice *c,
                           struct sw_weights *out, struct sw_err *err)
{
    struct sw_history_reader *reader = NULL;
    struct sw_checkpoints list = {0};
    const char *path;
    char *db = NULL;

    int rc = sw_runs_open(a->db, a->job_db, &reader, &db, err);
    if (rc != SW_OK)
        goto out;
    rc = find_run(reader, db, a, c, out, err);
    if (rc != SW_OK)
        goto out;
    rc = sw_checkpoints_find(reader, &out->run, &list, err);
    if (rc != SW_OK)
        goto out;
    rc = choose(&list, c, &out->run, &path, err);
    if (rc != SW_OK)
        goto out;

    rc = keep_path(out, path, err);

out:
    sw_checkpoints_fini(&list);
    sw_history_reader_close(reader);
    sw_free(db);

    return rc;
}

static int find_in_folder(const char *folder, struct sw_weights *out, struct sw_err *err)
{
    struct sw_checkpoints list = {0};
    const char *path;

    int rc = sw_checkpoints_in(folder, &list, err);
    if (rc == SW_OK)
        rc = sw_checkpoints_newest(&list, &path, err);
    if (rc == SW_OK)
        rc = keep_path(out, path, err);
    sw_checkpoints_fini(&list);

    return rc;
}

int sw_weights_find(const struct sw_weights_args *a, struct sw_weights *out, struct sw_err *err)
{
    struct choice c = {0};
    const char *what = a->what;
    if (what && is_file(what))
        return keep_path(out, what, err);
    if (what && is_folder(what)) {
        int rc = find_in_folder(what, out, err);
        if (rc != SW_ERR_NOTFOUND || strchr(what, '/'))
            return rc; /* else a run has the same name as a folder of other files */
    }

    if (what && (strchr(what, '/') || sw_str_ends(what, ".safetensors")))
        return sw_err_set(err, SW_ERR_NOTFOUND, "%s%s%s: no such file", a->option ? a->option : "",
                          a->option ? " " : "", what);

    int rc = read_choice(what, &c, err);
    if (rc != SW_OK)
        return rc;

    rc = !c.run && !a->hash
             ? sw_err_set(err, SW_ERR_INVALID, "%s: no run is given; use RUN:best", what)
             : find_in_history(a, &c, out, err);
    sw_free(c.run);

    return rc;
}

int sw_weights_find_for(const char *what, const struct sw_cli_common *common,
                        const struct sw_job *job, struct sw_weights *out, struct sw_err *err)
{
    struct sw_weights_args args = {.what = what,
                                   .option = "--weights",
                                   .db = common->db,
                                   .job_db = sw_runs_job_db(job),
                                   .recipe = common->args[0],
                                   .hash = sw_recipe_hash(sw_job_recipe(job))};
    return sw_weights_find(&args, out, err);
}

void sw_weights_fini(struct sw_weights *w)
{
    sw_free(w->path);
    sw_run_fini(&w->run);
}

void sw_weights_describe(const struct sw_weights *w, struct sw_bytes *out)
{
    char title[128];

    if (w->run.id)
        sw_bytes_printf(out, "%s%s: ", w->newest ? "newest of this recipe, " : "",
                        sw_run_title(&w->run, title, sizeof title));

    sw_bytes_add(out, w->path);
}

void sw_weights_describe_json(const struct sw_weights *w, struct sw_json_writer *out)
{
    sw_json_string(out, "weights", w->path);

    if (w->run.id) {
        sw_json_int(out, "run", w->run.id);
        sw_json_string(out, "run_name", w->run.name);
    }
}
