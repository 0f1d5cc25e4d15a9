/* Shared by the sub-verbs of `singa-ws history`: the reader, the output buffer, the runs that the
 * arguments name, and the confirmation of irreversible changes. One owner. */
#pragma once

#include "base/json.h"
#include "cli/cli.h"
#include "history/edit.h"
#include "history/reader.h"

/* The sub-verbs; the rows of src/cli/history.c. */
extern const struct sw_verb sw_history_verb_list, sw_history_verb_show, sw_history_verb_compare,
    sw_history_verb_plot, sw_history_verb_export, sw_history_verb_sql, sw_history_verb_tag,
    sw_history_verb_note, sw_history_verb_rm, sw_history_verb_gc;

/* What a verb opens, prints and frees. */
struct sw_history_view {
    struct sw_history_reader *reader; /* owned */
    struct sw_history_edit *edit;     /* owned; NULL without SW_VIEW_EDIT */
    char *path;                       /* of the database; owned */
    struct sw_run *runs;              /* that the arguments name; owned */
    int run_count;
    struct sw_bytes out;        /* output not yet printed */
    struct sw_json_writer json; /* writes to out */
    bool as_json;
    bool raw; /* out is printed unchanged: cells of a canvas, or data that does not go to a terminal
               */
    bool ended;        /* output has ended: the pipe was closed */
    struct sw_err err; /* of the step that failed */
};

enum sw_history_needs {
    SW_VIEW_RUN = 1,    /* the run that the first argument names, @last without one */
    SW_VIEW_RUNS = 2,   /* the runs that all arguments name, @last without one */
    SW_VIEW_EDIT = 4,   /* the database is also opened for writing, after merging pending rows */
    SW_VIEW_SILENT = 8, /* no message about pending rows */
};

/* Opens the history for reading, and what else the verb needs; prints the number of runs with
 * unmerged rows, unless --quiet. *v is zeroed by the caller and stays where it is. On an error,
 * which v->err describes, sw_history_view_close is called all the same. Errors: those of reader and
 * edit. */
int sw_history_view_open(struct sw_history_view *v, const struct sw_cli_common *o,
                         unsigned needs) SW_MUST_CHECK;
/* Prints the collected output or v->err, frees everything, and returns the exit code. */
int sw_history_view_close(struct sw_history_view *v, int code);

/* Writes the buffered output once it has at least `limit` bytes. Returns 0 to go on; anything else
 * ends the walk: SW_ERR_CANCELLED if the reader of a pipe has closed it, which
 * sw_history_view_close treats as success, or SW_ERR_IO. */
int sw_history_view_flush(struct sw_history_view *v, size_t limit);

/* The options of an irreversible change, for the table of a verb whose struct `holder` has them as
 * `yes` and `dry`. */
#define SW_HISTORY_CONSENT(holder)                                                                 \
    {.name = "yes",                                                                                \
     .letter = 'y',                                                                                \
     .type = SW_CLI_FLAG,                                                                          \
     .offset = offsetof(holder, yes),                                                              \
     .help = "do not ask for confirmation"},                                                       \
        SW_CLI_FLAG_OPTION(holder, dry, "dry-run",                                                 \
                           "print what would be removed, and change nothing")

/* Asks on a terminal "QUESTION [y/N] "; without one --yes has to be given. SW_OK: go on;
 * SW_ERR_INVALID: --yes is missing; SW_ERR_CANCELLED: the answer was no. */
int sw_history_confirm(bool yes, const char *question, struct sw_err *err) SW_MUST_CHECK;
