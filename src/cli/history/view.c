/* Shared by all sub-verbs of `singa-ws history`: they open the database, collect output in a
 * buffer, and turn an error or a closed pipe into an exit code. Main thread; cli/history/verb.h has
 * the contract. */
#include "cli/history/verb.h"

#include "base/os.h"
#include <errno.h>
#include <string.h>

int sw_history_view_open(struct sw_history_view *v, const struct sw_cli_common *o,
                         struct sw_err *err)
{
    int code = sw_history_default_path(o->db, NULL, &v->path, err);

    v->as_json = o->json;
    sw_json_begin(&v->json, &v->out);
    if (code)
        return code;

    int waiting = o->quiet ? 0 : sw_history_waiting(v->path);
    if (waiting)
        sw_cli_message(
            "%d run%s rows that are not yet in the database; the next run or resume merges them",
            waiting, waiting == 1 ? " has" : "s have");

    return sw_history_reader_open(&v->reader, v->path, err);
}

int sw_history_view_close(struct sw_history_view *v, int code, const struct sw_err *err)
{
    int exit_code;

    if (code && !(code == SW_ERR_CANCELLED && v->ended))
        exit_code = sw_cli_fail(code, err);
    else
        exit_code = v->ended ? SW_EXIT_DONE
                    : v->raw ? sw_cli_print_raw(&v->out)
                             : sw_cli_print(&v->out);

    sw_bytes_fini(&v->out);
    sw_history_reader_close(v->reader);
    sw_free(v->path);

    return exit_code;
}

int sw_history_view_flush(struct sw_history_view *v, size_t limit, struct sw_err *err)
{
    if (v->out.length < limit)
        return SW_OK;

    int (*write)(const char *text, size_t bytes) = v->raw ? sw_cli_write_raw : sw_cli_write;
    int problem = v->out.failed ? ENOMEM : write(v->out.text, v->out.length);
    sw_bytes_clear(&v->out);
    v->ended |= problem == EPIPE;
    if (problem == EPIPE)
        return SW_ERR_CANCELLED;

    return problem ? sw_err_set(err, SW_ERR_IO, "cannot write rows to standard output: %s",
                                strerror(problem))
                   : SW_OK;
}

int sw_history_view_runs(struct sw_history_view *v, char *const *words, int count,
                         struct sw_run_list *runs, struct sw_err *err)
{
    int wanted = count ? count : 1, code = SW_OK;

    runs->items = sw_calloc((size_t)wanted, sizeof *runs->items);
    if (!runs->items)
        return sw_err_nomem(err, "list of runs", (size_t)wanted * sizeof *runs->items);

    for (; !code && runs->count < wanted; runs->count += code == SW_OK)
        code = sw_history_find(v->reader, count ? words[runs->count] : "@last",
                               &runs->items[runs->count], err);

    return code;
}

void sw_run_list_fini(struct sw_run_list *runs)
{
    for (int i = 0; i < runs->count; i++)
        sw_run_fini(&runs->items[i]);
    sw_free(runs->items);
    *runs = (struct sw_run_list){0};
}
