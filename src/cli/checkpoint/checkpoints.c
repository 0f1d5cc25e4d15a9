/* Lists the checkpoints of a run from the history and from its folder, the newest first. A file
 * that no row of the history names counts only if its metadata match the run. Errors about missing
 * files are worded here. The contract is in cli/checkpoint/checkpoints.h. */
#include "cli/checkpoint/checkpoints.h"

#include "base/os.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/history/runs.h"
#include "history/reader_rows.h"
#include "tensor/safetensors.h"
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

static int add(struct sw_checkpoints *list, int64_t step, const char *path, const char *checksum,
               bool best)
{
    struct sw_checkpoint_file *c = sw_array_add(&list->items, &list->count, sizeof *c);
    if (!c)
        return SW_ERR_NOMEM;

    *c = (struct sw_checkpoint_file){.step = step, .path = sw_strdup(path), .best = best};
    c->checksum = checksum ? sw_strdup(checksum) : NULL;
    return c->path && (c->checksum || !checksum) ? SW_OK : SW_ERR_NOMEM;
}

static int add_rows(struct sw_checkpoints *list, struct sw_history_reader *reader, int64_t run_id,
                    struct sw_err *err)
{
    struct sw_rows rows = sw_rows_begin(reader, SW_ROWS_CHECKPOINT, run_id, 0, 0, err);
    struct sw_run_checkpoint c;
    struct stat st;

    while (sw_rows_next(&rows, &c))
        if (sw_os()->stat(c.path, &st) == 0)
            rows.code = add(list, c.step, c.path, c.checksum, c.is_best);
        else
            list->missing++;

    return sw_rows_end(&rows);
}

/* ---- The folder -------------------------------------------------------------------------------
 */

/* The step in "checkpoint-STEP.safetensors", or -1. */
static int64_t step_of(const char *name)
{
    static const char before[] = "checkpoint-", after[] = ".safetensors";
    char digits[24];
    int64_t step;
    size_t n = strlen(name);
    if (!sw_str_starts(name, before) || !sw_str_ends(name, after) ||
        n < sizeof before + sizeof after - 2)
        return -1;
    n -= sizeof before + sizeof after - 2;
    if (n >= sizeof digits)
        return -1;

    memcpy(digits, name + sizeof before - 1, n);
    digits[n] = '\0';
    return sw_parse_int(digits, &step) && step >= 0 ? step : -1;
}

static bool is_listed(const struct sw_checkpoints *list, int rows, int64_t step)
{
    for (int i = 0; i < rows; i++)
        if (list->items[i].step == step)
            return true;
    return false;
}

static bool same_text(const struct sw_st_file *f, const char *key, const char *stored)
{
    const char *text = sw_st_metadata(f, key);
    return sw_str_eq(text ? text : "", stored ? stored : "");
}

/* Whether the file belongs_to_run to the run, since several runs may share a folder. A damaged file
 * is ignored, since no row of the history promises it. */
static bool belongs_to_run(const char *path, const struct sw_run *run, char checksum[33])
{
    struct sw_st_file *f = NULL;
    struct sw_err ignored;
    bool yes = sw_st_open(path, true, &f, &ignored) == SW_OK &&
               same_text(f, "recipe", run->recipe_text) &&
               same_text(f, "overrides", run->overrides) && same_text(f, "fallback", run->fallback);

    if (yes)
        memcpy(checksum, sw_st_checksum_hex(f), 33);
    sw_st_close(f);

    return yes;
}

static int add_file(struct sw_checkpoints *list, int rows, const struct sw_run *run,
                    const char *name)
{
    int64_t step = step_of(name);
    if (step < 0 || is_listed(list, rows, step))
        return SW_OK;

    char checksum[33], *path = sw_format("%s/%s", run->out_dir, name);
    int rc = path ? SW_OK : SW_ERR_NOMEM;
    if (path && belongs_to_run(path, run, checksum))
        rc = add(list, step, path, checksum, false);
    sw_free(path);

    return rc;
}

static int add_folder(struct sw_checkpoints *list, const struct sw_run *run)
{
    DIR *folder = run->out_dir && run->recipe_text ? opendir(run->out_dir) : NULL;
    int rc = SW_OK, rows = list->count;

    if (!folder)
        return SW_OK;

    for (struct dirent *entry; rc == SW_OK && (entry = readdir(folder));)
        rc = add_file(list, rows, run, entry->d_name);
    closedir(folder);

    return rc;
}

/* ---- Both -------------------------------------------------------------------------------------
 */

static int newest_first(const void *a, const void *b)
{
    const struct sw_checkpoint_file *x = a, *y = b;
    return (x->step < y->step) - (x->step > y->step);
}

/* Keeps the number of the first run, the newest, that has a checkpoint and the name. */
struct namesake {
    const char *name;
    int64_t id; /* 0: none */
};

