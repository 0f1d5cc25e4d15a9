/* Shared by the sub-verbs of `singa-ws history` that change the database: they first merge the rows
 * of crashed runs, find runs as all verbs do, and ask for confirmation before an irreversible
 * change. One owner. */
#pragma once

#include "cli/history/verb.h"
#include "history/edit.h"

struct sw_history_change {
    struct sw_history_view view;  /* to find runs with */
    struct sw_history_edit *edit; /* owned */
};

/* Opens both. *c is zeroed by the caller. Errors: those of edit and reader. */
int sw_history_change_open(struct sw_history_change *c, const struct sw_cli_common *o,
                           struct sw_err *err) SW_MUST_CHECK;
/* Closes the history and returns the exit code, as sw_history_view_close does. */
int sw_history_change_close(struct sw_history_change *c, int code, const struct sw_err *err);

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
