/* Pages of `singa-ws history` about runs: the list of all, and one run with what belongs to it, as
 * text for people or as JSON. Names and texts come from recipes, so control characters in them are
 * shown as blanks. One owner. */
#ifndef SW_CLI_SHARE_RUN_PAGE_H
#define SW_CLI_SHARE_RUN_PAGE_H

#include "base/json.h"
#include "cli/share/columns.h"
#include "history/reader.h"

struct sw_run_page {
    struct sw_history_reader *reader; /* borrowed */
    struct sw_buf *out;               /* borrowed */
    bool as_json;
    struct sw_json_writer json; /* over out, begun by the caller */
    struct sw_columns table;    /* zero before and after a call */
};

/* One line per run, newest first; or an array. Errors: those of the reader. */
int sw_run_page_list(struct sw_run_page *page, struct sw_err *err) SW_MUST_CHECK;
/* The run that `name` means: facts, metrics, times, checkpoints, newest events; or an object.
 * Errors: those of sw_history_find and of the reader. */
int sw_run_page_show(struct sw_run_page *page, const char *name, struct sw_err *err) SW_MUST_CHECK;

#endif
