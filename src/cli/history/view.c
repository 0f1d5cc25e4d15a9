/* Shared by all sub-verbs of `singa-ws history`: they open the database, find the runs that the
 * arguments name, collect output in a buffer, and turn an error or a closed pipe into an exit code.
 * Main thread; cli/history/verb.h has the contract. */
#include "cli/history/verb.h"

#include "base/os.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Rows that cannot be merged now stay in their spool; a change concerns only stored rows. */
static void merge(const struct sw_history_view *v)
{
    struct sw_err ignored;
    int code = sw_history_merge(v->path, NULL, NULL, &ignored);

    (void)code;
}

static void report_waiting(const char *path)
{
    int waiting = sw_history_waiting(path);

    if (waiting)
        sw_cli_message(
            "%d run%s rows that cannot be merged into the database now; a later command does so",
            waiting, waiting == 1 ? " has" : "s have");
}

static int find_runs(struct sw_history_view *v, const struct sw_cli_common *o, int wanted)
{
    int code = SW_OK;

    v->runs = sw_calloc((size_t)wanted, sizeof *v->runs);
    if (!v->runs)
        return sw_err_nomem(&v->err, "list of runs", (size_t)wanted * sizeof *v->runs);

    for (; !code && v->run_count < wanted; v->run_count += code == SW_OK)
        code = sw_history_find(v->reader, o->arg_count ? o->args[v->run_count] : "@last",
                               &v->runs[v->run_count], &v->err);

    return code;
}

int sw_history_view_open(struct sw_history_view *v, const struct sw_cli_common *o, unsigned needs)
{
    int code = sw_history_default_path(o->db, NULL, &v->path, &v->err);

    v->as_json = o->json;
    sw_json_begin(&v->json, &v->out);
    if (!code)
        merge(v);
    if (!code && (needs & SW_VIEW_EDIT))
        code = sw_history_edit_open(&v->edit, v->path, &v->err);
    if (code)
        return code;

    if (!o->quiet && !(needs & (SW_VIEW_EDIT | SW_VIEW_SILENT)))
        report_waiting(v->path);

    code = sw_history_reader_open(&v->reader, v->path, &v->err);
    if (code || !(needs & (SW_VIEW_RUN | SW_VIEW_RUNS)))
        return code;

    return find_runs(v, o, (needs & SW_VIEW_RUNS) && o->arg_count ? o->arg_count : 1);
}

int sw_history_view_close(struct sw_history_view *v, int code)
{
    int exit_code;

    if (code && !(code == SW_ERR_CANCELLED && v->ended))
        exit_code = sw_cli_fail(code, &v->err);
    else
        exit_code = v->ended ? SW_EXIT_DONE
                    : v->raw ? sw_cli_print_raw(&v->out)
                             : sw_cli_print(&v->out);

    for (int i = 0; i < v->run_count; i++)
        sw_run_fini(&v->runs[i]);
    sw_free(v->runs);
    sw_bytes_fini(&v->out);
    sw_history_edit_close(v->edit);
    sw_history_reader_close(v->reader);
    sw_free(v->path);

    return exit_code;
}

int sw_history_view_flush(struct sw_history_view *v, size_t limit)
{
    if (v->out.length < limit)
        return SW_OK;

    int (*write)(const char *text, size_t bytes) = v->raw ? sw_cli_write_raw : sw_cli_write;
    int problem = v->out.failed ? ENOMEM : write(v->out.text, v->out.length);
    sw_bytes_clear(&v->out);
    v->ended |= problem == EPIPE;
    if (problem == EPIPE)
        return SW_ERR_CANCELLED;

    return problem ? sw_err_set(&v->err, SW_ERR_IO, "cannot write rows to standard output: %s",
                                strerror(problem))
                   : SW_OK;
}

int sw_history_confirm(bool yes, const char *question, struct sw_err *err)
{
    char answer[16];

    if (yes)
        return SW_OK;
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
        return sw_err_set(err, SW_ERR_INVALID,
                          "%s Use --yes to confirm, or --dry-run to see what would be removed",
                          question);

    sw_cli_lines(question);
    sw_cli_lines(" [y/N] ");
    if (fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y'))
        return SW_OK;

    return sw_err_set(err, SW_ERR_CANCELLED, "nothing was changed");
}