static int visit_namesake(void *user, const struct sw_run *run)
{
    struct namesake *n = user;

    if (run->checkpoint_step < 0 || !sw_str_eq(run->name, n->name))
        return 0;
    n->id = run->id;
    return SW_ERR_CANCELLED;
}

/* Says that the run has no checkpoint, and which one of its name has. */
static int refuse(struct sw_history_reader *reader, const struct sw_run *run, const char *title,
                  struct sw_err *err)
{
    struct namesake n = {.name = run->name};
    struct sw_err ignored;

    int rc = run->name ? sw_history_list(reader, &(struct sw_run_filter){.name = run->name},
                                         visit_namesake, &n, &ignored)
                       : SW_OK;
    if (rc != SW_OK && rc != SW_ERR_CANCELLED)
        n.id = 0;
    if (n.id)
        return sw_err_set(err, SW_ERR_NOTFOUND,
                          "%s has no checkpoint; run %lld has the same name and one: use %lld",
                          title, (long long)n.id, (long long)n.id);

    return sw_err_set(err, SW_ERR_NOTFOUND, "%s has no checkpoint", title);
}

int sw_checkpoints_find(struct sw_history_reader *reader, const struct sw_run *run,
                        struct sw_checkpoints *out, struct sw_err *err)
{
    char title[128];

    *out = (struct sw_checkpoints){0};

    int rc = add_rows(out, reader, run->id, err);
    if (rc == SW_OK)
        rc = add_folder(out, run);
    if (rc == SW_ERR_NOMEM)
        return sw_err_set(err, rc, "out of memory: list of checkpoints");
    if (rc != SW_OK)
        return rc;
    if (out->count > 0) {
        qsort(out->items, (size_t)out->count, sizeof *out->items, newest_first);
        return SW_OK;
    }

    sw_run_title(run, title, sizeof title);
    if (out->missing > 0)
        return sw_err_set(err, SW_ERR_NOTFOUND,
                          "%s: the files of its %d checkpoint%s are missing from %s; if its folder "
                          "was moved, use the path of the folder",
                          title, out->missing, out->missing == 1 ? "" : "s",
                          run->out_dir ? run->out_dir : "their folder");

    return refuse(reader, run, title, err);
}

int sw_checkpoints_in(const char *folder, struct sw_checkpoints *out, struct sw_err *err)
{
    DIR *d = opendir(folder);
    int rc = SW_OK;

    *out = (struct sw_checkpoints){0};

    for (struct dirent *entry; d && rc == SW_OK && (entry = readdir(d));) {
        const int64_t step = step_of(entry->d_name);
        char *path = step < 0 ? NULL : sw_format("%s/%s", folder, entry->d_name);
        if (step >= 0)
            rc = path ? add(out, step, path, NULL, false) : SW_ERR_NOMEM;
        sw_free(path);
    }

    if (d)
        closedir(d);
    if (rc == SW_ERR_NOMEM)
        return sw_err_set(err, rc, "out of memory: list of checkpoints");
    if (out->count == 0)
        return sw_err_set(err, SW_ERR_NOTFOUND,
                          "%s: this folder has no checkpoint-STEP.safetensors", folder);

    qsort(out->items, (size_t)out->count, sizeof *out->items, newest_first);
    return SW_OK;
}

/* ---- Which one --------------------------------------------------------------------------------
 */

int sw_checkpoint_check_file(const struct sw_checkpoint_file *c, struct sw_err *err)
{
    struct sw_st_file *f = NULL;
    int rc = sw_st_open(c->path, true, &f, err);

    if (rc == SW_OK && c->checksum && !sw_str_eq(c->checksum, sw_st_checksum_hex(f)))
        rc = sw_err_set(
            err, SW_ERR_FORMAT,
            "%s: its checksum differs from that in the history: another run has written to "
            "the same folder",
            c->path);

    sw_st_close(f);
    return rc;
}

int sw_checkpoints_newest(const struct sw_checkpoints *c, const char **path, struct sw_err *err)
{
    int rc = SW_ERR_NOTFOUND;

    for (int i = 0; i < c->count; i++) {
        rc = sw_checkpoint_check_file(&c->items[i], err);
        if (rc == SW_OK) {
            *path = c->items[i].path;
            return SW_OK;
        }
        if (rc == SW_ERR_NOMEM || rc == SW_ERR_CANCELLED || i + 1 == c->count)
            break;

        sw_cli_message("%s; trying the previous checkpoint, of step %lld", err->text,
                       (long long)c->items[i + 1].step);
    }

    return rc;
}

void sw_checkpoints_fini(struct sw_checkpoints *c)
{
    for (int i = 0; i < c->count; i++) {
        sw_free(c->items[i].path);
        sw_free(c->items[i].checksum);
    }

    sw_free(c->items);
    *c = (struct sw_checkpoints){0};
}
