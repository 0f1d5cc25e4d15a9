/* singa-ws history rm: removes runs from the history. */
#include "base/os.h"
#include "cli/history/change.h"
#include "cli/history/runs.h"
#include <errno.h>
#include <string.h>

struct options {
    struct sw_cli_common common;
    bool files, yes, dry;
};

static const struct sw_cli_option rows[] = {
    SW_CLI_FLAG_OPTION(struct options, files, "files",
                       "also remove the checkpoints and metrics.jsonl files of the runs"),
    SW_HISTORY_CONSENT(struct options),
    {0},
};

/* Removes the files of a run one by one; a file that is already missing is not an error. */
struct files {
    const struct options *o;
    struct sw_bytes *out;
    struct sw_err *err;
};

static int remove_file(const struct files *f, const char *path)
{
    struct stat st;
    if (sw_os()->stat(path, &st) != 0)
        return SW_OK;

    sw_bytes_printf(f->out, "%s%s\n", f->o->dry ? "would remove " : "removed ", path);
    if (!f->o->dry && sw_os()->unlink(path) != 0 && errno != ENOENT)
        return sw_err_set(f->err, SW_ERR_IO, "cannot remove %s: %s", path, strerror(errno));

    return SW_OK;
}

static int remove_checkpoint(void *user, const struct sw_run_checkpoint *c)
{
    return remove_file(user, c->path);
}

/* Claims the folder, so that no run starts or resumes in it while its files are removed. */
static int claim_folder(struct sw_claim *claim, const struct sw_run *run, struct sw_err *err)
{
    struct stat st;
    if (!run->out_dir || sw_os()->stat(run->out_dir, &st) != 0)
        return SW_OK;
    return sw_claim_take(claim, run->out_dir, run->id, "stop it first", NULL, err);
}

static int remove_files(struct sw_history_change *c, const struct options *o,
                        const struct sw_run *run, struct sw_err *err)
{
    struct files f = {.o = o, .out = &c->view.out, .err = err};
    struct sw_claim claim = {0};
    char *spool = run->out_dir ? sw_format("%s/metrics.jsonl", run->out_dir) : NULL;
    int code = o->dry ? SW_OK : claim_folder(&claim, run, err);
    if (code)
        goto out;
    code = sw_history_each_checkpoint(c->view.reader, run->id, remove_checkpoint, &f, err);
    if (code)
        goto out;

    if (spool)
        code = remove_file(&f, spool);

out:
    sw_claim_release(&claim);
    sw_free(spool);

    return code;
}

static int remove_run(struct sw_history_change *c, const struct options *o,
                      const struct sw_run *run, struct sw_err *err)
{
    char title[128];
    int code = o->files ? remove_files(c, o, run, err) : SW_OK;
    if (code)
        return code;

    if (!o->dry)
        code = sw_history_edit_rm(c->edit, run->id, err);
    if (code)
        return code;

    if (!o->common.quiet)
        sw_bytes_printf(&c->view.out, "%s%s\n", o->dry ? "would remove " : "removed ",
                        sw_run_title(run, title, sizeof title));

    return SW_OK;
}

/* Refuses unless all runs have ended, before the first one is removed. */
static int refuse_running(const struct sw_run_list *runs, struct sw_err *err)
{
    char title[128];

    for (int i = 0; i < runs->count; i++)
        if (runs->items[i].status == SW_RUN_RUNNING)
            return sw_err_set(err, SW_ERR_INVALID, "%s is running; stop it first",
                              sw_run_title(&runs->items[i], title, sizeof title));

    return SW_OK;
}

static int confirm(const struct options *o, const struct sw_run_list *runs, struct sw_err *err)
{
    char question[256], title[128];

    if (o->dry)
        return SW_OK;

    if (runs->count == 1)
        snprintf(question, sizeof question, "Remove %s%s permanently?",
                 sw_run_title(&runs->items[0], title, sizeof title),
                 o->files ? " and its files" : "");
    else
        snprintf(question, sizeof question, "Remove %d runs%s permanently?", runs->count,
                 o->files ? " and their files" : "");

    return sw_history_confirm(o->yes, question, err);
}

static int rm(void *options)
{
    const struct options *o = options;
    struct sw_history_change c = {0};
    struct sw_run_list runs = {0};
    struct sw_err err = {0};
    int code = sw_history_change_open(&c, &o->common, &err);
    if (code)
        goto out;
    code = sw_history_view_runs(&c.view, o->common.args, o->common.arg_count, &runs, &err);
    if (code)
        goto out;
    code = refuse_running(&runs, &err);
    if (code)
        goto out;

    code = confirm(o, &runs, &err);
    for (int i = 0; !code && i < runs.count; i++)
        code = remove_run(&c, o, &runs.items[i], &err);

out:
    sw_run_list_fini(&runs);
    return sw_history_change_close(&c, code, &err);
}

const struct sw_verb sw_history_verb_rm = {
    .name = "rm",
    .help = "remove runs from the history",
    .typed = "history rm",
    .usage = "[OPTION]... RUN...",
    .about =
        "Removes runs and everything recorded for them from the history. This cannot be undone.\n"
        "A running run is refused. Files are kept unless --files is given.",
    .more = "'singa-ws history gc' then shrinks the database.",
    .takes = SW_CLI_DB | SW_CLI_QUIET,
    SW_CLI_OPTIONS(struct options, rows),
    .min_args = 1,
    .max_args = -1,
    .arg_name = "RUN",
    .run = rm,
};
