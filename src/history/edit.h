/* Changes to runs that are over, by people: tags, notes, removal, thinning. Each call is one
 * transaction (thinning: some) under the lock of all writers, so it may be made while other runs
 * write: theirs wait, or are spooled and merged later. What belongs to a run whose process lives is
 * its process's; only tags and notes may be changed then. One owner per struct sw_history_edit. */
#pragma once

#include "history/reader.h"

struct sw_history_edit;

/* Opens an existing history for writing and brings its schema forward. Errors: SW_ERR_NOTFOUND (no
 * file), SW_ERR_BUSY (locked for 5 s), SW_ERR_IO (read-only), SW_ERR_FORMAT, SW_ERR_UNSUPPORTED. */
int sw_history_edit_open(struct sw_history_edit **out, const char *path,
                         struct sw_err *err) SW_MUST_CHECK;
void sw_history_edit_close(struct sw_history_edit *e); /* NULL is fine */

/* Sets a tag; value NULL takes it away. */
int sw_history_edit_tag(struct sw_history_edit *e, int64_t run_id, const char *key,
                        const char *value, struct sw_err *err) SW_MUST_CHECK;
/* NULL takes it away. */
int sw_history_edit_note(struct sw_history_edit *e, int64_t run_id, const char *note,
                         struct sw_err *err) SW_MUST_CHECK;
/* Removes the run and all rows that belong to it; files stay. */
int sw_history_edit_rm(struct sw_history_edit *e, int64_t run_id, struct sw_err *err) SW_MUST_CHECK;

/* What thinning takes away. */
struct sw_history_thinned {
    int64_t points, step_times, traffic; /* rows */
};
/* Thins what a run recorded at every step: of about `keep` stretches of steps, each training curve
 * keeps the first, the lowest and the highest point, and step times and traffic one step. Curves of
 * evaluations, the last points and all sums (summary.h) stay. dry: nothing is changed, only
 * counted. Adds to *sum. */
int sw_history_edit_thin(struct sw_history_edit *e, int64_t run_id, int64_t keep, bool dry,
                         struct sw_history_thinned *sum, struct sw_err *err) SW_MUST_CHECK;
/* Gives the room of removed rows back to the file system. Needs as much free space as the file
 * takes while it works. */
int sw_history_edit_vacuum(struct sw_history_edit *e, struct sw_err *err) SW_MUST_CHECK;
