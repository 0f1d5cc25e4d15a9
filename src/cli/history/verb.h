/* Shared by the sub-verbs of `singa-ws history`: the reader, the output buffer, and finding runs by
 * name. One owner. */
#pragma once

#include "base/json.h"
#include "cli/cli.h"
#include "history/reader.h"

/* The sub-verbs; the rows of src/cli/history.c. */
extern const struct sw_verb sw_history_verb_list, sw_history_verb_show, sw_history_verb_compare,
    sw_history_verb_plot, sw_history_verb_export, sw_history_verb_sql, sw_history_verb_tag,
    sw_history_verb_note, sw_history_verb_rm, sw_history_verb_gc;

struct sw_history_view {
    struct sw_history_reader *reader; /* owned */
    char *path;                       /* of the database; owned */
    struct sw_bytes out;              /* output not yet printed */
    struct sw_json_writer json;       /* writes to out */
    bool as_json;
    bool raw; /* out is printed unchanged: cells of a canvas, or data that does not go to a terminal
               */
    bool ended; /* output has ended: the pipe was closed */
};

/* Opens the history for reading; prints the number of runs with unmerged rows, unless --quiet. *v
 * is zeroed by the caller and stays where it is. Errors: those of the reader. */
int sw_history_view_open(struct sw_history_view *v, const struct sw_cli_common *o,
                         struct sw_err *err) SW_MUST_CHECK;
/* Prints the collected output or the error, frees everything, and returns the exit code. */
int sw_history_view_close(struct sw_history_view *v, int code, const struct sw_err *err);

/* Writes the buffered output once it has at least `limit` bytes. Returns 0 to go on; anything else
 * ends the walk: SW_ERR_CANCELLED if the reader of a pipe has closed it, which
 * sw_history_view_close treats as success, or SW_ERR_IO. */
int sw_history_view_flush(struct sw_history_view *v, size_t limit, struct sw_err *err);

/* The runs that the words name, @last without words; free with sw_run_list_fini. */
struct sw_run_list {
    struct sw_run *items;
    int count;
};
int sw_history_view_runs(struct sw_history_view *v, char *const *words, int count,
                         struct sw_run_list *runs, struct sw_err *err) SW_MUST_CHECK;
void sw_run_list_fini(struct sw_run_list *runs);
