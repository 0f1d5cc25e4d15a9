/* singa-ws history rm: removes runs from the history. */
#include "base/os.h"
#include "cli/history/runs.h"
#include "cli/history/verb.h"
#include "history/claim.h"
#include "history/reader_rows.h"
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

/* Removes a file of a run; one that is already missing is not an error. */
static int remove_file(struct sw_history_view *v, bool dry, const char *path)
{
    struct stat st;
    if (sw_os()->stat(path, &st) != 0)
        return SW_OK;

    sw_bytes_printf(&v->out, "%s%s\n", dry ? "would remove " : "removed ", path);
    if (!dry && sw_os()->unlink(path) != 0 && errno != ENOENT)
        return sw_err_set(&v->err, SW_ERR_IO, "cannot remove %s: %s", path, strerror(errno));

    return SW_OK;
}

/* Claims the folder, so that no run starts or resumes in it while its files are removed. */
static int claim_folder(struct sw_claim *claim, const struct sw_run *run, struct sw_err *err)
{
    struct stat st;
    if (!run->out_dir || sw_os()->stat(run->out_dir, &st) != 0)
        return SW_OK;
    return sw_claim_take(claim, run->out_dir, run->id, "stop it first", NULL, err);
}

static int remove_files(struct sw_history_view *v, bool dry, const struct sw_run *run)
{
    struct sw_run_checkpoint c;
    struct sw_claim claim = {0};
    char *spool = run->out_dir ? sw_format("%s/metrics.jsonl", run->out_dir) : NULL;
    int code = dry ? SW_OK : claim_folder(&claim, run, &v->err);
    if (code)
        goto out;

    struct sw_rows list = sw_rows_begin(v->reader, SW_ROWS_CHECKPOINT, run->id, 0, 0, &v->err);
    while (sw_rows_next(&list, &c))
        list.code = remove_file(v, dry, c.path);
    code = sw_rows_end(&list);
    if (!code && spool)
        code = remove_file(v, dry, spool);

out:
    sw_claim_release(&claim);
    sw_free(spool);

    return code;
}

static int remove_run(struct sw_history_view *v, const struct options *o, const struct sw_run *run)
{
    char title[128];
    int code = o->files ? remove_files(v, o->dry, run) : SW_OK;

    if (!code && !o->dry)
        code = sw_history_edit_rm(v->edit, run->id, &v->err);
    if (!code && !o->common.quiet)
        sw_bytes_printf(&v->out, "%s%s\n", o->dry ? "would remove " : "removed ",
                        sw_run_title(run, title, sizeof title));

    return code;
}

/* Refuses unless all runs have ended, before the first one is removed. */
static int refuse_running(struct sw_history_view *v)
{
    char title[128];

    for (int i = 0; i < v->run_count; i++)
        if (v->runs[i].status == SW_RUN_RUNNING)
            return sw_err_set(&v->err, SW_ERR_INVALID, "%s is running; stop it first",
                              sw_run_title(&v->runs[i], title, sizeof title));

    return SW_OK;
}

static int confirm(const struct options *o, struct sw_history_view *v)
{
    char question[256], title[128];

    if (o->dry)
        return SW_OK;

    if (v->run_count == 1)
        snprintf(question, sizeof question, "Remove %s%s permanently?",
                 sw_run_title(v->runs, title, sizeof title), o->files ? " and its files" : "");
    else
        snprintf(question, sizeof question, "Remove %d runs%s permanently?", v->run_count,
                 o->files ? " and their files" : "");

    return sw_history_confirm(o->yes, question, &v->err);
}

static int rm(void *options)
{
    const struct options *o = options;
    struct sw_history_view v = {0};
    int code = sw_history_view_open(&v, &o->common, SW_VIEW_EDIT | SW_VIEW_RUNS);

    if (!code)
        code = refuse_running(&v);
    if (!code)
        code = confirm(o, &v);
    for (int i = 0; !code && i < v.run_count; i++)
        code = remove_run(&v, o, &v.runs[i]);

    return sw_history_view_close(&v, code);
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
